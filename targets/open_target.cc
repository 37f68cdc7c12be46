#include "ublkd/target.h"

namespace ublkd {

Result<std::unique_ptr<Target>> open_target(const TargetSpec& spec, const OpenContext& context) {
  std::string known;
  for (const TargetType* type : context.types) {
    if (type->name == spec.type) return type->open(spec.options, context);
    known += known.empty() ? "" : ", ";
    known += type->name;
  }
  return fail(ErrorKind::not_found, "open target", "'" + spec.type + "'",
              "there is no such type; the types are: " + known);
}

TargetNeeds target_needs(const TargetSpec& spec, std::span<const TargetType* const> types) {
  TargetNeeds needs;
  for (const TargetType* type : types) {
    if (type->name != spec.type) continue;
    needs.big_entries = type->big_entries;
    if (type->depth != nullptr) needs.depth = type->depth(spec.options);
  }
  for (const auto& [name, value] : spec.options.all())
    if (const auto* inner = std::get_if<std::shared_ptr<const TargetSpec>>(&value); inner != nullptr && *inner) {
      const TargetNeeds more = target_needs(**inner, types);
      needs.big_entries |= more.big_entries;
      if (more.depth != 0 && (needs.depth == 0 || more.depth < needs.depth)) needs.depth = more.depth;
    }
  return needs;
}

}  // namespace ublkd
