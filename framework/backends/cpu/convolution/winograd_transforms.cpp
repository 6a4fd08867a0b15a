#include "framework/backends/cpu/convolution/winograd_transforms.h"

#include <cstring>

#include "framework/backends/cpu/loops/avx512.h"

namespace heddle::cpu {

namespace {

// Vectors are passed by reference: by value, those of 64 bytes need AVX-512 in the caller, too.
using Vector256 = float __attribute__((vector_size(32)));
using Vector512 = float __attribute__((vector_size(64)));

// The five transforms, in one dimension. Interpolation points 0, 1, -1, 2, -2 and infinity.

template <class Vector>
struct SourceTransform {  // B^T
  static constexpr int in = 6, out = 6;
  [[gnu::always_inline]] static inline void apply(const Vector* d, Vector* t) {
    const Vector even = d[4] - 4.0F * d[2], odd = d[3] - 4.0F * d[1];
    const Vector even2 = d[4] - d[2], odd2 = 2.0F * (d[3] - d[1]);
    t[0] = (d[4] - 5.0F * d[2]) + 4.0F * d[0];
    t[1] = even + odd;
    t[2] = even - odd;
    t[3] = even2 + odd2;
    t[4] = even2 - odd2;
    t[5] = (d[5] - 5.0F * d[3]) + 4.0F * d[1];
  }
};

template <class Vector>
struct TargetTransform {  // A^T
  static constexpr int in = 6, out = 4;
  [[gnu::always_inline]] static inline void apply(const Vector* m, Vector* y) {
    const Vector sum = m[1] + m[2], difference = m[1] - m[2];
    const Vector sum2 = m[3] + m[4], difference2 = m[3] - m[4];
    y[0] = m[0] + sum + sum2;
    y[1] = difference + 2.0F * difference2;
    y[2] = sum + 4.0F * sum2;
    y[3] = difference + 8.0F * difference2 + m[5];
  }
};

template <class Vector>
struct GradientTransform {  // A
  static constexpr int in = 4, out = 6;
  [[gnu::always_inline]] static inline void apply(const Vector* g, Vector* t) {
    const Vector even = g[0] + g[2], odd = g[1] + g[3];
    const Vector even2 = g[0] + 4.0F * g[2], odd2 = 2.0F * (g[1] + 4.0F * g[3]);
    t[0] = g[0];
    t[1] = even + odd;
    t[2] = even - odd;
    t[3] = even2 + odd2;
    t[4] = even2 - odd2;
    t[5] = g[3];
  }
};

template <class Vector>
struct WeightTransform {  // G
  static constexpr int in = 3, out = 6;
  [[gnu::always_inline]] static inline void apply(const Vector* w, Vector* u) {
    const Vector ends = w[0] + w[2], middle = w[1];
    const Vector ends2 = (1.0F / 24) * (w[0] + 4.0F * w[2]), middle2 = (1.0F / 12) * middle;
    u[0] = 0.25F * w[0];
    u[1] = (-1.0F / 6) * (ends + middle);
    u[2] = (-1.0F / 6) * (ends - middle);
    u[3] = ends2 + middle2;
    u[4] = ends2 - middle2;
    u[5] = w[2];
  }
};

template <class Vector>
struct WeightGradientTransform {  // G^T
  static constexpr int in = 6, out = 3;
  [[gnu::always_inline]] static inline void apply(const Vector* u, Vector* w) {
    const Vector sum = u[1] + u[2], difference = u[2] - u[1];
    const Vector sum2 = u[3] + u[4], difference2 = u[3] - u[4];
    w[0] = (1.0F / 24) * ((sum2 - 4.0F * sum) + 6.0F * u[0]);
    w[1] = (1.0F / 12) * (2.0F * difference + difference2);
    w[2] = (1.0F / 6) * (sum2 - sum) + u[5];
  }
};

/// In two dimensions: columns, then rows.
template <class Vector, class Transform>
[[gnu::always_inline]] inline void transform(const WinogradTile& tile) {
  constexpr int in = Transform::in;
  constexpr int out = Transform::out;
  constexpr auto lanes = static_cast<std::int64_t>(sizeof(Vector) / sizeof(float));
  for (std::int64_t c = 0; c < tile.channels; c += lanes) {
    Vector half[out * in];
    for (int column = 0; column < in; ++column) {
      Vector from[in];
      Vector to[out];
      for (int row = 0; row < in; ++row) {
        const float* const source = tile.from[row * in + column];
        if (source != nullptr)
          std::memcpy(&from[row], source + c, sizeof(Vector));
        else
          from[row] = Vector{};
      }
      Transform::apply(from, to);
      for (int row = 0; row < out; ++row) half[row * in + column] = to[row];
    }
    for (int row = 0; row < out; ++row) {
      Vector to[out];
      Transform::apply(half + row * in, to);
      for (int column = 0; column < out; ++column)
        if (float* const target = tile.to[row * out + column]; target != nullptr)
          std::memcpy(target + c, &to[column], sizeof(Vector));
    }
  }
}

template <class Vector>
[[gnu::always_inline]] inline void transform_in(WinogradTransform kind, const WinogradTile& tile) {
  switch (kind) {
    case WinogradTransform::source:
      return transform<Vector, SourceTransform<Vector>>(tile);
    case WinogradTransform::gradient:
      return transform<Vector, GradientTransform<Vector>>(tile);
    case WinogradTransform::weight:
      return transform<Vector, WeightTransform<Vector>>(tile);
    case WinogradTransform::target:
      return transform<Vector, TargetTransform<Vector>>(tile);
    case WinogradTransform::weight_gradient:
      return transform<Vector, WeightGradientTransform<Vector>>(tile);
  }
}

#if defined(__x86_64__)
#ifdef __clang__  // it knows no target prefer-vector-width, and uses the types' own width
[[gnu::target("avx512f")]]
#else
[[gnu::target("avx512f,prefer-vector-width=512")]]
#endif
void transform_512(WinogradTransform kind, const WinogradTile& tile) {
  transform_in<Vector512>(kind, tile);
}
#endif

}  // namespace

void winograd_transform_256(WinogradTransform kind, const WinogradTile& tile) {
  transform_in<Vector256>(kind, tile);
}

void winograd_transform(WinogradTransform kind, const WinogradTile& tile) {
#if defined(__x86_64__)
  if (has_avx512) return transform_512(kind, tile);
#endif
  winograd_transform_256(kind, tile);
}

}  // namespace heddle::cpu
