// Streams that run as late as they may: the work on a stream is done when the host waits for it, or when another stream
// reaches its wait for an event that was recorded behind the work, and then by the waiting thread. A rank that reads
// values which another rank has not computed yet, or overwrites values that another has not read yet, is therefore
// detected, unless one of the streams waits for the other.
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include "tests/support/cuda_on_host/cuda_runtime.h"

namespace {

/// Numbered work, done in its order by the threads that wait for it. Streams wait for what was put on others before
/// they began to wait; so no two threads that do the work of two streams wait for each other.
class Stream {
 public:
  void put(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
    ++put_;
  }
  std::uint64_t put_so_far() {
    const std::lock_guard lock(mutex_);
    return put_;
  }
  void run_to(std::uint64_t end) {
    std::unique_lock lock(mutex_);
    while (done_ < end) {
      // The thread that does the work may continue with work that waits for this thread: only as much as is needed here
      // is waited for.
      if (is_running_) {
        changed_.wait(lock);
        continue;
      }
      is_running_ = true;
      {
        const std::function<void()> work = std::move(queue_.front());
        queue_.pop_front();
        lock.unlock();
        work();
      }
      lock.lock();
      is_running_ = false;
      ++done_;
      changed_.notify_all();
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  std::uint64_t put_ = 0;
  std::uint64_t done_ = 0;
  bool is_running_ = false;
};

/// All streams of the device.
struct Streams {
  std::mutex mutex;
  std::vector<std::weak_ptr<Stream>> all;
};
Streams& streams() {
  static Streams of_this_device;
  return of_this_device;
}

struct Calls {
  std::mutex mutex;
  CallsOnHost counted;
};
Calls& calls() {
  static Calls so_far;
  return so_far;
}
constexpr std::int64_t CallsOnHost::*kinds[] = {
    &CallsOnHost::device_wide,  &CallsOnHost::waits,        &CallsOnHost::kernels,
    &CallsOnHost::products,     &CallsOnHost::convolutions, &CallsOnHost::copies,
    &CallsOnHost::copied_bytes, &CallsOnHost::ranges_begun, &CallsOnHost::ranges_ended};
static_assert(sizeof kinds / sizeof kinds[0] * sizeof(std::int64_t) == sizeof(CallsOnHost));

}  // namespace

struct CUstream_st {
  std::shared_ptr<Stream> stream = std::make_shared<Stream>();
};
/// The place at which an event was recorded last.
struct CUevent_st {
  std::shared_ptr<Stream> stream;
  std::uint64_t end = 0;  // how much of the stream's work precedes it
};

CallsOnHost operator-(const CallsOnHost& a, const CallsOnHost& b) {
  CallsOnHost result = a;
  for (const auto kind : kinds) result.*kind -= b.*kind;
  return result;
}
CallsOnHost operator/(const CallsOnHost& a, std::int64_t parts) {
  CallsOnHost result = a;
  for (const auto kind : kinds) {
    if (a.*kind % parts != 0) throw std::logic_error("calls that are not the same in every part");
    result.*kind /= parts;
  }
  return result;
}

CallsOnHost calls_on_host() {
  const std::lock_guard lock(calls().mutex);
  return calls().counted;
}
void count_call(std::int64_t CallsOnHost::*kind, std::int64_t by) {
  const std::lock_guard lock(calls().mutex);
  calls().counted.*kind += by;
}

void put_on(cudaStream_t stream, std::function<void()> work) {
  if (stream != nullptr) return stream->stream->put(std::move(work));
  count_call(&CallsOnHost::device_wide);
  synchronize_device();
  work();
}

void synchronize_device() {
  std::vector<std::weak_ptr<Stream>> all;
  {
    const std::lock_guard lock(streams().mutex);
    all = streams().all;
  }
  for (const std::weak_ptr<Stream>& one : all)
    if (const std::shared_ptr<Stream> stream = one.lock()) stream->run_to(stream->put_so_far());
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned /*flags*/) {
  *stream = new CUstream_st;
  const std::lock_guard lock(streams().mutex);
  std::erase_if(streams().all, [](const std::weak_ptr<Stream>& one) { return one.expired(); });
  streams().all.push_back((*stream)->stream);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  stream->stream->run_to(stream->stream->put_so_far());
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  count_call(&CallsOnHost::waits);
  stream->stream->run_to(stream->stream->put_so_far());
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  event->stream = stream->stream;
  event->end = stream->stream->put_so_far();
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  count_call(&CallsOnHost::waits);
  if (event->stream) event->stream->run_to(event->end);
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
  if (event->stream) put_on(stream, [before = event->stream, end = event->end] { before->run_to(end); });
  return cudaSuccess;
}
