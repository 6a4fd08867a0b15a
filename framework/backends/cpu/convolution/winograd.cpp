#include "framework/backends/cpu/convolution/winograd.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "framework/backends/cpu/convolution/winograd_transforms.h"
#include "framework/backends/cpu/loops/parallel.h"

namespace heddle::cpu {

namespace {

constexpr std::int64_t points = 36;
constexpr std::int64_t tile_grain = 8;

/// Pointers to n rows that lie `step` apart.
template <std::size_t n, class T>
std::array<T*, n> rows_at(T* first, std::int64_t step) {
  std::array<T*, n> rows;
  for (std::size_t i = 0; i < n; ++i) rows[i] = first + static_cast<std::int64_t>(i) * step;
  return rows;
}

/// Whether there is enough to compute. The 36 products read a transformed weight each, four times as many bytes as the
/// kernel has: for few pixels, that takes as long as what is saved. For few operations, calling the products does.
bool is_worthwhile(const ConvolutionGeometry& g) {
  constexpr std::int64_t min_pixels = 128;
  constexpr std::int64_t min_operations = 32'000'000;
  const std::int64_t pixels = g.batch * g.output.height * g.output.width;
  return pixels >= min_pixels && 18 * pixels * g.in_channels * g.out_channels >= min_operations;
}

/// The number of output channels whose sums, 36 for each weight gradient's nine, take 2 MiB, the second-level caches of
/// two cores. It divides `out`, a multiple of 16.
std::int64_t slab_of(std::int64_t in, std::int64_t out) {
  const std::int64_t most = (std::int64_t{2} << 20) / (4 * points * in);
  std::int64_t slab = 16;
  for (std::int64_t each = 16; each <= most; each += 16)
    if (out % each == 0) slab = each;
  return slab;
}

}  // namespace

std::optional<Winograd> Winograd::make(const OneDnn& onednn, const ConvolutionGeometry& g, ConvolutionPart part,
                                       DType dtype) {
  const bool fits = dtype == DType::f32 && g.batch > 0 && g.groups == 1 && g.kernel == Extent{3, 3} &&
                    g.stride == Extent{1, 1} && g.dilation == Extent{1, 1} && g.padding.height <= 2 &&
                    g.padding.width <= 2 && g.in_channels % 16 == 0 && g.out_channels % 16 == 0 &&
                    g.in_channels >= 32 && g.out_channels >= 32;
  if (!fits) return {};
  Winograd made;
  made.part_ = part;
  made.in_ = g.in_channels;
  made.out_ = g.out_channels;
  made.source_ = {g.input, g.in_channels};
  made.target_ = {g.output, g.out_channels};
  made.padding_ = g.padding;
  if (part == ConvolutionPart::backward_input) {
    std::swap(made.source_, made.target_);
    made.padding_ = {2 - g.padding.height, 2 - g.padding.width};
  }
  const Extent& covered = made.target_.size;
  made.tiles_ = {(covered.height + 3) / 4, (covered.width + 3) / 4};
  // What the tiles at the edges compute in vain eats the gain.
  if (10 * made.tiles_.height * made.tiles_.width * 16 > 18 * covered.height * covered.width) return {};
  made.count_ = g.batch * made.tiles_.height * made.tiles_.width;
  if (!is_worthwhile(g)) return {};
  // Large enough to use the transformed weights often, small enough for the caches; odd, because the 36 streams of
  // tiles would share a few cache sets if they lay a power of two apart.
  const std::int64_t most =
      std::max<std::int64_t>(255, (std::int64_t{8} << 20) / (4 * points * (made.in_ + made.out_)));
  const std::int64_t blocks = (made.count_ + most - 1) / most;
  made.block_ = ((made.count_ + blocks - 1) / blocks) | 1;

  const std::int64_t t = made.block_;
  const std::int64_t in = made.in_;
  const std::int64_t out = made.out_;
  const bool adds = blocks > 1;
  made.slab_ = part == ConvolutionPart::backward_weight && !adds ? slab_of(in, out) : out;
  const std::int64_t slab = made.slab_;
  made.weight_step_ = in * slab + 16;
  dnnl::primitive_attr attr = user_scratchpad();
  switch (part) {
    case ConvolutionPart::forward:
      made.a_ = strided({points, t, in}, dtype, {t * in, in, 1});
      made.b_ = strided({points, in, out}, dtype, {made.weight_step_, out, 1});
      made.c_ = strided({points, t, out}, dtype, {t * out, out, 1});
      break;
    case ConvolutionPart::backward_input:
      made.a_ = strided({points, t, out}, dtype, {t * out, out, 1});
      made.b_ = strided({points, out, in}, dtype, {made.weight_step_, in, 1});
      made.c_ = strided({points, t, in}, dtype, {t * in, in, 1});
      break;
    case ConvolutionPart::backward_weight: {
      made.a_ = strided({points, slab, t}, dtype, {t * out, 1, out});
      made.b_ = strided({points, t, in}, dtype, {t * in, in, 1});
      made.c_ = strided({points, slab, in}, dtype, {made.weight_step_, in, 1});
      if (!adds) break;
      dnnl::post_ops operations;
      operations.append_sum(1);
      attr.set_post_ops(operations);
      break;
    }
  }
  const ThreadTeam team(onednn.threads());
  const auto found = find_primitive<dnnl::matmul>(onednn.engine(), attr, made.a_, made.b_, made.c_);
  if (!found) return {};
  made.product_ = dnnl::matmul(found);
  made.scratch_ = found.scratchpad_desc();
  made.scratch_bytes_ = static_cast<std::int64_t>(made.scratch_.get_size());
  return made;
}

ConvolutionNeeds Winograd::needs() const {
  const std::int64_t images = aligned(4 * points * block_ * in_) + aligned(4 * points * block_ * out_);
  const std::int64_t weights = 4 * points * weight_step_;
  if (part_ == ConvolutionPart::backward_weight) return {images + aligned(weights) + scratch_bytes_, 0, 0};
  // Numbers of their own: oneDNN's layouts count from 1.
  return {images + scratch_bytes_, weights, part_ == ConvolutionPart::forward ? -1 : -2};
}

void Winograd::transform_weight(const float* weight, float* transformed) const {
  if (part_ == ConvolutionPart::forward) return transform_forward_weight(weight, transformed);
  // The flipped kernel, [36, out, in].
  parallel_for(out_, tile_grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t o = begin; o < end; ++o) {
      std::array<const float*, 9> taps = rows_at<9>(weight + o * 9 * in_, in_);
      std::reverse(taps.begin(), taps.end());
      winograd_transform(WinogradTransform::weight,
                         {taps.data(), rows_at<points>(transformed + o * in_, weight_step_).data(), in_});
    }
  });
}

/// [36, in, out]: products are faster than with [36, out, in].
void Winograd::transform_forward_weight(const float* weight, float* transformed) const {
  constexpr std::int64_t lanes = 16;  // output channels at a time
  parallel_for(out_ / lanes, 1, [&](std::int64_t begin, std::int64_t end) {
    std::array<float, 9 * lanes> taps;
    for (std::int64_t o = begin * lanes; o < end * lanes; o += lanes)
      for (std::int64_t i = 0; i < in_; ++i) {
        for (std::int64_t lane = 0; lane < lanes; ++lane)
          for (std::int64_t tap = 0; tap < 9; ++tap)
            taps[static_cast<std::size_t>(tap * lanes + lane)] = weight[((o + lane) * 9 + tap) * in_ + i];
        winograd_transform(WinogradTransform::weight,
                           {rows_at<9, const float>(taps.data(), lanes).data(),
                            rows_at<points>(transformed + i * out_ + o, weight_step_).data(), lanes});
      }
  });
}

const float* Winograd::pixel(const Image& image, const float* data, std::int64_t n, std::int64_t h,
                             std::int64_t w) const {
  if (h < 0 || w < 0 || h >= image.size.height || w >= image.size.width) return nullptr;
  return data + ((n * image.size.height + h) * image.size.width + w) * image.channels;
}

void Winograd::gather_source(const float* source, std::int64_t first, float* transformed) const {
  const std::int64_t step = block_ * source_.channels;
  parallel_for(block_, tile_grain, [&](std::int64_t begin, std::int64_t end) {
    std::array<const float*, 36> pixels;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t tile = first + i;
      const std::int64_t n = tile / (tiles_.height * tiles_.width);
      const std::int64_t h = tile / tiles_.width % tiles_.height * 4 - padding_.height;
      const std::int64_t w = tile % tiles_.width * 4 - padding_.width;
      for (std::int64_t p = 0; p < 36; ++p)
        pixels[static_cast<std::size_t>(p)] = tile < count_ ? pixel(source_, source, n, h + p / 6, w + p % 6) : nullptr;
      winograd_transform(
          WinogradTransform::source,
          {pixels.data(), rows_at<points>(transformed + i * source_.channels, step).data(), source_.channels});
    }
  });
}

void Winograd::gather_gradient(const float* gradient, std::int64_t first, float* transformed) const {
  const std::int64_t step = block_ * target_.channels;
  parallel_for(block_, tile_grain, [&](std::int64_t begin, std::int64_t end) {
    std::array<const float*, 16> pixels;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t tile = first + i;
      const std::int64_t n = tile / (tiles_.height * tiles_.width);
      const std::int64_t h = tile / tiles_.width % tiles_.height * 4;
      const std::int64_t w = tile % tiles_.width * 4;
      for (std::int64_t p = 0; p < 16; ++p)
        pixels[static_cast<std::size_t>(p)] =
            tile < count_ ? pixel(target_, gradient, n, h + p / 4, w + p % 4) : nullptr;
      winograd_transform(
          WinogradTransform::gradient,
          {pixels.data(), rows_at<points>(transformed + i * target_.channels, step).data(), target_.channels});
    }
  });
}

void Winograd::scatter_target(const float* products, std::int64_t first, float* target) const {
  const std::int64_t channels = target_.channels;
  const std::int64_t step = block_ * channels;
  parallel_for(std::min(block_, count_ - first), tile_grain, [&](std::int64_t begin, std::int64_t end) {
    std::array<float*, 16> pixels;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t tile = first + i;
      const std::int64_t n = tile / (tiles_.height * tiles_.width);
      const std::int64_t h = tile / tiles_.width % tiles_.height * 4;
      const std::int64_t w = tile % tiles_.width * 4;
      const std::int64_t rows = std::min<std::int64_t>(4, target_.size.height - h);
      const std::int64_t columns = std::min<std::int64_t>(4, target_.size.width - w);
      float* const corner = target + ((n * target_.size.height + h) * target_.size.width + w) * channels;
      for (std::int64_t row = 0; row < 4; ++row)
        for (std::int64_t column = 0; column < 4; ++column)
          pixels[static_cast<std::size_t>(row * 4 + column)] =
              row < rows && column < columns ? corner + (row * target_.size.width + column) * channels : nullptr;
      winograd_transform(WinogradTransform::target,
                         {rows_at<points>(products + i * channels, step).data(), pixels.data(), channels});
    }
  });
}

void Winograd::convolve(const OneDnn& onednn, const float* source, const float* transformed, float* target,
                        std::byte* workspace) const {
  const ThreadTeam team(onednn.threads());
  auto* const tiles = reinterpret_cast<float*>(workspace);
  auto* const products = reinterpret_cast<float*>(workspace += aligned(4 * points * block_ * source_.channels));
  workspace += aligned(4 * points * block_ * target_.channels);
  const std::unordered_map<int, dnnl::memory> arguments{{DNNL_ARG_SRC, onednn.memory(a_, tiles)},
                                                        {DNNL_ARG_WEIGHTS, onednn.memory(b_, transformed)},
                                                        {DNNL_ARG_DST, onednn.memory(c_, products)},
                                                        {DNNL_ARG_SCRATCHPAD, onednn.memory(scratch_, workspace)}};
  for (std::int64_t first = 0; first < count_; first += block_) {
    gather_source(source, first, tiles);
    onednn.run(product_, arguments);
    scatter_target(products, first, target);
  }
}

void Winograd::backward_weight(const OneDnn& onednn, const float* x, const float* dy, float* dweight,
                               std::byte* workspace) const {
  const ThreadTeam team(onednn.threads());
  auto* const tiles = reinterpret_cast<float*>(workspace);
  auto* const gradients = reinterpret_cast<float*>(workspace += aligned(4 * points * block_ * in_));
  auto* const sums = reinterpret_cast<float*>(workspace += aligned(4 * points * block_ * out_));
  workspace += aligned(4 * points * weight_step_);
  const auto multiply = [&](const float* gradients_of_slab) {
    onednn.run(product_, {{DNNL_ARG_SRC, onednn.memory(a_, gradients_of_slab)},
                          {DNNL_ARG_WEIGHTS, onednn.memory(b_, tiles)},
                          {DNNL_ARG_DST, onednn.memory(c_, sums)},
                          {DNNL_ARG_SCRATCHPAD, onednn.memory(scratch_, workspace)}});
  };
  if (count_ <= block_) {
    gather_source(x, 0, tiles);
    gather_gradient(dy, 0, gradients);
    for (std::int64_t first = 0; first < out_; first += slab_) {
      multiply(gradients + first);
      transform_gradient(sums, dweight + first * 9 * in_);
    }
    return;
  }
  std::memset(sums, 0, static_cast<std::size_t>(4 * points * weight_step_));
  for (std::int64_t first = 0; first < count_; first += block_) {
    gather_source(x, first, tiles);
    gather_gradient(dy, first, gradients);
    multiply(gradients);
  }
  transform_gradient(sums, dweight);
}

void Winograd::transform_gradient(const float* sums, float* dweight) const {
  parallel_for(slab_, tile_grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t o = begin; o < end; ++o) {
      winograd_transform(WinogradTransform::weight_gradient, {rows_at<points>(sums + o * in_, weight_step_).data(),
                                                              rows_at<9>(dweight + o * 9 * in_, in_).data(), in_});
    }
  });
}

}  // namespace heddle::cpu
