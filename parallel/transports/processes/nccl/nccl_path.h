// Elements that move from GPU to GPU by NCCL, after control messages have said what goes where. These messages, and all
// that they detect (calls that do not match, deadlocks, failures), are those of every transport between processes.
//
// The elements of a collective move when every rank has reported that it is in the call, so that no GPU waits for a
// rank that is elsewhere; each step is one NCCL call. NCCL has no reduction whose order is that of the ranks: slices
// are exchanged, which costs what a ring's reduce-scatter does, and combined in rank order. A message moves when its
// receiver requests it. Each group and each direction of a pair has a communicator of its own (channels.h).
#pragma once

#include <memory>
#include <vector>

#include "parallel/transports/processes/element_path.h"
#include "parallel/transports/processes/nccl/channels.h"

namespace heddle {

class NcclPath : public ElementPath {
 public:
  /// The device is this rank's, on a GPU of its own, and outlives the path.
  NcclPath(ProgressEngine& engine, Nccl& nccl, const Device& device)
      : engine_(engine), nccl_(nccl), device_(device), channels_(engine, nccl) {}
  ~NcclPath() override { abandon(); }
  NcclPath(const NcclPath&) = delete;
  NcclPath& operator=(const NcclPath&) = delete;

  /// InputError if two ranks are on one GPU, where NCCL would wait forever.
  void begin(int ranks) override;

  std::shared_ptr<const Mark> mark(Device& device) override { return device.backend().mark(); }
  /// A mark behind all that this rank's device was given so far, also in memory that has been freed since.
  std::shared_ptr<const Mark> mark() const { return device_.backend().mark(); }
  bool may_receive(int from) override;
  std::unique_ptr<WireTransfer> receive(int from, int tag, const Tensor& tensor) override;
  std::unique_ptr<WireTransfer> send(int to, int tag, const Tensor& tensor,
                                     const std::shared_ptr<const Mark>& computed) override;
  std::unique_ptr<TransportCall> start(std::shared_ptr<const Group> group, Call call,
                                       std::vector<Tensor> offered) override;
  void receive_message(int /*from*/, MessageReader& message) override { channels_.receive_message(message); }
  void progress() override { channels_.progress(); }
  void abandon() noexcept override;

  /// The channel of a group whose ranks are all in this call, once it is open; see Channels::open.
  std::shared_ptr<Channel> open(const Group& group);

  void close() override { channels_.close(); }

 private:
  std::vector<NcclGpu> gather_gpus(int ranks) const;
  ChannelName messages_from(int rank) const;
  ChannelName messages_to(int rank) const;

  ProgressEngine& engine_;
  Nccl& nccl_;
  const Device& device_;
  Channels channels_;
};

/// Paths over this NCCL, which outlives them.
MakeElementPath nccl_elements(Nccl& nccl);

}  // namespace heddle
