#include "parallel/nccl/nccl_path.h"

#include <chrono>
#include <thread>
#include <utility>

#include "parallel/nccl/nccl_exchange.h"
#include "parallel/post_office.h"

namespace heddle {

namespace {

class LaneTransfer : public WireTransfer {
 public:
  LaneTransfer(std::shared_ptr<Lane> lane, std::shared_ptr<Mark> after, Lane::Issue issue) : lane_(std::move(lane)) {
    operation_ = lane_->put(std::move(after), std::move(issue));
  }

  bool is_done() override {
    if (lane_->is_abandoned()) return true;  // nothing is under way any more
    if (!operation_->is_done()) lane_->progress();
    return operation_->is_done();
  }
  void cancel() override { lane_->abandon(); }

 private:
  std::shared_ptr<Lane> lane_;
  std::shared_ptr<Lane::Operation> operation_;
};

// A message's sender and receiver on the communicator of the two.
constexpr int sender = 0;
constexpr int receiver = 1;

// How long the ranks, which are all done, may take to close a communicator.
constexpr std::chrono::seconds closing_time{10};

}  // namespace

std::shared_ptr<Lane> NcclPath::make_lane(const NcclId& id, int ranks, int rank) const {
  auto lane = std::make_shared<Lane>(nccl_, id, ranks, rank);
  if (is_abandoned_) lane->abandon();
  return lane;
}

std::unique_ptr<WireTransfer> NcclPath::receive(int from, int /*tag*/, const Tensor& tensor) {
  std::shared_ptr<Lane>& lane = from_[from];
  if (lane == nullptr) {
    const NcclId id = nccl_.new_id();
    office_.begin_for_path().put(id);
    office_.send(from);
    lane = make_lane(id, 2, receiver);
  }
  return std::make_unique<LaneTransfer>(
      lane, mark(), [piece = NcclPiece{sender, tensor.data(), tensor.bytes()}](NcclCommunicator& pair) {
        pair.exchange({}, std::span(&piece, 1));
      });
}

std::unique_ptr<WireTransfer> NcclPath::send(int to, int /*tag*/, const Tensor& tensor,
                                             const std::shared_ptr<Mark>& computed) {
  return std::make_unique<LaneTransfer>(
      to_.at(to), computed, [piece = NcclPiece{receiver, tensor.data(), tensor.bytes()}](NcclCommunicator& pair) {
        pair.exchange(std::span(&piece, 1), {});
      });
}

/// A receiver's first wish: it names their communicator.
void NcclPath::told(int from, LetterReader& letter) {
  to_[from] = make_lane(letter.get<NcclId>(), 2, sender);
}

std::unique_ptr<Exchange> NcclPath::start(const Group& group, Call call, std::vector<Tensor> offered) {
  return std::make_unique<NcclExchange>(*this, office_, group, std::move(call), std::move(offered));
}

std::shared_ptr<Lane> NcclPath::lane_of(const Group& group) const {
  const auto found = groups_.find(group.id);
  return found == groups_.end() ? nullptr : found->second;
}

std::shared_ptr<Lane> NcclPath::open(const Group& group, const NcclId& id) {
  return groups_[group.id] = make_lane(id, static_cast<int>(group.size()), static_cast<int>(group.rank));
}

template <class Visit>
void NcclPath::for_each_lane(const Visit& visit) {
  for (const auto& [group, lane] : groups_) visit(*lane);
  for (const auto& [rank, lane] : from_) visit(*lane);
  for (const auto& [rank, lane] : to_) visit(*lane);
}

void NcclPath::abandon() noexcept {
  is_abandoned_ = true;
  // NCCL ends what has begun; what still waits for the device's own work, which waits for nobody, is to begin first.
  device_.backend().settle();
  for_each_lane([](Lane& lane) { lane.abandon(); });
}

void NcclPath::close() {
  if (is_abandoned_) return;
  const auto deadline = std::chrono::steady_clock::now() + closing_time;
  try {
    for_each_lane([](Lane& lane) { lane.begin_to_close(); });
    bool are_closed = false;
    while (!are_closed && std::chrono::steady_clock::now() < deadline) {
      are_closed = true;
      for_each_lane([&](Lane& lane) { are_closed = lane.is_closed() && are_closed; });
      if (!are_closed) std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    if (!are_closed) return abandon();
  } catch (const ElementsLost&) {
    // All elements have arrived: what NCCL cannot end well it ends at once.
    return abandon();
  }
  groups_.clear();
  from_.clear();
  to_.clear();
}

}  // namespace heddle
