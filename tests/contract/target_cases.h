// The targets that the contract suite runs over, each made on a fresh zeroed backing.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/contract/model.h"
#include "tests/fakes/temp_dir.h"
#include "ublkd/target.h"

namespace ublkd {

// What a case lives on; outlives its target.
struct Ground {
  TempDir dir;
  std::unique_ptr<LoopDevice> loop;
  std::string skip;  // why the case cannot run here; empty: it can
};

struct TargetCase {
  std::string name;
  Content content;
  FileNames names;
  Entries entries;
  std::function<Result<std::unique_ptr<Target>>(Ground&)> open;
};

inline constexpr std::uint64_t case_size_bytes = 4 * 1024 * 1024;

[[nodiscard]] const std::vector<TargetCase>& target_cases();

// All types, as the daemon's list.
[[nodiscard]] std::span<const TargetType* const> test_types();

// Options for a target by hand.
class Spec {
 public:
  explicit Spec(std::string type) : spec_(std::make_shared<TargetSpec>()) { spec_->type = std::move(type); }
  Spec& set(const std::string& name, OptionValues::Value value) {
    spec_->options.set(name, std::move(value));
    return *this;
  }
  Spec& target(const Spec& inner) { return set("target", std::shared_ptr<const TargetSpec>(inner.spec_)); }
  [[nodiscard]] Result<std::unique_ptr<Target>> open(OpenContext context = {}) const {
    context.types = test_types();
    if (context.device_name.empty()) context.device_name = "test";
    return open_target(*spec_, context);
  }

 private:
  std::shared_ptr<TargetSpec> spec_;
};

[[nodiscard]] inline Spec file_spec(const std::string& path, const std::string& io = "auto") {
  return Spec("file").set("path", path).set("io", io);
}

}  // namespace ublkd
