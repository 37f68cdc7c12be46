#include "tests/contract/target_cases.h"

#include <cstdlib>

#include "daemon/target_types.h"

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

std::string image(Ground& ground) {
  return ground.dir.file("image", case_size_bytes);
}

std::vector<TargetCase> make_cases() {
  constexpr auto plain = FileNames::descriptors;
  constexpr auto fixed = FileNames::registered;
  return {
      {"null", Content::zeroes, plain, [](Ground&) { return null_spec().open(); }},
      {"null_accept_3", Content::zeroes, plain,
       [](Ground&) { return null_spec().set("accept_max", std::uint64_t{3}).open(); }},
      {"null_one_by_one", Content::zeroes, plain,
       [](Ground&) { return null_spec().set("one_by_one", true).open(); }},
      {"file_direct", Content::kept, fixed, [](Ground& g) { return file_spec(image(g), "auto").open(); }},
      {"file_buffered", Content::kept, plain,
       [](Ground& g) { return file_spec(image(g), "buffered").open(); }},
      {"file_4k_blocks", Content::kept, fixed,
       [](Ground& g) { return file_spec(image(g)).open({.logical_block_bytes = 4096}); }},
      {"file_offset", Content::kept, fixed,
       [](Ground& g) {
         return file_spec(g.dir.file("image", 2 * case_size_bytes))
             .set("offset", std::uint64_t{512 * 1024 + 4096})
             .set("length", case_size_bytes)
             .open();
       }},
      {"file_loop_512", Content::kept_discard_any, fixed, [](Ground& g) { return open_loop(g, 512); }},
      {"file_loop_4k", Content::kept_discard_any, plain, [](Ground& g) { return open_loop(g, 4096); }},
      {"delay_null", Content::zeroes, plain, [](Ground&) { return delayed(null_spec()).open(); }},
      {"delay_null_accept_3", Content::zeroes, plain,
       [](Ground&) { return delayed(null_spec().set("accept_max", std::uint64_t{3})).open(); }},
      {"fault_file", Content::kept, fixed, [](Ground& g) { return no_fault(file_spec(image(g))).open(); }},
      {"delay_fault_file", Content::kept, fixed,
       [](Ground& g) { return delayed(no_fault(file_spec(image(g)))).open(); }},
  };
}

}  // namespace

const std::vector<TargetCase>& target_cases() {
  static const std::vector<TargetCase> cases = make_cases();
  return cases;
}

std::span<const TargetType* const> test_types() {
  return target_types();
}

}  // namespace ublkd
