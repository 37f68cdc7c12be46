#include <cstdio>
#include <cstdlib>

#include "ublkd/queue_port.h"

namespace ublkd {

// stderr directly: the logger may be what is broken.
void check_failed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "<2>ublkd: internal check failed: %s (%s:%d)\n", expression, file, line);
  std::abort();
}

}  // namespace ublkd
