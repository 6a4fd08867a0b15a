#include "parallel/transports/processes/nccl/nccl_collective.h"

#include <algorithm>
#include <utility>

namespace heddle {

namespace {

// A reduction holds two pieces of every other rank. Below this size a NCCL call takes longer to begin than to move
// bytes.
constexpr std::int64_t piece_bytes = std::int64_t{4} << 20;

std::byte* address(const Tensor& x) {
  return x.as<std::byte>();
}

}  // namespace

NcclCollective::NcclCollective(NcclPath& path, ProgressEngine& engine, std::shared_ptr<const Group> group, Call call,
                               std::vector<Tensor> offered)
    : ProcessCollective(engine, std::move(group), std::move(call), std::move(offered), piece_bytes), path_(path) {
  for (const int member : this->group().members)
    if (member != engine.rank()) others_.push_back(member);
}

/// Whether any rank may have elements that do not travel within control messages: the same answer on all ranks.
bool NcclCollective::has_elements() const {
  return group().size() > 1 && std::any_of(all_calls().begin(), all_calls().end(), [](const Call* call) {
           return std::any_of(call->parts.begin(), call->parts.end(),
                              [](const Call::Part& part) { return part.bytes() > max_inline_bytes; });
         });
}

/// Whether every rank sends the same number of bytes to all: the last step of an all_reduce is such a step.
bool NcclCollective::is_even_all_gather() const {
  const std::vector<const Call*>& calls = all_calls();
  const auto ranks = static_cast<std::int64_t>(calls.size());
  if (call().operation == Operation::all_reduce)
    return step() == 1 && call().parts[0].shape.numel() % ranks == 0 && !is_inline(offered()[other()]);
  return call().operation == Operation::all_gather &&
         std::all_of(calls.begin(), calls.end(), [&](const Call* one) { return one->parts[0] == call().parts[0]; });
}

/// Waits until all ranks are in this call, with the memory for it: from here on each does its part without control
/// messages. Ranks for which nothing moves take part, too: the group's communicator needs all of its ranks.
void NcclCollective::wait_for_all_ranks() {
  if (channel_ != nullptr) return;
  engine().begin(ProgressEngine::Kind::ready, offers().name());
  for (const int p : others_) engine().send(p);
  for (std::size_t p = 0; p < group().size(); ++p)
    if (p != group().rank) wait_for(p, [&] { return arrival_of(p).ready.has_value(); });
  const auto is_open = [&] {
    channel_ = path_.open(group());
    return channel_ != nullptr;
  };
  engine().wait(is_open, call(), others_, Awaited::elements_of_group);
}

void NcclCollective::begin_move(std::size_t buffer, std::int64_t offset, std::int64_t length,
                                std::vector<Tensor> destinations) {
  steps_begun_ = step() + 1;
  moves_[buffer] = nullptr;
  Channel::Issue issue;
  std::vector<Tensor> memory = offered();
  memory.insert(memory.end(), destinations.begin(), destinations.end());
  if (has_elements()) {
    wait_for_all_ranks();
    if (is_even_all_gather())
      issue = all_gather(std::exchange(destinations, std::vector<Tensor>(group().size())));  // own elements, too
    else if (call().operation == Operation::broadcast)
      issue = broadcast(destinations);
    else
      issue = exchange(offset, length, destinations);
  }
  // A mark of now, not of the offer: the memory of the destinations may have belonged to other tensors before.
  if (issue) moves_[buffer] = channel_->enqueue(path_.mark(), std::move(issue), std::move(memory));
  Tensor& own = destinations[group().rank];
  if (own.defined()) own.copy_from(offered()[group().rank]);
}

Channel::Issue NcclCollective::all_gather(const std::vector<Tensor>& destinations) const {
  const Tensor& theirs = destinations[other()];
  const std::int64_t bytes = theirs.bytes();
  std::byte* const all = address(theirs) - static_cast<std::int64_t>(other()) * bytes;
  return [own = offered()[other()].data(), all, bytes](NcclCommunicator& ranks) { ranks.all_gather(own, all, bytes); };
}

Channel::Issue NcclCollective::broadcast(const std::vector<Tensor>& destinations) const {
  const auto place = std::find(group().members.begin(), group().members.end(), *call().peer) - group().members.begin();
  const auto root = static_cast<std::size_t>(place);
  const Tensor x = root == group().rank ? offered()[other()] : destinations[root];
  return [data = x.data(), bytes = x.bytes(), root](NcclCommunicator& ranks) {
    ranks.broadcast(data, bytes, static_cast<int>(root));
  };
}

/// NCCL's own all-to-all, gather and scatter are such groups of sends, of contiguous parts; ours need not be
/// contiguous.
Channel::Issue NcclCollective::exchange(std::int64_t offset, std::int64_t length,
                                        const std::vector<Tensor>& destinations) const {
  std::vector<NcclPiece> sends;
  std::vector<NcclPiece> receives;
  for (std::size_t p = 0; p < group().size(); ++p) {
    if (p == group().rank) continue;
    const Tensor& x = offered()[p];
    if (!is_inline(x) && offset < x.bytes())
      sends.push_back({static_cast<int>(p), address(x) + offset, std::min(length, x.bytes() - offset)});
    if (destinations[p].defined())
      receives.push_back({static_cast<int>(p), destinations[p].data(), destinations[p].bytes()});
  }
  if (sends.empty() && receives.empty()) return {};
  return [sends, receives](NcclCommunicator& ranks) { ranks.exchange(sends, receives); };
}

void NcclCollective::wait_for_move(std::size_t buffer) {
  const std::shared_ptr<Channel::Operation> move = std::move(moves_[buffer]);
  if (move == nullptr) return;
  const auto is_done = [&] {
    channel_->progress();
    return move->is_done();
  };
  engine().wait(is_done, call(), others_, Awaited::elements_of_group);
}

void NcclCollective::wait_until_read() {
  // A root that receives nothing itself.
  if (steps_begun_ <= step()) begin_move(0, 0, all_bytes, std::vector<Tensor>(group().size()));
  wait_for_move(0);
}

}  // namespace heddle
