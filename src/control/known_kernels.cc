#include "control/known_kernels.h"

#include <array>
#include <charconv>

namespace ublkd {

namespace {

constexpr std::uint32_t any_build = ~std::uint32_t{0};

constexpr std::string_view add_dev_crash =
    "the first ADD_DEV crashes in ublk_init_queues and never returns; every later ublk command hangs until a "
    "reboot";
constexpr std::string_view add_dev_suspect =
    "it has the change that makes ADD_DEV crash in ublk_init_queues, maybe without its fix";

// "6.17.0-1019-aws": version 6.17.0, build 1019, flavour aws.
struct BadKernel {
  std::string_view version;
  std::string_view flavour;  // empty: those without a row of their own
  std::uint32_t build_first;
  std::uint32_t build_last;
  KernelNews news;
};

// Sources: Launchpad bug 2154635, actions/runner-images issue 14175, longhorn issue 13509, zabbly/linux
// issue 52, changelogs of the Ubuntu packages. The first match counts.
constexpr std::array<BadKernel, 6> bad_kernels{{
    {"6.18.4", "", 0, any_build, {KernelFault::confirmed, add_dev_crash, "run 6.18.6 or later"}},
    {"6.18.5", "", 0, any_build, {KernelFault::confirmed, add_dev_crash, "run 6.18.6 or later"}},
    {"6.17.0", "aws", 1017, 1019, {KernelFault::confirmed, add_dev_crash, "run 6.17.0-1020-aws or later"}},
    {"6.17.0",
     "azure",
     1015,
     1020,
     {KernelFault::confirmed, add_dev_crash, "run 6.17.0-1021-azure or later"}},
    {"6.17.0", "", 35, 40, {KernelFault::confirmed, add_dev_crash, "run 6.17.0-41 or later"}},
    {"6.17.0", "", 24, 34, {KernelFault::suspected, add_dev_suspect, "run 6.17.0-41 or later"}},
}};

struct Release {
  std::string_view version;
  std::uint32_t build = 0;
  std::string_view flavour;
};

Release split(std::string_view release) {
  Release out;
  out.version = release.substr(0, release.find_first_of("-+"));
  std::string_view rest = release.substr(out.version.size());
  if (!rest.empty()) rest.remove_prefix(1);
  const auto parsed = std::from_chars(rest.data(), rest.data() + rest.size(), out.build);
  rest.remove_prefix(static_cast<std::size_t>(parsed.ptr - rest.data()));
  out.flavour = !rest.empty() && rest.front() == '-' ? rest.substr(1) : rest;
  return out;
}

bool matches(const BadKernel& bad, const Release& r) {
  if (bad.version != r.version) return false;
  if (!bad.flavour.empty() && bad.flavour != r.flavour) return false;
  return r.build >= bad.build_first && r.build <= bad.build_last;
}

}  // namespace

std::optional<KernelNews> kernel_news(std::string_view release) {
  const Release r = split(release);
  for (const BadKernel& bad : bad_kernels)
    if (matches(bad, r)) return bad.news;
  return std::nullopt;
}

}  // namespace ublkd
