// mq_micro: what the tag pools cost. `./dev bench --micro` runs it and prints the tables.
#include <benchmark/benchmark.h>

#include "suites.h"

int main(int argc, char** argv) {
  ublkd::bench::register_take_put();
  ublkd::bench::register_retry();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
