#include "experiments/training/evaluation/files/pair_file.h"

#include <array>
#include <optional>
#include <string_view>

#include "experiments/training/evaluation/files/column_reader.h"
#include "experiments/training/evaluation/files/image_files.h"
#include "framework/description/printable.h"
#include "framework/error.h"

namespace heddle {

namespace {

using Columns = std::vector<std::string_view>;

/// Reads a number of at least 1; empty if the text is not one.
std::optional<std::int64_t> count_in(std::string_view text) {
  const std::optional<std::int64_t> number = decimal(text);
  return number == 0 ? std::nullopt : number;
}

/// The numbers in LFW's header.
struct Announced {
  std::int64_t sets = 1;
  std::int64_t of_each_kind = 0;  // pairs of one person, and as many of two, in every set
};

class PairReader {
 public:
  explicit PairReader(const std::filesystem::path& path) : list_(path) {}

  PairFile read() {
    while (list_.next()) read_line(list_.columns());
    check_counts();
    return std::move(file_);
  }

 private:
  void read_line(const Columns& columns) {
    if (!has_begun_) {
      has_begun_ = true;
      if (take_header(columns)) return;
      is_lfw_ = columns.size() == 4 || (columns.size() == 3 && count_in(columns[1]));
    }
    is_lfw_ ? add_of_lfw(columns) : add_of_files(columns);
    file_.pairs.back().line = list_.number();
  }

  bool take_header(const Columns& columns) {
    if (columns.size() > 2) return false;
    std::array<std::int64_t, 2> numbers{1, 0};
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const std::optional<std::int64_t> number = count_in(columns[i]);
      if (!number) list_.refuse("expected a pair or the number of pairs, got {}", in_quotes(columns[i]));
      numbers[2 - columns.size() + i] = *number;
    }
    announced_ = Announced{.sets = numbers[0], .of_each_kind = numbers[1]};
    is_lfw_ = true;
    return true;
  }

  std::string photograph(std::string_view person, std::string_view number) const {
    const std::optional<std::int64_t> value = count_in(number);
    if (!value) list_.refuse("expected the number of a photograph of {}, got {}", shortened(person), in_quotes(number));
    return fmt::format("{0}/{0}_{1:04}", person, *value);
  }

  void add_of_lfw(const Columns& columns) {
    if (columns.size() != 3 && columns.size() != 4)
      list_.refuse("expected \"name i j\" or \"name i name j\", got {}", in_quotes(list_.line()));
    const bool same = columns.size() == 3;
    if (!same && columns[0] == columns[2])
      list_.refuse("expected the names of two people, or \"name i j\", got {}", in_quotes(list_.line()));
    file_.pairs.push_back({.first = photograph(columns[0], columns[1]),
                           .second = photograph(columns[same ? 0 : 2], columns.back()),
                           .same = same});
  }

  void add_of_files(const Columns& columns) {
    if (columns.size() != 3)
      list_.refuse("expected \"file file 1\" or \"file file 0\", got {}", in_quotes(list_.line()));
    if (columns[2] != "0" && columns[2] != "1")
      list_.refuse("expected 1 for one person or 0 for two, got {}", in_quotes(columns[2]));
    file_.pairs.push_back(
        {.first = std::string(columns[0]), .second = std::string(columns[1]), .same = columns[2] == "1"});
  }

  /// InputError unless there are as many pairs as announced, and each set has its pairs of one person before those of
  /// two.
  void check_counts() {
    file_.lacks_endings = is_lfw_;
    const auto pairs = static_cast<std::int64_t>(file_.pairs.size());
    if (pairs == 0) fail<InputError>("{}: there are no pairs in it", list_.path().string());
    if (!announced_) return;
    const std::int64_t of_each = announced_->of_each_kind;
    if (pairs / 2 / of_each != announced_->sets || pairs % (2 * of_each) != 0)
      fail<InputError>("{}: line 1: announces {} x 2 x {} pairs, but there are {}", list_.path().string(),
                       announced_->sets, of_each, pairs);
    for (std::int64_t i = 0; i < pairs; ++i) {
      const NamedPair& pair = file_.pairs[static_cast<std::size_t>(i)];
      const bool is_expected_same = i % (2 * of_each) < of_each;
      if (pair.same != is_expected_same)
        list_.refuse_line(
            pair.line,
            fmt::format("expected a pair of {}: line 1 announces sets of {} pairs of one person, then as many of two",
                        is_expected_same ? "one person" : "two", of_each));
    }
  }

  ColumnReader list_;
  PairFile file_;
  std::optional<Announced> announced_;  // none without a header
  bool has_begun_ = false;
  bool is_lfw_ = false;
};

}  // namespace

PairFile read_pair_file(const std::filesystem::path& path) {
  return PairReader(path).read();
}

PairedImages find_paired_images(const std::filesystem::path& list, const std::filesystem::path& folder) {
  const PairFile file = read_pair_file(list);
  ImageFiles files(folder, file.lacks_endings);
  PairedImages images;
  for (const NamedPair& pair : file.pairs) {
    const auto number_of = [&](const std::string& name) {
      const std::optional<std::int64_t> number = files.number_of(name);
      if (!number)
        fail<InputError>("{}: line {}: the pair of {} and {}: there is no file {}", list.string(), pair.line,
                         shortened(pair.first, 200), shortened(pair.second, 200), files.path_of(name));
      return *number;
    };
    const std::int64_t first = number_of(pair.first);
    images.pairs.push_back({.first = first, .second = number_of(pair.second), .same = pair.same});
  }
  images.files = files.take();
  return images;
}

}  // namespace heddle
