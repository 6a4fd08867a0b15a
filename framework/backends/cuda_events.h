// What code with CUDA streams of its own needs of the cuda backend: the check of a call to the runtime, and events,
// which are the marks of a GPU. Only programs that are built with CUDA may include it.
#pragma once

#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include <cuda_runtime.h>

#include "framework/tensors/mark.h"

namespace heddle::cuda {

class Events;

/// OutOfMemory if there is no memory left, else an Error that names the call and the runtime's reason.
void check(cudaError_t status, std::string_view call);

/// An event that was recorded once. Its destructor returns it for reuse; what already waits for it still waits for that
/// point.
class Event : public Mark {
 public:
  Event(std::shared_ptr<Events> home, cudaEvent_t event) : home_(std::move(home)), event_(event) {}
  ~Event() override;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  cudaEvent_t get() const { return event_; }

 private:
  std::shared_ptr<Events> home_;
  cudaEvent_t event_;
};

/// The events of one GPU. Making one takes longer than recording it, so they are kept and used again. Thread-safe:
/// another rank may be the last to need an event.
class Events : public std::enable_shared_from_this<Events> {
 public:
  ~Events();

  /// Records an event behind everything that the stream was given.
  std::shared_ptr<const Event> record(cudaStream_t stream);

 private:
  friend class Event;
  cudaEvent_t take();
  void give_back(cudaEvent_t event);

  std::mutex mutex_;
  std::vector<cudaEvent_t> spare_;
};

}  // namespace heddle::cuda
