#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <vector>

#include "framework/tensors/dtype.h"
#include "tests/support/cuda_on_host/cudnn_descriptors.h"
#include "tests/support/cuda_on_host/tf32.h"

namespace {

/// A convolution's descriptors. x and y are the images that forward reads and writes.
struct Convolution {
  const cudnnTensorStruct* x;
  const cudnnFilterStruct* weight;
  const cudnnConvolutionStruct* operation;
  const cudnnTensorStruct* y;

  std::int64_t output(int dimension) const {
    const std::int64_t in = dimension == 0 ? x->height : x->width;
    const std::int64_t taps = dimension == 0 ? weight->height : weight->width;
    return (in + 2 * operation->pad[dimension] - operation->dilation[dimension] * (taps - 1) - 1) /
               operation->stride[dimension] +
           1;
  }

  cudnnStatus_t check(cudnnHandle_t handle) const {
    if (handle == nullptr || handle->stream == nullptr) return CUDNN_STATUS_NOT_INITIALIZED;
    if (x == nullptr || weight == nullptr || operation == nullptr || y == nullptr)
      return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    const std::int64_t groups = operation->groups;
    if (x->type != y->type || x->type != weight->type) return CUDNN_STATUS_BAD_PARAM;
    if (x->channels != weight->channels * groups || y->channels != weight->filters || weight->filters % groups != 0 ||
        x->batch != y->batch || y->height != output(0) || y->width != output(1))
      return CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH;
    if (x->type == CUDNN_DATA_DOUBLE) return CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE;
    // Which groups the library takes depends on the GPU; so that both ways are tested, some are refused.
    if (groups > 1 && weight->channels % 4 != 0) return CUDNN_STATUS_NOT_SUPPORTED_SHAPE;
    return CUDNN_STATUS_SUCCESS;
  }
};

/// The algorithms that are proposed.
enum class Kind { plain, winograd, large, varying, none };

template <class Algorithm>
struct Offer {
  Algorithm algorithm;
  Kind kind;
};
constexpr Offer<cudnnConvolutionFwdAlgo_t> forward_offers[] = {
    {CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED, Kind::winograd},
    {CUDNN_CONVOLUTION_FWD_ALGO_FFT, Kind::large},
    {CUDNN_CONVOLUTION_FWD_ALGO_GEMM, Kind::none},
    {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, Kind::plain},
};
constexpr Offer<cudnnConvolutionBwdDataAlgo_t> backward_data_offers[] = {
    {CUDNN_CONVOLUTION_BWD_DATA_ALGO_0, Kind::varying},
    {CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, Kind::plain},
};
constexpr Offer<cudnnConvolutionBwdFilterAlgo_t> backward_filter_offers[] = {
    {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0, Kind::varying},
    {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, Kind::plain},
};

std::size_t workspace_of(Kind kind, const Convolution& c) {
  constexpr std::size_t unit = 512;
  return kind == Kind::large ? std::size_t{1} << 30
                             : unit * static_cast<std::size_t>(c.x->batch * c.operation->stride[0] - 1);
}

template <class Algorithm, std::size_t size>
cudnnStatus_t propose(cudnnHandle_t handle, const Convolution& c, const Offer<Algorithm> (&offers)[size], int requested,
                      int* returned, ProposalOnHost<Algorithm>* proposals) {
  if (requested < 1 || returned == nullptr || proposals == nullptr) return CUDNN_STATUS_BAD_PARAM;
  const cudnnStatus_t status = c.check(handle);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  *returned = 0;
  for (const Offer<Algorithm>& offer : offers) {
    if (*returned == requested) break;
    ProposalOnHost<Algorithm>& proposal = proposals[(*returned)++];
    proposal = {};
    proposal.algo = offer.algorithm;
    proposal.status = offer.kind == Kind::none ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS;
    proposal.memory = workspace_of(offer.kind, c);
    proposal.determinism = offer.kind == Kind::varying ? CUDNN_NON_DETERMINISTIC : CUDNN_DETERMINISTIC;
    proposal.mathType = c.x->type == CUDNN_DATA_FLOAT ? CUDNN_DEFAULT_MATH : CUDNN_TENSOR_OP_MATH;
  }
  return CUDNN_STATUS_SUCCESS;
}

template <class Algorithm, std::size_t size>
Kind kind_of(const Offer<Algorithm> (&offers)[size], Algorithm algorithm) {
  for (const Offer<Algorithm>& offer : offers)
    if (offer.algorithm == algorithm) return offer.kind;
  return Kind::none;
}

cudnnStatus_t workspace_size(cudnnHandle_t handle, const Convolution& c, Kind kind, std::size_t* bytes) {
  const cudnnStatus_t status = c.check(handle);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (bytes == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  if (kind == Kind::none) return CUDNN_STATUS_NOT_SUPPORTED;
  *bytes = workspace_of(kind, c);
  return CUDNN_STATUS_SUCCESS;
}

struct Call {
  const void* alpha;
  const void* beta;
  void* workspace;
  std::size_t workspace_bytes;
};

cudnnStatus_t check_call(cudnnHandle_t handle, const Convolution& c, Kind kind, const Call& call,
                         std::initializer_list<const void*> images) {
  const cudnnStatus_t status = c.check(handle);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  for (const void* const image : images) {
    if (image == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    if (reinterpret_cast<std::uintptr_t>(image) % 16 != 0) return CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER;
  }
  if (call.alpha == nullptr || call.beta == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  if (*static_cast<const float*>(call.alpha) != 1 || *static_cast<const float*>(call.beta) != 0)
    return CUDNN_STATUS_NOT_SUPPORTED;
  // No other kind is what the backend promises: the same bits every time.
  if (kind != Kind::plain) return CUDNN_STATUS_EXECUTION_FAILED;
  // What was proposed may be refused in the end.
  if (c.operation->dilation[1] == 3) return CUDNN_STATUS_NOT_SUPPORTED_SHAPE;
  const std::size_t bytes = workspace_of(kind, c);
  if (call.workspace_bytes < bytes) return CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT;
  if (bytes > 0 && call.workspace == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  return CUDNN_STATUS_SUCCESS;
}

/// Queues compute(convolution) on the handle's stream, if the call is right. The descriptors may be destroyed by the
/// time that it runs.
template <class F>
cudnnStatus_t run(cudnnHandle_t handle, const Convolution& c, Kind kind, const Call& call,
                  std::initializer_list<const void*> images, F compute) {
  const cudnnStatus_t status = check_call(handle, c, kind, call, images);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  count_call(&CallsOnHost::convolutions);
  put_on(handle->stream, [x = *c.x, weight = *c.weight, operation = *c.operation, y = *c.y, compute,
                          workspace = call.workspace, bytes = workspace_of(kind, c)] {
    if (bytes > 0) std::memset(workspace, 0xFF, bytes);
    compute(Convolution{&x, &weight, &operation, &y});
  });
  return CUDNN_STATUS_SUCCESS;
}

template <class F>
void visit_layout(cudnnDataType_t type, F&& f) {
  switch (type) {
    case CUDNN_DATA_DOUBLE:
      return f(double{});
    case CUDNN_DATA_FLOAT:
      return f(float{});
    case CUDNN_DATA_HALF:
      return f(heddle::Float16{});
    case CUDNN_DATA_BFLOAT16:
      return f(heddle::BFloat16{});
  }
}

std::int64_t size_of(const cudnnTensorStruct& x) {
  return x.batch * x.height * x.width * x.channels;
}
std::int64_t size_of(const cudnnFilterStruct& weight) {
  return weight.filters * weight.height * weight.width * weight.channels;
}

template <class Descriptor>
std::vector<float> widened(const Descriptor& layout, const cudnnConvolutionStruct& operation, const void* data) {
  std::vector<float> values;
  visit_layout(layout.type, [&]<class T>(T) {
    const T* const from = static_cast<const T*>(data);
    for (std::int64_t i = 0; i < size_of(layout); ++i) values.push_back(static_cast<float>(from[i]));
  });
  if (layout.type == CUDNN_DATA_FLOAT && operation.math != CUDNN_FMA_MATH)
    std::transform(values.begin(), values.end(), values.begin(), to_tf32);
  return values;
}
template <class Descriptor, class Sum>
void narrow(const Descriptor& layout, const std::vector<Sum>& values, void* data) {
  visit_layout(layout.type, [&]<class T>(T) {
    T* const to = static_cast<T*>(data);
    for (std::size_t i = 0; i < values.size(); ++i) to[i] = static_cast<T>(static_cast<float>(values[i]));
  });
}

/// Calls f(first element of the input pixel, of the output cell, and of the tap in a filter) for each tap that meets
/// a pixel.
template <class F>
void for_each_tap(const Convolution& c, F&& f) {
  const cudnnConvolutionStruct& o = *c.operation;
  for (std::int64_t n = 0; n < c.x->batch; ++n)
    for (std::int64_t i = 0; i < c.y->height; ++i)
      for (std::int64_t j = 0; j < c.y->width; ++j)
        for (std::int64_t a = 0; a < c.weight->height; ++a)
          for (std::int64_t b = 0; b < c.weight->width; ++b) {
            const std::int64_t h = i * o.stride[0] - o.pad[0] + a * o.dilation[0];
            const std::int64_t w = j * o.stride[1] - o.pad[1] + b * o.dilation[1];
            if (h < 0 || w < 0 || h >= c.x->height || w >= c.x->width) continue;
            f(((n * c.x->height + h) * c.x->width + w) * c.x->channels,
              ((n * c.y->height + i) * c.y->width + j) * c.y->channels, (a * c.weight->width + b) * c.weight->channels);
          }
}

/// Calls f(filter, input channel of its group, element of the weight) for the filters' rows at one tap.
template <class F>
void each_filter(const Convolution& c, std::int64_t tap, F&& f) {
  const std::int64_t filter_size = c.weight->height * c.weight->width * c.weight->channels;
  const std::int64_t group_filters = c.weight->filters / c.operation->groups;
  for (std::int64_t filter = 0; filter < c.weight->filters; ++filter)
    f(filter, filter / group_filters * c.weight->channels, filter * filter_size + tap);
}

std::vector<float> forward_sums(const Convolution& c, const void* x, const void* weight) {
  const std::vector<float> inputs = widened(*c.x, *c.operation, x);
  const std::vector<float> weights = widened(*c.weight, *c.operation, weight);
  std::vector<float> sums(static_cast<std::size_t>(size_of(*c.y)));
  for_each_tap(c, [&](std::int64_t pixel, std::int64_t cell, std::int64_t tap) {
    each_filter(c, tap, [&](std::int64_t filter, std::int64_t channel, std::int64_t at) {
      const float* const from = inputs.data() + pixel + channel;
      const float* const factor = weights.data() + at;
      float sum = 0;
      for (std::int64_t i = 0; i < c.weight->channels; ++i) sum += from[i] * factor[i];
      sums[static_cast<std::size_t>(cell + filter)] += sum;
    });
  });
  return sums;
}

/// The status that the library returns for a bias and the activation that follows.
cudnnStatus_t check_epilogue(const Convolution& c, cudnnConvolutionFwdAlgo_t algorithm, const cudnnTensorStruct* z,
                             const cudnnTensorStruct* bias, const cudnnActivationStruct* activation) {
  if (z == nullptr || bias == nullptr || activation == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  const cudnnTensorStruct channels{c.y->type, 1, c.y->channels, 1, 1};
  if (!(*z == *c.y) || !(*bias == channels)) return CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH;
  if (activation->propagation != CUDNN_NOT_PROPAGATE_NAN) return CUDNN_STATUS_NOT_SUPPORTED;
  if (activation->mode != CUDNN_ACTIVATION_IDENTITY || algorithm != CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM)
    return CUDNN_STATUS_BAD_PARAM;
  return c.operation->stride[0] == 3 ? CUDNN_STATUS_NOT_SUPPORTED_SHAPE : CUDNN_STATUS_SUCCESS;
}

}  // namespace

cudnnStatus_t cudnnGetConvolutionForwardAlgorithmMaxCount(cudnnHandle_t /*handle*/, int* count) {
  *count = static_cast<int>(std::size(forward_offers));
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t handle, cudnnTensorDescriptor_t x,
                                                     cudnnFilterDescriptor_t weight,
                                                     cudnnConvolutionDescriptor_t operation, cudnnTensorDescriptor_t y,
                                                     int requested, int* returned,
                                                     cudnnConvolutionFwdAlgoPerf_t* proposals) {
  return propose(handle, {x, weight, operation, y}, forward_offers, requested, returned, proposals);
}
cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t handle, cudnnTensorDescriptor_t x,
                                                      cudnnFilterDescriptor_t weight,
                                                      cudnnConvolutionDescriptor_t operation, cudnnTensorDescriptor_t y,
                                                      cudnnConvolutionFwdAlgo_t algorithm, std::size_t* bytes) {
  return workspace_size(handle, {x, weight, operation, y}, kind_of(forward_offers, algorithm), bytes);
}
cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x_layout,
                                      const void* x, cudnnFilterDescriptor_t weight_layout, const void* weight,
                                      cudnnConvolutionDescriptor_t operation, cudnnConvolutionFwdAlgo_t algorithm,
                                      void* workspace, std::size_t workspace_bytes, const void* beta,
                                      cudnnTensorDescriptor_t y_layout, void* y) {
  return run(handle, {x_layout, weight_layout, operation, y_layout}, kind_of(forward_offers, algorithm),
             {alpha, beta, workspace, workspace_bytes}, {x, weight, y},
             [x, weight, y](const Convolution& c) { narrow(*c.y, forward_sums(c, x, weight), y); });
}
cudnnStatus_t cudnnConvolutionBiasActivationForward(
    cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x_layout, const void* x,
    cudnnFilterDescriptor_t weight_layout, const void* weight, cudnnConvolutionDescriptor_t operation,
    cudnnConvolutionFwdAlgo_t algorithm, void* workspace, std::size_t workspace_bytes, const void* beta,
    cudnnTensorDescriptor_t z_layout, const void* z, cudnnTensorDescriptor_t bias_layout, const void* bias,
    cudnnActivationDescriptor_t activation, cudnnTensorDescriptor_t y_layout, void* y) {
  const Convolution asked{x_layout, weight_layout, operation, y_layout};
  const Kind kind = kind_of(forward_offers, algorithm);
  const Call call{alpha, beta, workspace, workspace_bytes};
  cudnnStatus_t status = check_call(handle, asked, kind, call, {x, weight, z, bias, y});
  if (status == CUDNN_STATUS_SUCCESS) status = check_epilogue(asked, algorithm, z_layout, bias_layout, activation);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (x == z || x == y) return CUDNN_STATUS_BAD_PARAM;
  return run(handle, asked, kind, call, {x, weight, y},
             [x, weight, y, bias, channels = *bias_layout](const Convolution& c) {
               std::vector<float> sums = forward_sums(c, x, weight);
               // A bias is no operand of the products: it is not rounded to TF32.
               cudnnConvolutionStruct exact = *c.operation;
               exact.math = CUDNN_FMA_MATH;
               const std::vector<float> biases = widened(channels, exact, bias);
               for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += biases[i % biases.size()];
               narrow(*c.y, sums, y);
             });
}

cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithmMaxCount(cudnnHandle_t /*handle*/, int* count) {
  *count = static_cast<int>(std::size(backward_data_offers));
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t handle, cudnnFilterDescriptor_t weight,
                                                          cudnnTensorDescriptor_t dy,
                                                          cudnnConvolutionDescriptor_t operation,
                                                          cudnnTensorDescriptor_t dx, int requested, int* returned,
                                                          cudnnConvolutionBwdDataAlgoPerf_t* proposals) {
  return propose(handle, {dx, weight, operation, dy}, backward_data_offers, requested, returned, proposals);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(cudnnHandle_t handle, cudnnFilterDescriptor_t weight,
                                                           cudnnTensorDescriptor_t dy,
                                                           cudnnConvolutionDescriptor_t operation,
                                                           cudnnTensorDescriptor_t dx,
                                                           cudnnConvolutionBwdDataAlgo_t algorithm,
                                                           std::size_t* bytes) {
  return workspace_size(handle, {dx, weight, operation, dy}, kind_of(backward_data_offers, algorithm), bytes);
}
cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha,
                                           cudnnFilterDescriptor_t weight_layout, const void* weight,
                                           cudnnTensorDescriptor_t dy_layout, const void* dy,
                                           cudnnConvolutionDescriptor_t operation,
                                           cudnnConvolutionBwdDataAlgo_t algorithm, void* workspace,
                                           std::size_t workspace_bytes, const void* beta,
                                           cudnnTensorDescriptor_t dx_layout, void* dx) {
  return run(handle, {dx_layout, weight_layout, operation, dy_layout}, kind_of(backward_data_offers, algorithm),
             {alpha, beta, workspace, workspace_bytes}, {dx, weight, dy}, [dx, weight, dy](const Convolution& c) {
               const std::vector<float> gradients = widened(*c.y, *c.operation, dy);
               const std::vector<float> weights = widened(*c.weight, *c.operation, weight);
               std::vector<float> sums(static_cast<std::size_t>(size_of(*c.x)));
               for_each_tap(c, [&](std::int64_t pixel, std::int64_t cell, std::int64_t tap) {
                 each_filter(c, tap, [&](std::int64_t filter, std::int64_t channel, std::int64_t at) {
                   const float factor = gradients[static_cast<std::size_t>(cell + filter)];
                   const float* const from = weights.data() + at;
                   float* const to = sums.data() + pixel + channel;
                   for (std::int64_t i = 0; i < c.weight->channels; ++i) to[i] += factor * from[i];
                 });
               });
               narrow(*c.x, sums, dx);
             });
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithmMaxCount(cudnnHandle_t /*handle*/, int* count) {
  *count = static_cast<int>(std::size(backward_filter_offers));
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t dy, cudnnConvolutionDescriptor_t operation,
    cudnnFilterDescriptor_t dweight, int requested, int* returned, cudnnConvolutionBwdFilterAlgoPerf_t* proposals) {
  return propose(handle, {x, dweight, operation, dy}, backward_filter_offers, requested, returned, proposals);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t dy, cudnnConvolutionDescriptor_t operation,
    cudnnFilterDescriptor_t dweight, cudnnConvolutionBwdFilterAlgo_t algorithm, std::size_t* bytes) {
  return workspace_size(handle, {x, dweight, operation, dy}, kind_of(backward_filter_offers, algorithm), bytes);
}
cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x_layout,
                                             const void* x, cudnnTensorDescriptor_t dy_layout, const void* dy,
                                             cudnnConvolutionDescriptor_t operation,
                                             cudnnConvolutionBwdFilterAlgo_t algorithm, void* workspace,
                                             std::size_t workspace_bytes, const void* beta,
                                             cudnnFilterDescriptor_t dweight_layout, void* dweight) {
  return run(handle, {x_layout, dweight_layout, operation, dy_layout}, kind_of(backward_filter_offers, algorithm),
             {alpha, beta, workspace, workspace_bytes}, {x, dweight, dy}, [x, dweight, dy](const Convolution& c) {
               const std::vector<float> inputs = widened(*c.x, *c.operation, x);
               const std::vector<float> gradients = widened(*c.y, *c.operation, dy);
               std::vector<double> sums(static_cast<std::size_t>(size_of(*c.weight)));
               for_each_tap(c, [&](std::int64_t pixel, std::int64_t cell, std::int64_t tap) {
                 each_filter(c, tap, [&](std::int64_t filter, std::int64_t channel, std::int64_t at) {
                   const double factor = static_cast<double>(gradients[static_cast<std::size_t>(cell + filter)]);
                   const float* const from = inputs.data() + pixel + channel;
                   double* const to = sums.data() + at;
                   for (std::int64_t i = 0; i < c.weight->channels; ++i) to[i] += factor * static_cast<double>(from[i]);
                 });
               });
               narrow(*c.weight, sums, dweight);
             });
}
