#include "targets/file/file_target.h"

#include <cstring>

#include "base/fd.h"
#include "base/log.h"
#include "targets/file/backing.h"
#include "targets/file/file_options.h"
#include "targets/file/file_queue.h"
#include "targets/file/range_support.h"

namespace ublkd {

namespace {

constexpr std::size_t zeroes_bytes = 128 * 1024;  // one part of a write-zeroes that is really written

const char* discard_word(DiscardMethod method) {
  switch (method) {
    case DiscardMethod::none: return "none";
    case DiscardMethod::punch_hole: return "punch_hole";
    case DiscardMethod::block_command: return "block_command";
  }
  return "none";
}

class FileTarget final : public Target {
 public:
  FileTarget(Backing backing, Mapping zeroes) : backing_(std::move(backing)), zeroes_(std::move(zeroes)) {
    discard_ = probe_discard(backing_);
    offer_ranges(backing_.geometry, discard_, discard_granularity(backing_));
  }

  [[nodiscard]] Geometry geometry() const override { return backing_.geometry; }
  [[nodiscard]] std::vector<int> backing_fds() const override { return {backing_.fd.get()}; }
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> facts() const override;
  [[nodiscard]] Result<std::unique_ptr<TargetQueue>> open_queue(QueuePort& port) override {
    backing_.created.keep();  // from here on it may hold a client's data
    const FileService service{backing_.begin_bytes,
                              backing_.geometry.logical_block_bytes,
                              backing_.direct,
                              discard_,
                              {zeroes_.data(), zeroes_.size()}};
    return std::make_unique<FileQueue>(port, service);
  }

 private:
  Backing backing_;
  Mapping zeroes_;
  DiscardMethod discard_ = DiscardMethod::none;
};

std::vector<std::pair<std::string, std::string>> FileTarget::facts() const {
  std::vector<std::pair<std::string, std::string>> facts{
      {"path", backing_.path},
      {"backing", backing_.kind == BackingKind::block ? "block device" : "regular file"},
      {"io", backing_.direct ? "direct" : "buffered"},
      {"discard", discard_word(discard_)}};
  if (backing_.begin_bytes != 0) facts.emplace_back("offset", fmt::format("{}", backing_.begin_bytes));
  if (backing_.kind == BackingKind::regular)
    facts.emplace_back("locked", backing_.lock.held() ? "yes" : "no");
  return facts;
}

// Touched here, so that it is real memory: the data path allocates nothing.
Result<Mapping> make_zeroes(const std::string& device_name) {
  auto zeroes = Mapping::anonymous(zeroes_bytes, "zeroes of " + device_name);
  if (zeroes) std::memset(zeroes->data(), 0, zeroes->size());
  return zeroes;
}

Result<std::unique_ptr<Target>> open_file_target(const OptionValues& values, const OpenContext& context) {
  auto zeroes = make_zeroes(context.device_name);
  if (!zeroes) return Unexpected(zeroes.error());
  auto backing = open_backing(file_options(values), context);
  if (!backing) return Unexpected(backing.error());
  auto target = std::make_unique<FileTarget>(std::move(*backing), std::move(*zeroes));
  const Geometry g = target->geometry();
  std::string facts;
  for (const auto& [key, value] : target->facts()) facts += fmt::format(" {}={}", key, value);
  log_info("{}: file target:{} size={} logical_block={}", context.device_name, facts, g.size_bytes,
           g.logical_block_bytes);
  return target;
}

}  // namespace

const TargetType& file_target_type() {
  static const TargetType type{"file", "A device on a regular file or a block device.", file_option_specs(),
                               open_file_target};
  return type;
}

}  // namespace ublkd
