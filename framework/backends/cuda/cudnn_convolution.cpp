#include "framework/backends/cuda/cudnn_convolution.h"

#include <limits>
#include <vector>

#include "framework/backends/cuda/cuda_kernels.h"

namespace heddle::cuda {

namespace {

bool is_unsupported(cudnnStatus_t status) {
  constexpr int category = 1000;
  return status / category == CUDNN_STATUS_NOT_SUPPORTED / category;
}

void check(cudnnStatus_t status, std::string_view call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  if (status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED)
    fail<OutOfMemory>("cuda: {}: {}", call, cudnnGetErrorString(status));
  fail("cuda: {}: {} (cuDNN's status {})", call, cudnnGetErrorString(status), static_cast<int>(status));
}

// The three parts of a convolution, whose functions cuDNN names differently and gives their operands in other orders.

struct Forward {
  using Algorithm = cudnnConvolutionFwdAlgo_t;
  using Proposal = cudnnConvolutionFwdAlgoPerf_t;
  static bool is_winograd(Algorithm algorithm) {
    return algorithm == CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD ||
           algorithm == CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED;
  }
  static cudnnStatus_t count(cudnnHandle_t handle, int* count) {
    return cudnnGetConvolutionForwardAlgorithmMaxCount(handle, count);
  }
  static cudnnStatus_t propose(cudnnHandle_t handle, const CudnnConvolution& c, std::vector<Proposal>& proposals,
                               int* count) {
    return cudnnGetConvolutionForwardAlgorithm_v7(handle, c.x.get(), c.weight.get(), c.operation.get(), c.y.get(),
                                                  static_cast<int>(proposals.size()), count, proposals.data());
  }
  static cudnnStatus_t workspace(cudnnHandle_t handle, const CudnnConvolution& c, Algorithm algorithm,
                                 std::size_t* bytes) {
    return cudnnGetConvolutionForwardWorkspaceSize(handle, c.x.get(), c.weight.get(), c.operation.get(), c.y.get(),
                                                   algorithm, bytes);
  }
  static cudnnStatus_t run(cudnnHandle_t handle, const CudnnConvolution& c, const float* one, const float* zero,
                           void* x, void* weight, void* y, void* workspace) {
    return cudnnConvolutionForward(handle, one, c.x.get(), x, c.weight.get(), weight, c.operation.get(),
                                   static_cast<Algorithm>(c.algorithm), workspace, c.workspace, zero, c.y.get(), y);
  }
};

struct BackwardInput {
  using Algorithm = cudnnConvolutionBwdDataAlgo_t;
  using Proposal = cudnnConvolutionBwdDataAlgoPerf_t;
  static bool is_winograd(Algorithm algorithm) {
    return algorithm == CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD ||
           algorithm == CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED;
  }
  static cudnnStatus_t count(cudnnHandle_t handle, int* count) {
    return cudnnGetConvolutionBackwardDataAlgorithmMaxCount(handle, count);
  }
  static cudnnStatus_t propose(cudnnHandle_t handle, const CudnnConvolution& c, std::vector<Proposal>& proposals,
                               int* count) {
    return cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, c.weight.get(), c.y.get(), c.operation.get(), c.x.get(),
                                                       static_cast<int>(proposals.size()), count, proposals.data());
  }
  static cudnnStatus_t workspace(cudnnHandle_t handle, const CudnnConvolution& c, Algorithm algorithm,
                                 std::size_t* bytes) {
    return cudnnGetConvolutionBackwardDataWorkspaceSize(handle, c.weight.get(), c.y.get(), c.operation.get(), c.x.get(),
                                                        algorithm, bytes);
  }
  static cudnnStatus_t run(cudnnHandle_t handle, const CudnnConvolution& c, const float* one, const float* zero,
                           void* x, void* weight, void* y, void* workspace) {
    return cudnnConvolutionBackwardData(handle, one, c.weight.get(), weight, c.y.get(), y, c.operation.get(),
                                        static_cast<Algorithm>(c.algorithm), workspace, c.workspace, zero, c.x.get(),
                                        x);
  }
};

struct BackwardWeight {
  using Algorithm = cudnnConvolutionBwdFilterAlgo_t;
  using Proposal = cudnnConvolutionBwdFilterAlgoPerf_t;
  static bool is_winograd(Algorithm algorithm) {
    return algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD ||
           algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED;
  }
  static cudnnStatus_t count(cudnnHandle_t handle, int* count) {
    return cudnnGetConvolutionBackwardFilterAlgorithmMaxCount(handle, count);
  }
  static cudnnStatus_t propose(cudnnHandle_t handle, const CudnnConvolution& c, std::vector<Proposal>& proposals,
                               int* count) {
    return cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle, c.x.get(), c.y.get(), c.operation.get(),
                                                         c.weight.get(), static_cast<int>(proposals.size()), count,
                                                         proposals.data());
  }
  static cudnnStatus_t workspace(cudnnHandle_t handle, const CudnnConvolution& c, Algorithm algorithm,
                                 std::size_t* bytes) {
    return cudnnGetConvolutionBackwardFilterWorkspaceSize(handle, c.x.get(), c.y.get(), c.operation.get(),
                                                          c.weight.get(), algorithm, bytes);
  }
  static cudnnStatus_t run(cudnnHandle_t handle, const CudnnConvolution& c, const float* one, const float* zero,
                           void* x, void* weight, void* y, void* workspace) {
    return cudnnConvolutionBackwardFilter(handle, one, c.x.get(), x, c.y.get(), y, c.operation.get(),
                                          static_cast<Algorithm>(c.algorithm), workspace, c.workspace, zero,
                                          c.weight.get(), weight);
  }
};

template <class F>
auto visit_part(ConvolutionPart part, F&& f) {
  switch (part) {
    case ConvolutionPart::forward:
      return f(Forward());
    case ConvolutionPart::backward_input:
      return f(BackwardInput());
    default:
      return f(BackwardWeight());
  }
}

/// The fastest proposal that is deterministic and fits; false if there is none.
template <class Part>
bool choose(cudnnHandle_t handle, bool keeps_f32, CudnnConvolution& c) {
  int count = 0;
  check(Part::count(handle, &count), "a convolution's number of algorithms");
  std::vector<typename Part::Proposal> proposals(static_cast<std::size_t>(count));
  const cudnnStatus_t status = Part::propose(handle, c, proposals, &count);
  if (is_unsupported(status)) return false;
  check(status, "a convolution's algorithms");
  proposals.resize(static_cast<std::size_t>(count));
  for (const auto& proposal : proposals) {
    if (proposal.status != CUDNN_STATUS_SUCCESS || proposal.determinism != CUDNN_DETERMINISTIC ||
        Part::is_winograd(proposal.algo))
      continue;
    // Whatever a proposal says.
    check(cudnnSetConvolutionMathType(c.operation.get(), keeps_f32 ? CUDNN_FMA_MATH : proposal.mathType),
          "cudnnSetConvolutionMathType");
    if (Part::workspace(handle, c, proposal.algo, &c.workspace) != CUDNN_STATUS_SUCCESS ||
        c.workspace > CudnnConvolutions::most_workspace)
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

/// The arithmetic that algorithms are asked for: f32's default would be TF32, f16's no tensor cores.
cudnnMathType_t library_math(DType dtype, bool tf32) {
  switch (dtype) {
    case DType::f32:
      return tf32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH;
    case DType::f16:
      return CUDNN_TENSOR_OP_MATH;
    default:
      return CUDNN_DEFAULT_MATH;
  }
}

/// An owner of what `create` makes.
template <class Pointer, class Descriptor>
Pointer created(cudnnStatus_t (*create)(Descriptor*), std::string_view call) {
  Descriptor descriptor = nullptr;
  check(create(&descriptor), call);
  return Pointer(descriptor);
}

/// False if cuDNN does not take such sizes.
bool describe(const ConvolutionGeometry& g, DType dtype, bool tf32, CudnnConvolution& c) {
  const auto create_tensor = [](auto& tensor) {
    tensor =
        created<std::remove_reference_t<decltype(tensor)>>(cudnnCreateTensorDescriptor, "cudnnCreateTensorDescriptor");
  };
  create_tensor(c.x);
  create_tensor(c.y);
  c.weight = created<decltype(c.weight)>(cudnnCreateFilterDescriptor, "cudnnCreateFilterDescriptor");
  c.operation = created<decltype(c.operation)>(cudnnCreateConvolutionDescriptor, "cudnnCreateConvolutionDescriptor");
  const auto number = [](std::int64_t value) { return static_cast<int>(value); };
  const cudnnDataType_t type = library_type(dtype);
  const auto describe_images = [&](cudnnTensorDescriptor_t tensor, const Extent& extent, std::int64_t channels) {
    return cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NHWC, type, number(g.batch), number(channels),
                                      number(extent.height), number(extent.width));
  };
  const cudnnStatus_t x = describe_images(c.x.get(), g.input, g.in_channels);
  const cudnnStatus_t y = describe_images(c.y.get(), g.output, g.out_channels);
  if (is_unsupported(x) || is_unsupported(y)) return false;
  check(x, "cudnnSetTensor4dDescriptor");
  check(y, "cudnnSetTensor4dDescriptor");
  check(cudnnSetFilter4dDescriptor(c.weight.get(), type, CUDNN_TENSOR_NHWC, number(g.out_channels),
                                   number(g.in_channels / g.groups), number(g.kernel.height), number(g.kernel.width)),
        "cudnnSetFilter4dDescriptor");
  check(cudnnSetConvolution2dDescriptor(c.operation.get(), number(g.padding.height), number(g.padding.width),
                                        number(g.stride.height), number(g.stride.width), number(g.dilation.height),
                                        number(g.dilation.width), CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
        "cudnnSetConvolution2dDescriptor");
  check(cudnnSetConvolutionGroupCount(c.operation.get(), number(g.groups)), "cudnnSetConvolutionGroupCount");
  check(cudnnSetConvolutionMathType(c.operation.get(), library_math(dtype, tf32)), "cudnnSetConvolutionMathType");
  return true;
}

}  // namespace

cudnnHandle_t CudnnConvolutions::handle() {
  if (!handle_) {
    open_cublas_lt();
    handle_ = created<decltype(handle_)>(cudnnCreate, "cudnnCreate");
    check(cudnnSetStream(handle_.get(), context_.stream()), "cudnnSetStream");
  }
  return handle_.get();
}

std::optional<CudnnConvolution> CudnnConvolutions::make(const ConvolutionGeometry& g, ConvolutionPart part,
                                                        DType dtype) {
  if (dtype == DType::f64) return {};
  // Its images have fewer than 2^31 elements.
  constexpr std::int64_t most = std::numeric_limits<int>::max();
  if (g.batch * g.input.height * g.input.width * g.in_channels > most ||
      g.batch * g.output.height * g.output.width * g.out_channels > most)
    return {};
  CudnnConvolution c;
  c.part = part;
  const bool is_found = describe(g, dtype, context_.uses_tf32(), c) && visit_part(part, [&]<class Part>(Part) {
                          return choose<Part>(handle(), dtype == DType::f32 && !context_.uses_tf32(), c);
                        });
  return is_found ? std::optional(std::move(c)) : std::nullopt;
}

const CudnnConvolution* CudnnConvolutions::find(const ConvolutionGeometry& g, ConvolutionPart part, DType dtype) {
  const Key key{g.batch,
                g.input.height,
                g.input.width,
                g.in_channels,
                g.output.height,
                g.output.width,
                g.out_channels,
                g.kernel.height,
                g.kernel.width,
                g.stride.height,
                g.stride.width,
                g.padding.height,
                g.padding.width,
                g.dilation.height,
                g.dilation.width,
                g.groups,
                static_cast<std::int64_t>(part),
                static_cast<std::int64_t>(dtype)};
  auto place = cache_.find(key);
  if (place == cache_.end()) place = cache_.emplace(key, make(g, part, dtype)).first;
  return place->second ? &*place->second : nullptr;
}

bool CudnnConvolutions::run(const CudnnConvolution& convolution, void* x, void* weight, void* y, void* workspace) {
  constexpr float one = 1;
  constexpr float zero = 0;
  const cudnnStatus_t status = visit_part(convolution.part, [&]<class Part>(Part) {
    return Part::run(handle(), convolution, &one, &zero, x, weight, y, workspace);
  });
  if (is_unsupported(status)) return false;
  check(status, "a convolution");
  return true;
}

}  // namespace heddle::cuda
