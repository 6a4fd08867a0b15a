#include "framework/kernels/convolution.h"

#include <fmt/format.h>

#include "framework/description/enum_table.h"

namespace heddle {

std::string to_string(const ConvolutionGeometry& g) {
  const auto images = [&g](const Extent& extent, std::int64_t channels) {
    return fmt::format("[{},{},{},{}]", g.batch, extent.height, extent.width, channels);
  };
  const auto words = [](const Extent& extent) { return fmt::format("{}x{}", extent.height, extent.width); };
  std::string text = fmt::format("{} -> {}, kernel {}, stride {}, padding {}", images(g.input, g.in_channels),
                                 images(g.output, g.out_channels), words(g.kernel), words(g.stride), words(g.padding));
  if (g.dilation != Extent{}) text += fmt::format(", dilation {}", words(g.dilation));
  if (g.groups != 1) text += fmt::format(", {} groups", g.groups);
  return text;
}

std::string_view name_of(ConvolutionPart part) {
  static constexpr auto names = enum_table<ConvolutionPart>({
      {ConvolutionPart::forward, "forward"},
      {ConvolutionPart::backward_input, "backward_input"},
      {ConvolutionPart::backward_weight, "backward_weight"},
  });
  return names[part];
}

}  // namespace heddle
