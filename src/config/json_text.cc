#include "config/json_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "config/json_cursor.h"
#include "config/text.h"

namespace ublkd {

namespace {

// Receives nlohmann's events, which carry no positions: the cursor finds them again.
class TreeBuilder {
 public:
  TreeBuilder(std::string_view text, Problems& problems) : cursor_(text), problems_(problems) {}

  [[nodiscard]] JsonNode take_root() { return std::move(root_); }

  bool null() { return scalar({.kind = JsonKind::null}); }
  bool boolean(bool flag) { return scalar({.kind = JsonKind::boolean, .flag = flag}); }
  bool number_unsigned(std::uint64_t n) { return scalar({.kind = JsonKind::whole, .number = n}); }
  bool number_float(double, const std::string& raw) {
    return scalar({.kind = JsonKind::number, .text = raw});
  }
  bool string(std::string& s) { return scalar({.kind = JsonKind::text, .text = std::move(s)}); }
  bool binary(nlohmann::json::binary_t&) { return false; }  // not in JSON text

  // Comes for negative numbers, and for "-0", which is 0.
  bool number_integer(std::int64_t n) {
    if (n == 0) return number_unsigned(0);
    return scalar({.kind = JsonKind::number, .text = std::to_string(n)});
  }

  bool start_object(std::size_t) { return open(JsonKind::object); }
  bool start_array(std::size_t) { return open(JsonKind::list); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& key);
  bool parse_error(std::size_t bytes_read, const std::string& token,
                   const nlohmann::detail::exception& error);

 private:
  struct Frame {
    JsonNode node;
    std::map<std::string, TextPosition, std::less<>> keys;  // first place of each
    std::string key;                                        // of the member being read
    TextPosition key_at;
  };

  bool scalar(JsonNode node);
  bool open(JsonKind kind);
  bool close();
  bool place(JsonNode node);
  [[nodiscard]] std::string path() const;

  JsonCursor cursor_;
  Problems& problems_;
  std::vector<Frame> frames_;
  std::size_t nodes_ = 0;
  JsonNode root_;
};

// Path of the value being read now.
std::string TreeBuilder::path() const {
  std::string out;
  for (const Frame& frame : frames_) {
    if (frame.node.kind == JsonKind::list)
      out = item_path(out, frame.node.children.size());
    else if (frame.key_at.line != 0)
      out = member_path(out, frame.key);
  }
  return out;
}

bool TreeBuilder::key(std::string& key) {
  Frame& frame = frames_.back();
  frame.key_at = cursor_.next_token();
  frame.key = std::move(key);
  const auto [first, inserted] = frame.keys.try_emplace(frame.key, frame.key_at);
  if (!inserted)
    problems_.add(frame.key_at, path(),
                  fmt::format("expected each key once, found it again: first on line {}, again on line {}; "
                              "remove one of the two",
                              first->second.line, frame.key_at.line));
  return true;
}

bool TreeBuilder::scalar(JsonNode node) {
  node.at = cursor_.next_token();
  return place(std::move(node));
}

// Hangs a finished value into the container it stands in.
bool TreeBuilder::place(JsonNode node) {
  if (++nodes_ > json_nodes_max) {
    problems_.add(node.at, path(),
                  fmt::format("expected at most {} values in one text, found more", json_nodes_max));
    return false;
  }
  if (frames_.empty()) {
    root_ = std::move(node);
    return true;
  }
  Frame& frame = frames_.back();
  frame.node.children.push_back({std::move(frame.key), frame.key_at, std::move(node)});
  frame.key_at = {};
  return true;
}

bool TreeBuilder::open(JsonKind kind) {
  Frame frame{.node = {.kind = kind, .at = cursor_.next_token()}};
  if (frames_.size() == json_depth_max) {
    problems_.add(frame.node.at, path(),
                  fmt::format("expected at most {} brackets inside each other, found more; "
                              "no config needs that depth",
                              json_depth_max));
    return false;
  }
  frames_.push_back(std::move(frame));
  return true;
}

bool TreeBuilder::close() {
  cursor_.next_token();
  JsonNode node = std::move(frames_.back().node);
  frames_.pop_back();
  return place(std::move(node));
}

bool TreeBuilder::parse_error(std::size_t bytes_read, const std::string&,
                              const nlohmann::detail::exception& error) {
  SyntaxProblem problem = cursor_.explain(bytes_read, error.what());
  if (problem.at_end && !frames_.empty()) {
    const JsonNode& open = frames_.back().node;
    problem.message += fmt::format("; the '{}' on line {} column {} is not closed",
                                   open.kind == JsonKind::list ? '[' : '{', open.at.line, open.at.column);
  }
  problems_.add(problem.at, path(), std::move(problem.message));
  return false;
}

struct Mark {
  std::string_view bytes;
  std::string_view name;
};

// Longest first: a UTF-32 mark begins like a UTF-16 one.
using namespace std::string_view_literals;
constexpr Mark foreign_marks[] = {
    {"\xff\xfe\0\0"sv, "UTF-32 (little endian)"},
    {"\0\0\xfe\xff"sv, "UTF-32 (big endian)"},
    {"\xff\xfe"sv, "UTF-16 (little endian)"},
    {"\xfe\xff"sv, "UTF-16 (big endian)"},
};
constexpr std::string_view utf8_mark = "\xef\xbb\xbf";

// Encodings, size and emptiness: what would otherwise give an error at an invisible character.
bool check_bytes(std::string_view text, Problems& problems) {
  if (text.size() > json_bytes_max) {
    problems.add({}, "", fmt::format("expected at most {} bytes, found {}", json_bytes_max, text.size()));
    return false;
  }
  for (const Mark& mark : foreign_marks) {
    if (!text.starts_with(mark.bytes)) continue;
    problems.add(
        {1, 1}, "",
        fmt::format("expected UTF-8, found a byte order mark of {}; save the file as UTF-8", mark.name));
    return false;
  }
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    problems.add(position_at(text, nul), "",
                 "expected UTF-8, found a zero byte, as in UTF-16 text; save the file as UTF-8");
    return false;
  }
  if (text.find_first_not_of(" \t\r\n") != std::string_view::npos) return true;
  problems.add({1, 1}, "", "expected an object, found an empty text; the smallest config is {}");
  return false;
}

}  // namespace

const JsonMember* JsonNode::find(std::string_view key) const {
  const auto it = std::ranges::find(children, key, &JsonMember::key);
  return it == children.end() ? nullptr : &*it;
}

std::string found_words(const JsonNode& node) {
  switch (node.kind) {
    case JsonKind::null: return "null";
    case JsonKind::boolean: return node.flag ? "true" : "false";
    case JsonKind::whole: return fmt::format("the number {}", node.number);
    case JsonKind::number: return "the number " + node.text.substr(0, 40);
    case JsonKind::text: return "the text " + in_quotes(node.text);
    case JsonKind::list: return "a list";
    case JsonKind::object: return "an object";
    case JsonKind::argument: return in_quotes(node.text);
  }
  return "?";
}

std::optional<JsonNode> parse_json_text(std::string_view text, Problems& problems) {
  if (text.starts_with(utf8_mark)) text.remove_prefix(utf8_mark.size());
  if (!check_bytes(text, problems)) return std::nullopt;
  TreeBuilder builder(text, problems);
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) return std::nullopt;
  return builder.take_root();
}

}  // namespace ublkd
