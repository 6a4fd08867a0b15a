// A rank's part of a collective among processes, whatever path its elements take.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "parallel/transports/group.h"
#include "parallel/transports/processes/offered_tensors.h"
#include "parallel/transports/processes/progress_engine.h"

namespace heddle {

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
  /// The `length` of a move of whole tensors.
  static constexpr std::int64_t all_bytes = std::numeric_limits<std::int64_t>::max();
  /// Begins to move `length` bytes, from `offset` on, of each tensor that is offered in this step and that does not
  /// travel within a control message. destinations[p] receives those of rank p (also of this rank) and has their number
  /// of bytes; it is undefined where none come. Two such moves may be under way; `buffer`, 0 or 1, distinguishes them.
  virtual void begin_move(std::size_t buffer, std::int64_t offset, std::int64_t length,
                          std::vector<Tensor> destinations) = 0;
  virtual void wait_for_move(std::size_t buffer) = 0;
  /// Waits until no other rank will read what this one offered.
  virtual void wait_until_read() = 0;

  ProgressEngine& engine() { return engine_; }
  const Group& group() const { return *group_; }
  const Call& call() const { return call_; }
  const std::vector<const Call*>& all_calls() const { return calls_; }
  OfferedTensors& offers() { return offers_; }
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
  OfferedTensors offers_;
  Tensor whole_;
  std::vector<const Call*> calls_;
  int step_ = 0;
};

}  // namespace heddle
