#include "tests/support/cuda_on_host/cuda_runtime.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include <malloc.h>
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

// Each rank may have a GPU of its own: as many as the largest mesh of the tests has ranks.
constexpr int gpus = 8;

struct PoolOnHost {
  std::atomic<std::int64_t> bytes{0};
};

// Saves the registers that a called function must keep and the stack, takes the others', and returns where they left.
asm(R"(
.text
.globl heddle_switch_stack
heddle_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");
extern "C" void heddle_switch_stack(void** left, void* taken);

namespace {

constexpr std::size_t stack_bytes = 64 << 10;

// ThreadSanitizer's context of a stack, which is switched right before the stack is. A switch synchronises: races
// between threads of one block are not seen. Other builds have no contexts.
#ifdef __SANITIZE_THREAD__
void* new_context() {
  return __tsan_create_fiber(0);
}
void free_context(void* context) {
  __tsan_destroy_fiber(context);
}
void* own_context() {
  return __tsan_get_current_fiber();
}
[[gnu::always_inline]] inline void enter(void* context) {
  __tsan_switch_to_fiber(context, 0);
}
#else
void* new_context() {
  return nullptr;
}
void free_context(void*) {}
void* own_context() {
  return nullptr;
}
void enter(void*) {}
#endif

/// The threads of one block, each with a stack of its own.
class Block {
 public:
  void run(const std::function<void()>& thread, unsigned threads) {
    thread_ = &thread;
    own_context_ = own_context();
    // Not make_unique, which would write zeros to all of a stack.
    while (fibers_.size() < threads) fibers_.push_back(std::unique_ptr<Fiber>(new Fiber));
    for (unsigned i = 0; i < threads; ++i) start(*fibers_[i]);
    // Runs all threads until they end. The order is reversed at every barrier, so that a missing barrier is detected.
    bool is_reversed = false;
    for (unsigned running = threads; running > 0; is_reversed = !is_reversed) {
      unsigned waiting = 0;
      for (unsigned i = 0; i < threads; ++i) {
        const unsigned index = is_reversed ? threads - 1 - i : i;
        Fiber& fiber = *fibers_[index];
        if (fiber.has_ended) continue;
        threadIdx = dim3(index);
        current_ = &fiber;
        enter(fiber.context);
        heddle_switch_stack(&own_, fiber.stack_pointer);
        if (!fiber.has_ended) ++waiting;
      }
      if (waiting != 0 && waiting != threads) {
        std::fputs("cuda on host: some threads of a block ended, others wait at a barrier\n", stderr);
        std::abort();
      }
      running = waiting;
    }
    current_ = nullptr;
  }

  /// Not instrumented, like `begin`: a thread does not return from its last wait.
  [[gnu::no_sanitize("thread")]] void wait() {
    enter(own_context_);
    heddle_switch_stack(&current_->stack_pointer, own_);
  }

 private:
  struct Fiber {
    Fiber() = default;
    ~Fiber() { free_context(context); }
    Fiber(const Fiber&) = delete;
    Fiber& operator=(const Fiber&) = delete;

    alignas(64) std::byte stack[stack_bytes];
    void* stack_pointer = nullptr;
    void* context = new_context();
    bool has_ended = false;
  };

  void start(Fiber& fiber) {
    // As heddle_switch_stack leaves it: six registers and where to return; a function begins 8 bytes off 16.
    void** top = reinterpret_cast<void**>(fiber.stack + stack_bytes) - 2;
    *top = reinterpret_cast<void*>(&Block::begin);
    fiber.stack_pointer = top - 6;
    fiber.has_ended = false;
  }

  static void begin();

  const std::function<void()>* thread_ = nullptr;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  Fiber* current_ = nullptr;
  void* own_ = nullptr;
  void* own_context_ = nullptr;
};

thread_local Block* own_block = nullptr;

[[gnu::no_sanitize("thread")]] void Block::begin() {
  (*own_block->thread_)();
  own_block->current_->has_ended = true;
  own_block->wait();
}

/// Blocks outlive the threads of the host that run them: no rank makes a thousand stacks anew.
class PooledBlock {
 public:
  PooledBlock() {
    const std::lock_guard lock(mutex());
    if (idle().empty()) idle().push_back(std::make_unique<Block>());
    block_ = std::move(idle().back());
    idle().pop_back();
  }
  ~PooledBlock() {
    const std::lock_guard lock(mutex());
    idle().push_back(std::move(block_));
  }
  PooledBlock(const PooledBlock&) = delete;
  PooledBlock& operator=(const PooledBlock&) = delete;

  Block* get() const { return block_.get(); }

 private:
  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }
  static std::vector<std::unique_ptr<Block>>& idle() {
    static std::vector<std::unique_ptr<Block>> all;
    return all;
  }

  std::unique_ptr<Block> block_;
};

}  // namespace

void __syncthreads() {
  const dim3 index = threadIdx;
  own_block->wait();
  threadIdx = index;
}

void run_on_host(const cudaLaunchConfig_t& config, const std::function<void()>& thread) {
  thread_local const PooledBlock pooled;
  own_block = pooled.get();
  gridDim = config.gridDim;
  blockDim = config.blockDim;
  for (unsigned i = 0; i < config.gridDim.x; ++i) {
    blockIdx = dim3(i);
    own_block->run(thread, config.blockDim.x);
  }
}

const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "out of memory" : "invalid argument";
}
const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "cudaErrorInvalidValue";
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = gpus;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  return device < gpus ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  static PoolOnHost only;
  *pool = &only;
  return cudaSetDevice(device);
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t /*pool*/, cudaMemPoolAttr /*attribute*/, void* /*value*/) {
  return cudaSuccess;
}
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr /*attribute*/, void* value) {
  *static_cast<std::uint64_t*>(value) = static_cast<std::uint64_t>(pool->bytes);
  return cudaSuccess;
}

namespace {

cudaError_t take(void** address, std::size_t bytes) {
  constexpr std::size_t alignment = 256;
  *address = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  return *address == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
cudaError_t take_filled(void** address, std::size_t bytes) {
  const cudaError_t status = take(address, bytes);
  if (status == cudaSuccess) std::memset(*address, 0xFF, bytes);
  return status;
}
}  // namespace

cudaError_t cudaMalloc(void** address, std::size_t bytes) {
  count_call(&CallsOnHost::device_wide);
  return take_filled(address, bytes);
}
cudaError_t cudaFree(void* address) {
  count_call(&CallsOnHost::device_wide);
  synchronize_device();
  std::free(address);
  return cudaSuccess;
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t /*pool*/, std::size_t /*bytes*/) {
  return cudaSuccess;
}
cudaError_t cudaMallocFromPoolAsync(void** address, std::size_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
  pool->bytes += static_cast<std::int64_t>(bytes);
  const cudaError_t status = take_filled(address, bytes);
  // It is the caller's from here on in the stream's order: what others have written before is lost.
  if (status == cudaSuccess) put_on(stream, [at = *address, bytes] { std::memset(at, 0xFF, bytes); });
  return status;
}
cudaError_t cudaFreeAsync(void* address, cudaStream_t stream) {
  put_on(stream, [address] {
    if (address != nullptr) std::memset(address, 0xFF, malloc_usable_size(address));
    std::free(address);
  });
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** address, std::size_t bytes, unsigned /*flags*/) {
  count_call(&CallsOnHost::device_wide);
  return take(address, bytes);  // not filled: tests write only a little of a large ring
}
cudaError_t cudaFreeHost(void* address) {
  return cudaFree(address);
}

static void count_copy(std::size_t bytes) {
  count_call(&CallsOnHost::copies);
  count_call(&CallsOnHost::copied_bytes, static_cast<std::int64_t>(bytes));
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind /*kind*/,
                            cudaStream_t stream) {
  count_copy(bytes);
  put_on(stream, [to, from, bytes] { std::memmove(to, from, bytes); });
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* address, int value, std::size_t bytes, cudaStream_t stream) {
  count_copy(bytes);
  put_on(stream, [address, value, bytes] { std::memset(address, value, bytes); });
  return cudaSuccess;
}
