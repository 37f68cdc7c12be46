// Claims: which device of this daemon uses which part of which backing, by identity. Control thread.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <string>

#include "ublkd/target.h"

namespace ublkd {

class Claims final : public BackingClaims {
 public:
  [[nodiscard]] Result<std::shared_ptr<void>> claim(const Claim& claim, const std::string& device_name,
                                                    const std::string& path) override;
  [[nodiscard]] Result<std::shared_ptr<void>> share(const std::string& key, const Make& make) override;

 private:
  struct Entry {
    Claim claim;
    std::string device_name;
    std::string path;
  };
  using Entries = std::list<Entry>;
  std::shared_ptr<Entries> entries_ = std::make_shared<Entries>();
  std::map<std::string, std::weak_ptr<void>> shared_;
};

}  // namespace ublkd
