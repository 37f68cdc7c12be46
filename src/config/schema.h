// JSON schema (draft-07) of the config file, made from the option tables, for editors and checkers.
//
// Thread rule: pure function, any thread.
// The schema accepts what the reader accepts, and refuses what it refuses, but for what a schema
// cannot say: duplicate keys, references between parts, ranges of quantities written with a suffix,
// zero bytes in texts, and limits in bytes for texts beyond ASCII. Numbers like 4096.0 are whole for
// some checkers (draft-07 says so), and never for the reader.
#pragma once

#include <span>
#include <string>

#include "ublkd/target.h"

namespace ublkd {

// Indented text with a final newline.
[[nodiscard]] std::string config_schema(std::span<const TargetType* const> types);

}  // namespace ublkd
