// build_set: a tag set as the daemon builds it, on a control loop on which other work runs all the time.
#pragma once

#include <boost/asio/detached.hpp>
#include <functional>
#include <memory>

#include "control/tag_set.h"

namespace ublkd {

struct Built {
  Result<std::unique_ptr<TagSet>> set;
  std::uint64_t other_work = 0;  // turns of the control loop between begin and end
};

inline Built build_set(TagSetConfig config, TagSet::BuildOptions options) {
  asio::io_context io;
  Built built;
  bool done = false;
  std::function<void()> other = [&] {
    if (done) return;
    ++built.other_work;
    asio::post(io, other);
  };
  asio::post(io, other);
  asio::co_spawn(
      io,
      [&]() -> Task<void> {
        built.set = co_await TagSet::build(io, config, options);
        done = true;
      },
      boost::asio::detached);
  io.run();
  return built;
}

}  // namespace ublkd
