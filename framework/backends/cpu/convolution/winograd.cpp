#include "framework/backends/cpu/convolution/winograd.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "framework/backends/cpu/loops/parallel.h"

namespace heddle::cpu {

namespace {

constexpr std::int64_t points = 36;
constexpr std::int64_t lanes = 8;
using Vector = float __attribute__((vector_size(32)));

Vector load(const float* from) {
  Vector value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

void store(float* to, const Vector& value) {
  std::memcpy(to, &value, sizeof value);
}

// The four transforms, in one dimension. Interpolation points 0, 1, -1, 2, -2 and infinity.

struct SourceTransform {  // B^T
  static constexpr int in = 6, out = 6;
  static void apply(const Vector* d, int step, Vector* t, int out_step) {
    const Vector d0 = d[0], d1 = d[step], d2 = d[2 * step], d3 = d[3 * step], d4 = d[4 * step], d5 = d[5 * step];
    const Vector even = d4 - 4.0F * d2, odd = d3 - 4.0F * d1;
    const Vector even2 = d4 - d2, odd2 = 2.0F * (d3 - d1);
    t[0] = 4.0F * d0 - 5.0F * d2 + d4;
    t[out_step] = even + odd;
    t[2 * out_step] = even - odd;
    t[3 * out_step] = even2 + odd2;
    t[4 * out_step] = even2 - odd2;
    t[5 * out_step] = 4.0F * d1 - 5.0F * d3 + d5;
  }
};

struct TargetTransform {  // A^T
  static constexpr int in = 6, out = 4;
  static void apply(const Vector* m, int step, Vector* y, int out_step) {
    const Vector sum = m[step] + m[2 * step], difference = m[step] - m[2 * step];
    const Vector sum2 = m[3 * step] + m[4 * step], difference2 = m[3 * step] - m[4 * step];
    y[0] = m[0] + sum + sum2;
    y[out_step] = difference + 2.0F * difference2;
    y[2 * out_step] = sum + 4.0F * sum2;
    y[3 * out_step] = difference + 8.0F * difference2 + m[5 * step];
  }
};

struct GradientTransform {  // A
  static constexpr int in = 4, out = 6;
  static void apply(const Vector* g, int step, Vector* t, int out_step) {
    const Vector g0 = g[0], g1 = g[step], g2 = g[2 * step], g3 = g[3 * step];
    const Vector even = g0 + g2, odd = g1 + g3;
    const Vector even2 = g0 + 4.0F * g2, odd2 = 2.0F * g1 + 8.0F * g3;
    t[0] = g0;
    t[out_step] = even + odd;
    t[2 * out_step] = even - odd;
    t[3 * out_step] = even2 + odd2;
    t[4 * out_step] = even2 - odd2;
    t[5 * out_step] = g3;
  }
};

struct WeightTransform {  // G
  static constexpr int in = 3, out = 6;
  static void apply(const Vector* w, int step, Vector* u, int out_step) {
    const Vector ends = w[0] + w[2 * step], middle = w[step];
    const Vector ends2 = (1.0F / 24) * w[0] + (1.0F / 6) * w[2 * step], middle2 = (1.0F / 12) * middle;
    u[0] = 0.25F * w[0];
    u[out_step] = (-1.0F / 6) * (ends + middle);
    u[2 * out_step] = (-1.0F / 6) * (ends - middle);
    u[3 * out_step] = ends2 + middle2;
    u[4 * out_step] = ends2 - middle2;
    u[5 * out_step] = w[2 * step];
  }
};

struct WeightGradientTransform {  // G^T
  static constexpr int in = 6, out = 3;
  static void apply(const Vector* u, int step, Vector* w, int out_step) {
    const Vector sum = u[step] + u[2 * step], difference = u[2 * step] - u[step];
    const Vector sum2 = u[3 * step] + u[4 * step], difference2 = u[3 * step] - u[4 * step];
    w[0] = 0.25F * u[0] - (1.0F / 6) * sum + (1.0F / 24) * sum2;
    w[out_step] = (1.0F / 6) * difference + (1.0F / 12) * difference2;
    w[2 * out_step] = (1.0F / 6) * (sum2 - sum) + u[5 * step];
  }
};

/// In two dimensions: columns, then rows.
template <class Transform>
void transform(const Vector* from, Vector* to) {
  constexpr int in = Transform::in;
  constexpr int out = Transform::out;
  std::array<Vector, static_cast<std::size_t>(in * out)> half;
  for (int column = 0; column < in; ++column) Transform::apply(from + column, in, half.data() + column, in);
  for (int row = 0; row < out; ++row) Transform::apply(half.data() + row * in, 1, to + row * out, 1);
}

/// Transforms what `sources` point to (null: zeros), over all channels, to `step` apart at `to`.
template <class Transform>
void gather(const float* const* sources, std::int64_t channels, float* to, std::int64_t step) {
  constexpr int in = Transform::in * Transform::in;
  constexpr int out = Transform::out * Transform::out;
  std::array<Vector, static_cast<std::size_t>(in)> tile;
  std::array<Vector, static_cast<std::size_t>(out)> result;
  for (std::int64_t c = 0; c < channels; c += lanes) {
    for (int i = 0; i < in; ++i)
      tile[static_cast<std::size_t>(i)] = sources[i] == nullptr ? Vector{} : load(sources[i] + c);
    transform<Transform>(tile.data(), result.data());
    for (int i = 0; i < out; ++i) store(to + i * step + c, result[static_cast<std::size_t>(i)]);
  }
}

constexpr std::int64_t tile_grain = 8;

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
      std::max<std::int64_t>(127, (std::int64_t{4} << 20) / (4 * points * (made.in_ + made.out_)));
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
      made.b_ = strided({points, in, out}, dtype, {made.weight_step_, 1, in});
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
  const bool turned = part_ == ConvolutionPart::backward_input;  // the backward pass needs the flipped kernel
  parallel_for(out_, tile_grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t o = begin; o < end; ++o) {
      std::array<const float*, 9> taps;
      for (std::int64_t tap = 0; tap < 9; ++tap)
        taps[static_cast<std::size_t>(turned ? 8 - tap : tap)] = weight + (o * 9 + tap) * in_;
      gather<WeightTransform>(taps.data(), in_, transformed + o * in_, weight_step_);
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
      gather<SourceTransform>(pixels.data(), source_.channels, transformed + i * source_.channels, step);
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
      gather<GradientTransform>(pixels.data(), target_.channels, transformed + i * target_.channels, step);
    }
  });
}

void Winograd::scatter_target(const float* products, std::int64_t first, float* target) const {
  const std::int64_t channels = target_.channels;
  const std::int64_t step = block_ * channels;
  parallel_for(std::min(block_, count_ - first), tile_grain, [&](std::int64_t begin, std::int64_t end) {
    std::array<Vector, 36> tile_products;
    std::array<Vector, 16> result;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t tile = first + i;
      const std::int64_t n = tile / (tiles_.height * tiles_.width);
      const std::int64_t h = tile / tiles_.width % tiles_.height * 4;
      const std::int64_t w = tile % tiles_.width * 4;
      const std::int64_t rows = std::min<std::int64_t>(4, target_.size.height - h);
      const std::int64_t columns = std::min<std::int64_t>(4, target_.size.width - w);
      float* const corner = target + ((n * target_.size.height + h) * target_.size.width + w) * channels;
      for (std::int64_t c = 0; c < channels; c += lanes) {
        for (std::int64_t p = 0; p < points; ++p)
          tile_products[static_cast<std::size_t>(p)] = load(products + p * step + i * channels + c);
        transform<TargetTransform>(tile_products.data(), result.data());
        for (std::int64_t row = 0; row < rows; ++row)
          for (std::int64_t column = 0; column < columns; ++column)
            store(corner + (row * target_.size.width + column) * channels + c,
                  result[static_cast<std::size_t>(row * 4 + column)]);
      }
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
      std::array<const float*, 36> sources;
      for (std::int64_t p = 0; p < points; ++p)
        sources[static_cast<std::size_t>(p)] = sums + p * weight_step_ + o * in_;
      gather<WeightGradientTransform>(sources.data(), in_, dweight + o * 9 * in_, in_);
    }
  });
}

}  // namespace heddle::cpu
