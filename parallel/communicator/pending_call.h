// A call between its start and its completion: the transport's part of it, the steps that remain, and the bytes that it
// has moved. Internal to the communicator.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "framework/tensors/device.h"
#include "parallel/communicator/communicator.h"

namespace heddle {

class PendingCall {
 public:
  /// Makes the result by the steps below; runs within the memory category that was current at the start.
  using Finish = std::function<std::vector<Tensor>(PendingCall&)>;

  /// `rank` is this rank of the communicator. `collectives`: those of the communicator's ranks; null for a message and
  /// on a wall clock.
  PendingCall(Call call, Device& device, int rank, RankTraffic& traffic, RankClock::Collectives* collectives,
              Finish finish);
  /// Takes the call that the transport has started, and counts the bytes offered.
  void start(std::unique_ptr<TransportCall> transport_call, std::span<const Tensor> offered);
  void run();
  /// Sets a message that is completed together with this one, after it.
  void pair_with(std::shared_ptr<PendingCall> partner) { partner_ = std::move(partner); }

  RankTraffic& traffic() { return traffic_; }
  bool is_message() const { return call_.operation == Operation::send || call_.operation == Operation::recv; }
  bool is_complete() const { return transport_call_ == nullptr; }
  /// The time when the call ended, once it is complete.
  double end_seconds() const { return outcome_.end_seconds; }
  std::vector<Tensor> take_result();

  /// The steps from which a Finish is made; they count the bytes that move between ranks.
  Device& device() const { return device_; }
  const Call& call(int rank) const { return *calls_[static_cast<std::size_t>(rank)]; }
  void receive(std::vector<Tensor> incoming);
  void reduce(Reduction reduction, Tensor& result);
  void offer(std::vector<Tensor> offered);
  void all_reduce(Reduction reduction, std::vector<Tensor> results);

 private:
  std::int64_t bytes_for_others(std::span<const Tensor> parts) const;
  void check_agreement() const;
  CollectiveSummary summarise() const;
  double virtual_end(const CollectiveSummary& summary) const;

  Call call_;
  Device& device_;
  Category category_;
  int rank_;
  RankTraffic& traffic_;
  RankClock::Collectives* collectives_;
  Finish finish_;
  std::unique_ptr<TransportCall> transport_call_;
  std::shared_ptr<PendingCall> partner_;
  std::vector<const Call*> calls_;
  Outcome outcome_;
  std::optional<std::vector<Tensor>> result_;
};

/// Completes the oldest collective that this rank has started.
void complete_oldest(RankTraffic& traffic);

}  // namespace heddle
