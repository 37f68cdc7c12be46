#include "control/backing_watch.h"

#include <algorithm>

namespace ublkd {

namespace {

using namespace std::chrono_literals;

// Not one whose end has begun: stop() waits for a resize, and none must begin after it.
bool is_live(const DeviceTable::Entry& entry) {
  return entry.device != nullptr && !entry.removing && entry.device->state() == LifeState::live;
}

}  // namespace

BackingWatch::BackingWatch(asio::io_context& io, const DeviceTable& table)
    : table_(table),
      periodic_(
          io, [this]() { return any_live() ? std::optional<std::chrono::nanoseconds>(1s) : std::nullopt; },
          [this] { look(); }) {}

bool BackingWatch::any_live() const {
  return std::any_of(table_.entries().begin(), table_.entries().end(), [](const auto& e) { return is_live(*e); });
}

void BackingWatch::look() const {
  for (const auto& e : table_.entries())
    if (is_live(*e)) e->device->attend();
}

}  // namespace ublkd
