#include "tests/contract/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <random>

namespace ublkd {

namespace {

constexpr std::size_t at_once_max = 16;
constexpr std::uint32_t length_bytes_max = 256 * 1024;

class Model {
 public:
  Model(Rig& rig, Content content, std::uint64_t seed)
      : rig_(rig),
        content_(content),
        random_(seed),
        block_(rig.geometry().logical_block_bytes),
        bytes_(rig.geometry().size_bytes),
        known_(rig.blocks(), true),
        running_(rig.blocks(), false) {}

  std::string run(std::uint32_t operations_count) {
    for (std::uint32_t i = 0; i < operations_count && wrong_.empty(); ++i) {
      start_one();
      if (chance(4)) rig_.send();
      while (rig_.outstanding() >= at_once_max && wrong_.empty()) settle_some();
    }
    settle(rig_.drain());
    read_all();
    return wrong_.empty() ? rig_.broken() : wrong_;
  }

 private:
  std::uint64_t below(std::uint64_t n) {
    return std::uniform_int_distribution<std::uint64_t>(0, n - 1)(random_);
  }
  bool chance(std::uint64_t one_in) { return below(one_in) == 0; }

  Op choose_op() {
    const std::uint64_t n = below(100);
    if (n < 40) return Op::read;
    if (n < 75) return Op::write;
    if (n < 80) return Op::flush;
    if (n < 90) return rig_.geometry().discard_bytes_max > 0 ? Op::discard : Op::read;
    return rig_.geometry().write_zeroes_bytes_max > 0 ? Op::write_zeroes : Op::write;
  }

  void start_one() {
    IoWant want{choose_op(), 0, 0, 0};
    if (want.op == Op::write && chance(4)) want.flags = request_flag::fua;
    if (want.op == Op::write_zeroes && chance(2)) want.flags = request_flag::no_unmap;
    if (want.op != Op::flush) place(want);
    const std::uint64_t data_seed = random_();
    while (is_running(want) && wrong_.empty()) settle_some();
    if (!wrong_.empty()) return;
    Io* io = rig_.prepare(want, data_seed);
    if (io == nullptr) return note("no request is free");
    mark(io->rq, true);
    rig_.start(*io);
  }

  // Few blocks mostly, many at times, at the device's end at times.
  void place(IoWant& want) {
    const std::uint64_t blocks_max = std::min<std::uint64_t>(rig_.blocks(), length_bytes_max / block_);
    const std::uint64_t count = 1 + below(chance(4) ? blocks_max : std::min<std::uint64_t>(16, blocks_max));
    const std::uint64_t first = chance(8) ? rig_.blocks() - count : below(rig_.blocks() - count + 1);
    want.offset_bytes = first * block_;
    want.length_bytes = static_cast<std::uint32_t>(count * block_);
  }

  [[nodiscard]] bool is_running(const IoWant& want) const {
    for (std::uint64_t at = want.offset_bytes; at < want.offset_bytes + want.length_bytes; at += block_)
      if (running_[at / block_]) return true;
    return false;
  }

  void settle_some() {
    const auto done = rig_.pump();
    if (done.empty()) note("no progress");
    settle(done);
  }

  void mark(const Request& rq, bool value) {
    for (std::uint64_t at = rq.offset_bytes; at < rq.offset_bytes + rq.length_bytes; at += block_)
      running_[at / block_] = value;
  }

  void settle(const std::vector<Io*>& done) {
    for (Io* io : done) {
      mark(io->rq, false);
      if (io->rq.error != 0)
        note(fmt::format("{} of {} bytes at {} failed with {}", op_name(io->rq.op), io->rq.length_bytes,
                         io->rq.offset_bytes, io->rq.error));
      else if (io->rq.op == Op::read)
        compare(*io);
      else
        apply(*io);
    }
  }

  void apply(Io& io) {
    std::byte* at = bytes_.data() + io.rq.offset_bytes;
    if (io.rq.op == Op::write && content_ != Content::zeroes) std::memcpy(at, io.rq.data, io.rq.length_bytes);
    if (io.rq.op == Op::discard || io.rq.op == Op::write_zeroes) std::memset(at, 0, io.rq.length_bytes);
    const bool known = io.rq.op != Op::discard || content_ != Content::kept_discard_any;
    for (std::uint64_t b = io.rq.offset_bytes / block_; b * block_ < io.rq.offset_bytes + io.rq.length_bytes;
         ++b)
      known_[b] = known;
  }

  void compare(Io& io) {
    for (std::uint32_t i = 0; i < io.rq.length_bytes; i += block_) {
      const std::uint64_t at = io.rq.offset_bytes + i;
      if (known_[at / block_] && std::memcmp(bytes_.data() + at, io.rq.data + i, block_) != 0)
        note(fmt::format("wrong bytes in the block at {}", at));
    }
  }

  void read_all() {
    for (std::uint64_t at = 0; at < bytes_.size(); at += Io::data_bytes_max) {
      const auto length =
          static_cast<std::uint32_t>(std::min<std::uint64_t>(Io::data_bytes_max, bytes_.size() - at));
      Io* io = rig_.prepare({Op::read, at, length, 0});
      if (io == nullptr) return note("no request is free");
      rig_.start(*io);
      settle(rig_.drain());
    }
  }

  void note(std::string what) {
    if (wrong_.empty()) wrong_ = std::move(what);
  }

  Rig& rig_;
  const Content content_;
  std::mt19937_64 random_;
  const std::uint32_t block_;
  std::vector<std::byte> bytes_;
  std::vector<bool> known_;
  std::vector<bool> running_;
  std::string wrong_;
};

}  // namespace

std::string check_model(Rig& rig, Content content, std::uint64_t seed, std::uint32_t operations_count) {
  return Model(rig, content, seed).run(operations_count);
}

}  // namespace ublkd
