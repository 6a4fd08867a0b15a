#include "framework/backends/cuda/context.h"
#include "framework/backends/cuda_events.h"

namespace heddle::cuda {

Event::~Event() {
  home_->give_back(event_);
}

Events::~Events() {
  for (cudaEvent_t event : spare_) (void)cudaEventDestroy(event);
}

std::shared_ptr<const Event> Events::record(cudaStream_t stream) {
  auto event = std::make_shared<const Event>(shared_from_this(), take());
  check(cudaEventRecord(event->get(), stream), "cudaEventRecord");
  return event;
}

cudaEvent_t Events::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!spare_.empty()) {
      cudaEvent_t event = spare_.back();
      spare_.pop_back();
      return event;
    }
  }
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
  return event;
}

void Events::give_back(cudaEvent_t event) {
  const std::lock_guard lock(mutex_);
  spare_.push_back(event);
}

}  // namespace heddle::cuda
