#include "parallel/transports/processes/wire_path.h"

#include "parallel/transports/processes/process_collective.h"

namespace heddle {

namespace {

// Reductions hold two such pieces of every other rank's elements: one is reduced while the next is under way.
constexpr std::int64_t wire_piece_bytes = std::int64_t{1} << 20;

class WireCollective : public ProcessCollective {
 public:
  WireCollective(ProgressEngine& engine, std::shared_ptr<const Group> group, Call call, std::vector<Tensor> offered)
      : ProcessCollective(engine, std::move(group), std::move(call), std::move(offered), wire_piece_bytes) {}

 protected:
  void begin_move(std::size_t buffer, std::int64_t offset, std::int64_t /*length*/,
                  std::vector<Tensor> destinations) override {
    Transfers& transfers = transfers_[buffer];
    transfers.clear();
    for (std::size_t p = 0; p < destinations.size(); ++p)
      if (p != group().rank && destinations[p].defined())
        transfers.push_back(engine().fetch_elements(group().members[p], offers().name(),
                                                    {step(), offset, destinations[p].bytes()}, destinations[p]));
    Tensor& own = destinations[group().rank];
    if (own.defined()) own.copy_from(offered()[group().rank]);
  }
  void wait_for_move(std::size_t buffer) override { wait_for_elements(engine(), transfers_[buffer], call()); }
  void wait_until_read() override { offers().wait_until_sent(call()); }

 private:
  std::array<Transfers, 2> transfers_;
};

}  // namespace

std::shared_ptr<const Mark> WirePath::mark(Device& device) {
  device.backend().synchronize();
  return nullptr;
}

std::unique_ptr<WireTransfer> WirePath::receive(int from, int tag, const Tensor& tensor) {
  return engine_.wire().receive(from, tag, tensor.data(), tensor.bytes());
}

std::unique_ptr<WireTransfer> WirePath::send(int to, int tag, const Tensor& tensor,
                                             const std::shared_ptr<const Mark>& /*computed*/) {
  return engine_.wire().send(to, tag, tensor.data(), tensor.bytes());
}

std::unique_ptr<TransportCall> WirePath::start(std::shared_ptr<const Group> group, Call call,
                                               std::vector<Tensor> offered) {
  return std::make_unique<WireCollective>(engine_, std::move(group), std::move(call), std::move(offered));
}

}  // namespace heddle
