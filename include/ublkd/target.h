// Target: a backend. One Target per device, one TargetQueue per (device, hardware queue).
//
// Thread rule: open, geometry, backing_fds and open_queue run on the control thread; the members of
//   TargetQueue on its hardware queue's thread, except construction and destruction, which happen
//   on the control thread while the queue does not serve the device.
// Ownership: the device owns the Target; the Target outlives its queues.
// The engine checks each request before queue_rqs sees it: started, with a tag, on the block grid,
// inside the device, of an op the geometry offers, no longer than its limit, not a write on a
// read-only device. A target need not check again.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ublkd/geometry.h"
#include "ublkd/options.h"
#include "ublkd/queue_port.h"
#include "ublkd/request.h"
#include "ublkd/result.h"

namespace ublkd {

class TargetQueue {
 public:
  virtual ~TargetQueue() = default;

  // Takes requests off the front of list and starts them; what it cannot start for lack of
  // resources stays, in order. Leftovers are offered again after this queue completed something or
  // 1 ms passed. Errors are completed, not left. May complete requests before it returns.
  virtual void queue_rqs(RequestList& list) = 0;

  // One CQE of an SQE got by port.sqe(rq, step): result >= 0, or -errno.
  virtual void on_cqe(Request& rq, std::uint8_t step, std::int32_t result) = 0;

  // A time asked by port.wake_at() has come.
  virtual void on_deadline() {}

  // rq should end soon: cancel what can be cancelled. It must still be completed exactly once,
  // here or later.
  virtual void abort(Request& rq) = 0;
};

class Target {
 public:
  virtual ~Target() = default;
  [[nodiscard]] virtual Geometry geometry() const = 0;
  [[nodiscard]] virtual Result<std::unique_ptr<TargetQueue>> open_queue(QueuePort& port) = 0;

  // Descriptors that requests use, at most backing_files_max; valid for the target's life.
  [[nodiscard]] virtual std::vector<int> backing_fds() const { return {}; }

  // How the backing is used, for `list -v` and the log: {"io", "direct"}, {"path", "/x"}. May tell what its queues met.
  [[nodiscard]] virtual std::vector<std::pair<std::string, std::string>> facts() const { return {}; }

  // About once a second, and when the kernel tells that the backing changed, while the device serves: looks at the
  // backing, and logs what the queues met since the last call (they log nothing themselves). Returns the size that the
  // device should have from now on.
  [[nodiscard]] virtual std::uint64_t attend() { return geometry().size_bytes; }
};

// Who else in this daemon uses the same backing: claims by identity, not by name.
class BackingClaims {
 public:
  struct Claim {
    std::uint64_t device = 0;  // st_dev, or rdev of a block device
    std::uint64_t inode = 0;   // st_ino; 0 for a block device
    std::uint64_t offset_bytes = 0;
    std::uint64_t length_bytes = 0;
    bool writable = false;
  };
  // Error busy, naming the other device, when a writable claim overlaps another claim. Released
  // when the returned handle goes.
  [[nodiscard]] virtual Result<std::shared_ptr<void>> claim(const Claim& claim, const std::string& device_name,
                                                            const std::string& path) = 0;

  // What all devices of this daemon on one thing have together, by a key that names it: made for the first, gone with
  // the last handle.
  using Make = std::function<Result<std::shared_ptr<void>>()>;
  [[nodiscard]] virtual Result<std::shared_ptr<void>> share(const std::string& key, const Make& make) = 0;

 protected:
  ~BackingClaims() = default;
};

struct TargetType;

// What open() gets. All references outlive the target.
struct OpenContext {
  std::string device_name;
  bool read_only = false;
  std::uint32_t logical_block_bytes = 0;  // asked by the user; 0: the target's choice
  BackingClaims* claims = nullptr;        // null: no claims kept (tests)
  std::span<const TargetType* const> types;  // for wrappers, to open what they own
};

// One kind of target: its word in the config, its options, how it is opened.
struct TargetType {
  std::string_view name;
  std::string_view summary;  // one sentence
  std::span<const OptionSpec> options;
  Result<std::unique_ptr<Target>> (*open)(const OptionValues& options, const OpenContext& context);
  // Its commands need SQEs of 128 bytes and CQEs of 32: the ring of its tag set is made with them.
  bool big_entries = false;
  // How many requests of one hardware queue the backing takes at once, looked up without opening it; 0: not known, or
  // no limit. Null: no limit. The depth of a tag set that has none is the least of its devices'.
  std::uint32_t (*depth)(const OptionValues& options) = nullptr;
};

// What the tag set of a device with this target must be like, found without opening anything; a wrapper needs what the
// target in it needs. An unknown type needs nothing.
struct TargetNeeds {
  bool big_entries = false;
  std::uint32_t depth = 0;  // as TargetType::depth
};
[[nodiscard]] TargetNeeds target_needs(const TargetSpec& spec, std::span<const TargetType* const> types);

// Opens spec by its type's name; error not_found when there is no such type.
[[nodiscard]] Result<std::unique_ptr<Target>> open_target(const TargetSpec& spec, const OpenContext& context);

}  // namespace ublkd
