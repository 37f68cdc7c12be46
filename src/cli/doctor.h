// Doctor: checks what ublkd needs on this machine and says how to mend what is missing.
//
// Thread rule: one thread. Checks read files below root and call the functions they are given, so
// that a test can run them on a tree of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ublkd/result.h"

namespace ublkd::cli {

enum class Verdict : std::uint8_t { ok, warn, fail };

struct Check {
  std::string name;
  Verdict verdict = Verdict::ok;
  std::string found;
  std::string mend;  // empty when there is nothing to do
};

struct DoctorInput {
  std::string root;                 // in front of all paths; empty: this machine
  std::string release;              // uname -r
  std::uint64_t memlock_bytes = 0;  // soft limits; all ones: none
  std::uint64_t open_files = 0;
  std::function<int()> try_ring;                     // errno of a plain io_uring, 0 when it works
  std::function<int()> try_ring_sqe128;              // the same with 128-byte entries
  std::function<int(const std::string&)> try_open;   // errno of opening a path read-write
  std::function<int(const std::string&)> try_write;  // errno of making a file in a directory
  std::function<Result<std::uint64_t>()> features;
  std::function<Result<nlohmann::json>()> ping;
};

// Of this machine, for a daemon on socket.
[[nodiscard]] DoctorInput machine_input(const std::string& socket);

[[nodiscard]] std::vector<Check> run_checks(const DoctorInput& input);

[[nodiscard]] bool any_failed(const std::vector<Check>& checks);
[[nodiscard]] std::string checks_text(const std::vector<Check>& checks);
[[nodiscard]] nlohmann::json checks_json(const std::vector<Check>& checks);

}  // namespace ublkd::cli
