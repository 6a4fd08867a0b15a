// How the elements of tensors get from one process's memory into another's, once words have told both what goes where:
// over the wire that carries the words (wire_path.h), or from GPU to GPU (nccl/).
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "framework/error.h"
#include "framework/tensors/device.h"
#include "framework/tensors/mark.h"
#include "framework/tensors/tensor.h"
#include "parallel/communicator/transport.h"
#include "parallel/transports/processes/message.h"
#include "parallel/transports/processes/wire.h"

namespace heddle {

struct Group;
class ProgressEngine;

/// Elements that will not arrive: why, in the words of what moves them. A wait adds what it waited for.
class ElementsLost : public RankFailed {
 public:
  using RankFailed::RankFailed;
};

class ElementPath {
 public:
  virtual ~ElementPath() = default;

  /// The first `ranks` processes call it at the beginning of a section. InputError, the same on all of them, if
  /// elements cannot move between them this way. Waits for the others.
  virtual void begin(int /*ranks*/) {}
  /// What is sent with this mark is read when the device has done all that it was given so far. May wait for the
  /// device, and is null then.
  virtual std::shared_ptr<const Mark> mark(Device& device) = 0;
  /// Whether elements of this process can be received at present; to be asked until they can. Prepares it.
  virtual bool may_receive(int /*from*/) { return true; }
  /// Straight out of one tensor into another of the same bytes; both must stay. Those of one pair match in their order,
  /// and have the same tag. The receiver begins, when it may.
  virtual std::unique_ptr<WireTransfer> receive(int from, int tag, const Tensor& tensor) = 0;
  virtual std::unique_ptr<WireTransfer> send(int to, int tag, const Tensor& tensor,
                                             const std::shared_ptr<const Mark>& computed) = 0;
  virtual std::unique_ptr<Exchange> start(std::shared_ptr<const Group> group, Call call,
                                          std::vector<Tensor> offered) = 0;
  /// What the same path of another process wrote.
  virtual void receive_message(int from, MessageReader& message) = 0;
  /// Goes on with what the path does by itself; called whenever the process looks after its letters.
  virtual void progress() {}
  /// A wait has failed, and the others know: nothing more begins. When this returns, elements move only in tensors that
  /// a Transfer of the post office holds: what is sent and received one by one may go on, and keeps its tensors until
  /// the other side is done; what a collective moves by other ways has ended, and its tensors may be freed.
  virtual void abandon() noexcept = 0;
  /// The section has ended without a failure, and all ranks are done with the path.
  virtual void close() {}
};

/// Makes the path of one section. The device is this rank's, and outlives the path.
using MakeElementPath = std::function<std::unique_ptr<ElementPath>(ProgressEngine&, const Device&)>;

}  // namespace heddle
