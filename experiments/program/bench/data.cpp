// Reading of training images: how many JPEGs a second become what a network takes, beside libjpeg-turbo's own loop over
// the same bytes in memory, which only decodes them. Both run in turn, so that they see the machine at the same speed.
#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include <fmt/format.h>
#include <turbojpeg.h>

#include "experiments/data/codecs/image_codecs.h"
#include "experiments/data/encoded_images.h"
#include "experiments/data/synthetic/synthetic_identities.h"
#include "experiments/program/bench/bench.h"
#include "framework/error.h"

namespace heddle {

namespace {

namespace fs = std::filesystem;
using Jpegs = std::vector<std::vector<std::uint8_t>>;

/// JPEGs in memory as a data set: what is left of a file's reading is its decoding.
class JpegsInMemory final : public EncodedImages {
 public:
  JpegsInMemory(const Jpegs& jpegs, Preprocessing preprocessing)
      : EncodedImages(std::move(preprocessing), OnBroken::stop), jpegs_(jpegs) {}

  std::int64_t classes() const override { return 1; }
  std::int64_t size(Split split) const override {
    return split == Split::train ? static_cast<std::int64_t>(jpegs_.size()) : 0;
  }
  std::int64_t label(Split /*split*/, std::int64_t /*index*/) const override { return 0; }
  std::string sample_name(Split /*split*/, std::int64_t index) const override { return fmt::format("{}", index); }
  std::span<const std::uint8_t> encoded(Split /*split*/, std::int64_t index,
                                        std::vector<std::uint8_t>& /*buffer*/) const override {
    return jpegs_[static_cast<std::size_t>(index)];
  }

 private:
  const Jpegs& jpegs_;
};

/// Faces of 112 x 112, as data sets for training have them.
Jpegs drawn_jpegs() {
  constexpr int images = 512;
  constexpr int quality = 95;
  constexpr ImageShape shape{.channels = 3, .height = 112, .width = 112};
  const auto faces = open_data(SyntheticIdentitiesConfig{.identities = images / 2,
                                                         .image = {shape.channels, shape.height, shape.width},
                                                         .train_per_identity = 2,
                                                         .test_per_identity = 1},
                               Preprocessing(shape), RandomKey{1});
  Jpegs jpegs;
  std::vector<float> pixels(static_cast<std::size_t>(shape.size()));
  for (std::int64_t i = 0; i < images; ++i) {
    faces->read(Split::train, i, pixels);
    Image image{.height = 112, .width = 112, .channels = 3, .pixels = {}};
    for (const float x : pixels)
      image.pixels.push_back(static_cast<std::uint8_t>(std::clamp(x * 127.5F + 128.0F, 0.0F, 255.0F)));
    jpegs.push_back(encode_jpeg(image, quality));
  }
  return jpegs;
}

Jpegs jpegs_of_folder(const std::string& folder) {
  constexpr std::size_t most = 1000;
  std::error_code error;
  std::vector<std::string> files;
  for (fs::recursive_directory_iterator at(folder, error); !error && at != fs::end(at); at.increment(error))
    if (at->path().extension() == ".jpg" || at->path().extension() == ".jpeg") files.push_back(at->path());
  if (error) fail<InputError>("--images \"{}\": {}", folder, error.message());
  if (files.empty()) fail<InputError>("--images \"{}\": expected files NAME.jpg or NAME.jpeg, found none", folder);
  std::sort(files.begin(), files.end());
  if (files.size() > most) files.resize(most);
  Jpegs jpegs;
  for (const std::string& file : files) jpegs.push_back(read_image_file(file));
  return jpegs;
}

/// What a thread of libjpeg-turbo's own loop has.
class PlainDecoder {
 public:
  void decode(std::span<const std::uint8_t> jpeg) {
    int width = 0;
    int height = 0;
    int subsampling = 0;
    int colours = 0;
    bool is_decoded =
        tjDecompressHeader3(decoder_.get(), jpeg.data(), jpeg.size(), &width, &height, &subsampling, &colours) == 0;
    pixels_.resize(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3);
    is_decoded = is_decoded && tjDecompress2(decoder_.get(), jpeg.data(), jpeg.size(), pixels_.data(), width, 0, height,
                                             TJPF_RGB, 0) == 0;
    if (!is_decoded) fail<InputError>("libjpeg-turbo: {}", tjGetErrorStr2(decoder_.get()));
  }

 private:
  std::unique_ptr<void, int (*)(void*)> decoder_{tjInitDecompress(), &tjDestroy};
  std::vector<std::uint8_t> pixels_;
};

/// A way to read one image, with what the calling thread needs for it.
using Reader = std::function<void(std::int64_t image)>;
using MakeReader = std::function<Reader()>;

/// What reading an image threw is thrown again.
double seconds_to_read(std::int64_t images, int threads, const MakeReader& make_reader) {
  const auto begin = std::chrono::steady_clock::now();
  std::mutex lock;
  std::exception_ptr error;
  {
    std::vector<std::jthread> team;
    for (int t = 0; t < threads; ++t)
      team.emplace_back([&, t] {
        try {
          const Reader read = make_reader();
          for (std::int64_t i = t; i < images; i += threads) read(i);
        } catch (...) {
          const std::scoped_lock guard(lock);
          error = std::current_exception();
        }
      });
  }
  if (error) std::rethrow_exception(error);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// The images, and what they become.
struct Reading {
  std::string name;
  Jpegs jpegs;
  Preprocessing preprocessing;
};

MakeReader decode_only(const Jpegs& jpegs) {
  return [&jpegs]() -> Reader {
    const auto decoder = std::make_shared<PlainDecoder>();
    return [&jpegs, decoder](std::int64_t i) { decoder->decode(jpegs[static_cast<std::size_t>(i)]); };
  };
}

MakeReader read_from(const JpegsInMemory& dataset, const AugmentationConfig& augmentation) {
  return [&dataset, augmentation]() -> Reader {
    const auto pixels = std::make_shared<std::vector<float>>(static_cast<std::size_t>(dataset.image().size()));
    return [&dataset, augmentation, pixels](std::int64_t i) {
      read_training_image(dataset, {.index = i, .step = 0, .position = i}, {&augmentation, 1}, RandomKey{1}, *pixels);
    };
  };
}

/// Reads each image once, so that one that cannot be read is reported before anything is measured.
void check_readable(const Reading& reading) {
  const JpegsInMemory dataset(reading.jpegs, reading.preprocessing);
  const auto images = static_cast<std::int64_t>(reading.jpegs.size());
  (void)seconds_to_read(images, 1, decode_only(reading.jpegs));
  (void)seconds_to_read(images, 1, read_from(dataset, {.flip = 0}));
}

/// The ways are measured in turn, and the shortest time of each counts.
void measure_reading(const Reading& reading, int threads, BenchRows& rows) {
  const JpegsInMemory dataset(reading.jpegs, reading.preprocessing);
  const auto images = static_cast<std::int64_t>(reading.jpegs.size());
  const AugmentationConfig augmentation{.flip = 0.5, .shift = 4, .brightness = 0.2, .contrast = 0.2};
  const std::array<std::pair<const char*, MakeReader>, 3> ways{{{"libjpeg-turbo alone", decode_only(reading.jpegs)},
                                                                {"read", read_from(dataset, {.flip = 0})},
                                                                {"read, augment", read_from(dataset, augmentation)}}};
  constexpr int rounds = 7;
  std::array<double, ways.size()> shortest{};
  shortest.fill(1e300);
  for (int round = 0; round < rounds; ++round)
    for (std::size_t i = 0; i < ways.size(); ++i)
      shortest[i] = std::min(shortest[i], seconds_to_read(images, threads, ways[i].second));
  for (std::size_t i = 0; i < ways.size(); ++i) {
    BenchRow row{
        .name = fmt::format("{}, {} thread{}: {}", reading.name, threads, threads == 1 ? "" : "s", ways[i].first),
        .value = static_cast<double>(images) / shortest[i],
        .unit = "images/s"};
    if (i > 0) row.limit = static_cast<double>(images) / shortest[0];
    rows.add(row);
  }
}

}  // namespace

std::vector<BenchRow> bench_data(const BenchSettings& settings) {
  BenchRows rows(settings);
  const BenchPhotographs& photographs = settings.photographs;
  std::vector<Reading> readings;
  if (!photographs.folder.empty()) {
    readings.push_back(
        {.name =
             fmt::format("{}, {} to {}", fs::path(photographs.folder).filename().string(),
                         photographs.crop == 0 ? "all" : fmt::format("crop {}", photographs.crop), photographs.size),
         .jpegs = jpegs_of_folder(photographs.folder),
         .preprocessing = Preprocessing({.channels = 3, .height = photographs.size, .width = photographs.size},
                                        {.crop = photographs.crop})});
    check_readable(readings.back());
  }
  readings.insert(readings.begin(), {.name = "JPEG 112 x 112",
                                     .jpegs = drawn_jpegs(),
                                     .preprocessing = Preprocessing({.channels = 3, .height = 112, .width = 112})});
  for (const Reading& reading : readings)
    for (int threads = 1; threads <= settings.threads; threads += std::max(1, settings.threads - 1))
      measure_reading(reading, threads, rows);
  return rows.take();
}

}  // namespace heddle
