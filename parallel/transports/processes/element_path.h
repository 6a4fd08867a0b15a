// How the elements of tensors move from the memory of one process to that of another, after control messages have
// described the move to both processes: over the wire that carries these messages (wire_path.h), or from GPU to GPU
// (nccl/).
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

/// Elements that will not arrive, with the reason of the library that moves them. A wait adds the call that it waited
/// for.
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
  /// A mark behind everything that the device was given so far: elements that are sent with it are read after that.
  /// Where the path waits for the device instead, the mark is null.
  virtual std::shared_ptr<const Mark> mark(Device& device) = 0;
  /// Whether elements of that process can be received at present. Prepares this, and is called until it returns true.
  virtual bool may_receive(int /*from*/) { return true; }
  /// Moves the bytes of one tensor into another of as many bytes; both must stay valid. The transfers of one pair of
  /// processes match in their order, and have the same tag. The receiver begins, once `may_receive` is true.
  virtual std::unique_ptr<WireTransfer> receive(int from, int tag, const Tensor& tensor) = 0;
  virtual std::unique_ptr<WireTransfer> send(int to, int tag, const Tensor& tensor,
                                             const std::shared_ptr<const Mark>& computed) = 0;
  virtual std::unique_ptr<TransportCall> start(std::shared_ptr<const Group> group, Call call,
                                               std::vector<Tensor> offered) = 0;
  /// Handles a control message of the same path of another process.
  virtual void receive_message(int from, MessageReader& message) = 0;
  /// Makes progress with the path's own work; called whenever the progress engine polls.
  virtual void progress() {}
  /// Called after a wait has failed and the other processes have been informed; nothing more begins. When this returns,
  /// elements move only in tensors that a Transfer of the progress engine holds. Single sends and receives may
  /// continue, and keep their tensors until the peer is done; all other transfers of collectives have ended, and their
  /// tensors may be freed.
  virtual void abandon() noexcept = 0;
  /// The section has ended without a failure, and all ranks are done with the path.
  virtual void close() {}
};

/// Makes the path of one section. The device is this rank's, and outlives the path.
using MakeElementPath = std::function<std::unique_ptr<ElementPath>(ProgressEngine&, const Device&)>;

}  // namespace heddle
