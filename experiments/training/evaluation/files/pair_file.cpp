#include "experiments/training/evaluation/files/pair_file.h"

#include <array>
#include <charconv>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "framework/description/printable.h"
#include "framework/error.h"
#include "framework/files/atomic_file.h"

namespace heddle {

namespace {

constexpr std::uint64_t longest_list = std::uint64_t{1} << 30;
constexpr std::size_t most_columns = 4;

using Columns = std::vector<std::string_view>;

/// One more than `most_columns` if there are more.
Columns columns_of(std::string_view line) {
  const std::string_view separators = line.find('\t') == std::string_view::npos ? " " : "\t";
  Columns columns;
  while (columns.size() <= most_columns) {
    const std::size_t begin = line.find_first_not_of(separators);
    if (begin == std::string_view::npos) break;
    line.remove_prefix(begin);
    const std::size_t end = std::min(line.find_first_of(separators), line.size());
    columns.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
  return columns;
}

/// A number from 1 on, without sign or anything after it.
std::optional<std::int64_t> count_in(std::string_view text) {
  constexpr std::int64_t most = 1'000'000'000;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > most) return {};
  return value;
}

/// Pairs of each kind in every set of LFW's header; 0 without a header.
struct Announced {
  std::int64_t sets = 1;
  std::int64_t of_each_kind = 0;
};

class PairReader {
 public:
  explicit PairReader(const std::filesystem::path& path) : path_(path), text_(read_file(path, longest_list)) {}

  PairFile read() {
    std::string_view rest = text_;
    if (rest.starts_with("\xEF\xBB\xBF")) rest.remove_prefix(3);  // a byte order mark
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      std::string_view line = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      ++line_;
      if (line.ends_with('\r')) line.remove_suffix(1);
      read_line(line);
    }
    check_counts();
    return std::move(file_);
  }

 private:
  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail<InputError>("{}: line {}: {}", path_.string(), line_, fmt::format(format, std::forward<Args>(args)...));
  }

  void read_line(std::string_view line) {
    const Columns columns = columns_of(line);
    if (columns.empty()) return;
    if (line.find('\0') != std::string_view::npos) refuse("has a byte 0, so this is not a text");
    if (!has_begun_) {
      has_begun_ = true;
      if (take_header(columns)) return;
      is_lfw_ = columns.size() == 4 || (columns.size() == 3 && count_in(columns[1]));
    }
    is_lfw_ ? add_of_lfw(line, columns) : add_of_files(line, columns);
    file_.pairs.back().line = line_;
  }

  bool take_header(const Columns& columns) {
    if (columns.size() > 2) return false;
    std::array<std::int64_t, 2> numbers{1, 0};
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const std::optional<std::int64_t> number = count_in(columns[i]);
      if (!number) refuse("expected a pair, or how many there are, got {}", in_quotes(columns[i]));
      numbers[2 - columns.size() + i] = *number;
    }
    announced_ = {.sets = numbers[0], .of_each_kind = numbers[1]};
    is_lfw_ = true;
    return true;
  }

  std::string photograph(std::string_view person, std::string_view number) const {
    const std::optional<std::int64_t> value = count_in(number);
    if (!value) refuse("expected the number of a photograph of {}, got {}", shortened(person), in_quotes(number));
    return fmt::format("{0}/{0}_{1:04}", person, *value);
  }

  void add_of_lfw(std::string_view line, const Columns& columns) {
    if (columns.size() != 3 && columns.size() != 4)
      refuse("expected \"name i j\" or \"name i name j\", got {}", in_quotes(line));
    const bool same = columns.size() == 3;
    file_.pairs.push_back({.first = photograph(columns[0], columns[1]),
                           .second = photograph(columns[same ? 0 : 2], columns.back()),
                           .same = same});
  }

  void add_of_files(std::string_view line, const Columns& columns) {
    if (columns.size() != 3) refuse("expected \"file file 1\" or \"file file 0\", got {}", in_quotes(line));
    if (columns[2] != "0" && columns[2] != "1")
      refuse("expected 1 for one person or 0 for two, got {}", in_quotes(columns[2]));
    file_.pairs.push_back(
        {.first = std::string(columns[0]), .second = std::string(columns[1]), .same = columns[2] == "1"});
  }

  /// Each set has its pairs of one person and its pairs of two, in this order.
  void check_counts() {
    file_.lacks_endings = is_lfw_;
    const auto pairs = static_cast<std::int64_t>(file_.pairs.size());
    if (pairs == 0) fail<InputError>("{}: there are no pairs in it", path_.string());
    const std::int64_t of_each = announced_.of_each_kind;
    if (of_each == 0) return;
    if (pairs / 2 / of_each != announced_.sets || pairs % (2 * of_each) != 0)
      fail<InputError>("{}: line 1: announces {} x 2 x {} pairs, there are {}", path_.string(), announced_.sets,
                       of_each, pairs);
    for (std::int64_t i = 0; i < pairs; ++i) {
      const NamedPair& pair = file_.pairs[static_cast<std::size_t>(i)];
      const bool is_expected_same = i % (2 * of_each) < of_each;
      line_ = pair.line;
      if (pair.same != is_expected_same)
        refuse("expected a pair of {}: line 1 announces sets of {} pairs of one person, then as many of two",
               is_expected_same ? "one person" : "two", of_each);
    }
  }

  const std::filesystem::path& path_;
  std::string text_;
  PairFile file_;
  Announced announced_;
  std::int64_t line_ = 0;
  bool has_begun_ = false;
  bool is_lfw_ = false;
};

/// The file of an image; empty if there is none.
std::string file_of(const std::filesystem::path& folder, const std::string& name, bool lacks_ending) {
  static constexpr std::array<const char*, 3> endings{".jpg", ".jpeg", ".png"};
  std::error_code ignored;  // then it is no file
  const std::string path = (folder / name).string();
  if (!lacks_ending) return std::filesystem::is_regular_file(path, ignored) ? path : "";
  for (const char* const ending : endings)
    if (std::filesystem::is_regular_file(path + ending, ignored)) return path + ending;
  return "";
}

}  // namespace

PairFile read_pair_file(const std::filesystem::path& path) {
  return PairReader(path).read();
}

PairedImages find_paired_images(const std::filesystem::path& list, const std::filesystem::path& folder) {
  const PairFile file = read_pair_file(list);
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) fail<InputError>("{}: there is no such folder", folder.string());
  PairedImages images;
  std::unordered_map<std::string, std::int64_t> known;
  const auto number_of = [&](const NamedPair& pair, const std::string& name) {
    const auto [found, is_new] = known.try_emplace(name, static_cast<std::int64_t>(images.files.size()));
    if (!is_new) return found->second;
    std::string path = file_of(folder, name, file.lacks_endings);
    if (path.empty())
      fail<InputError>("{}: line {}: the pair of {} and {}: there is no file {}{}", list.string(), pair.line,
                       shortened(pair.first, 200), shortened(pair.second, 200), printable((folder / name).string()),
                       file.lacks_endings ? ".jpg, .jpeg or .png" : "");
    images.files.push_back(std::move(path));
    return found->second;
  };
  for (const NamedPair& pair : file.pairs) {
    const std::int64_t first = number_of(pair, pair.first);
    images.pairs.push_back({.first = first, .second = number_of(pair, pair.second), .same = pair.same});
  }
  return images;
}

}  // namespace heddle
