// Pooling of NHWC images.
#pragma once

#include <cstdint>

#include "framework/kernels/extent.h"
#include "framework/tensors/tensor.h"

namespace heddle {

enum class PoolOp { max, average };

struct PoolGeometry {
  std::int64_t batch = 0;
  Extent input;
  Extent output;
  std::int64_t channels = 0;
  Extent kernel;
  Extent stride;
  Extent padding;
  bool count_padding = true;  // average: padded cells count in the divisor
};

class PoolingKernels {
 public:
  virtual ~PoolingKernels() = default;

  /// Max keeps the first largest cell's position in `choice` (i32, like y; undefined: not kept). Padding never wins.
  virtual void pool(PoolOp op, const PoolGeometry& g, const Tensor& x, Tensor& y, Tensor& choice) const = 0;
  virtual void pool_backward(PoolOp op, const PoolGeometry& g, const Tensor& dy, const Tensor& choice,
                             Tensor& dx) const = 0;
};

/// The kernels of one backend, which defines each of them for its own Context (framework/backends/kernels_on.h).
template <class Context>
class PoolingKernelsOn final : public PoolingKernels {
 public:
  explicit PoolingKernelsOn(Context& context) : context_(context) {}

  void pool(PoolOp op, const PoolGeometry& g, const Tensor& x, Tensor& y, Tensor& choice) const override;
  void pool_backward(PoolOp op, const PoolGeometry& g, const Tensor& dy, const Tensor& choice,
                     Tensor& dx) const override;

 private:
  Context& context_;
};

}  // namespace heddle
