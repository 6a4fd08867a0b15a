// Matrix products: oneDNN's in f32 and bf16, Eigen's in f64, and those of f32 on AMX's tiles; 16-bit types that the
// machine has no instructions for are widened to f32 in the workspace.
#include "framework/kernels/linear_algebra.h"

#include <chrono>

#include "framework/backends/cpu/context.h"
#include "framework/backends/cpu/elementwise/bias.h"
#include "framework/backends/cpu/linear_algebra/padded_product.h"
#include "framework/backends/cpu/linear_algebra/primitives.h"
#include "framework/backends/cpu/linear_algebra/serial_product.h"
#include "framework/backends/cpu/linear_algebra/tile_product.h"
#include "framework/backends/cpu/loops/widen.h"

namespace heddle::cpu {

namespace {

GemmShape shape_of(const MatrixProduct& p, const Tensor& c) {
  return {c.shape()[0], c.shape()[1], p.k(), p.transpose_a, p.transpose_b, p.alpha, p.beta};
}

GemmShape packed_shape(const Tensor& a, double beta, const Tensor& c) {
  return {.m = c.shape()[0], .n = c.shape()[1], .k = a.shape()[1], .beta = beta, .packs_b = true};
}

/// c = beta * c: a product over nothing adds nothing.
void scale(double beta, Tensor& c) {
  visit_floating(c.dtype(), "gemm", [&]<class T>(T) {
    T* const values = c.as<T>();
    for (std::int64_t i = 0; i < c.numel(); ++i)
      values[i] = beta == 0 ? T{} : static_cast<T>(static_cast<Compute<T>>(beta) * static_cast<Compute<T>>(values[i]));
  });
}

/// Adds the time in which it lives to that of the products.
class ProductTime {
 public:
  explicit ProductTime(double& seconds) : seconds_(seconds) {}
  ~ProductTime() { seconds_ += std::chrono::duration<double>(Clock::now() - begin_).count(); }
  ProductTime(const ProductTime&) = delete;
  ProductTime& operator=(const ProductTime&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  double& seconds_;
  Clock::time_point begin_ = Clock::now();
};

const GemmPrimitive& packed_product(Context& context, const GemmShape& shape, DType dtype) {
  const GemmPrimitive* const found = context.gemms().find(shape, {dtype, dtype});
  if (found == nullptr) fail("gemm: oneDNN has no product of {} with a packed operand", name_of(dtype));
  return *found;
}

void gemm_widened(Context& context, const GemmShape& s, const Tensor& a, const Tensor& b, Tensor& c,
                  std::byte* scratch) {
  const GemmPrimitive* const found = context.gemms().find(s, gemm_f32);
  if (found == nullptr) fail("gemm: oneDNN has no product in f32");
  auto* const wide_a = reinterpret_cast<float*>(scratch);
  auto* const wide_b = reinterpret_cast<float*>(scratch += aligned(4 * s.m * s.k));
  scratch += aligned(4 * s.k * s.n);
  widen(a, wide_a);
  widen(b, wide_b);
  if (c.dtype() == DType::f32) return found->run(context.onednn(), wide_a, wide_b, c.data(), scratch);
  auto* const wide_c = reinterpret_cast<float*>(scratch);
  scratch += aligned(4 * s.m * s.n);
  if (s.beta != 0) widen(c, wide_c);
  found->run(context.onednn(), wide_a, wide_b, wide_c, scratch);
  narrow(wide_c, c);
}

/// `workspace` is undefined if the product needs none.
void multiply(Context& context, const GemmShape& s, const Tensor& a, const Tensor& b, Tensor& c,
              const Tensor& workspace) {
  if (s.m == 0 || s.n == 0) return;
  if (s.k == 0) return scale(s.beta, c);
  std::byte* const scratch = workspace.defined() ? workspace.as<std::byte>() : nullptr;
  if (is_faster_on_tiles(s, {a.dtype(), c.dtype()})) {
    tile_product(context.threads(), s, a.as<float>(), b.data(), c.as<float>(), scratch);
  } else if (is_faster_padded(s, {a.dtype(), c.dtype()})) {
    padded_product(context.onednn(), context.gemms(), s, a.as<float>(), b.as<float>(), c.as<float>(), scratch);
  } else if (const GemmPrimitive* const found = context.gemms().find(s, {a.dtype(), c.dtype()})) {
    found->run(context.onednn(), a.data(), b.data(), c.data(), scratch);
  } else if (a.dtype() == DType::f64) {
    const ThreadTeam team(context.threads());
    serial_product(s, a.as<double>(), b.as<double>(), c.as<double>());
  } else {
    gemm_widened(context, s, a, b, c, scratch);
  }
}

}  // namespace

}  // namespace heddle::cpu

namespace heddle {

template <>
void LinearAlgebraKernelsOn<cpu::Context>::gemm(const MatrixProduct& product, Tensor& c, Tensor& workspace) const {
  const cpu::ProductTime time(context_.product_seconds());
  cpu::multiply(context_, cpu::shape_of(product, c), product.a, product.b, c, workspace);
  cpu::add_bias(product.bias, c);
}

template <>
std::int64_t LinearAlgebraKernelsOn<cpu::Context>::gemm_workspace(const MatrixProduct& product, const Tensor& c) const {
  return cpu::gemm_needs(context_.gemms(), cpu::shape_of(product, c), {product.a.dtype(), c.dtype()});
}

template <>
std::int64_t LinearAlgebraKernelsOn<cpu::Context>::packed_bytes(std::int64_t m, const Tensor& b,
                                                                bool transpose_b) const {
  return cpu::packed_needs(context_.gemms(), m, b.shape()[transpose_b ? 0 : 1], b.shape()[transpose_b ? 1 : 0],
                           b.dtype());
}

template <>
void LinearAlgebraKernelsOn<cpu::Context>::pack(std::int64_t m, const Tensor& b, bool transpose_b,
                                                Tensor& packed) const {
  const std::int64_t n = b.shape()[transpose_b ? 0 : 1];
  const std::int64_t k = b.shape()[transpose_b ? 1 : 0];
  const cpu::GemmShape shape{.m = m, .n = n, .k = k, .packs_b = true};
  if (cpu::is_faster_on_tiles(shape, {b.dtype(), b.dtype()}))
    return cpu::pack_for_tiles(context_.threads(), b.as<float>(), transpose_b, n, k, packed.as<std::byte>());
  const cpu::GemmPrimitive& product = cpu::packed_product(context_, shape, b.dtype());
  const dnnl::memory::dims strides = transpose_b ? dnnl::memory::dims{1, k} : dnnl::memory::dims{n, 1};
  const cpu::OneDnn& onednn = context_.onednn();
  onednn.reorder(onednn.memory(cpu::strided({k, n}, b.dtype(), strides), b.data()),
                 onednn.memory(product.b, packed.data()));
}

template <>
void LinearAlgebraKernelsOn<cpu::Context>::packed_gemm(const Tensor& a, const Tensor& packed, double beta, Tensor& c,
                                                       Tensor& workspace) const {
  const cpu::ProductTime time(context_.product_seconds());
  cpu::multiply(context_, cpu::packed_shape(a, beta, c), a, packed, c, workspace);
}

template <>
std::int64_t LinearAlgebraKernelsOn<cpu::Context>::packed_gemm_workspace(const Tensor& a, double beta,
                                                                         const Tensor& c) const {
  return cpu::gemm_needs(context_.gemms(), cpu::packed_shape(a, beta, c), {c.dtype(), c.dtype()});
}

template <>
bool LinearAlgebraKernelsOn<cpu::Context>::is_bf16_fast() const {
  return cpu::is_bf16_fast();
}

template <>
std::optional<double> LinearAlgebraKernelsOn<cpu::Context>::product_seconds() const {
  return context_.product_seconds();
}

}  // namespace heddle
