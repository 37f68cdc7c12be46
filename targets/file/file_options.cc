#include "targets/file/file_options.h"

#include <array>

namespace ublkd {

namespace {

constexpr std::array<std::string_view, 3> create_words{"never", "sparse", "preallocate"};
constexpr std::array<std::string_view, 3> io_words{"auto", "direct", "buffered"};

constexpr std::array<OptionSpec, 6> specs{{
    {.name = "path",
     .type = OptionType::path,
     .help = "Regular file or block device that holds the data.",
     .required = true},
    {.name = "create",
     .type = OptionType::choice,
     .help = "How a file that is not there is made, from size; one that is there is used as it is.",
     .default_text = "never",
     .choices = create_words},
    {.name = "size",
     .type = OptionType::size,
     .help = "Size of the file to create; a backing that exists must have exactly this size.",
     .min = sector_bytes,
     .max = device_bytes_max},
    {.name = "offset",
     .type = OptionType::size,
     .help = "Where the device starts in the backing; a multiple of the logical block.",
     .default_text = "0",
     .max = device_bytes_max,
     .multiple_of = sector_bytes},
    {.name = "length",
     .type = OptionType::size,
     .help = "Size of the device; to the end of the backing when not given.",
     .min = sector_bytes,
     .max = device_bytes_max},
    {.name = "io",
     .type = OptionType::choice,
     .help = "direct bypasses the page cache, buffered uses it, auto is direct where the backing can.",
     .default_text = "auto",
     .choices = io_words},
}};

// Index of word in words, 0 when it is none of them (the config reader has checked it).
template <typename E, std::size_t N>
E choice(const std::array<std::string_view, N>& words, const std::string& word) {
  for (std::size_t i = 0; i < N; ++i)
    if (words[i] == word) return static_cast<E>(i);
  return static_cast<E>(0);
}

std::optional<std::uint64_t> given(const OptionValues& values, std::string_view name) {
  if (!values.has(name)) return std::nullopt;
  return values.number(name);
}

}  // namespace

std::span<const OptionSpec> file_option_specs() {
  return specs;
}

FileOptions file_options(const OptionValues& values) {
  return {.path = values.text("path"),
          .create = choice<CreateMode>(create_words, values.text("create")),
          .size_bytes = given(values, "size"),
          .offset_bytes = values.number("offset"),
          .length_bytes = given(values, "length"),
          .io = choice<IoMode>(io_words, values.text("io"))};
}

}  // namespace ublkd
