// From a target's geometry to the parameters of SET_PARAMS. Pure.
#pragma once

#include "abi/ublk_cmd.h"
#include "ublkd/geometry.h"

namespace ublkd {

[[nodiscard]] abi::Params params_of(const Geometry& geometry);

}  // namespace ublkd
