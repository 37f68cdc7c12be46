// ApiClient: one connection to a daemon's local API, used from the command line.
//
// Thread rule: one thread; calls block, each at most for its timeout.
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>

#include "base/fd.h"
#include "ublkd/result.h"

namespace ublkd::api {

class ApiClient {
 public:
  // Error not_found when no daemon answers there, permission when we may not connect.
  [[nodiscard]] static Result<ApiClient> connect(const std::string& path);

  // The daemon's result or error; error timeout when the reply does not come in time: the daemon
  // may still be at work then. After an error of the connection itself the client is of no use.
  [[nodiscard]] Result<nlohmann::json> call(const std::string& verb, const nlohmann::json& args,
                                            std::chrono::milliseconds time_max);

 private:
  ApiClient(Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  Fd fd_;
  std::string path_;
  std::string input_;  // bytes after the last reply
};

}  // namespace ublkd::api
