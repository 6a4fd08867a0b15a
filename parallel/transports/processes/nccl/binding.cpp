// NCCL and CUDA's runtime behind the interface.
#include <array>
#include <bit>
#include <utility>
#include <vector>

#include <cuda_runtime.h>
#include <nccl.h>
#include <unistd.h>

#include "framework/backends/cuda_events.h"
#include "parallel/transports/processes/nccl/functions.h"
#include "parallel/transports/processes/nccl/nccl.h"

namespace heddle {

namespace {

static_assert(sizeof(NcclId) == sizeof(ncclUniqueId));

/// Turns errors of the cuda backend into those of a path.
template <class Function>
auto or_lost(Function function) {
  try {
    return function();
  } catch (const ElementsLost&) {
    throw;
  } catch (const Error& error) {
    throw ElementsLost(error.what());
  }
}

void check_cuda(cudaError_t status, std::string_view call) {
  or_lost([&] { cuda::check(status, call); });
}

class StreamMark : public GpuMark {
 public:
  explicit StreamMark(std::shared_ptr<const cuda::Event> event) : event_(std::move(event)) {}
  bool is_reached() override {
    const cudaError_t status = cudaEventQuery(event_->get());
    if (status != cudaErrorNotReady) check_cuda(status, "cudaEventQuery");
    return status == cudaSuccess;
  }

 private:
  std::shared_ptr<const cuda::Event> event_;
};

class NcclBinding : public Nccl {
 public:
  NcclId new_id() override {
    ncclUniqueId id;
    functions_.check(functions_.get_unique_id(&id), "ncclGetUniqueId");
    return std::bit_cast<NcclId>(id);
  }
  NcclGpu gpu(const Device& device) override;
  std::unique_ptr<NcclCommunicator> join(const NcclId& id, int ranks, int rank, NcclUse use) override;

 private:
  NcclFunctions functions_;
};

class BoundCommunicator : public NcclCommunicator {
 public:
  BoundCommunicator(const NcclFunctions& functions, const NcclId& id, int ranks, int rank, NcclUse use)
      : functions_(functions), ranks_(ranks), rank_(rank), use_(use) {
    int least = 0;
    int greatest = 0;
    check_cuda(cudaGetDevice(&gpu_), "cudaGetDevice");
    check_cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
    // A high priority: its few blocks run before those of computing kernels, because other ranks wait for them.
    check_cuda(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest), "cudaStreamCreate");
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    config.maxCTAs = use == NcclUse::collectives ? 8 : 4;
    const ncclResult_t result =
        functions_.comm_init_rank_config(&comm_, ranks, std::bit_cast<ncclUniqueId>(id), rank, &config);
    try {
      functions_.check(result, "ncclCommInitRank", comm_);
    } catch (...) {
      release();
      throw;
    }
  }
  ~BoundCommunicator() override { release(); }
  BoundCommunicator(const BoundCommunicator&) = delete;
  BoundCommunicator& operator=(const BoundCommunicator&) = delete;

  bool is_idle() override {
    ncclResult_t state = ncclSuccess;
    functions_.check(functions_.comm_get_async_error(comm_, &state), "ncclCommGetAsyncError", comm_);
    functions_.check(state, "NCCL", comm_);
    return state != ncclInProgress;
  }
  void wait_for(const Mark& mark) override {
    check_cuda(cudaStreamWaitEvent(stream_, static_cast<const cuda::Event&>(mark).get(), 0), "cudaStreamWaitEvent");
  }
  std::unique_ptr<GpuMark> mark() override {
    return std::make_unique<StreamMark>(or_lost([this] { return events_->record(stream_); }));
  }

  void connect() override {
    void* bytes = nullptr;
    check_cuda(cudaMalloc(&bytes, 2 * static_cast<std::size_t>(ranks_)), "cudaMalloc");
    connecting_ = static_cast<std::byte*>(bytes);
    check_cuda(cudaMemsetAsync(connecting_, 0, 2 * static_cast<std::size_t>(ranks_), stream_), "cudaMemsetAsync");
    std::vector<NcclPiece> sends;
    std::vector<NcclPiece> receives;
    for (int p = 0; p < ranks_; ++p) {
      if (p == rank_) continue;
      if (use_ == NcclUse::collectives || rank_ == 0) sends.push_back({p, connecting_ + p, 1});
      if (use_ == NcclUse::collectives || rank_ == 1) receives.push_back({p, connecting_ + ranks_ + p, 1});
    }
    exchange(sends, receives);
  }
  void exchange(std::span<const NcclPiece> sends, std::span<const NcclPiece> receives) override {
    functions_.check(functions_.group_start(), "ncclGroupStart");
    ncclResult_t result = ncclSuccess;
    const auto keep = [&result](ncclResult_t next) {
      if (result == ncclSuccess || result == ncclInProgress) result = next;
    };
    for (const NcclPiece& piece : sends)
      keep(functions_.send(piece.data, static_cast<std::size_t>(piece.bytes), ncclUint8, piece.peer, comm_, stream_));
    for (const NcclPiece& piece : receives)
      keep(functions_.recv(piece.data, static_cast<std::size_t>(piece.bytes), ncclUint8, piece.peer, comm_, stream_));
    const ncclResult_t end = functions_.group_end();
    functions_.check(result, "ncclSend and ncclRecv", comm_);
    functions_.check(end, "ncclGroupEnd", comm_);
  }
  void all_gather(const void* own, void* all, std::int64_t bytes) override {
    functions_.check(functions_.all_gather(own, all, static_cast<std::size_t>(bytes), ncclUint8, comm_, stream_),
                     "ncclAllGather", comm_);
  }
  void broadcast(void* data, std::int64_t bytes, int root) override {
    functions_.check(functions_.broadcast(data, data, static_cast<std::size_t>(bytes), ncclUint8, root, comm_, stream_),
                     "ncclBroadcast", comm_);
  }

  void finalize() override {
    is_finalized_ = true;
    functions_.check(functions_.comm_finalize(comm_), "ncclCommFinalize", comm_);
  }
  void abort() noexcept override {
    (void)cudaSetDevice(gpu_);  // this thread may be a new one
    (void)functions_.comm_abort(std::exchange(comm_, nullptr));
    // The stream may still hold later work, none of which waits for another rank any more.
    (void)cudaStreamSynchronize(stream_);
  }

 private:
  void release() noexcept {
    if (comm_ != nullptr) (void)(is_finalized_ ? functions_.comm_destroy(comm_) : functions_.comm_abort(comm_));
    if (connecting_ != nullptr) (void)cudaFree(connecting_);
    if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
  }

  const NcclFunctions& functions_;
  int ranks_;
  int rank_;
  NcclUse use_;
  int gpu_ = 0;
  std::byte* connecting_ = nullptr;
  cudaStream_t stream_ = nullptr;
  std::shared_ptr<cuda::Events> events_ = std::make_shared<cuda::Events>();
  ncclComm_t comm_ = nullptr;
  bool is_finalized_ = false;
};

NcclGpu NcclBinding::gpu(const Device& /*device*/) {
  int number = 0;
  check_cuda(cudaGetDevice(&number), "cudaGetDevice");
  cudaDeviceProp properties{};
  check_cuda(cudaGetDeviceProperties(&properties, number), "cudaGetDeviceProperties");
  std::array<char, 32> address{};
  check_cuda(cudaDeviceGetPCIBusId(address.data(), static_cast<int>(address.size()), number), "cudaDeviceGetPCIBusId");
  std::array<char, 256> machine{};
  (void)::gethostname(machine.data(), machine.size() - 1);
  return {std::bit_cast<decltype(NcclGpu::id)>(properties.uuid), machine.data(), address.data()};
}

std::unique_ptr<NcclCommunicator> NcclBinding::join(const NcclId& id, int ranks, int rank, NcclUse use) {
  return std::make_unique<BoundCommunicator>(functions_, id, ranks, rank, use);
}

}  // namespace

Nccl& open_nccl() {
  static NcclBinding binding;
  return binding;
}

std::optional<std::string> nccl_version() {
  return fmt::format("{}.{}", NCCL_MAJOR, NCCL_MINOR);
}

}  // namespace heddle
