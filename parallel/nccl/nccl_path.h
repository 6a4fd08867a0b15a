// Elements that go from GPU to GPU by NCCL, after words have told what goes where: the words, and all that they find
// out (calls that do not match, deadlocks, failures), are those of every transport among processes.
//
// A collective's elements move when every rank has said that it has come to the call, so that no GPU waits for a rank
// that is elsewhere; all of a step is one NCCL call. NCCL has no reduction whose order is that of the ranks: slices are
// exchanged, which costs what a ring's reduce-scatter does, and combined in rank order. A message goes over a
// communicator of its two ranks and its direction, when its receiver asks for it, so that messages that cross do not
// wait for each other.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "parallel/element_path.h"
#include "parallel/nccl/lane.h"

namespace heddle {

class PostOffice;

class NcclPath : public ElementPath {
 public:
  /// The device is this rank's, on a GPU of its own, and outlives the path.
  NcclPath(PostOffice& office, Nccl& nccl, const Device& device) : office_(office), nccl_(nccl), device_(device) {}
  ~NcclPath() override { abandon(); }
  NcclPath(const NcclPath&) = delete;
  NcclPath& operator=(const NcclPath&) = delete;

  std::shared_ptr<Mark> mark(Device& device) override { return nccl_.mark(device); }
  /// What was computed so far is done, and what was done in memory that is free now.
  std::shared_ptr<Mark> mark() const { return nccl_.mark(device_); }
  std::unique_ptr<WireTransfer> receive(int from, int tag, const Tensor& tensor) override;
  std::unique_ptr<WireTransfer> send(int to, int tag, const Tensor& tensor,
                                     const std::shared_ptr<Mark>& computed) override;
  std::unique_ptr<Exchange> start(const Group& group, Call call, std::vector<Tensor> offered) override;
  void told(int from, LetterReader& letter) override;
  void abandon() noexcept override;

  /// The lane of a group; null before it was opened.
  std::shared_ptr<Lane> lane_of(const Group& group) const;
  NcclId new_id() { return nccl_.new_id(); }
  std::shared_ptr<Lane> open(const Group& group, const NcclId& id);

  /// When all ranks are done with it.
  void close();

 private:
  template <class Key>
  using Lanes = std::map<Key, std::shared_ptr<Lane>>;
  std::shared_ptr<Lane> make_lane(const NcclId& id, int ranks, int rank) const;
  template <class Visit>
  void for_each_lane(const Visit& visit);

  PostOffice& office_;
  Nccl& nccl_;
  const Device& device_;
  Lanes<std::uint64_t> groups_;
  Lanes<int> from_;  // messages, by the other rank
  Lanes<int> to_;
  bool is_abandoned_ = false;
};

}  // namespace heddle
