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

}  // namespace ublkd
