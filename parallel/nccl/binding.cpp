// NCCL and CUDA's runtime behind the interface. NCCL is opened when it is first called: a program that is linked to it
// takes 200 MB more, whatever it communicates by.
#include <bit>
#include <cstdlib>
#include <utility>

#include <cuda_runtime.h>
#include <dlfcn.h>
#include <nccl.h>

#include "framework/gpu.h"
#include "parallel/nccl/nccl.h"

namespace heddle {

namespace {

static_assert(sizeof(NcclId) == sizeof(ncclUniqueId));

void check(cudaError_t status, std::string_view call) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();  // or the next call would tell of it once more
  fail<ElementsLost>("{}: {}", call, cudaGetErrorString(status));
}

/// NCCL's functions, by their own names.
struct Functions {
  Functions() {
    // One address for all communicators would let them meet each other's ranks: their ids go with our words.
    ::unsetenv("NCCL_COMM_ID");
    const std::string name = "libnccl.so.2";
    std::string why;
    void* library = nullptr;
    for (const std::string& file : {name, HEDDLE_NCCL_LIBRARIES "/" + name}) {
      library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (library != nullptr) break;
      why += fmt::format("{}{}", why.empty() ? "" : "; ", dlerror());
    }
    if (library == nullptr) fail<InputError>("transport nccl: {}", why);
    const auto find = [&]<class Function>(Function*& function, const char* symbol) {
      function = reinterpret_cast<Function*>(dlsym(library, symbol));
      if (function == nullptr) fail<InputError>("transport nccl: {} lacks {}", name, symbol);
    };
    find(get_unique_id, "ncclGetUniqueId");
    find(comm_init_rank_config, "ncclCommInitRankConfig");
    find(comm_get_async_error, "ncclCommGetAsyncError");
    find(comm_finalize, "ncclCommFinalize");
    find(comm_destroy, "ncclCommDestroy");
    find(comm_abort, "ncclCommAbort");
    find(get_error_string, "ncclGetErrorString");
    find(get_last_error, "ncclGetLastError");
    find(group_start, "ncclGroupStart");
    find(group_end, "ncclGroupEnd");
    find(send, "ncclSend");
    find(recv, "ncclRecv");
    find(all_gather, "ncclAllGather");
    find(broadcast, "ncclBroadcast");
  }

  /// Of a communicator, if there is one.
  void check(ncclResult_t result, std::string_view call, ncclComm_t comm = nullptr) const {
    if (result == ncclSuccess || result == ncclInProgress) return;
    const char* const last = get_last_error(comm);
    fail<ElementsLost>("{}: {}{}{}", call, get_error_string(result), last[0] == '\0' ? "" : ": ", last);
  }

  decltype(&ncclGetUniqueId) get_unique_id;
  decltype(&ncclCommInitRankConfig) comm_init_rank_config;
  decltype(&ncclCommGetAsyncError) comm_get_async_error;
  decltype(&ncclCommFinalize) comm_finalize;
  decltype(&ncclCommDestroy) comm_destroy;
  decltype(&ncclCommAbort) comm_abort;
  decltype(&ncclGetErrorString) get_error_string;
  decltype(&ncclGetLastError) get_last_error;
  decltype(&ncclGroupStart) group_start;
  decltype(&ncclGroupEnd) group_end;
  decltype(&ncclSend) send;
  decltype(&ncclRecv) recv;
  decltype(&ncclAllGather) all_gather;
  decltype(&ncclBroadcast) broadcast;
};

class Event : public GpuMark {
 public:
  explicit Event(cudaStream_t stream) {
    check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreate");
    try {
      check(cudaEventRecord(event_, stream), "cudaEventRecord");
    } catch (...) {
      (void)cudaEventDestroy(event_);
      throw;
    }
  }
  ~Event() override { (void)cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  bool is_reached() override {
    const cudaError_t status = cudaEventQuery(event_);
    if (status != cudaErrorNotReady) check(status, "cudaEventQuery");
    return status == cudaSuccess;
  }
  cudaEvent_t event() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

class NcclBinding : public Nccl {
 public:
  NcclId new_id() override {
    ncclUniqueId id;
    functions_.check(functions_.get_unique_id(&id), "ncclGetUniqueId");
    return std::bit_cast<NcclId>(id);
  }
  std::unique_ptr<NcclCommunicator> join(const NcclId& id, int ranks, int rank) override;
  std::shared_ptr<Mark> mark(const Device& device) override {
    return std::make_shared<Event>(static_cast<cudaStream_t>(cuda_stream(device.backend())));
  }

 private:
  Functions functions_;
};

class BoundCommunicator : public NcclCommunicator {
 public:
  BoundCommunicator(const Functions& functions, const NcclId& id, int ranks, int rank) : functions_(functions) {
    int least = 0;
    int greatest = 0;
    check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
    // Its few blocks go before those of kernels that compute: others wait for them.
    check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest), "cudaStreamCreate");
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
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
    check(cudaStreamWaitEvent(stream_, static_cast<const Event&>(mark).event(), 0), "cudaStreamWaitEvent");
  }
  std::unique_ptr<GpuMark> mark() override { return std::make_unique<Event>(stream_); }

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
    (void)functions_.comm_abort(std::exchange(comm_, nullptr));
    // The stream may still hold what comes after; nothing of it waits for another rank any more.
    (void)cudaStreamSynchronize(stream_);
  }

 private:
  void release() noexcept {
    if (comm_ != nullptr) (void)(is_finalized_ ? functions_.comm_destroy(comm_) : functions_.comm_abort(comm_));
    if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
  }

  const Functions& functions_;
  cudaStream_t stream_ = nullptr;
  ncclComm_t comm_ = nullptr;
  bool is_finalized_ = false;
};

std::unique_ptr<NcclCommunicator> NcclBinding::join(const NcclId& id, int ranks, int rank) {
  return std::make_unique<BoundCommunicator>(functions_, id, ranks, rank);
}

}  // namespace

Nccl& open_nccl() {
  static NcclBinding binding;
  return binding;
}

std::string nccl_version() {
  return fmt::format("{}.{}", NCCL_MAJOR, NCCL_MINOR);
}

}  // namespace heddle
