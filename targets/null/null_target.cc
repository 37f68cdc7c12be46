#include "targets/null/null_target.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/log.h"
#include "targets/null/one_by_one.h"
#include "ublkd/units.h"

namespace ublkd {

namespace {

constexpr std::uint32_t io_bytes_max = 1024 * 1024;
constexpr std::uint64_t range_bytes_max = std::uint64_t{2} << 30;  // below 4 GiB, on every block size
constexpr std::uint32_t accept_all = 0;

constexpr std::array<OptionSpec, 3> null_options{{
    {.name = "size",
     .type = OptionType::size,
     .help = "Size of the device; rounded down to the logical block.",
     .required = true,
     .min = sector_bytes,
     .max = device_bytes_max},
    {.name = "accept_max",
     .type = OptionType::integer,
     .help = "Most requests taken at once; 0 takes all. For tests of sharing.",
     .default_text = "0",
     .max = depth_max},
    {.name = "one_by_one",
     .type = OptionType::boolean,
     .help = "Benchmark: requests reach this target one at a time, as they would without queue_rqs.",
     .default_text = "false"},
}};

// Makes the data of a read zeroes. Memory past dirty_bytes is zero already.
void read_zeroes(Request& rq) {
  std::memset(rq.data, 0, std::min(rq.length_bytes, rq.dirty_bytes));
  if (rq.length_bytes >= rq.dirty_bytes) rq.dirty_bytes = 0;
}

class NullQueue final : public TargetQueue {
 public:
  NullQueue(QueuePort& port, std::uint32_t accept_max) : port_(port), accept_max_(accept_max) {}

  void queue_rqs(RequestList& list) override {
    RequestList taken = list;  // a local: its head stays in a register
    list.clear();
    if (accept_max_ != accept_all) leave_rest(taken, list);
    while (!taken.empty()) {
      Request& rq = taken.pop_front();
      if (rq.op == Op::read && rq.dirty_bytes != 0) read_zeroes(rq);
      port_.complete(rq, 0);
    }
  }

  void on_cqe(Request&, std::uint8_t, std::int32_t) override { UBLKD_CHECK(false); }  // no SQE is ever made
  void abort(Request&) override { UBLKD_CHECK(false); }  // nothing outlives queue_rqs

 private:
  // Keeps the first accept_max of taken; the rest goes to left, in order.
  void leave_rest(RequestList& taken, RequestList& left) const {
    RequestList first;
    while (!taken.empty() && first.size() < accept_max_) first.push_back(taken.pop_front());
    left = taken;
    taken = first;
  }

  QueuePort& port_;
  std::uint32_t accept_max_;
};

enum class Offer : std::uint8_t { lists, one_by_one };

class NullTarget final : public Target {
 public:
  NullTarget(const Geometry& geometry, std::uint32_t accept_max, Offer offer)
      : geometry_(geometry), accept_max_(accept_max), offer_(offer) {}

  [[nodiscard]] Geometry geometry() const override { return geometry_; }
  [[nodiscard]] Result<std::unique_ptr<TargetQueue>> open_queue(QueuePort& port) override {
    auto queue = std::make_unique<NullQueue>(port, accept_max_);
    if (offer_ == Offer::one_by_one) return std::make_unique<OneByOneQueue>(std::move(queue));
    return queue;
  }

 private:
  Geometry geometry_;
  std::uint32_t accept_max_;
  Offer offer_;
};

Geometry null_geometry(std::uint64_t size_bytes, std::uint32_t block_bytes, bool read_only) {
  Geometry g;
  g.size_bytes = size_bytes;
  g.logical_block_bytes = g.physical_block_bytes = g.io_min_bytes = block_bytes;
  g.io_bytes_max = io_bytes_max;
  g.read_only = read_only;
  if (read_only) return g;
  g.discard_bytes_max = g.write_zeroes_bytes_max = range_bytes_max;
  g.discard_granularity_bytes = block_bytes;
  return g;
}

Result<std::unique_ptr<Target>> open_null(const OptionValues& options, const OpenContext& context) {
  const std::string subject = context.device_name;
  const std::uint64_t size = options.number("size");
  const std::uint32_t block = context.logical_block_bytes == 0 ? sector_bytes : context.logical_block_bytes;
  if (!std::has_single_bit(block) || block < sector_bytes || block > page_bytes)
    return fail(ErrorKind::invalid, "open null target of", subject,
                fmt::format("logical_block_bytes is {}; it must be 512, 1024, 2048 or 4096", block));
  if (size > device_bytes_max || size < block)
    return fail(ErrorKind::invalid, "open null target of", subject,
                fmt::format("size is {} bytes; it must be {} .. {}", size, block, device_bytes_max));
  const std::uint64_t rounded = size & ~std::uint64_t{block - 1};
  if (rounded != size)
    log_warning("{}: size {} is no multiple of the {} B logical block; the last {} bytes are not served",
                subject, size, block, size - rounded);
  const auto accept_max = static_cast<std::uint32_t>(options.number("accept_max"));
  const Offer offer = options.flag("one_by_one") ? Offer::one_by_one : Offer::lists;
  if (offer == Offer::one_by_one && accept_max != accept_all)
    return fail(ErrorKind::invalid, "open null target of", subject,
                "accept_max limits a list, and with one_by_one there is none; leave one of the two out");
  return std::make_unique<NullTarget>(null_geometry(rounded, block, context.read_only), accept_max, offer);
}

}  // namespace

const TargetType& null_target_type() {
  static constexpr TargetType type{"null", "A device of zeroes that does no I/O.", null_options, open_null};
  return type;
}

}  // namespace ublkd
