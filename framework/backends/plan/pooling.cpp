#include "framework/backends/plan/pooling.h"

namespace heddle::plan {

void PlanPooling::pool(PoolOp /*op*/, const PoolGeometry& g, const Tensor& x, Tensor& y, Tensor& choice) const {
  counter_.kernel(g.kernel.height * g.kernel.width * y.numel(), x, y, choice);
}

void PlanPooling::pool_backward(PoolOp op, const PoolGeometry& g, const Tensor& dy, const Tensor& choice,
                                Tensor& dx) const {
  counter_.kernel((op == PoolOp::max ? 1 : g.kernel.height * g.kernel.width) * dy.numel(), dy, choice, dx);
}

}  // namespace heddle::plan
