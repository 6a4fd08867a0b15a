#include "framework/kernels/pooling.h"

#include "framework/backends/plan/context.h"

namespace heddle {

template <>
void PoolingKernelsOn<plan::Context>::pool(PoolOp /*op*/, const PoolGeometry& g, const Tensor& x, Tensor& y,
                                           Tensor& choice) const {
  context_.counter.kernel(g.kernel.height * g.kernel.width * y.numel(), x, y, choice);
}

template <>
void PoolingKernelsOn<plan::Context>::pool_backward(PoolOp op, const PoolGeometry& g, const Tensor& dy,
                                                    const Tensor& choice, Tensor& dx) const {
  context_.counter.kernel((op == PoolOp::max ? 1 : g.kernel.height * g.kernel.width) * dy.numel(), dy, choice, dx);
}

}  // namespace heddle
