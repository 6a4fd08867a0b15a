#include "experiments/face_search/searched_images.h"

#include <algorithm>
#include <cmath>

#include "experiments/data/files/text_lines.h"
#include "experiments/data/parallel_for.h"
#include "experiments/export/embeddings.h"
#include "framework/description/printable.h"
#include "framework/description/text.h"
#include "framework/error.h"

namespace heddle {

namespace {

namespace fs = std::filesystem;

NameList read_names(const fs::path& path, const NpyReader& embeddings) {
  std::error_code error;
  if (!fs::exists(path, error))
    fail<InputError>("{}: does not exist: expected the names of the {} of {}, one per line", path.string(),
                     counted(embeddings.rows(), "row", "rows"), embeddings.path().string());
  NameList names;
  for (TextLines lines(path); lines.next();) names.add(unescaped_line(lines.line()));
  if (names.size() != embeddings.rows())
    fail<InputError>("{}: has {}, but {} has {}", path.string(), counted(names.size(), "line", "lines"),
                     embeddings.path().string(), counted(embeddings.rows(), "row", "rows"));
  return names;
}

/// The length of the folder that all names have in common, its last slash included.
std::size_t common_folder(const NameList& names) {
  const auto folder_of = [](std::string_view name) {
    const std::size_t slash = name.rfind('/');
    return name.substr(0, slash == std::string_view::npos ? 0 : slash + 1);
  };
  std::string_view common = folder_of(names[0]);
  for (std::int64_t i = 1; i < names.size(); ++i)
    while (!names[i].starts_with(common)) common = folder_of(common.substr(0, common.size() - 1));
  return common.size();
}

}  // namespace

SearchedImages open_searched_images(const fs::path& path, std::int64_t dimension) {
  SearchedImages images{.path = path.string(), .names = {}, .files = {}};
  if (path.extension() == ".npy") {
    images.embeddings.emplace(path);
    if (images.embeddings->columns() != dimension)
      fail<InputError>("{}: has embeddings of {} features, but the checkpoint's model gives {}", images.path,
                       images.embeddings->columns(), dimension);
    images.names = read_names(names_beside(path), *images.embeddings);
    images.folder_size = common_folder(images.names);
    return images;
  }
  images.files = find_images({path});
  for (const std::string& file : images.files) images.names.add(file);
  std::error_code error;
  images.folder_size = fs::is_directory(path, error) ? (path / "").string().size() : common_folder(images.names);
  return images;
}

void check_embeddings(const SearchedImages& images, std::span<const float> rows, std::int64_t dimension,
                      const std::function<std::int64_t(std::int64_t)>& image_of) {
  const auto size = static_cast<std::size_t>(dimension);
  parallel_for(static_cast<std::int64_t>(rows.size() / size), [&](std::int64_t i) {
    double square = 0;
    for (const float x : rows.subspan(static_cast<std::size_t>(i) * size, size)) square += static_cast<double>(x) * x;
    if (std::isfinite(square) && square > 0) return;
    const std::string_view what = square == 0 ? "is 0" : "has a number that is not finite";
    const std::int64_t image = image_of(i);
    const std::string name = in_quotes(images.names[image]);
    if (images.embeddings) fail<InputError>("{}: row {}, {}: the embedding {}", images.path, image, name, what);
    fail<InputError>("image {}: the embedding {}", name, what);
  });
}

void read_embeddings(const SearchedImages& images, const std::function<std::int64_t(std::int64_t)>& image_of,
                     const std::function<void(std::span<const float>)>& use) {
  constexpr std::int64_t rows_at_a_time = 8192;
  const NpyReader& file = images.embeddings.value();
  const auto columns = static_cast<std::size_t>(file.columns());
  std::vector<float> values;
  for (std::int64_t begin = 0; begin < file.rows(); begin += rows_at_a_time) {
    const std::int64_t count = std::min(rows_at_a_time, file.rows() - begin);
    values.resize(static_cast<std::size_t>(count) * columns);
    if (!image_of) file.read(begin, values);
    for (std::int64_t i = 0; image_of && i < count; ++i)
      file.read(image_of(begin + i), std::span(values).subspan(static_cast<std::size_t>(i) * columns, columns));
    use(values);
  }
}

}  // namespace heddle
