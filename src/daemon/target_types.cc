#include "daemon/target_types.h"

#include <array>

#include "targets/delay/delay_target.h"
#include "targets/fault/fault_target.h"
#include "targets/file/file_target.h"
#include "targets/null/null_target.h"
#include "targets/nvme/nvme_target.h"

namespace ublkd {

std::span<const TargetType* const> target_types() {
  static const std::array types{&null_target_type(), &file_target_type(), &nvme_target_type(), &delay_target_type(),
                                &fault_target_type()};
  return types;
}

}  // namespace ublkd
