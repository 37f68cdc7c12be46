#include "tests/contract/target_cases.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

#include <cerrno>
#include <cstdlib>

#include "base/fd.h"
#include "daemon/target_types.h"
#include "targets/nvme/node.h"

namespace ublkd {

namespace {

using Opened = Result<std::unique_ptr<Target>>;

constexpr std::uint64_t delay_ns = 200'000;

Spec null_spec() {
  return Spec("null").set("size", case_size_bytes);
}

Spec no_fault(const Spec& inner) {
  return Spec("fault")
      .target(inner)
      .set("offset", case_size_bytes - 1)
      .set("length", std::uint64_t{1})
      .set("ops", std::vector<std::string>{"flush"});
}

Spec delayed(const Spec& inner) {
  return Spec("delay").target(inner).set("time", delay_ns);
}

Opened open_loop(Ground& ground, std::uint32_t block_bytes) {
  ground.loop = std::make_unique<LoopDevice>(ground.dir.file("disk", case_size_bytes), block_bytes);
  ground.skip = ground.loop->why();
  if (ground.loop->path().empty()) return fail(ErrorKind::unsupported, "attach", "loop device", ground.skip);
  ground.skip.clear();
  return file_spec(ground.loop->path()).open();
}

constexpr const char* nvme_variable = "UBLKD_CONTRACT_NVME";

// A zeroed range of the namespace that the environment names, opened as `open` says.
Opened open_nvme(std::uint64_t offset, const std::function<Opened(const Spec&, OpenContext)>& open) {
  const std::string path = std::getenv(nvme_variable);
  const auto node = find_nvme_node(path);
  if (!node) return Unexpected(node.error());
  const auto block = open_file("/dev/" + node->block_name, O_RDWR);
  if (!block) return Unexpected(block.error());
  const std::uint64_t range[2] = {offset, case_size_bytes};
  if (::ioctl(block->get(), BLKZEROOUT, range) != 0) return fail_errno(errno, "zero", path);
  return open(Spec("nvme").set("path", path).set("offset", offset).set("length", case_size_bytes), {});
}

std::string image(Ground& ground) {
  return ground.dir.file("image", case_size_bytes);
}

// Where the environment names a namespace that may be written, as the guests do.
std::vector<TargetCase> nvme_cases() {
  if (std::getenv(nvme_variable) == nullptr) return {};
  constexpr auto big = Entries::big;
  return {{"nvme", Content::kept_discard_any, FileNames::registered, big,
           [](Ground&) { return open_nvme(0, &Spec::open); }},
          {"nvme_range", Content::kept_discard_any, FileNames::descriptors, big,
           [](Ground&) { return open_nvme(3 * case_size_bytes + 4096, &Spec::open); }},
          {"delay_nvme", Content::kept_discard_any, FileNames::registered, big, [](Ground&) {
             return open_nvme(case_size_bytes, [](const Spec& s, OpenContext) { return delayed(s).open(); });
           }}};
}

std::vector<TargetCase> make_cases() {
  constexpr auto plain = FileNames::descriptors;
  constexpr auto fixed = FileNames::registered;
  constexpr auto small = Entries::small;
  return {
      {"null", Content::zeroes, plain, small, [](Ground&) { return null_spec().open(); }},
      {"null_accept_3", Content::zeroes, plain, small,
       [](Ground&) { return null_spec().set("accept_max", std::uint64_t{3}).open(); }},
      {"null_one_by_one", Content::zeroes, plain, small,
       [](Ground&) { return null_spec().set("one_by_one", true).open(); }},
      {"file_direct", Content::kept, fixed, small, [](Ground& g) { return file_spec(image(g), "auto").open(); }},
      {"file_buffered", Content::kept, plain, small,
       [](Ground& g) { return file_spec(image(g), "buffered").open(); }},
      {"file_4k_blocks", Content::kept, fixed, small,
       [](Ground& g) { return file_spec(image(g)).open({.logical_block_bytes = 4096}); }},
      {"file_offset", Content::kept, fixed, small,
       [](Ground& g) {
         return file_spec(g.dir.file("image", 2 * case_size_bytes))
             .set("offset", std::uint64_t{512 * 1024 + 4096})
             .set("length", case_size_bytes)
             .open();
       }},
      {"file_loop_512", Content::kept_discard_any, fixed, small, [](Ground& g) { return open_loop(g, 512); }},
      {"file_loop_4k", Content::kept_discard_any, plain, small, [](Ground& g) { return open_loop(g, 4096); }},
      {"delay_null", Content::zeroes, plain, small, [](Ground&) { return delayed(null_spec()).open(); }},
      {"delay_null_accept_3", Content::zeroes, plain, small,
       [](Ground&) { return delayed(null_spec().set("accept_max", std::uint64_t{3})).open(); }},
      {"fault_file", Content::kept, fixed, small, [](Ground& g) { return no_fault(file_spec(image(g))).open(); }},
      {"delay_fault_file", Content::kept, fixed, small,
       [](Ground& g) { return delayed(no_fault(file_spec(image(g)))).open(); }},
  };
}

}  // namespace

const std::vector<TargetCase>& target_cases() {
  static const std::vector<TargetCase> cases = [] {
    auto all = make_cases();
    for (const TargetCase& c : nvme_cases()) all.push_back(c);
    return all;
  }();
  return cases;
}

std::span<const TargetType* const> test_types() {
  return target_types();
}

}  // namespace ublkd
