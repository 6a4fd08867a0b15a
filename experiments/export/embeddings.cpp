#include "experiments/export/embeddings.h"

#include <algorithm>
#include <cmath>

#include "experiments/data/files/folder_people.h"
#include "experiments/data/files/natural_order.h"
#include "experiments/export/npy.h"
#include "experiments/export/parquet.h"
#include "experiments/training/evaluation/embed.h"
#include "experiments/training/ranks/job_agreement.h"
#include "framework/description/printable.h"
#include "framework/description/text.h"

namespace heddle {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t images_at_a_time = 8192;

std::vector<std::string> images_below(const fs::path& folder) {
  std::vector<std::string> files;
  try {
    constexpr auto options = fs::directory_options::follow_directory_symlink;  // a cycle of links is an error
    for (auto entry = fs::recursive_directory_iterator(folder, options); entry != fs::recursive_directory_iterator();
         ++entry) {
      const std::string name = entry->path().filename().string();
      const bool is_skipped = is_skipped_name(name);
      if (entry->is_directory()) {
        if (is_skipped) entry.disable_recursion_pending();
      } else if (!is_skipped && is_image_name(name)) {
        files.push_back(entry->path().string());
      }
    }
  } catch (const fs::filesystem_error& error) {
    fail<InputError>("{}: cannot be read: {}", folder.string(), error.code().message());
  }
  if (files.empty()) fail<InputError>("{}: has no images", folder.string());
  std::sort(files.begin(), files.end(), natural_less);
  return files;
}

class NpyFile final : public EmbeddingsFile {
 public:
  NpyFile(const fs::path& path, const std::vector<std::string>& images, std::int64_t dimension)
      : file_(path, static_cast<std::int64_t>(images.size()), dimension), names_(names_beside(path)) {
    for (const std::string& image : images) names_.write(escaped_line(image) + "\n");
  }
  void append(std::span<const float> embeddings) override { file_.append(embeddings); }
  void commit() override {
    file_.finish();
    names_.finish();
    names_.commit();
    file_.commit();
  }

 private:
  NpyWriter file_;
  AtomicFile names_;
};

/// The paths of images, one after the other, in UTF-8, which readers of tables ask for.
class ImagePaths {
 public:
  explicit ImagePaths(std::vector<std::string> paths) : paths_(std::move(paths)) {}
  std::string next() { return valid_utf8(paths_.at(next_++)); }
  /// Error unless there was an embedding for each.
  void check_end(const fs::path& file) const {
    if (next_ != paths_.size()) fail("{}: {} embeddings are missing", file.string(), paths_.size() - next_);
  }

 private:
  std::vector<std::string> paths_;
  std::size_t next_ = 0;
};

class ParquetFile final : public EmbeddingsFile {
 public:
  ParquetFile(const fs::path& path, std::vector<std::string> images, std::int64_t dimension)
      : path_(path),
        file_(path, {.text = "image", .vector = "embedding", .dimension = dimension}),
        images_(std::move(images)),
        dimension_(static_cast<std::size_t>(dimension)) {}
  void append(std::span<const float> embeddings) override {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < embeddings.size() / dimension_; ++i) names.push_back(images_.next());
    file_.append(names, embeddings);
  }
  void commit() override {
    images_.check_end(path_);
    file_.finish();
    file_.commit();
  }

 private:
  fs::path path_;
  ParquetWriter file_;
  ImagePaths images_;
  std::size_t dimension_;
};

class CsvFile final : public EmbeddingsFile {
 public:
  CsvFile(const fs::path& path, std::vector<std::string> images, std::int64_t dimension)
      : file_(path), images_(std::move(images)), dimension_(static_cast<std::size_t>(dimension)) {
    std::string line = "image";
    for (std::int64_t i = 0; i < dimension; ++i) line += fmt::format(",e{}", i);
    file_.write(line + "\n");
  }
  void append(std::span<const float> embeddings) override {
    for (; !embeddings.empty(); embeddings = embeddings.subspan(dimension_)) {
      std::string line = csv_field(images_.next());
      for (const float x : embeddings.first(dimension_)) line += fmt::format(",{}", x);
      file_.write(line + "\n");
    }
  }
  void commit() override {
    images_.check_end(file_.target());
    file_.commit();
  }

 private:
  AtomicFile file_;
  ImagePaths images_;
  std::size_t dimension_;
};

void normalize_rows(std::span<float> rows, std::size_t dimension) {
  for (; !rows.empty(); rows = rows.subspan(dimension)) {
    double square = 0;
    for (const float x : rows.first(dimension)) square += static_cast<double>(x) * x;
    const double length = std::max(std::sqrt(square), 1e-12);
    for (float& x : rows.first(dimension)) x = static_cast<float>(x / length);
  }
}

}  // namespace

fs::path names_beside(fs::path npy) {
  return npy.replace_extension(".txt");
}

std::vector<std::string> find_images(const std::vector<fs::path>& paths) {
  std::vector<std::string> files;
  for (const fs::path& path : paths) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (fs::is_directory(status)) {
      for (std::string& file : images_below(path)) files.push_back(std::move(file));
    } else if (fs::exists(status)) {
      files.push_back(path.string());
    } else {
      fail<InputError>("{}: does not exist", path.string());
    }
  }
  return files;
}

std::unique_ptr<EmbeddingsFile> open_embeddings(const fs::path& path, const std::vector<std::string>& images,
                                                std::int64_t dimension) {
  if (path.extension() == ".npy") return std::make_unique<NpyFile>(path, images, dimension);
  if (path.extension() == ".parquet") return std::make_unique<ParquetFile>(path, images, dimension);
  if (path.extension() == ".csv") return std::make_unique<CsvFile>(path, images, dimension);
  fail<InputError>("{}: expected a file that ends in .npy, .parquet or .csv", path.string());
}

void embed_files(const CheckpointModel& model, const std::vector<std::string>& files, bool normalizes, Job* job,
                 const std::function<void(std::span<const float>)>& use) {
  ImageSource all;
  together(job, [&] { all = images_of_files(files, preprocessing_of(model.experiment().data)); });
  model.on_ranks(job, [&](Trainer& trainer) {
    for (std::int64_t begin = 0; begin < all.size; begin += images_at_a_time) {
      const ImageSource some{.size = std::min(images_at_a_time, all.size - begin),
                             .read = [&](std::int64_t i, std::span<float> pixels) { all.read(begin + i, pixels); }};
      std::vector<float> embeddings = embed_images(model.experiment().evaluation, some, trainer);
      if (trainer.has_broken_image()) trainer.end_at_broken_image();
      if (trainer.rank().index != 0) continue;
      if (normalizes) normalize_rows(embeddings, static_cast<std::size_t>(embedding_size(model.model())));
      use(embeddings);
    }
  });
}

}  // namespace heddle
