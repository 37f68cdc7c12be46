// Table: rows of cells as aligned text. And numbers as people read them. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ublkd::cli {

class Table {
 public:
  // Cells of one row; the first row added is the head, when there is one.
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  [[nodiscard]] bool empty() const { return rows_.empty(); }

  // Columns two spaces apart; columns of numbers are aligned right; no blanks at line ends.
  [[nodiscard]] std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// "1 GiB", "1.5 MiB", "512 B": rounded to one decimal.
[[nodiscard]] std::string human_bytes(std::uint64_t bytes);

// "5ms", "1.5s", "0": as in a config, rounded to one decimal.
[[nodiscard]] std::string human_duration(double ns);

}  // namespace ublkd::cli
