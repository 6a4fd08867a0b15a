#include "parallel/transports/processes/process_transport.h"

#include <utility>

#include "parallel/transports/group.h"
#include "parallel/transports/processes/element_path.h"
#include "parallel/transports/processes/offered_tensors.h"

namespace heddle {

namespace {

using Kind = ProgressEngine::Kind;

class ProcessSend : public MessageCall {
 public:
  ProcessSend(ProgressEngine& engine, std::uint64_t group, Call call, Tensor x)
      : engine_(engine), call_(std::move(call)), offers_(engine, {group, call_.sequence, *call_.peer}) {
    offers_.offer(0, {std::move(x)}, {*call_.peer}, call_);
    engine_.poll();
  }

  std::vector<const Call*> calls() override { return {&call_}; }
  void finish() override {
    offers_.wait_until_sent(call_);
    engine_.wait([&] { return offers_.is_taken(); }, call_, *call_.peer);
  }

 private:
  ProgressEngine& engine_;
  Call call_;
  OfferedTensors offers_;
};

class ProcessReceive : public MessageCall {
 public:
  ProcessReceive(ProgressEngine& engine, std::uint64_t group, Call call)
      : engine_(engine), call_(std::move(call)), name_{group, call_.sequence, *call_.peer} {
    engine_.poll();
  }

  std::vector<const Call*> calls() override {
    Arrival& arrival = engine_.arrival(name_, *call_.peer);
    engine_.wait([&] { return arrival.call.has_value(); }, call_, *call_.peer);
    arrival_ = engine_.take_arrival(name_, *call_.peer);
    return {&*arrival_.call};
  }
  void receive(std::span<Tensor> incoming) override {
    const Tensor& x = incoming[0];
    if (moving_bytes(x) == 0) return;
    if (is_inline(x)) return copy_content(*arrival_.content[0], x);
    // Both ranks may have to prepare the path, whatever call the sender is in: if that call waits for this rank, it is
    // no cycle.
    engine_.wait([&] { return engine_.path().may_receive(*call_.peer); }, call_, *call_.peer,
                 Awaited::elements_of_group);
    wait_for_elements(engine_, {engine_.fetch_elements(*call_.peer, name_, {0, 0, x.bytes()}, x)}, call_);
  }
  void finish() override {
    engine_.begin(Kind::taken, name_);
    engine_.send(*call_.peer);
  }

 private:
  ProgressEngine& engine_;
  Call call_;
  CallName name_;
  Arrival arrival_;
};

class ProcessTransport : public GroupTransport {
 public:
  ProcessTransport(ProgressEngine& engine, Group group) : GroupTransport(std::move(group)), engine_(engine) {}

  std::unique_ptr<TransportCall> start(Call call, std::vector<Tensor> offered) override {
    return engine_.path().start(group(), std::move(call), std::move(offered));
  }
  std::unique_ptr<TransportCall> start_send(Call call, Tensor x, int /*to*/) override {
    return std::make_unique<ProcessSend>(engine_, group()->id, std::move(call), std::move(x));
  }
  std::unique_ptr<TransportCall> start_recv(Call call, int /*from*/) override {
    return std::make_unique<ProcessReceive>(engine_, group()->id, std::move(call));
  }
  void abort(std::string_view why) override { engine_.report({Failure::Kind::error, std::string(why)}); }

 private:
  std::unique_ptr<Transport> connect(Group group) override {
    return std::make_unique<ProcessTransport>(engine_, std::move(group));
  }

  ProgressEngine& engine_;
};

}  // namespace

std::unique_ptr<Transport> make_process_transport(ProgressEngine& engine, int ranks) {
  return std::make_unique<ProcessTransport>(engine, world_group(ranks, engine.rank()));
}

}  // namespace heddle
