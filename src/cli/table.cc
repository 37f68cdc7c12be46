#include "cli/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace ublkd::cli {

namespace {

struct Column {
  std::size_t width = 0;
  bool numbers = true;
};

// Characters, not bytes: names may be UTF-8.
std::size_t width_of(const std::string& cell) {
  return static_cast<std::size_t>(std::count_if(
      cell.begin(), cell.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

bool is_number(const std::string& cell) {
  return cell == "-" || (!cell.empty() && std::all_of(cell.begin(), cell.end(), [](unsigned char c) {
           return std::isdigit(c) != 0 || c == '.';
         }));
}

std::string one_decimal(double value) {
  std::string text = fmt::format("{:.1f}", value);
  if (text.ends_with(".0")) text.erase(text.size() - 2);
  return text;
}

}  // namespace

std::string Table::text() const {
  std::vector<Column> columns;
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    columns.resize(std::max(columns.size(), rows_[r].size()));
    for (std::size_t c = 0; c < rows_[r].size(); ++c) {
      columns[c].width = std::max(columns[c].width, width_of(rows_[r][c]));
      if (r > 0 && !is_number(rows_[r][c])) columns[c].numbers = false;
    }
  }
  std::string out;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string gap(columns[c].width - width_of(row[c]), ' ');
      const bool right = columns[c].numbers && rows_.size() > 1;
      line += (c == 0 ? "" : "  ") + (right ? gap + row[c] : row[c] + gap);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string human_bytes(std::uint64_t bytes) {
  constexpr std::array units{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  std::size_t unit = 0;
  auto value = static_cast<double>(bytes);
  while (value >= 1024 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  return one_decimal(value) + " " + units[unit];
}

std::string human_duration(double ns) {
  constexpr std::array units{"ns", "us", "ms", "s"};
  if (ns == 0) return "0";
  std::size_t unit = 0;
  while (ns >= 1000 && unit + 1 < units.size()) {
    ns /= 1000;
    ++unit;
  }
  return one_decimal(ns) + units[unit];
}

}  // namespace ublkd::cli
