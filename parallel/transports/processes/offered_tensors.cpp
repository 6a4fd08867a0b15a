#include "parallel/transports/processes/offered_tensors.h"

#include <algorithm>

#include "framework/tensors/device.h"
#include "parallel/transports/processes/element_path.h"

namespace heddle {

std::int64_t moving_bytes(const Tensor& x) {
  return x.defined() && x.device().has_data() ? x.bytes() : 0;
}

bool is_inline(const Tensor& x) {
  return moving_bytes(x) <= max_inline_bytes;
}

void copy_content(const std::vector<std::byte>& content, const Tensor& x) {
  if (static_cast<std::int64_t>(content.size()) != x.bytes())
    fail<RankFailed>("{} bytes arrived for {}: all processes must run the same build of this program", content.size(),
                     to_string(x));
  x.device().backend().copy_from_host(x.data(), content);
}

void wait_for_elements(ProgressEngine& engine, const Transfers& transfers, const Call& call) {
  for (const std::shared_ptr<Transfer>& transfer : transfers)
    engine.wait([&] { return transfer->is_done; }, call, transfer->peer, Awaited::elements);
}

void OfferedTensors::offer(int step, std::vector<Tensor> tensors, const std::vector<int>& to, const Call& call,
                           const Tensor& for_all) {
  Step& mine = steps_[static_cast<std::size_t>(step)];
  mine.to = to;
  mine.tensors = std::move(tensors);
  mine.unrequested.resize(to.size());
  const auto first =
      std::find_if(mine.tensors.begin(), mine.tensors.end(), [](const Tensor& x) { return x.defined(); });
  if (first != mine.tensors.end()) mine.computed = engine_.path().mark(first->device());
  announce(step, call, for_all);
  for (std::size_t i = 0; i < to.size(); ++i)
    if (to[i] != engine_.rank() && !is_inline(mine.tensors[i])) mine.unrequested[i] = mine.tensors[i].bytes();
  mine.is_offered = true;
  for (const auto& [from, request] : std::exchange(early_requests_, {})) on_request(from, request);
}

/// Sends the call, in its first step, and the tensors that travel within control messages.
void OfferedTensors::announce(int step, const Call& call, const Tensor& for_all) {
  const Step& mine = steps_[static_cast<std::size_t>(step)];
  MessageWriter& message = engine_.begin(step == 0 ? ProgressEngine::Kind::call : ProgressEngine::Kind::content, name_);
  message.put(step);
  if (step == 0) message.put_call(call);
  const void* copied = nullptr;
  for (std::size_t i = 0; i < mine.to.size(); ++i) {
    if (mine.to[i] == engine_.rank()) continue;
    const Tensor& x = for_all.defined() ? for_all : mine.tensors[i];
    const bool has_content = moving_bytes(x) > 0 && is_inline(x);
    if (has_content && (x.data() != copied || content_.size() != static_cast<std::size_t>(x.bytes()))) {
      content_.resize(static_cast<std::size_t>(x.bytes()));
      x.device().backend().copy_to_host(content_, x.data());
      copied = x.data();
    }
    if (has_content || step == 0) engine_.send(mine.to[i], has_content ? content_ : std::span<const std::byte>());
  }
}

void OfferedTensors::on_request(int from, const ElementRequest& request) {
  Step& step = steps_[static_cast<std::size_t>(request.slice.step)];
  if (!step.is_offered) {
    early_requests_.emplace_back(from, request);
    return;
  }
  const auto i = static_cast<std::size_t>(std::find(step.to.begin(), step.to.end(), from) - step.to.begin());
  if (i == step.to.size() || request.slice.bytes > step.unrequested[i])
    fail<MalformedMessage>("a message that requests {} bytes that are not its own", request.slice.bytes);
  const Tensor& x = step.tensors[i];
  const Tensor slice =
      Tensor::view(x.storage(), x.byte_offset() + request.slice.offset, {request.slice.bytes}, DType::u8);
  step.unrequested[i] -= request.slice.bytes;
  sent_.push_back(engine_.send_elements(from, request.tag, slice, step.computed));
}

void OfferedTensors::wait_until_sent(const Call& call) {
  for (const Step& step : steps_)
    for (std::size_t i = 0; i < step.unrequested.size(); ++i)
      engine_.wait([&] { return step.unrequested[i] == 0; }, call, step.to[i]);
  wait_for_elements(engine_, sent_, call);
}

}  // namespace heddle
