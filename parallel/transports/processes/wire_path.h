// Moves elements over the wire, from and to memory that the wire can reach. A receiver requests elements once it has
// the memory for them: they are copied once, no process holds elements that were not requested, and a send is complete
// when the receiver has them.
#pragma once

#include "parallel/transports/processes/element_path.h"

namespace heddle {

class ProgressEngine;

class WirePath : public ElementPath {
 public:
  explicit WirePath(ProgressEngine& engine) : engine_(engine) {}

  std::shared_ptr<const Mark> mark(Device& device) override;
  std::unique_ptr<WireTransfer> receive(int from, int tag, const Tensor& tensor) override;
  std::unique_ptr<WireTransfer> send(int to, int tag, const Tensor& tensor,
                                     const std::shared_ptr<const Mark>& computed) override;
  std::unique_ptr<TransportCall> start(std::shared_ptr<const Group> group, Call call,
                                       std::vector<Tensor> offered) override;
  void receive_message(int /*from*/, MessageReader& /*message*/) override {}
  /// A wire ends nothing that has begun: all of it belongs to Transfers.
  void abandon() noexcept override {}

 private:
  ProgressEngine& engine_;
};

}  // namespace heddle
