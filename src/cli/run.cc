#include "cli/run.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/client.h"
#include "api/wire.h"
#include "cli/check_config.h"
#include "cli/direct_features.h"
#include "cli/doctor.h"
#include "cli/render.h"
#include "cli/render_tags.h"
#include "cli/usage.h"
#include "cli/watch.h"
#include "config/schema.h"

namespace ublkd::cli {

namespace {

using nlohmann::json;

constexpr int json_indent = 2;

std::string document(const json& value) {
  return api::json_text(value, json_indent) + "\n";
}

Printed failed(const Error& error, Output output, ExitCode code) {
  Printed p;
  p.code = code;
  if (output == Output::json)
    p.out = document({{"error", api::error_json(error)}});
  else
    p.err = "ublkctl: " + error.text() + "\n";
  return p;
}

struct Reply {
  Result<json> result;
  ExitCode code = ExitCode::failed;  // when result is an error
};

Reply ask(const Command& command, const char* verb) {
  auto client = api::ApiClient::connect(command.socket);
  if (!client) {
    const bool nobody = client.error().kind == ErrorKind::not_found;
    return {Unexpected(client.error()), nobody ? ExitCode::no_daemon : ExitCode::failed};
  }
  return {client->call(verb, command.args, command.time_max), ExitCode::failed};
}

std::string notes_text(const Command& command) {
  std::string out;
  for (const std::string& note : command.notes) out += "ublkctl: " + note + "\n";
  return out;
}

std::string word_of(const json& object, const char* key) {
  if (!object.is_object() || !object.contains(key) || !object[key].is_string()) return "";
  return object[key].get<std::string>();
}

Printed run_add(const Command& command) {
  const Reply reply = ask(command, "add");
  if (!reply.result) return failed(reply.result.error(), command.output, reply.code);
  Printed p;
  if (command.output == Output::json) {
    p.out = document(*reply.result);
  } else if (command.detail != Detail::quiet) {
    if (command.detail == Detail::verbose) p.out = device_details(*reply.result);
    p.out += word_of(*reply.result, "path") + "\n";
    p.err = notes_text(command);
  }
  return p;
}

Printed run_del(const Command& command) {
  const Reply reply = ask(command, "del");
  if (!reply.result) return failed(reply.result.error(), command.output, reply.code);
  Printed p;
  if (command.output == Output::json) {
    p.out = document(*reply.result);
    return p;
  }
  std::string absent;
  if (reply.result->is_object() && reply.result->contains("absent"))
    for (const json& device : (*reply.result)["absent"])
      if (device.is_string()) absent += (absent.empty() ? "" : ", ") + device.get<std::string>();
  if (!absent.empty()) p.err = fmt::format("ublkctl: not there, nothing to delete: {}\n", absent);
  return p;
}

Printed run_list(const Command& command) {
  const Reply reply = ask(command, "list");
  if (!reply.result) return failed(reply.result.error(), command.output, reply.code);
  Printed p;
  if (command.output == Output::json)
    p.out = document(*reply.result);
  else if (command.detail == Detail::verbose)
    p.out = list_details(*reply.result);
  else
    p.out = device_table(*reply.result);
  if (p.out.empty()) p.err = "ublkctl: no devices\n";
  return p;
}

Printed run_tags(const Command& command) {
  const Reply reply = ask(command, "tags");
  if (!reply.result) return failed(reply.result.error(), command.output, reply.code);
  Printed p;
  p.out = command.output == Output::json ? document(*reply.result) : tags_text(*reply.result, json());
  if (p.out.empty()) p.err = "ublkctl: no tag sets\n";
  return p;
}

// Ends with the first answer that is an error.
Printed watch_tags(const Command& command) {
  Printed p;
  json before;
  run_watch({command.watch, [&]() -> std::string {
               const Reply reply = ask(command, "tags");
               if (!reply.result) {
                 p = failed(reply.result.error(), command.output, reply.code);
                 return "";
               }
               std::string block;
               if (command.output == Output::json)
                 block = api::json_text(*reply.result, -1);
               else
                 block = tags_text(*reply.result, before.is_null() ? json::object() : before);
               before = *reply.result;
               return block + "\n";
             }});
  return p;
}

Printed run_tune(const Command& command) {
  const Reply reply = ask(command, "tune");
  if (!reply.result) return failed(reply.result.error(), command.output, reply.code);
  Printed p;
  p.out = command.output == Output::json ? document(*reply.result) : tune_text(*reply.result);
  return p;
}

// The daemon's answer, which also says what is used; without one the kernel is asked directly.
Printed run_features(const Command& command) {
  Reply reply = ask(command, "features");
  if (!reply.result && reply.code == ExitCode::no_daemon) {
    auto mask = query_features(control_node);
    if (!mask) return failed(mask.error(), command.output, ExitCode::failed);
    reply.result = features_json(kernel_release(), *mask);
  }
  if (!reply.result) return failed(reply.result.error(), command.output, reply.code);
  Printed p;
  p.out = command.output == Output::json ? document(*reply.result) : features_text(*reply.result);
  return p;
}

Printed run_doctor(const Command& command) {
  const auto checks = run_checks(machine_input(command.socket));
  Printed p;
  p.out = command.output == Output::json ? document(checks_json(checks)) : checks_text(checks);
  p.code = any_failed(checks) ? ExitCode::failed : ExitCode::done;
  return p;
}

Printed run_check_config(const Command& command, TargetTypes types) {
  const auto config = load_config(command.subject, types);
  if (!config) return failed(config.error(), command.output, ExitCode::failed);
  const ConfigSummary summary = summary_of(*config);
  Printed p;
  p.out = command.output == Output::json ? document(summary_json(summary)) : summary_text(summary);
  return p;
}

Printed run_help_target(const Command& command, TargetTypes types) {
  auto help = target_help(command.subject, types);
  if (!help) return failed(help.error(), command.output, ExitCode::usage);
  return {std::move(*help), "", ExitCode::done};
}

Printed run_command(const Command& command, TargetTypes types) {
  switch (command.verb) {
    case Verb::add: return run_add(command);
    case Verb::del: return run_del(command);
    case Verb::list: return run_list(command);
    case Verb::tags: return command.watch.count() > 0 ? watch_tags(command) : run_tags(command);
    case Verb::tune: return run_tune(command);
    case Verb::features: return run_features(command);
    case Verb::doctor: return run_doctor(command);
    case Verb::check_config: return run_check_config(command, types);
    case Verb::schema: return {config_schema(types), "", ExitCode::done};
    case Verb::help_target: return run_help_target(command, types);
    case Verb::print: return {command.text, "", ExitCode::done};
  }
  return {};
}

}  // namespace

Printed run(const CommandLine& line, TargetTypes types) {
  const Output asked = asked_output(line.words);
  try {
    const auto command = parse_command(line, types);
    if (!command) return failed(command.error(), asked, ExitCode::usage);
    return run_command(*command, types);
  } catch (const std::exception& e) {
    return failed(Error{ErrorKind::internal, 0, "internal error", "", e.what()}, asked, ExitCode::failed);
  }
}

}  // namespace ublkd::cli
