// Texts of the help. Pure functions and constants.
#pragma once

#include <string>
#include <string_view>

#include "config/parse.h"
#include "ublkd/result.h"

namespace ublkd::cli {

inline constexpr const char* usage_footer = R"(Examples:
  ublkctl add -t null -n 0 -q 2 -d 128         /dev/ublkb0, two queues
  ublkctl add -t file -f disk.img --name data  a file as a disk
  ublkctl add null --size 10GiB                the target may stand first
  ublkctl list -v -o json                      everything, for scripts
  ublkctl tags --watch                         who holds the tags, live
  ublkctl tune device data --weight 4          a larger share of its tag set
  ublkctl del data                             by name, number or path
  ublkctl doctor                               what is missing on this machine

Exit status: 0 done, 1 failed, 2 wrong usage, 3 no daemon answers.
With -o json the answer is one JSON document on standard output, an error
{"error": {"kind": ..., "message": ...}}.
)";

inline constexpr const char* add_footer =
    R"(The path of the device is the last line on standard output; it is usable then.
Sizes are bytes, or have a unit: 512KiB, 10GiB. loop is another word for file.
A null device without --size has 250GiB.

Examples:
  ublkctl add -t null -n 0 -q 2 -d 128
  ublkctl add -t file -f /var/lib/disk.img --read-only
  ublkctl add -t file -f new.img --size 1GiB -O create=sparse
  ublkctl add -t delay -O time=1ms -O target.type=null -O target.size=1GiB
)";

inline constexpr const char* del_footer =
    R"(A device that is not there is no error: one line says so, exit status 0.

Examples:
  ublkctl del -n 0
  ublkctl del data /dev/ublkb1
  ublkctl del --all
)";

inline constexpr const char* tags_footer =
    R"(For each hardware queue and device: tags held now and at most, requests that wait,
the share in force, weight, tags taken so far, held beyond the share, time with
requests and no tag, times it came back from idle, and the median batch as
asked/got. Jain is how even the last second was for those who waited, 1 at best.

Examples:
  ublkctl tags disk --watch=0.5
  ublkctl tags -o json
)";

inline constexpr const char* tune_footer =
    R"(In force from the next requests on, until the daemon ends; the config file keeps
what it says. What is not named stays as it is. Durations as in the config: 5ms.

Examples:
  ublkctl tune tag-set disk --policy adaptive --grace 20ms
  ublkctl tune device data --weight 4
)";

// "Targets:" with a line each.
[[nodiscard]] std::string target_list(TargetTypes types);

// Option table of one target; error not_found names those there are.
[[nodiscard]] Result<std::string> target_help(std::string_view name, TargetTypes types);

}  // namespace ublkd::cli
