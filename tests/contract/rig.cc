#include "tests/contract/rig.h"

#include <algorithm>
#include <cstring>

namespace ublkd {

namespace {

constexpr std::byte guard_byte{0xa5};
constexpr std::byte rubbish_byte{0xdb};

std::byte pattern(std::uint64_t seed, std::size_t i) {
  std::uint64_t x = seed * 0x9e3779b97f4a7c15u + i / 8 + 1;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return static_cast<std::byte>((x >> (8 * (i % 8))) & 0xff);
}

std::uint64_t hash(std::span<const std::byte> bytes) {
  return std::hash<std::string_view>{}({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

bool all_guard(const std::byte* bytes) {
  return std::all_of(bytes, bytes + Io::guard_bytes, [](std::byte b) { return b == guard_byte; });
}

}  // namespace

void fill(std::span<std::byte> bytes, std::uint64_t seed) {
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = pattern(seed, i);
}

bool filled(std::span<const std::byte> bytes, std::uint64_t seed) {
  for (std::size_t i = 0; i < bytes.size(); ++i)
    if (bytes[i] != pattern(seed, i)) return false;
  return true;
}

bool all_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

Rig::Rig(std::unique_ptr<Target> target, std::unique_ptr<TestPort> port)
    : target_(std::move(target)), geometry_(target_->geometry()), port_(std::move(port)) {}

Result<std::unique_ptr<Rig>> Rig::make(std::unique_ptr<Target> target, FileNames names, Entries entries) {
  auto port = TestPort::make(target->backing_fds(), names, entries);
  if (!port) return Unexpected(port.error());
  std::unique_ptr<Rig> rig(new Rig(std::move(target), std::move(*port)));
  std::vector<Request*> table;
  std::vector<std::byte*> data;
  for (std::size_t i = 0; i < ios_max; ++i) {
    auto memory = Mapping::anonymous(Io::data_bytes_max + 2 * Io::guard_bytes, "test data");
    if (!memory) return Unexpected(memory.error());
    auto io = std::make_unique<Io>();
    io->rq.index = static_cast<std::uint32_t>(i);
    io->memory = std::move(*memory);
    table.push_back(&io->rq);
    data.push_back(io->memory.data() + Io::guard_bytes);
    rig->ios_.push_back(std::move(io));
  }
  rig->port_->set_table(std::move(table));
  if (names == FileNames::registered)
    if (auto r = rig->port_->register_memory(data); !r) return Unexpected(r.error());
  auto queue = rig->target_->open_queue(*rig->port_);
  if (!queue) return Unexpected(queue.error());
  rig->queue_ = std::move(*queue);
  return rig;
}

Io* Rig::prepare(const IoWant& want, std::uint64_t seed) {
  const auto free = std::find_if(ios_.begin(), ios_.end(), [](const auto& io) { return !io->busy; });
  if (free == ios_.end()) return nullptr;
  Io& io = **free;
  const std::uint32_t index = io.rq.index;
  io.rq = Request{};
  io.rq.index = index;
  io.rq.slot = Slot(static_cast<std::uint16_t>(index));
  io.rq.op = want.op;
  io.rq.offset_bytes = want.offset_bytes;
  io.rq.length_bytes = want.length_bytes;
  io.rq.flags = want.flags;
  io.rq.data = io.memory.data() + Io::guard_bytes;
  io.rq.dirty_bytes = Io::data_bytes_max;
  const bool moves = want.op == Op::read || want.op == Op::write;
  const std::uint32_t bytes = moves ? want.length_bytes : 0;
  UBLKD_CHECK(bytes <= Io::data_bytes_max);
  if (want.op == Op::write) fill({io.rq.data, bytes}, seed);
  if (want.op == Op::read) std::memset(io.rq.data, static_cast<int>(rubbish_byte), bytes);
  std::memset(io.memory.data(), static_cast<int>(guard_byte), Io::guard_bytes);
  std::memset(io.rq.data + bytes, static_cast<int>(guard_byte), Io::guard_bytes);
  if (want.op == Op::write) io.written_hash = hash(io.data());
  return &io;
}

void Rig::start(Io& io) {
  UBLKD_CHECK(!io.busy);
  io.busy = true;
  io.rq.state = RequestState::started;
  io.rq.tag = static_cast<Tag>(io.rq.index);
  ++outstanding_;
  waiting_.push_back(io.rq);
}

void Rig::offer() {
  if (waiting_.empty()) return;
  std::vector<const Request*> given;
  for (const Request* rq = waiting_.front(); rq != nullptr; rq = rq->next) given.push_back(rq);
  queue_->queue_rqs(waiting_);
  std::size_t left = 0;
  const std::size_t taken = given.size() - std::min<std::size_t>(given.size(), waiting_.size());
  for (const Request* rq = waiting_.front(); rq != nullptr; rq = rq->next, ++left)
    if (taken + left >= given.size() || given[taken + left] != rq) broken_ = "leftovers are out of order";
}

void Rig::collect() {
  RequestList done = port_->take_done();
  while (!done.empty()) {
    Request& rq = done.pop_front();
    Io& io = *ios_[rq.index];
    UBLKD_CHECK(io.busy && rq.state == RequestState::done);
    rq.state = RequestState::idle;
    io.busy = false;
    --outstanding_;
    check_memory(io);
    done_.push_back(&io);
  }
}

void Rig::check_memory(Io& io) {
  const bool moves = io.rq.op == Op::read || io.rq.op == Op::write;
  const std::byte* end = io.rq.data + (moves ? io.rq.length_bytes : 0);
  if (!all_guard(io.memory.data()) || !all_guard(end)) broken_ = "bytes outside the data were touched";
  if (io.rq.op == Op::write && hash(io.data()) != io.written_hash)
    broken_ = "the data of a write was changed";
  if (io.rq.error > 0) broken_ = "a request ended with a positive number";
}

std::vector<Io*> Rig::pump() {
  done_.clear();
  port_->read_clock();
  offer();
  collect();
  std::uint64_t waited_ns = 0;
  while (done_.empty() && outstanding_ > 0) {
    const std::uint64_t before_ns = port_->now_ns();
    port_->turn(*queue_, retry_ns);
    offer();
    collect();
    waited_ns += port_->now_ns() - before_ns;
    if (waited_ns > progress_ns) {
      broken_ = "no progress";
      break;
    }
  }
  return done_;
}

std::vector<Io*> Rig::drain() {
  std::vector<Io*> all;
  while (outstanding_ > 0) {
    const auto some = pump();
    if (some.empty()) break;
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

void Rig::abort(Io& io) {
  if (!io.busy || io.rq.state != RequestState::started) return;
  for (const Request* rq = waiting_.front(); rq != nullptr; rq = rq->next)
    if (rq == &io.rq) return;  // not the target's
  io.rq.aborting = 1;
  queue_->abort(io.rq);
}

std::int32_t Rig::run(const IoWant& want, std::uint64_t seed) {
  last_ = prepare(want, seed);
  UBLKD_CHECK(last_ != nullptr);
  start(*last_);
  const auto done = drain();
  if (last_->busy) return -ETIMEDOUT;
  return last_->rq.error;
}

}  // namespace ublkd
