// Command: what one command line of ublkctl asks for. Parsed from words, without side effects.
//
// Thread rule: pure functions, plain values.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "config/parse.h"
#include "ublkd/result.h"

namespace ublkd::cli {

// Exit status; documented in the help and in ublkctl(8).
enum class ExitCode : std::uint8_t { done = 0, failed = 1, usage = 2, no_daemon = 3 };

enum class Output : std::uint8_t { text, json };
enum class Detail : std::uint8_t { quiet, normal, verbose };
enum class Verb : std::uint8_t {
  add,
  del,
  list,
  tags,
  tune,
  features,
  doctor,
  check_config,
  schema,
  help_target,
  print
};

struct Command {
  Verb verb = Verb::print;
  Output output = Output::text;
  Detail detail = Detail::normal;
  std::string socket;
  std::chrono::milliseconds time_max{0};           // for an answer of the daemon
  nlohmann::json args = nlohmann::json::object();  // for the daemon: of add, del, list, tags, tune
  std::vector<std::string> notes;                  // what was filled in, for the user
  std::chrono::milliseconds watch{0};              // of tags: again after this time; 0: once
  std::string subject;                             // file of check-config, target of help_target
  std::string text;                                // of print: help or version
};

inline constexpr std::uint32_t time_max_default_s = 120;  // more than every deadline in the daemon

struct CommandLine {
  std::vector<std::string> words;  // without the program's name
  std::string working_dir;
  std::string socket_default;
  std::string version;
};

// Error invalid: wrong usage, with what to write.
[[nodiscard]] Result<Command> parse_command(const CommandLine& line, TargetTypes types);

// Output format asked for, also when the rest of the line is wrong.
[[nodiscard]] Output asked_output(const std::vector<std::string>& words);

}  // namespace ublkd::cli
