// Version of the command line; the build sets it for the whole project.
#pragma once

#ifndef UBLKD_VERSION
#define UBLKD_VERSION "0.1.0"
#endif

namespace ublkd::cli {
inline constexpr const char* version = UBLKD_VERSION;
}
