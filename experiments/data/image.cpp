#include "experiments/data/image.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include <fmt/core.h>

#include "experiments/data/codecs/image_codecs.h"
#include "framework/error.h"

namespace heddle {
namespace {

constexpr std::size_t maximum_file_bytes = std::size_t{1} << 30;
constexpr std::size_t header_bytes = 4096;

enum class Format { pnm, png, jpeg };

bool begins_with(std::span<const std::uint8_t> bytes, std::string_view magic) {
  return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

Format format_of(std::span<const std::uint8_t> bytes, std::string_view name) {
  if (bytes.empty()) fail<InputError>("image \"{}\": the file is empty", name);
  if (begins_with(bytes, "\x89PNG\r\n\x1a\n")) return Format::png;
  if (begins_with(bytes, "\xff\xd8\xff")) return Format::jpeg;
  if (bytes.size() >= 2 && bytes[0] == 'P' && std::strchr("2356", bytes[1]) != nullptr && bytes[1] != 0)
    return Format::pnm;
  std::string first;
  for (const std::uint8_t byte : bytes.first(std::min<std::size_t>(bytes.size(), 4)))
    first += fmt::format(" {:02x}", byte);
  fail<InputError>("image \"{}\": not a PGM, PPM, PNG or JPEG file (its first bytes are{})", name, first);
}

/// The first `limit` bytes of a regular file, and the size of the whole.
std::vector<std::uint8_t> read_beginning(const std::string& path, std::size_t limit, std::size_t& file_bytes) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) fail<InputError>("image \"{}\": no such file", path);
  if (error) fail<InputError>("image \"{}\": {}", path, error.message());
  // A pipe or a device would be waited for without end.
  if (!std::filesystem::is_regular_file(status)) fail<InputError>("image \"{}\": not a regular file", path);
  file_bytes = std::filesystem::file_size(path, error);
  if (error) fail<InputError>("image \"{}\": {}", path, error.message());
  if (file_bytes > maximum_file_bytes)
    fail<InputError>("image \"{}\": {} bytes; at most {} are accepted", path, file_bytes, maximum_file_bytes);

  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file) fail<InputError>("image \"{}\": {}", path, std::generic_category().message(errno));
  std::setvbuf(file.get(), nullptr, _IONBF, 0);
  std::vector<std::uint8_t> bytes(std::min(limit, file_bytes));
  const std::size_t got = std::fread(bytes.data(), 1, bytes.size(), file.get());
  if (std::ferror(file.get()) != 0) fail<InputError>("image \"{}\": cannot be read", path);
  bytes.resize(got);
  return bytes;
}

/// For each output pixel of one axis: the first input pixel, and weights that sum to 1.
struct Taps {
  int count = 0;
  std::vector<int> first;
  std::vector<float> weights;
};

Taps triangle_taps(int from, int to) {
  const double scale = static_cast<double>(from) / to;
  const double radius = std::max(1.0, scale);
  Taps taps;
  taps.count = std::min(from, static_cast<int>(2 * radius) + 2);
  taps.first.resize(static_cast<std::size_t>(to));
  taps.weights.resize(static_cast<std::size_t>(to) * static_cast<std::size_t>(taps.count));
  for (int i = 0; i < to; ++i) {
    const double center = (i + 0.5) * scale - 0.5;
    const int first = std::clamp(static_cast<int>(center - radius + 1), 0, from - taps.count);
    float* const weights = &taps.weights[static_cast<std::size_t>(i) * static_cast<std::size_t>(taps.count)];
    double sum = 0;
    for (int k = 0; k < taps.count; ++k) {
      const double weight = std::max(0.0, 1.0 - std::abs(first + k - center) / radius);
      weights[k] = static_cast<float>(weight);
      sum += weight;
    }
    for (int k = 0; k < taps.count; ++k) weights[k] = static_cast<float>(weights[k] / sum);
    taps.first[static_cast<std::size_t>(i)] = first;
  }
  return taps;
}

}  // namespace

void check_image_size(std::int64_t height, std::int64_t width, std::string_view name) {
  if (height < 1 || width < 1) fail<InputError>("image \"{}\": {} x {} pixels", name, height, width);
  if (height > maximum_image_pixels / width)
    fail<InputError>("image \"{}\": {} x {} pixels; at most {} pixels are accepted", name, height, width,
                     maximum_image_pixels);
}

Image decode_image(std::span<const std::uint8_t> bytes, std::string_view name) {
  switch (format_of(bytes, name)) {
    case Format::png:
      return decode_png(bytes, name);
    case Format::jpeg:
      return decode_jpeg(bytes, name);
    case Format::pnm:
      break;
  }
  return decode_pnm(bytes, name);
}

ImageHeader decode_image_header(std::span<const std::uint8_t> bytes, std::size_t file_bytes, std::string_view name) {
  switch (format_of(bytes, name)) {
    case Format::png:
      return png_header(bytes, name);
    case Format::jpeg:
      return jpeg_header(bytes, name);
    case Format::pnm:
      break;
  }
  return pnm_header(bytes, file_bytes, name);
}

std::vector<std::uint8_t> read_image_file(const std::string& path) {
  std::size_t file_bytes = 0;
  return read_beginning(path, maximum_file_bytes, file_bytes);
}

Image load_image(const std::string& path) {
  return decode_image(read_image_file(path), path);
}

ImageHeader load_image_header(const std::string& path) {
  std::size_t file_bytes = 0;
  const std::vector<std::uint8_t> beginning = read_beginning(path, header_bytes, file_bytes);
  try {
    return decode_image_header(beginning, file_bytes, path);
  } catch (const InputError&) {
    // A JPEG may carry a preview picture, a PNM a long comment, before its size.
    if (file_bytes <= header_bytes) throw;
  }
  return decode_image_header(read_image_file(path), file_bytes, path);
}

Image with_channels(Image image, int channels) {
  if (image.channels == channels) return image;
  Image result{.height = image.height, .width = image.width, .channels = channels, .pixels = {}};
  const std::size_t count = static_cast<std::size_t>(image.height) * static_cast<std::size_t>(image.width);
  result.pixels.resize(count * static_cast<std::size_t>(channels));
  for (std::size_t i = 0; i < count; ++i) {
    if (channels == 3) {
      std::fill_n(&result.pixels[3 * i], 3, image.pixels[i]);
    } else {
      const std::uint8_t* const rgb = &image.pixels[3 * i];
      result.pixels[i] = static_cast<std::uint8_t>((299 * rgb[0] + 587 * rgb[1] + 114 * rgb[2] + 500) / 1000);
    }
  }
  return result;
}

void resize_to_floats(const Image& image, int height, int width, std::span<float> pixels) {
  const std::size_t channels = static_cast<std::size_t>(image.channels);
  const std::size_t source_row = static_cast<std::size_t>(image.width) * channels;
  const std::size_t row = static_cast<std::size_t>(width) * channels;
  if (image.height == height && image.width == width) {
    std::transform(image.pixels.begin(), image.pixels.end(), pixels.begin(),
                   [](std::uint8_t x) { return (static_cast<float>(x) - 127.5F) / 127.5F; });
    return;
  }
  const Taps across = triangle_taps(image.width, width);
  std::vector<float> narrow(static_cast<std::size_t>(image.height) * row);
  for (std::size_t y = 0; y < static_cast<std::size_t>(image.height); ++y) {
    const std::uint8_t* const source = &image.pixels[y * source_row];
    float* const target = &narrow[y * row];
    for (std::size_t x = 0; x < static_cast<std::size_t>(width); ++x) {
      const std::uint8_t* const first = source + static_cast<std::size_t>(across.first[x]) * channels;
      const float* const weights = &across.weights[x * static_cast<std::size_t>(across.count)];
      for (std::size_t c = 0; c < channels; ++c) {
        float sum = 0;
        for (std::size_t k = 0; k < static_cast<std::size_t>(across.count); ++k)
          sum += weights[k] * static_cast<float>(first[k * channels + c]);
        target[x * channels + c] = sum;
      }
    }
  }
  const Taps down = triangle_taps(image.height, height);
  constexpr float scale = 1.0F / 127.5F;
  for (std::size_t y = 0; y < static_cast<std::size_t>(height); ++y) {
    float* const target = &pixels[y * row];
    std::fill_n(target, row, -1.0F);
    for (std::size_t k = 0; k < static_cast<std::size_t>(down.count); ++k) {
      const float weight = scale * down.weights[y * static_cast<std::size_t>(down.count) + k];
      const float* const source = &narrow[(static_cast<std::size_t>(down.first[y]) + k) * row];
      for (std::size_t i = 0; i < row; ++i) target[i] += weight * source[i];
    }
  }
}

}  // namespace heddle
