#include "control/claims.h"

namespace ublkd {

namespace {

bool overlap(const BackingClaims::Claim& a, const BackingClaims::Claim& b) {
  return a.offset_bytes < b.offset_bytes + b.length_bytes && b.offset_bytes < a.offset_bytes + a.length_bytes;
}

}  // namespace

Result<std::shared_ptr<void>> Claims::claim(const Claim& claim, const std::string& device_name,
                                            const std::string& path) {
  for (const Entry& e : *entries_) {
    if (e.claim.device != claim.device || e.claim.inode != claim.inode) continue;
    if (!(e.claim.writable || claim.writable) || !overlap(e.claim, claim)) continue;
    const std::string as = e.path == path ? "" : " as " + e.path;
    return fail(ErrorKind::busy, "use", path,
                "device " + e.device_name + " of this daemon uses the same bytes" + as +
                    "; only read-only devices may share, or ranges that do not overlap");
  }
  entries_->push_back({claim, device_name, path});
  const auto it = std::prev(entries_->end());
  return std::shared_ptr<void>(&*it, [entries = entries_, it](void*) { entries->erase(it); });
}

Result<std::shared_ptr<void>> Claims::share(const std::string& key, const Make& make) {
  std::erase_if(shared_, [](const auto& entry) { return entry.second.expired(); });
  if (const auto it = shared_.find(key); it != shared_.end()) return it->second.lock();
  auto made = make();
  if (made) shared_.emplace(key, *made);
  return made;
}

}  // namespace ublkd
