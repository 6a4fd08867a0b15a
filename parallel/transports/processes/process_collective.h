// A rank's part of a call among processes, whatever path its elements take. Tensors of a few KiB are sent within the
// control messages that announce them. Larger ones are sent once their receiver has the memory for them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "parallel/transports/group.h"
#include "parallel/transports/processes/progress_engine.h"

namespace heddle {

/// Tensors of at most this many bytes travel within control messages.
constexpr std::int64_t max_inline_bytes = 8192;
/// The bytes that must move: none on the device plan.
std::int64_t moving_bytes(const Tensor& x);
bool is_inline(const Tensor& x);
/// Copies what travelled within a control message into the tensor.
void copy_content(const std::vector<std::byte>& content, const Tensor& x);

using Transfers = std::vector<std::shared_ptr<Transfer>>;
void wait_for_elements(ProgressEngine& engine, const Transfers& transfers, const Call& call);

/// The tensors that this rank offers in one call, and their state.
class Offers : public Endpoint {
 public:
  Offers(ProgressEngine& engine, const CallName& name) : engine_(engine), name_(name) {
    engine_.add_endpoint(name_, *this);
  }
  ~Offers() override { engine_.remove_endpoint(name_); }
  Offers(const Offers&) = delete;
  Offers& operator=(const Offers&) = delete;

  const CallName& name() const { return name_; }

  /// Offers tensors[i] to world rank to[i]. The call and small tensors are sent at once, larger tensors when they are
  /// requested. `for_all`, if it is defined, is sent to every rank with the call in place of the rank's own tensor,
  /// which is small.
  void put(int step, std::vector<Tensor> tensors, const std::vector<int>& to, const Call& call,
           const Tensor& for_all = {});
  void on_request(int from, const ElementRequest& request) override;
  void on_taken() override { is_taken_ = true; }
  bool is_taken() const { return is_taken_; }

  const std::vector<Tensor>& tensors(int step) const { return steps_[static_cast<std::size_t>(step)].tensors; }
  const std::shared_ptr<const Mark>& computed(int step) const {
    return steps_[static_cast<std::size_t>(step)].computed;
  }

  /// Waits until every rank has requested its tensors, and has received them.
  void wait_until_sent(const Call& call);

 private:
  struct Step {
    bool is_offered = false;
    std::vector<int> to;
    std::vector<Tensor> tensors;
    std::shared_ptr<const Mark> computed;  // when they may be read
    std::vector<std::int64_t> owed;        // bytes not asked for yet
  };

  ProgressEngine& engine_;
  CallName name_;
  std::array<Step, 2> steps_;
  std::vector<std::pair<int, ElementRequest>> early_;
  Transfers sent_;
  std::vector<std::byte> content_;  // the bytes of the tensor that was last sent within a control message
  bool is_taken_ = false;
};

/// A collective, except for how larger tensors move.
class ProcessCollective : public TransportCall {
 public:
  ProcessCollective(ProgressEngine& engine, std::shared_ptr<const Group> group, Call call, std::vector<Tensor> offered,
                    std::int64_t piece_bytes);

  std::vector<const Call*> calls() override;
  void receive(std::span<Tensor> incoming) override;
  void reduce(Reduction reduction, Tensor& result) override;
  void all_reduce(Reduction reduction, int rank, std::vector<Tensor> results) override;
  void offer(std::vector<Tensor> offered) override;
  void finish() override;

 protected:
  /// Begins to move `length` bytes, from `offset` on, of each tensor that is offered in this step and that does not
  /// travel within a control message. destinations[p] receives those of rank p (also of this rank) and has their number
  /// of bytes; it is undefined where none come. Two such moves may be under way; `buffer`, 0 or 1, distinguishes them.
  virtual void begin(std::size_t buffer, std::int64_t offset, std::int64_t length,
                     std::vector<Tensor> destinations) = 0;
  virtual void wait(std::size_t buffer) = 0;
  /// Waits until no other rank will read what this one offered.
  virtual void wait_until_read() = 0;

  ProgressEngine& engine() { return engine_; }
  const Group& group() const { return *group_; }
  const Call& call() const { return call_; }
  const std::vector<const Call*>& all_calls() const { return calls_; }
  Offers& offers() { return offers_; }
  const std::vector<Tensor>& offered() const { return offers_.tensors(step_); }
  int step() const { return step_; }
  Arrival& arrival_of(std::size_t p) { return engine_.arrival(offers_.name(), group().members[p]); }
  template <class Ready>
  void wait_for(std::size_t p, const Ready& ready) {
    engine_.wait(ready, call_, group().members[p]);
  }

 private:
  Tensor whole_of(const std::vector<Tensor>& offered) const;
  void copy_content_of(std::size_t p, const Tensor& destination);
  void reduce_pieces(Reduction reduction, const Tensor& mine, const Tensor& result);
  Tensor row_of(std::size_t p, const Tensor& piece, std::int64_t count) const;
  void begin_piece(std::size_t buffer, const Tensor& piece, const Tensor& mine, std::int64_t at, std::int64_t length);

  ProgressEngine& engine_;
  std::shared_ptr<const Group> group_;
  Call call_;
  std::int64_t piece_bytes_;
  Offers offers_;
  Tensor whole_;
  std::vector<const Call*> calls_;
  int step_ = 0;
};

}  // namespace heddle
