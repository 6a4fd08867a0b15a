// Part of a JPEG through libjpeg: the rows above it are read without being transformed, those below it are not read at
// all, and of the columns beside it only the nearest blocks are transformed.
#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <string>

#include <jpeglib.h>

#include "experiments/data/codecs/image_codecs.h"
#include "framework/error.h"

namespace heddle {
namespace {

/// libjpeg calls back with what is wrong, and must not go on.
struct JpegErrors {
  jpeg_error_mgr manager{};
  std::jmp_buf jump{};
  std::array<char, JMSG_LENGTH_MAX> text{};
};

[[noreturn]] void leave(j_common_ptr jpeg) {
  auto* const errors = reinterpret_cast<JpegErrors*>(jpeg->err);
  errors->manager.format_message(jpeg, errors->text.data());
  std::longjmp(errors->jump, 1);
}

/// A warning is an error, as in decode_jpeg; levels from 0 on are remarks.
void leave_on_warning(j_common_ptr jpeg, int level) {
  if (level < 0) leave(jpeg);
}

enum class PartOutcome { decoded, only_whole, broken };

/// No object with a destructor may live here: an error leaves the function by a jump.
PartOutcome decode_rows(jpeg_decompress_struct& jpeg, JpegErrors& errors, std::span<const std::uint8_t> bytes,
                        const PixelRange& rows, const PixelRange& columns, Image& image) {
  // Colours have half the resolution, and those of neighbours count: one more block on each side.
  constexpr int margin = 16;
  if (setjmp(errors.jump) != 0) return PartOutcome::broken;
  jpeg_create_decompress(&jpeg);
  jpeg_mem_src(&jpeg, bytes.data(), bytes.size());
  (void)jpeg_read_header(&jpeg, TRUE);
  if (jpeg_has_multiple_scans(&jpeg) != FALSE) return PartOutcome::only_whole;
  jpeg.out_color_space = image.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  (void)jpeg_start_decompress(&jpeg);
  if (static_cast<int>(jpeg.output_width) != image.width || static_cast<int>(jpeg.output_height) != image.height ||
      jpeg.output_components != image.channels)
    return PartOutcome::only_whole;
  auto left = static_cast<JDIMENSION>(std::max(0, columns.begin - margin));
  auto width = static_cast<JDIMENSION>(std::min(image.width, columns.begin + columns.size + margin)) - left;
  jpeg_crop_scanline(&jpeg, &left, &width);
  (void)jpeg_skip_scanlines(&jpeg, static_cast<JDIMENSION>(rows.begin));
  const std::size_t row = static_cast<std::size_t>(image.width) * static_cast<std::size_t>(image.channels);
  for (int y = rows.begin; y < rows.begin + rows.size; ++y) {
    JSAMPROW target =
        &image.pixels[static_cast<std::size_t>(y) * row + left * static_cast<std::size_t>(image.channels)];
    (void)jpeg_read_scanlines(&jpeg, &target, 1);
  }
  return PartOutcome::decoded;
}

}  // namespace

bool decode_jpeg_part(std::span<const std::uint8_t> bytes, std::string_view name, const PixelRange& rows,
                      const PixelRange& columns, Image& image) {
  JpegErrors errors;
  jpeg_decompress_struct jpeg{};
  jpeg.err = jpeg_std_error(&errors.manager);
  errors.manager.error_exit = leave;
  errors.manager.emit_message = leave_on_warning;
  const PartOutcome outcome = decode_rows(jpeg, errors, bytes, rows, columns, image);
  jpeg_destroy_decompress(&jpeg);
  if (outcome == PartOutcome::broken)
    fail<InputError>("image \"{}\": broken JPEG: {}", name, std::string(errors.text.data()));
  return outcome == PartOutcome::decoded;
}

}  // namespace heddle
