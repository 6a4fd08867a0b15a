#include "parallel/transports/threads/threads_transport.h"

#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "framework/tensors/device.h"
#include "parallel/transports/group.h"
#include "parallel/transports/threads/wait_graph.h"

namespace heddle {

namespace {

/// A mark behind the work that computes these tensors of one rank; null where that is done.
std::shared_ptr<const Mark> mark_behind(std::span<const Tensor> tensors) {
  for (const Tensor& x : tensors)
    if (x.defined()) return x.device().backend().mark();
  return nullptr;
}

/// The tensors that a rank offers to the others: one for each of them, or none.
struct Offer {
  Offer() = default;
  explicit Offer(std::vector<Tensor> for_ranks) : tensors(std::move(for_ranks)), ready(mark_behind(tensors)) {}

  std::vector<Tensor> tensors;
  std::shared_ptr<const Mark> ready;
};

/// Tensors of other ranks that this rank works on for a while. Null marks, of devices that compute synchronously, need
/// no wait.
class Borrowed {
 public:
  explicit Borrowed(Backend& mine) : mine_(mine) {}

  /// Work that this rank issues from now on begins when x is ready.
  void take(const Tensor& x, const std::shared_ptr<const Mark>& ready) {
    Backend& owner = x.device().backend();
    if (ready == nullptr || &owner == &mine_) return;
    mine_.wait_for(ready.get());
    owners_.push_back(&owner);
  }
  /// Work that the owners issue from now on begins when everything that this rank has issued so far is done.
  void give_back() {
    if (owners_.empty()) return;
    const std::shared_ptr<const Mark> done = mine_.mark();
    for (Backend* const owner : owners_) owner->wait_for(done.get());
    owners_.clear();
  }

 private:
  Backend& mine_;
  std::vector<Backend*> owners_;
};

void fetch(const Tensor& from, const std::shared_ptr<const Mark>& ready, Tensor& to) {
  Borrowed borrowed(to.device().backend());
  borrowed.take(from, ready);
  to.copy_from(from);
  borrowed.give_back();
}

/// One rank's calls, as the others see them. The phase is 4 * sequence + step: steps 1 and 2 say that offers[step - 1]
/// may be worked on, `done` says that this rank has issued its work on the others' tensors. A slot is reused after
/// max_started calls.
struct alignas(64) Slot {
  static constexpr std::uint64_t done = 3;
  std::atomic<std::uint64_t> phase{0};
  Call call;
  std::array<Offer, 2> offers;
};

struct Message {
  Call call;
  Tensor x;
  std::shared_ptr<const Mark> ready;
  std::atomic<bool> taken{false};
};

/// The messages from one rank to another that have not been received yet.
struct Mailbox {
  std::mutex mutex;
  std::map<std::uint64_t, std::shared_ptr<Message>> messages;
  std::atomic<std::uint64_t> sent{0};
};

/// What the first rank that asks has made for all ranks of a collective.
struct SharedSummary {
  std::mutex mutex;
  std::uint64_t sequence = 0;  // of the collective
  CollectiveSummary summary;
};

/// What the ranks of one communicator share.
struct GroupMemory {
  explicit GroupMemory(std::size_t size) : slots(size), mailboxes(size * size) {}

  Slot& slot(std::size_t rank, std::uint64_t sequence) { return slots[rank][sequence % Transport::max_started]; }
  Mailbox& mailbox(int from, int to) {
    return mailboxes[static_cast<std::size_t>(from) * slots.size() + static_cast<std::size_t>(to)];
  }

  SharedSummary& summary(std::uint64_t sequence) { return summaries[sequence % Transport::max_started]; }

  std::vector<std::array<Slot, Transport::max_started>> slots;
  std::array<SharedSummary, Transport::max_started> summaries;  // reused like the slots
  std::vector<Mailbox> mailboxes;
};

}  // namespace

class ThreadsWorld::Shared {
 public:
  Shared(int ranks, std::chrono::milliseconds timeout) : ranks_(ranks), waits_(ranks, timeout) {}

  int ranks() const { return ranks_; }
  WaitGraph& waits() { return waits_; }
  /// The same for all members of the group, for as long as the world lives.
  GroupMemory& memory_of(const Group& group) {
    const std::lock_guard lock(mutex_);
    return memories_.try_emplace(group.id, group.size()).first->second;
  }

 private:
  int ranks_;
  WaitGraph waits_;
  std::mutex mutex_;
  std::map<std::uint64_t, GroupMemory> memories_;
};

namespace {

using Shared = ThreadsWorld::Shared;

class ThreadsCollective : public TransportCall {
 public:
  ThreadsCollective(WaitGraph& waits, GroupMemory& memory, std::shared_ptr<const Group> group, Call call,
                    std::vector<Tensor> offered)
      : waits_(waits),
        memory_(memory),
        group_(std::move(group)),
        rank_(group_->rank),
        sequence_(call.sequence),
        mine_(memory.slot(rank_, sequence_)) {
    mine_.call = std::move(call);
    publish(std::move(offered));
  }

  std::vector<const Call*> calls() override {
    wait_for_all(step_);
    std::vector<const Call*> calls;
    for (std::size_t p = 0; p < group_->size(); ++p) calls.push_back(&slot(p).call);
    return calls;
  }

  CollectiveSummary summary(const std::function<CollectiveSummary()>& make) override {
    SharedSummary& shared = memory_.summary(sequence_);
    const std::lock_guard lock(shared.mutex);
    if (shared.sequence != sequence_) {
      shared.summary = make();
      shared.sequence = sequence_;
    }
    return shared.summary;
  }

  void receive(std::span<Tensor> incoming) override {
    wait_for(step_, [&](std::size_t p) { return p < incoming.size() && incoming[p].defined(); });
    for (std::size_t p = 0; p < incoming.size(); ++p)
      if (incoming[p].defined() && incoming[p].bytes() > 0)
        fetch(offer_of(p).tensors[rank_], offer_of(p).ready, incoming[p]);
  }

  void reduce(Reduction reduction, Tensor& result) override {
    wait_for_all(step_);
    if (result.bytes() > 0) combine(reduction, offered(step_), std::span(&result, 1));
  }

  void all_reduce(Reduction reduction, int /*rank*/, std::vector<Tensor> results) override {
    offer(std::move(results));
    wait_for_all(step_);
    // No other rank reads or writes these slices of every rank's x and of every rank's result.
    std::vector<Tensor> everywhere = offered(step_);
    if (everywhere[rank_].bytes() > 0) combine(reduction, offered(step_ - 1), everywhere);
  }

  void offer(std::vector<Tensor> offered) override {
    ++step_;
    publish(std::move(offered));
  }

  void finish() override {
    enter(Slot::done);
    wait_for_all(Slot::done);
    mine_.offers = {};
  }

 private:
  Slot& slot(std::size_t p) const { return memory_.slot(p, sequence_); }
  const Offer& offer_of(std::size_t p) const { return slot(p).offers[step_ - 1]; }
  /// The tensors that all ranks offered to this one in this step.
  std::vector<Tensor> offered(std::uint64_t step) const {
    std::vector<Tensor> tensors;
    for (std::size_t p = 0; p < group_->size(); ++p) tensors.push_back(slot(p).offers[step - 1].tensors[rank_]);
    return tensors;
  }

  /// `parts` has one tensor per rank, in rank order; `results` has this rank's only, or one per rank. The newest marks
  /// are behind both.
  void combine(Reduction reduction, const std::vector<Tensor>& parts, std::span<Tensor> results) {
    Backend& mine = parts[rank_].device().backend();
    Borrowed borrowed(mine);
    for (std::size_t p = 0; p < group_->size(); ++p) borrowed.take(parts[p], offer_of(p).ready);
    heddle::combine(mine, reduction, parts, results);
    borrowed.give_back();
  }

  void publish(std::vector<Tensor> offered) {
    mine_.offers[step_ - 1] = Offer(std::move(offered));
    enter(step_);
  }

  void enter(std::uint64_t step) {
    mine_.phase.store(4 * sequence_ + step);
    waits_.notify(group_->members[rank_]);
  }

  void wait_for_all(std::uint64_t step) const {
    wait_for(step, [](std::size_t) { return true; });
  }

  /// Returns when the ranks p with is_awaited(p) have entered the step.
  template <class IsAwaited>
  void wait_for(std::uint64_t step, const IsAwaited& is_awaited) const {
    const auto has_entered = [&](std::size_t p) { return slot(p).phase.load() >= 4 * sequence_ + step; };
    const auto next = [&, p = std::size_t{0}]() mutable {
      while (p < group_->size() && (!is_awaited(p) || has_entered(p))) ++p;
      return p < group_->size() ? std::optional(group_->members[p]) : std::nullopt;
    };
    waits_.wait(next, mine_.call);
  }

  WaitGraph& waits_;
  GroupMemory& memory_;
  std::shared_ptr<const Group> group_;
  std::size_t rank_;
  std::uint64_t sequence_;
  Slot& mine_;
  std::uint64_t step_ = 1;
};

class ThreadSend : public MessageCall {
 public:
  ThreadSend(WaitGraph& waits, Mailbox& mailbox, std::shared_ptr<Message> message)
      : waits_(waits), message_(std::move(message)) {
    {
      const std::lock_guard lock(mailbox.mutex);
      mailbox.messages.emplace(message_->call.sequence, message_);
    }
    mailbox.sent.store(message_->call.sequence);
    waits_.notify(message_->call.rank);
  }

  std::vector<const Call*> calls() override { return {&message_->call}; }
  void finish() override {
    const auto next = [this] { return message_->taken.load() ? std::nullopt : message_->call.peer; };
    waits_.wait(next, message_->call);
  }

 private:
  WaitGraph& waits_;
  std::shared_ptr<Message> message_;
};

class ThreadReceive : public MessageCall {
 public:
  ThreadReceive(WaitGraph& waits, Mailbox& mailbox, Call call)
      : waits_(waits), mailbox_(mailbox), call_(std::move(call)) {}

  std::vector<const Call*> calls() override {
    const auto next = [this] { return mailbox_.sent.load() >= call_.sequence ? std::nullopt : call_.peer; };
    waits_.wait(next, call_);
    const std::lock_guard lock(mailbox_.mutex);
    message_ = std::move(mailbox_.messages.extract(call_.sequence).mapped());
    return {&message_->call};
  }
  void receive(std::span<Tensor> incoming) override {
    if (incoming[0].bytes() > 0) fetch(message_->x, message_->ready, incoming[0]);
  }
  void finish() override {
    message_->x = Tensor();
    message_->taken.store(true);
    waits_.notify(call_.rank);
  }

 private:
  WaitGraph& waits_;
  Mailbox& mailbox_;
  Call call_;
  std::shared_ptr<Message> message_;
};

class ThreadsTransport : public GroupTransport {
 public:
  ThreadsTransport(std::shared_ptr<Shared> shared, Group group)
      : GroupTransport(std::move(group)), shared_(std::move(shared)), memory_(shared_->memory_of(*this->group())) {}

  std::unique_ptr<TransportCall> start(Call call, std::vector<Tensor> offered) override {
    return std::make_unique<ThreadsCollective>(shared_->waits(), memory_, group(), std::move(call), std::move(offered));
  }
  std::unique_ptr<TransportCall> start_send(Call call, Tensor x, int to) override {
    auto message = std::make_shared<Message>();
    message->call = std::move(call);
    message->ready = mark_behind(std::span(&x, 1));
    message->x = std::move(x);
    return std::make_unique<ThreadSend>(shared_->waits(), memory_.mailbox(rank(), to), std::move(message));
  }
  std::unique_ptr<TransportCall> start_recv(Call call, int from) override {
    return std::make_unique<ThreadReceive>(shared_->waits(), memory_.mailbox(from, rank()), std::move(call));
  }
  void abort(std::string_view why) override { shared_->waits().failed(world_rank(rank()), why); }

 private:
  std::unique_ptr<Transport> connect(Group group) override {
    return std::make_unique<ThreadsTransport>(shared_, std::move(group));
  }

  std::shared_ptr<Shared> shared_;
  GroupMemory& memory_;
};

}  // namespace

ThreadsWorld::ThreadsWorld(int ranks, std::chrono::milliseconds timeout)
    : shared_(std::make_shared<Shared>(ranks, timeout)) {}
ThreadsWorld::~ThreadsWorld() = default;

std::unique_ptr<Transport> ThreadsWorld::connect(int rank) {
  return std::make_unique<ThreadsTransport>(shared_, world_group(shared_->ranks(), rank));
}
void ThreadsWorld::ended(int rank) {
  shared_->waits().ended(rank);
}
void ThreadsWorld::failed(int rank, std::string_view why) {
  shared_->waits().failed(rank, why);
}
void ThreadsWorld::returned(int rank) {
  shared_->waits().returned(rank);
}
void ThreadsWorld::await(int count, std::chrono::milliseconds patience,
                         const std::function<void(const std::string& why)>& on_stall) {
  shared_->waits().await(count, patience, on_stall);
}

}  // namespace heddle
