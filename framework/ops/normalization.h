// Batch norm, layer norm and L2 normalisation.
#pragma once

#include <memory>

#include "framework/autograd/autograd.h"
#include "framework/kernels/normalization.h"

namespace heddle {

/// What follows a batch norm in the same pass over memory: y = activation(norm(x) + residual).
struct NormEpilogue {
  NormActivation activation = NormActivation::none;
  Variable slope{};     // prelu: [C]
  Variable residual{};  // like x, or none; with relu or no activation only
};

/// The communication between the ranks that share the rows of a synchronised batch norm. All of them, also those
/// without rows, make the same calls in the same order.
class StatisticsGroup {
 public:
  virtual ~StatisticsGroup() = default;
  /// This rank's row [1, n] -> the rows of all ranks in rank order, [ranks, n].
  virtual Tensor gather(const Tensor& row) = 0;
  /// The sum of all ranks' tensors of one shape, the same bits on each.
  virtual Tensor sum(const Tensor& sums) = 0;
};

/// Normalises each channel (last dimension) of x by its own mean and biased variance over all other dimensions
/// (Ioffe and Szegedy 2015). gamma and beta [C], either may be none. `statistics` receives [2C + 1], a row for
/// `merge_moments`: the number of values per channel, the means and the sums of squared deviations, in the compute
/// type. InputError if there is only one value per channel (none at all is legal).
///
/// With a group (of ranks, or none: this rank's rows alone) x is this rank's rows of all, and means, variances and
/// x's gradient are those of all rows; `statistics` is the same on every rank. The gradients of gamma, beta and slope
/// are sums over this rank's rows: partial, to be added up over the ranks as they would without synchronisation.
Variable batch_norm(const Variable& x, const Variable& gamma, const Variable& beta, double epsilon,
                    const NormEpilogue& epilogue, Tensor& statistics,
                    const std::shared_ptr<StatisticsGroup>& group = nullptr);
/// The same with given statistics [C], which are constants.
Variable batch_norm_inference(const Variable& x, const Tensor& mean, const Tensor& variance, const Variable& gamma,
                              const Variable& beta, double epsilon, const NormEpilogue& epilogue);

/// Over the last dimension (Ba, Kiros and Hinton 2016); gamma and beta [C] of the compute type, either may be none.
Variable layer_norm(const Variable& x, const Variable& gamma, const Variable& beta, double epsilon);

/// Rows of unit length: x / max(|x|, epsilon) over the last dimension. The gradient is that of x / |x|: epsilon is far
/// below the norms of rows that have one.
Variable l2_normalize(const Variable& x, double epsilon = 1e-12);

}  // namespace heddle
