#include "parallel/transports/processes/nccl/nccl_path.h"

#include <utility>

#include "parallel/transports/processes/nccl/nccl_collective.h"
#include "parallel/transports/processes/progress_engine.h"

namespace heddle {

namespace {

class ChannelTransfer : public WireTransfer {
 public:
  ChannelTransfer(std::shared_ptr<Channel> channel, std::shared_ptr<const Mark> after, Channel::Issue issue,
                  const Tensor& tensor)
      : channel_(std::move(channel)) {
    operation_ = channel_->enqueue(std::move(after), std::move(issue), {tensor});
  }

  bool is_done() override {
    if (channel_->is_abandoned()) return true;  // nothing is under way any more
    if (!operation_->is_done()) channel_->progress();
    return operation_->is_done();
  }
  void cancel() override { channel_->abandon(); }

 private:
  std::shared_ptr<Channel> channel_;
  std::shared_ptr<Channel::Operation> operation_;
};

// A message's sender and receiver on the communicator of the two.
constexpr int sender = 0;
constexpr int receiver = 1;

}  // namespace

ChannelName NcclPath::messages_from(int rank) const {
  return {.use = NcclUse::messages, .sender = rank, .receiver = engine_.rank()};
}

ChannelName NcclPath::messages_to(int rank) const {
  return {.use = NcclUse::messages, .sender = engine_.rank(), .receiver = rank};
}

void NcclPath::begin(int ranks) {
  const std::vector<NcclGpu> gpus = gather_gpus(ranks);
  for (std::size_t b = 0; b < gpus.size(); ++b)
    for (std::size_t a = 0; a < b; ++a)
      if (gpus[a].id == gpus[b].id)
        fail<InputError>(
            "transport nccl: ranks {} and {} have the same GPU, {} of {}: each rank needs one of its own, by "
            "CUDA_VISIBLE_DEVICES and LOCAL_RANK (several ranks on one GPU: transport threads)",
            a, b, gpus[a].address, gpus[a].machine);
}

/// The GPUs of all ranks. No collective has this name, since the world's calls count from 1.
std::vector<NcclGpu> NcclPath::gather_gpus(int ranks) const {
  const NcclGpu mine = nccl_.gpu(device_);
  const CallName name;
  Call call;
  call.rank = engine_.rank();
  MessageWriter& message = engine_.begin(ProgressEngine::Kind::ready, name);
  message.put(mine.id);
  message.put_text(mine.machine);
  message.put_text(mine.address);
  for (int p = 0; p < ranks; ++p)
    if (p != engine_.rank()) engine_.send(p);
  std::vector<NcclGpu> gpus;
  for (int p = 0; p < ranks; ++p) {
    if (p == engine_.rank()) {
      gpus.push_back(mine);
      continue;
    }
    engine_.wait([&] { return engine_.arrival(name, p).ready.has_value(); }, call, p);
    const Arrival arrival = engine_.take_arrival(name, p);
    MessageReader reader(*arrival.ready);
    NcclGpu& gpu = gpus.emplace_back();
    gpu.id = reader.get<decltype(gpu.id)>();
    gpu.machine = reader.get_text();
    gpu.address = reader.get_text();
  }
  return gpus;
}

bool NcclPath::may_receive(int from) {
  return channels_.open(messages_from(from), {from, engine_.rank()}) != nullptr && !channels_.is_paused();
}

std::unique_ptr<WireTransfer> NcclPath::receive(int from, int /*tag*/, const Tensor& tensor) {
  const auto issue = [piece = NcclPiece{sender, tensor.data(), tensor.bytes()}](NcclCommunicator& pair) {
    pair.exchange({}, std::span(&piece, 1));
  };
  return std::make_unique<ChannelTransfer>(channels_.at(messages_from(from)), mark(), issue, tensor);
}

std::unique_ptr<WireTransfer> NcclPath::send(int to, int /*tag*/, const Tensor& tensor,
                                             const std::shared_ptr<const Mark>& computed) {
  const auto issue = [piece = NcclPiece{receiver, tensor.data(), tensor.bytes()}](NcclCommunicator& pair) {
    pair.exchange(std::span(&piece, 1), {});
  };
  return std::make_unique<ChannelTransfer>(channels_.at(messages_to(to)), computed, issue, tensor);
}

std::unique_ptr<TransportCall> NcclPath::start(std::shared_ptr<const Group> group, Call call,
                                               std::vector<Tensor> offered) {
  return std::make_unique<NcclCollective>(*this, engine_, std::move(group), std::move(call), std::move(offered));
}

std::shared_ptr<Channel> NcclPath::open(const Group& group) {
  return channels_.open({.use = NcclUse::collectives, .group = group.id}, group.members);
}

void NcclPath::abandon() noexcept {
  // NCCL may wait for the other ranks' ends of its communicators, and these for the message that this one has failed.
  constexpr std::chrono::seconds timeout{1};
  (void)engine_.wire().flush(timeout);
  // NCCL ends what has begun. Operations that still wait for the device's own work, which waits for no rank, begin
  // first.
  device_.backend().settle();
  channels_.abandon();
}

MakeElementPath nccl_elements(Nccl& nccl) {
  return [&nccl](ProgressEngine& engine, const Device& device) {
    return std::make_unique<NcclPath>(engine, nccl, device);
  };
}

}  // namespace heddle
