#include "cli/add_words.h"

#include <algorithm>
#include <array>

#include "config/option_reader.h"
#include "config/option_table.h"
#include "config/write.h"

namespace ublkd::cli {

namespace {

constexpr std::array<DeviceFlag, 10> device_flag_table{{
    {"-n,--number", "id", "Number N of /dev/ublkbN; -1 or none: the kernel chooses"},
    {"--name", "name", "Name for commands and status"},
    {"-q,--queues,--queue", "queues", "Hardware queues of the device, 1 by default"},
    {"-d,--depth", "depth", "Requests per queue the kernel hands over at once, 128 by default"},
    {"--tag-set,--tag_set", "tag_set", "Share this tag set of the daemon's config with other devices"},
    {"--weight", "weight", "Share of the tag set's tags, relative to other devices"},
    {"--logical-block-size,--logical_block_size", "logical_block_size", "Smallest unit of I/O: 512 to 4096"},
    {"--max-io-size,--io-buf-size,--max_io_buf_bytes", "max_io_size",
     "Largest single request, such as 512KiB"},
    {"--scheduler", "scheduler",
     "I/O scheduler of the block device: none by default; kernel: leave as it is"},
    {"--buffer-mode", "buffer_mode", "How data moves: auto, copy or zero_copy"},
}};

constexpr const char* no_recovery = "recovery of devices after a crash does not exist here yet; leave it out";

constexpr std::array<RefusedFlag, 17> refused_flag_table{{
    {"-z,--zerocopy,--zero-copy,--auto_zc",
     "zero copy does not exist here yet; leave it out, data is copied"},
    {"-u", "it means uring_comp in ublksrv and user copy in rublk, neither exists here yet; leave it out"},
    {"--user-copy,--user_copy", "user copy does not exist here yet; leave it out, the kernel copies"},
    {"--uring-comp,--uring_comp", "current kernels always complete in task context; leave it out"},
    {"-b",
     "it means batch I/O in ublksrv and buffer size in rublk; for the size write --max-io-size, "
     "batch I/O does not exist here yet"},
    {"--batch-io,--batch_io", "batch I/O does not exist here yet; leave it out"},
    {"-g,--need-get-data,--need_get_data", "buffers are always there before a write arrives; leave it out"},
    {"-r,--recovery,--user-recovery,--user_recovery", no_recovery},
    {"-i,--recovery-reissue,--user_recovery_reissue", no_recovery},
    {"-e,--recovery-fail-io,--user_recovery_fail_io", no_recovery},
    {"-p,--unprivileged", "devices without root do not exist here yet"},
    {"--foreground", "the daemon serves the device; to have one in the foreground run ublkd --config FILE"},
    {"--offset", "it counts 512-byte sectors elsewhere; write -O offset=BYTES or -O offset=1MiB"},
    {"--no-discard,--no_discard",
     "discards go to the backing where it takes them; this cannot be switched off yet"},
    {"--physical-block-size,--physical_block_size", "it follows from the backing; leave it out"},
    {"--threads-per-queue,--nthreads", "each queue has one thread; write more --queues instead"},
    {"--cpuset,--mlock", "set cpus in a tag_set of the config instead, and memory limits in the unit"},
}};

Unexpected refuse(std::string what, std::string advice) {
  return fail(ErrorKind::invalid, "add", std::move(what), std::move(advice));
}

// "-d,--depth" -> "-d", the longest name for messages being of no more use.
std::string first_spelling(const char* spellings) {
  const std::string_view all(spellings);
  return std::string(all.substr(0, all.find(',')));
}

struct TypeAndFile {
  std::string type;
  std::optional<std::string> file;
};

// The type is -t's, or the first positional; a positional after it is the file of a file target.
Result<TypeAndFile> type_and_file(const AddWords& words) {
  std::vector<std::string> rest = words.positionals;
  TypeAndFile out{"", words.file};
  if (words.type) {
    out.type = *words.type;
  } else if (!rest.empty()) {
    out.type = rest.front();
    rest.erase(rest.begin());
  } else {
    return refuse("device", "give a target: ublkctl add -t null, or ublkctl add -t file -f PATH");
  }
  if (out.type == "loop") out.type = "file";
  if (rest.empty()) return out;
  if (rest.size() > 1 || out.type != "file" || out.file)
    return refuse(rest.back(), "this word is one too many; one target and one file at most");
  out.file = rest.front();
  return out;
}

std::string absolute(const std::string& path, const std::string& working_dir) {
  if (!path.empty() && path.front() == '/') return path;
  return working_dir + "/" + path;
}

bool names_option(const std::string& word, std::string_view key) {
  return word.size() > key.size() && word.compare(0, key.size(), key) == 0 && word[key.size()] == '=';
}

Result<TargetSpec> target_from(const AddWords& words, const std::string& working_dir, TargetTypes types,
                               std::vector<std::string>& notes) {
  auto asked = type_and_file(words);
  if (!asked) return Unexpected(asked.error());
  std::vector<std::string> options = words.target_options;
  const auto given = [&](std::string_view key) {
    return std::any_of(options.begin(), options.end(),
                       [&](const std::string& o) { return names_option(o, key); });
  };
  if (asked->file) options.push_back("path=" + absolute(*asked->file, working_dir));
  if (words.size) options.push_back("size=" + *words.size);
  if (words.buffered) options.push_back("io=buffered");
  if (asked->type == "null" && !given("size")) {
    options.push_back("size=" + std::string(null_size_default));
    notes.push_back("no --size given: " + std::string(null_size_default));
  }
  return parse_target_words(asked->type, options, types);
}

}  // namespace

std::span<const DeviceFlag> device_flags() {
  return device_flag_table;
}
std::span<const RefusedFlag> refused_flags() {
  return refused_flag_table;
}

Result<nlohmann::json> option_value(std::span<const OptionSpec> table, std::string_view key, const std::string& text,
                                    TargetTypes types) {
  const auto spec =
      std::find_if(table.begin(), table.end(), [&](const OptionSpec& s) { return s.name == key; });
  if (spec == table.end())
    return fail(ErrorKind::internal, "option", std::string(key), "no such key in the option table");
  auto value = parse_option_text(*spec, text, types);
  if (!value) return Unexpected(value.error());
  OptionValues one;
  one.set(std::string(key), std::move(*value));
  return to_json(one)[std::string(key)];
}

Result<AddDevice> device_from_words(const AddWords& words, const std::string& working_dir,
                                    TargetTypes types) {
  if (!words.refused.empty()) {
    const RefusedFlag& flag = *words.refused.front();
    return refuse(first_spelling(flag.spellings), flag.advice);
  }
  AddDevice out;
  auto target = target_from(words, working_dir, types, out.notes);
  if (!target) return Unexpected(target.error());
  out.device["target"] = to_json(*target);
  for (const auto& [key, text] : words.device) {
    if (key == "id" && text == "-1") continue;
    auto value = option_value(device_options(), key, text, types);
    if (!value) return Unexpected(value.error());
    out.device[key] = std::move(*value);
  }
  if (words.read_only) out.device["read_only"] = true;
  auto whole =
      parse_device(out.device.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), "", types);
  if (!whole) return Unexpected(whole.error());
  return out;
}

}  // namespace ublkd::cli
