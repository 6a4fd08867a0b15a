#include "parallel/transports/processes/process_transport.h"

#include <algorithm>
#include <utility>

#include "parallel/transports/processes/element_path.h"
#include "parallel/transports/processes/process_exchange.h"

namespace heddle {

namespace {

using Kind = ProgressEngine::Kind;

class SendExchange : public MessageExchange {
 public:
  SendExchange(ProgressEngine& engine, std::uint64_t group, Call call, Tensor x)
      : engine_(engine), call_(std::move(call)), offers_(engine, {group, call_.sequence, call_.peer}) {
    offers_.put(0, {std::move(x)}, {call_.peer}, call_);
    engine_.poll();
  }

  std::vector<const Call*> calls() override { return {&call_}; }
  void finish() override {
    offers_.wait_until_sent(call_);
    engine_.wait([&] { return offers_.is_taken(); }, call_, call_.peer);
  }

 private:
  ProgressEngine& engine_;
  Call call_;
  Offers offers_;
};

class RecvExchange : public MessageExchange {
 public:
  RecvExchange(ProgressEngine& engine, std::uint64_t group, Call call)
      : engine_(engine), call_(std::move(call)), name_{group, call_.sequence, call_.peer} {
    engine_.poll();
  }

  std::vector<const Call*> calls() override {
    Arrival& arrival = engine_.arrival(name_, call_.peer);
    engine_.wait([&] { return arrival.call.has_value(); }, call_, call_.peer);
    arrival_ = engine_.take_arrival(name_, call_.peer);
    return {&*arrival_.call};
  }
  void receive(std::span<Tensor> incoming) override {
    const Tensor& x = incoming[0];
    if (moving_bytes(x) == 0) return;
    if (is_inline(x)) return copy_content(*arrival_.content[0], x);
    // Both ranks may have to prepare the path, whatever call the sender is in: if that call waits for this rank, it is
    // no cycle.
    engine_.wait([&] { return engine_.path().may_receive(call_.peer); }, call_, call_.peer, Awaited::elements_of_group);
    wait_for_elements(engine_, {engine_.fetch_elements(call_.peer, name_, {0, 0, x.bytes()}, x)}, call_);
  }
  void finish() override {
    engine_.begin(Kind::taken, name_);
    engine_.send(call_.peer);
  }

 private:
  ProgressEngine& engine_;
  Call call_;
  ExchangeName name_;
  Arrival arrival_;
};

class ProcessTransport : public Transport {
 public:
  ProcessTransport(ProgressEngine& engine, Group group)
      : engine_(engine), group_(std::make_shared<const Group>(std::move(group))) {}

  int rank() const override { return static_cast<int>(group_->rank); }
  int size() const override { return static_cast<int>(group_->members.size()); }
  int world_rank(int rank) const override { return group_->members[static_cast<std::size_t>(rank)]; }

  std::unique_ptr<Exchange> start(Call call, std::vector<Tensor> offered) override {
    return engine_.path().start(group_, std::move(call), std::move(offered));
  }
  std::unique_ptr<Exchange> start_send(Call call, Tensor x, int /*to*/) override {
    return std::make_unique<SendExchange>(engine_, group_->id, std::move(call), std::move(x));
  }
  std::unique_ptr<Exchange> start_recv(Call call, int /*from*/) override {
    return std::make_unique<RecvExchange>(engine_, group_->id, std::move(call));
  }
  std::unique_ptr<Transport> split(std::uint64_t sequence, std::vector<int> members) override {
    // The same on all members; two groups of a rank get the same number with probability 2^-64.
    std::uint64_t id = group_->id;
    for (const std::uint64_t word : {sequence, static_cast<std::uint64_t>(world_rank(members[0]))})
      id = mixed(id ^ mixed(word + 1));
    for (int& member : members) member = world_rank(member);
    return make_process_transport(engine_, id, std::move(members));
  }
  void abort(std::string_view why) override { engine_.report({Failure::Kind::error, std::string(why)}); }

 private:
  /// SplitMix64.
  static std::uint64_t mixed(std::uint64_t x) {
    x += 0x9E3779B97F4A7C15ULL;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
    return x ^ (x >> 31);
  }

  ProgressEngine& engine_;
  std::shared_ptr<const Group> group_;
};

}  // namespace

std::unique_ptr<Transport> make_process_transport(ProgressEngine& engine, std::uint64_t group,
                                                  std::vector<int> members) {
  const auto me = std::find(members.begin(), members.end(), engine.rank());
  const auto rank = static_cast<std::size_t>(me - members.begin());
  return std::make_unique<ProcessTransport>(engine, Group{group, std::move(members), rank});
}

}  // namespace heddle
