// JsonCursor: walks over JSON text in step with a parser's events and says where each token stands,
// and turns a parser's complaint into place, expectation and advice.
//
// Thread rule: one thread. Does not own the text.
// Rule: the parser has checked the text up to the event, so between two events there is only white
//   space, ',' and ':'; each event is exactly one token.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "config/problems.h"

namespace ublkd {

[[nodiscard]] TextPosition position_at(std::string_view text, std::size_t offset_bytes);

struct SyntaxProblem {
  TextPosition at;
  std::string message;
  bool at_end = false;  // the text ended too early
};

class JsonCursor {
 public:
  explicit JsonCursor(std::string_view text) : text_(text) {}

  // Goes over the next token and returns where it begins.
  TextPosition next_token();

  // bytes_read: how many bytes the parser had read, the bad one included; one more than the text
  // has when it met the end. complaint: nlohmann's message.
  [[nodiscard]] SyntaxProblem explain(std::size_t bytes_read, std::string_view complaint) const;

 private:
  void step();
  void skip_separators(std::size_t end);
  [[nodiscard]] std::size_t problem_offset(std::size_t bytes_read, std::string_view complaint) const;

  std::string_view text_;
  std::size_t offset_ = 0;
  std::size_t token_offset_ = 0;  // of the last token
  TextPosition position_{1, 1};
};

}  // namespace ublkd
