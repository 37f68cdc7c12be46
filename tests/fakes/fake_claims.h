// FakeClaims: BackingClaims as the daemon keeps them, for tests of targets.
//
// Thread rule: one thread. It outlives the handles it gives.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "ublkd/target.h"

namespace ublkd {

class FakeClaims final : public BackingClaims {
 public:
  Result<std::shared_ptr<void>> claim(const Claim& claim, const std::string& device_name,
                                      const std::string& path) override {
    for (const auto& [key, held] : held_) {
      const Claim& c = held.first;
      const bool overlap = c.device == claim.device && c.inode == claim.inode &&
                           c.offset_bytes < claim.offset_bytes + claim.length_bytes &&
                           claim.offset_bytes < c.offset_bytes + c.length_bytes;
      if (overlap && (c.writable || claim.writable))
        return fail(ErrorKind::busy, "open", path, "in use by device " + held.second);
    }
    const int key = next_++;
    held_[key] = {claim, device_name};
    return std::shared_ptr<void>(this, [this, key](void*) { held_.erase(key); });
  }

  Result<std::shared_ptr<void>> share(const std::string& key, const Make& make) override {
    if (auto there = shared_[key].lock()) return there;
    auto made = make();
    if (made) shared_[key] = *made;
    return made;
  }

 private:
  std::map<int, std::pair<Claim, std::string>> held_;
  std::map<std::string, std::weak_ptr<void>> shared_;
  int next_ = 0;
};

}  // namespace ublkd
