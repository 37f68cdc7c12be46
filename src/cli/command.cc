#include "cli/command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>

#include "cli/add_words.h"
#include "cli/tag_words.h"
#include "cli/usage.h"
#include "config/text.h"

namespace ublkd::cli {

namespace {

// Values of all options, filled by the parser.
struct Raw {
  std::string output = "text";
  bool json = false;
  std::string socket;
  std::uint32_t time_max_s = time_max_default_s;
  bool verbose = false;
  bool quiet = false;

  AddWords add;
  std::map<const DeviceFlag*, std::string> device;
  std::map<const RefusedFlag*, std::string> refused;
  std::string type, file, size;

  std::vector<std::string> devices;
  std::vector<std::string> numbers;
  bool all = false;
  bool force = false;
  bool async = false;

  std::string set;
  std::string watch;
  TuneWords tune;
  std::map<const ChangeFlag*, std::string> changes;

  std::string subject;
};

struct Parser {
  CLI::App app{"Control ublkd: block devices in user space", "ublkctl"};
  Raw raw;
  CLI::App* add = nullptr;
  CLI::App* del = nullptr;
  CLI::App* list = nullptr;
  CLI::App* tags = nullptr;
  CLI::App* tune = nullptr;
  CLI::App* features = nullptr;
  CLI::App* doctor = nullptr;
  CLI::App* check_config = nullptr;
  CLI::App* schema = nullptr;
  CLI::App* help = nullptr;
};

constexpr std::uint32_t time_max_limit_s = 86'400;

void declare_global(Parser& p, const std::string& version) {
  p.app.add_option("-o,--output", p.raw.output, "text or json")->option_text("FORMAT");
  p.app.add_flag("--json", p.raw.json, "Same as -o json");
  p.app.add_option("--socket", p.raw.socket, "Socket of the daemon")->option_text("PATH");
  p.app.add_option("--timeout", p.raw.time_max_s, "Longest wait for an answer of the daemon")
      ->option_text("SECONDS")
      ->check(CLI::Range(std::uint32_t{1}, time_max_limit_s));
  p.app.set_version_flag("--version", "ublkctl " + version);
  p.app.set_help_flag("-h,--help", "Help; after a verb: help for it");
  p.app.footer(usage_footer);
  p.app.require_subcommand(1);
}

CLI::App* declare_verb(Parser& p, const char* name, const char* help, const char* footer = "") {
  CLI::App* verb = p.app.add_subcommand(name, help);
  verb->fallthrough();  // global options may stand after the verb
  verb->footer(footer);
  return verb;
}

void declare_add(Parser& p) {
  Raw& raw = p.raw;
  CLI::App& add = *(
      p.add = declare_verb(p, "add", "Create a device, wait until it is usable, print its path", add_footer));
  add.add_option("words", raw.add.positionals, "Target type, and file of a file target")
      ->option_text("[TYPE] [FILE]");
  add.add_option("-t,--type", raw.type, "Target type; `ublkctl help` lists them")->option_text("TYPE");
  add.add_option("-f,--file", raw.file, "File or block device of a file target")->option_text("PATH");
  add.add_option("-s,--size", raw.size, "Size of the target, such as 1GiB")->option_text("SIZE");
  for (const DeviceFlag& flag : device_flags())
    add.add_option(flag.spellings, raw.device[&flag], flag.help)->option_text("VALUE");
  add.add_option("-O,--option", raw.add.target_options,
                 "Any option of the target, may be repeated; of a wrapper's "
                 "inner target: -O target.type=null -O target.size=1GiB")
      ->option_text("KEY=VALUE")
      ->allow_extra_args(false);
  add.add_flag("--read-only,--ro,--read_only", raw.add.read_only, "Refuse writes");
  add.add_flag("--buffered-io,--buffered_io", raw.add.buffered,
               "File target through the page cache (-O io=buffered)");
  add.add_flag("-v,--verbose", raw.verbose, "Print the device before its path");
  add.add_flag("--quiet", raw.quiet, "Print nothing but errors");
  // Not in the help; each is refused with what to write instead, unless it is switched off by 0.
  for (const RefusedFlag& flag : refused_flags())
    add.add_option(flag.spellings, raw.refused[&flag], "")->expected(0, 1)->group("");
}

void declare_del(Parser& p) {
  CLI::App& del = *(p.del = declare_verb(p, "del", "Delete devices", del_footer));
  del.add_option("devices", p.raw.devices, "Number, name or path of each device")->option_text("DEVICE...");
  del.add_option("-n,--number", p.raw.numbers, "Number of a device")
      ->option_text("N")
      ->allow_extra_args(false);
  del.add_flag("-a,--all", p.raw.all, "All devices of this daemon, no other server's");
  del.add_flag("--force", p.raw.force, "Also while somebody has it open");
  del.add_flag("--async", p.raw.async, "")->group("");
}

void declare_list(Parser& p) {
  CLI::App& list =
      *(p.list = declare_verb(p, "list", "Show devices, and with -v tag sets, queues and counters"));
  list.add_option("device", p.raw.devices, "Number, name or path of one device")
      ->option_text("DEVICE")
      ->expected(0, 1);
  list.add_option("-n,--number", p.raw.numbers, "Number of the device")->option_text("N")->expected(1);
  list.add_flag("-v,--verbose", p.raw.verbose, "All there is to know");
}

void declare_tags(Parser& p) {
  CLI::App& tags = *(p.tags = declare_verb(p, "tags", "Show who holds, waits for and is owed the tags", tags_footer));
  tags.add_option("set", p.raw.set, "One tag set")->option_text("SET");
  tags.add_flag("--watch", p.raw.watch, "Again every second, or --watch=SECONDS from 0.1 to 60, with rates");
}

void declare_tune(Parser& p) {
  CLI::App& tune =
      *(p.tune = declare_verb(p, "tune", "Change how a running tag set is shared, or a device's weight", tune_footer));
  tune.add_option("kind", p.raw.tune.kind, "tag-set or device")->option_text("KIND")->required();
  tune.add_option("name", p.raw.tune.name, "Its name; of a device also number or path")
      ->option_text("NAME")
      ->required();
  for (const ChangeFlag& flag : change_flags())
    tune.add_option(flag.spelling, p.raw.changes[&flag], flag.help)->option_text("VALUE");
}

void declare_rest(Parser& p) {
  p.features =
      declare_verb(p, "features", "Show what the kernel's ublk driver can do; works without a daemon");
  p.doctor = declare_verb(p, "doctor", "Check what ublkd needs on this machine and say how to mend it");
  p.check_config = declare_verb(p, "check-config", "Check a config file as the daemon would");
  p.check_config->add_option("file", p.raw.subject, "JSON file; - is standard input")
      ->option_text("FILE")
      ->required();
  p.schema = declare_verb(p, "schema", "Print the JSON schema of the config");
  p.help = declare_verb(p, "help", "Help for a verb, or the options of a target");
  p.help->add_option("verb", p.raw.subject, "Verb")->option_text("VERB");
  p.help->add_option("-t,--type", p.raw.type, "Target type")->option_text("TYPE");
}

Unexpected usage_error(const std::string& what, std::string advice) {
  return fail(ErrorKind::invalid, what.empty() ? "usage" : what, "", std::move(advice));
}

Result<Output> output_of(const Raw& raw) {
  if (raw.json || raw.output == "json") return Output::json;
  if (raw.output == "text") return Output::text;
  return usage_error("--output", "expected text or json, found \"" + raw.output +
                                     "\"; for the offset of a file target write -O offset=BYTES");
}

bool given(const CLI::App& verb, const char* option) {
  return verb.count(option) > 0;
}

Result<Command> add_command(Parser& p, Command command, const CommandLine& line, TargetTypes types) {
  Raw& raw = p.raw;
  if (given(*p.add, "--type")) raw.add.type = raw.type;
  if (given(*p.add, "--file")) raw.add.file = raw.file;
  if (given(*p.add, "--size")) raw.add.size = raw.size;
  const auto long_name = [](const char* spellings) {
    const std::string all(spellings);
    return all.substr(0, all.find(','));
  };
  for (const DeviceFlag& flag : device_flags())
    if (given(*p.add, long_name(flag.spellings).c_str()))
      raw.add.device[std::string(flag.key)] = raw.device[&flag];
  for (const RefusedFlag& flag : refused_flags())
    if (given(*p.add, long_name(flag.spellings).c_str()) && raw.refused[&flag] != "0")
      raw.add.refused.push_back(&flag);
  auto device = device_from_words(raw.add, line.working_dir, types);
  if (!device) return Unexpected(device.error());
  command.verb = Verb::add;
  command.args = {{"device", std::move(device->device)}};
  command.notes = std::move(device->notes);
  return command;
}

// Devices as the daemon takes them: numbers, names and paths of one list.
Result<std::vector<std::string>> devices_of(const Raw& raw) {
  std::vector<std::string> devices = raw.numbers;
  for (const std::string& number : devices)
    if (number.empty() || number.find_first_not_of("0123456789") != std::string::npos)
      return usage_error("-n " + number, "expected the number of a device; a name or path goes without -n");
  devices.insert(devices.end(), raw.devices.begin(), raw.devices.end());
  return devices;
}

Result<Command> del_command(const Parser& p, Command command) {
  const Raw& raw = p.raw;
  if (raw.async)
    return usage_error("del --async",
                       "del returns when the device is gone; put it into the background to go on meanwhile");
  auto devices = devices_of(raw);
  if (!devices) return Unexpected(devices.error());
  if (raw.all == !devices->empty())
    return usage_error("del", raw.all ? "give devices or --all, not both"
                                      : "which one? Give a number, name or path, or --all");
  command.verb = Verb::del;
  if (raw.all)
    command.args["all"] = true;
  else
    command.args["devices"] = *devices;
  command.args["force"] = raw.force;
  return command;
}

Result<Command> list_command(const Parser& p, Command command) {
  auto devices = devices_of(p.raw);
  if (!devices) return Unexpected(devices.error());
  if (devices->size() > 1) return usage_error("list", "one device at a time, or none for all");
  command.verb = Verb::list;
  if (!devices->empty()) command.args["device"] = devices->front();
  return command;
}

Result<Command> tags_command(const Parser& p, Command command) {
  command.verb = Verb::tags;
  if (!p.raw.set.empty()) command.args["tag_set"] = p.raw.set;
  if (!given(*p.tags, "--watch")) return command;
  const auto interval = watch_interval(p.raw.watch == "true" ? "1" : p.raw.watch);  // "true": without a value
  if (!interval) return Unexpected(interval.error());
  command.watch = *interval;
  return command;
}

Result<Command> tune_command(Parser& p, Command command, TargetTypes types) {
  TuneWords& words = p.raw.tune;
  for (const ChangeFlag& flag : change_flags())
    if (given(*p.tune, flag.spelling)) words.changes[&flag] = p.raw.changes[&flag];
  auto args = tune_args(words, types);
  if (!args) return Unexpected(args.error());
  command.verb = Verb::tune;
  command.args = std::move(*args);
  return command;
}

Result<Command> help_command(Parser& p, Command command, TargetTypes types) {
  if (given(*p.help, "--type")) {
    command.verb = Verb::help_target;
    command.subject = p.raw.type == "loop" ? "file" : p.raw.type;
    return command;
  }
  const CLI::App* about = nullptr;
  for (const CLI::App* verb : p.app.get_subcommands([](CLI::App*) { return true; }))
    if (verb->get_name() == p.raw.subject) about = verb;
  if (about == nullptr && !p.raw.subject.empty())
    return usage_error("help " + p.raw.subject, "no such verb; `ublkctl help` lists them");
  const std::string text = about == nullptr ? "" : about->help();
  p.app.clear();  // else the help of the whole would be that of `help`
  command.text = about == nullptr ? p.app.help() + target_list(types) : text;
  return command;
}

Result<Command> command_of(Parser& p, const CommandLine& line, TargetTypes types) {
  const Raw& raw = p.raw;
  auto output = output_of(raw);
  if (!output) return Unexpected(output.error());
  Command command;
  command.output = *output;
  command.detail = raw.quiet ? Detail::quiet : raw.verbose ? Detail::verbose : Detail::normal;
  command.socket = raw.socket.empty() ? line.socket_default : raw.socket;
  command.time_max = std::chrono::seconds(raw.time_max_s);
  command.subject = raw.subject;
  if (p.add->parsed()) return add_command(p, std::move(command), line, types);
  if (p.del->parsed()) return del_command(p, std::move(command));
  if (p.list->parsed()) return list_command(p, std::move(command));
  if (p.tags->parsed()) return tags_command(p, std::move(command));
  if (p.tune->parsed()) return tune_command(p, std::move(command), types);
  if (p.help->parsed()) return help_command(p, std::move(command), types);
  if (p.features->parsed()) command.verb = Verb::features;
  if (p.doctor->parsed()) command.verb = Verb::doctor;
  if (p.check_config->parsed()) command.verb = Verb::check_config;
  if (p.schema->parsed()) command.verb = Verb::schema;
  return command;
}

Command print_command(std::string text) {
  Command command;
  command.text = std::move(text);
  return command;
}

// The first word that is neither a global option nor its value.
std::string verb_word(const std::vector<std::string>& words) {
  constexpr std::array<std::string_view, 4> with_value{"-o", "--output", "--socket", "--timeout"};
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (std::find(with_value.begin(), with_value.end(), words[i]) != with_value.end())
      ++i;
    else if (!words[i].starts_with('-'))
      return words[i];
  }
  return {};
}

// One line of what the parser says over several, with the way to the help.
Unexpected complaint(Parser& p, const CommandLine& line, const CLI::ParseError& e) {
  const auto parsed = p.app.get_subcommands();
  const std::string verb = parsed.empty() ? "" : parsed.front()->get_name();
  if (const std::string word = verb_word(line.words); verb.empty() && !word.empty()) {
    std::vector<std::string> names;
    for (const CLI::App* known : p.app.get_subcommands([](CLI::App*) { return true; }))
      names.push_back(known->get_name());
    const std::vector<std::string_view> views(names.begin(), names.end());
    const std::string_view near = nearest_word(word, views);
    return usage_error(word, near.empty() ? "no such verb; there are " + joined(views)
                                          : "no such verb; did you mean " + std::string(near) + "?");
  }
  std::string text = e.what();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return usage_error(verb, text + "; see ublkctl " + (verb.empty() ? "" : verb + " ") + "--help");
}

}  // namespace

Result<Command> parse_command(const CommandLine& line, TargetTypes types) {
  try {
    Parser p;
    declare_global(p, line.version);
    declare_add(p);
    declare_del(p);
    declare_list(p);
    declare_tags(p);
    declare_tune(p);
    declare_rest(p);
    if (line.words.empty()) return print_command(p.app.help() + target_list(types));
    try {
      p.app.parse(std::vector<std::string>(line.words.rbegin(), line.words.rend()));
    } catch (const CLI::CallForHelp&) {
      return print_command(p.app.get_subcommands().empty() ? p.app.help() + target_list(types)
                                                           : p.app.help());
    } catch (const CLI::CallForVersion& v) {
      return print_command(std::string(v.what()) + "\n");
    } catch (const CLI::ParseError& e) {
      return complaint(p, line, e);
    }
    return command_of(p, line, types);
  } catch (const std::exception& e) {
    return fail(ErrorKind::internal, "ublkctl", "command line", e.what());
  }
}

Output asked_output(const std::vector<std::string>& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--json" || word == "--output=json" || word == "-ojson") return Output::json;
    if ((word == "-o" || word == "--output") && i + 1 < words.size() && words[i + 1] == "json")
      return Output::json;
  }
  return Output::text;
}

}  // namespace ublkd::cli
