// The tensors that a rank sends in a call among processes, whatever path their elements take. Tensors of a few KiB are
// sent within the control messages that announce them. Larger ones are sent once their receiver has the memory for
// them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "parallel/transports/processes/progress_engine.h"

namespace heddle {

/// Tensors of at most this many bytes travel within control messages.
constexpr std::int64_t max_inline_bytes = 8192;
/// The bytes of a tensor that must move: none on the device plan, or of an undefined tensor.
std::int64_t moving_bytes(const Tensor& x);
/// Whether a tensor travels within control messages.
bool is_inline(const Tensor& x);
/// Copies what travelled within a control message into the tensor; RankFailed if it has another number of bytes.
void copy_content(const std::vector<std::byte>& content, const Tensor& x);

using Transfers = std::vector<std::shared_ptr<Transfer>>;
void wait_for_elements(ProgressEngine& engine, const Transfers& transfers, const Call& call);

/// The tensors that this rank offers in one call, and their state.
class OfferedTensors : public Endpoint {
 public:
  OfferedTensors(ProgressEngine& engine, const CallName& name) : engine_(engine), name_(name) {
    engine_.add_endpoint(name_, *this);
  }
  ~OfferedTensors() override { engine_.remove_endpoint(name_); }
  OfferedTensors(const OfferedTensors&) = delete;
  OfferedTensors& operator=(const OfferedTensors&) = delete;

  const CallName& name() const { return name_; }

  /// Offers tensors[i] to world rank to[i]. The call and small tensors are sent at once, larger tensors when they are
  /// requested. `for_all`, if it is defined, is sent to every rank with the call in place of the rank's own tensor,
  /// which is small.
  void offer(int step, std::vector<Tensor> tensors, const std::vector<int>& to, const Call& call,
             const Tensor& for_all = {});
  void on_request(int from, const ElementRequest& request) override;
  void on_taken() override { is_taken_ = true; }
  bool is_taken() const { return is_taken_; }

  const std::vector<Tensor>& tensors(int step) const { return steps_[static_cast<std::size_t>(step)].tensors; }

  /// Waits until every rank has requested its tensors, and has received them.
  void wait_until_sent(const Call& call);

 private:
  struct Step {
    bool is_offered = false;
    std::vector<int> to;
    std::vector<Tensor> tensors;
    std::shared_ptr<const Mark> computed;   // when they may be read
    std::vector<std::int64_t> unrequested;  // bytes that the ranks have not requested yet
  };

  void announce(int step, const Call& call, const Tensor& for_all);

  ProgressEngine& engine_;
  CallName name_;
  std::array<Step, 2> steps_;
  std::vector<std::pair<int, ElementRequest>> early_requests_;
  Transfers sent_;
  std::vector<std::byte> content_;  // the bytes of the tensor that was last sent within a control message
  bool is_taken_ = false;
};

}  // namespace heddle
