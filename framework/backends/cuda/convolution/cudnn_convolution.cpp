#include "framework/backends/cuda/convolution/cudnn_convolution.h"

#include <array>
#include <limits>
#include <string>
#include <utility>

#include "framework/backends/cuda/convolution/cudnn_parts.h"
#include "framework/backends/cuda/device/cublas_lt.h"
#include "framework/backends/gpu.h"

namespace heddle::cuda {

namespace {

bool is_unsupported(cudnnStatus_t status) {
  constexpr int category = 1000;
  return status / category == CUDNN_STATUS_NOT_SUPPORTED / category;
}

void check_cudnn(cudnnStatus_t status, std::string_view call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  if (status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED)
    fail<OutOfMemory>("cuda: {}: {}", call, cudnnGetErrorString(status));
  fail("cuda: {}: {} (cuDNN's status {})", call, cudnnGetErrorString(status), static_cast<int>(status));
}

/// The fastest proposal that is deterministic and fits; false if there is none.
template <class Part>
bool choose(cudnnHandle_t handle, bool keeps_f32, CudnnConvolution& c) {
  int count = 0;
  check_cudnn(Part::count(handle, &count), "a convolution's number of algorithms");
  std::vector<typename Part::Proposal> proposals(static_cast<std::size_t>(count));
  const cudnnStatus_t status = Part::propose(handle, c, proposals, &count);
  if (is_unsupported(status)) return false;
  check_cudnn(status, "a convolution's algorithms");
  proposals.resize(static_cast<std::size_t>(count));
  for (const auto& proposal : proposals) {
    if (proposal.status != CUDNN_STATUS_SUCCESS || proposal.determinism != CUDNN_DETERMINISTIC ||
        Part::is_winograd(proposal.algo))
      continue;
    c.math = keeps_f32 ? CUDNN_FMA_MATH : proposal.mathType;  // whatever a proposal says
    check_cudnn(cudnnSetConvolutionMathType(c.operation.get(), c.math), "cudnnSetConvolutionMathType");
    if (Part::workspace(handle, c, proposal.algo, &c.workspace) != CUDNN_STATUS_SUCCESS ||
        c.workspace > max_cudnn_workspace)
      continue;
    c.algorithm = static_cast<int>(proposal.algo);
    return true;
  }
  return false;
}

cudnnDataType_t library_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return CUDNN_DATA_FLOAT;
    case DType::bf16:
      return CUDNN_DATA_BFLOAT16;
    default:
      return CUDNN_DATA_HALF;
  }
}

/// The arithmetic that algorithms are asked for: f32's default would be TF32, that of 16 bits no tensor cores.
cudnnMathType_t library_math(DType dtype, bool tf32) {
  if (dtype != DType::f32) return CUDNN_TENSOR_OP_MATH;
  return tf32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH;
}

/// The owner of what `create` makes.
template <class Pointer, class Descriptor>
Pointer created(cudnnStatus_t (*create)(Descriptor*), std::string_view call) {
  Descriptor descriptor = nullptr;
  check_cudnn(create(&descriptor), call);
  return Pointer(descriptor);
}

int number(std::int64_t value) {
  return static_cast<int>(value);
}

/// Makes the descriptor of NHWC images.
cudnnStatus_t describe(CudnnTensor& images, DType dtype, std::int64_t batch, const Extent& extent,
                       std::int64_t channels) {
  images = created<CudnnTensor>(cudnnCreateTensorDescriptor, "cudnnCreateTensorDescriptor");
  return cudnnSetTensor4dDescriptor(images.get(), CUDNN_TENSOR_NHWC, library_type(dtype), number(batch),
                                    number(channels), number(extent.height), number(extent.width));
}

/// False if cuDNN does not take such sizes.
bool describe(const ConvolutionGeometry& g, DType dtype, bool tf32, CudnnConvolution& c) {
  c.weight = created<decltype(c.weight)>(cudnnCreateFilterDescriptor, "cudnnCreateFilterDescriptor");
  c.operation = created<decltype(c.operation)>(cudnnCreateConvolutionDescriptor, "cudnnCreateConvolutionDescriptor");
  const cudnnStatus_t x = describe(c.x, dtype, g.batch, g.input, g.in_channels);
  const cudnnStatus_t y = describe(c.y, dtype, g.batch, g.output, g.out_channels);
  if (is_unsupported(x) || is_unsupported(y)) return false;
  check_cudnn(x, "cudnnSetTensor4dDescriptor");
  check_cudnn(y, "cudnnSetTensor4dDescriptor");
  check_cudnn(
      cudnnSetFilter4dDescriptor(c.weight.get(), library_type(dtype), CUDNN_TENSOR_NHWC, number(g.out_channels),
                                 number(g.in_channels / g.groups), number(g.kernel.height), number(g.kernel.width)),
      "cudnnSetFilter4dDescriptor");
  check_cudnn(
      cudnnSetConvolution2dDescriptor(c.operation.get(), number(g.padding.height), number(g.padding.width),
                                      number(g.stride.height), number(g.stride.width), number(g.dilation.height),
                                      number(g.dilation.width), CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
      "cudnnSetConvolution2dDescriptor");
  check_cudnn(cudnnSetConvolutionGroupCount(c.operation.get(), number(g.groups)), "cudnnSetConvolutionGroupCount");
  check_cudnn(cudnnSetConvolutionMathType(c.operation.get(), library_math(dtype, tf32)), "cudnnSetConvolutionMathType");
  return true;
}

/// Without an activation, only this one adds a bias.
bool can_add_bias(const CudnnConvolution& c) {
  return c.part == ConvolutionPart::forward && c.algorithm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
}

}  // namespace

ChosenConvolution chosen(const ConvolutionCase& c, std::string algorithm) {
  return {.geometry = to_string(c.geometry),
          .part = std::string(name_of(c.part)),
          .dtype = std::string(name_of(c.dtype)),
          .algorithm = std::move(algorithm)};
}

cudnnHandle_t CudnnConvolutions::handle() {
  if (!handle_) {
    open_cublas_lt();
    handle_ = created<decltype(handle_)>(cudnnCreate, "cudnnCreate");
    check_cudnn(cudnnSetStream(handle_.get(), context_.stream()), "cudnnSetStream");
  }
  return handle_.get();
}

cudnnActivationDescriptor_t CudnnConvolutions::identity() {
  if (!identity_) {
    identity_ = created<decltype(identity_)>(cudnnCreateActivationDescriptor, "cudnnCreateActivationDescriptor");
    check_cudnn(cudnnSetActivationDescriptor(identity_.get(), CUDNN_ACTIVATION_IDENTITY, CUDNN_NOT_PROPAGATE_NAN, 0),
                "cudnnSetActivationDescriptor");
  }
  return identity_.get();
}

std::optional<CudnnConvolution> CudnnConvolutions::make(const ConvolutionCase& wanted) {
  const auto& [g, part, dtype] = wanted;
  if (dtype == DType::f64) return {};
  // Its images have fewer than 2^31 elements.
  constexpr std::int64_t max_elements = std::numeric_limits<int>::max();
  if (g.batch * g.input.height * g.input.width * g.in_channels > max_elements ||
      g.batch * g.output.height * g.output.width * g.out_channels > max_elements)
    return {};
  CudnnConvolution c;
  c.part = part;
  const bool keeps_f32 = dtype == DType::f32 && !context_.uses_tf32();
  if (!describe(g, dtype, context_.uses_tf32(), c) ||
      !visit_part(part, [&]<class Part>(Part) { return choose<Part>(handle(), keeps_f32, c); }))
    return {};
  if (can_add_bias(c)) check_cudnn(describe(c.bias, dtype, 1, {1, 1}, g.out_channels), "cudnnSetTensor4dDescriptor");
  return c;
}

CudnnConvolution* CudnnConvolutions::find(const ConvolutionCase& c) {
  auto place = cache_.find(c);
  if (place == cache_.end()) place = cache_.emplace(c, make(c)).first;
  return place->second && !place->second->is_refused ? &*place->second : nullptr;
}

ConvolutionNeeds CudnnConvolutions::needs(const ConvolutionCase& c) {
  if (c.geometry.is_empty()) return {};
  const CudnnConvolution* const found = find(c);
  return {.workspace = found == nullptr ? 0 : static_cast<std::int64_t>(found->workspace)};
}

bool CudnnConvolutions::run(CudnnConvolution& convolution, void* x, void* weight, void* y, void* workspace) {
  constexpr float one = 1;
  constexpr float zero = 0;
  const cudnnStatus_t status = visit_part(convolution.part, [&]<class Part>(Part) {
    return Part::run(handle(), convolution, &one, &zero, x, weight, y, workspace);
  });
  convolution.is_refused = is_unsupported(status);
  if (!convolution.is_refused) check_cudnn(status, "a convolution");
  return !convolution.is_refused;
}

bool CudnnConvolutions::run_with_bias(CudnnConvolution& convolution, void* x, void* weight, void* bias, void* y,
                                      void* workspace) {
  if (!convolution.bias) return false;
  constexpr float one = 1;
  constexpr float zero = 0;
  // The function asks for a second summand: y, times zero.
  const CudnnConvolution& c = convolution;
  const cudnnStatus_t status =
      cudnnConvolutionBiasActivationForward(handle(), &one, c.x.get(), x, c.weight.get(), weight, c.operation.get(),
                                            static_cast<cudnnConvolutionFwdAlgo_t>(c.algorithm), workspace, c.workspace,
                                            &zero, c.y.get(), y, c.bias.get(), bias, identity(), c.y.get(), y);
  if (is_unsupported(status)) {
    convolution.bias.reset();
    return false;
  }
  check_cudnn(status, "a convolution with a bias");
  convolution.adds_bias = true;
  return true;
}

std::vector<ChosenConvolution> CudnnConvolutions::chosen() const {
  static constexpr std::array<std::string_view, 4> math{"default", "tensor_op", "tensor_op_allow_conversion", "fma"};
  std::vector<ChosenConvolution> all;
  for (const auto& [wanted, found] : cache_) {
    if (!found || found->is_refused) continue;
    const auto algorithm = static_cast<std::size_t>(found->algorithm);
    ChosenConvolution& row = all.emplace_back(cuda::chosen(wanted, visit_part(wanted.part, [&]<class Part>(Part) {
                                                             return std::string(Part::algorithms.at(algorithm));
                                                           })));
    row.math = math.at(static_cast<std::size_t>(found->math));
    row.workspace = static_cast<std::int64_t>(found->workspace);
    row.adds_bias = found->adds_bias;
  }
  return all;
}

}  // namespace heddle::cuda
