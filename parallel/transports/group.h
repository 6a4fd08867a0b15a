// The common part of the communicators of all transports: the ranks of the world that belong to a communicator.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "parallel/communicator/transport.h"

namespace heddle {

class Backend;

/// The ranks of a communicator, as one of them sees it.
struct Group {
  std::uint64_t id;          // the same on all members
  std::vector<int> members;  // world ranks, ascending
  std::size_t rank;          // this rank's index in `members`

  std::size_t size() const { return members.size(); }
  int world_rank(int of) const { return members[static_cast<std::size_t>(of)]; }
  /// The communicator that a split leaves to these ranks of this one. Two groups of a rank get the same id with
  /// probability 2^-64.
  Group part(std::uint64_t sequence, const std::vector<int>& ranks) const;
};

/// World ranks 0 .. ranks-1, as world rank `me` sees them.
Group world_group(int ranks, int me);

/// A transport that knows its group.
class GroupTransport : public Transport {
 public:
  /// Calls keep the group, because the communicator may be destroyed before they are complete.
  explicit GroupTransport(Group group) : group_(std::make_shared<const Group>(std::move(group))) {}

  int rank() const final { return static_cast<int>(group_->rank); }
  int size() const final { return static_cast<int>(group_->size()); }
  int world_rank(int rank) const final { return group_->world_rank(rank); }
  std::unique_ptr<Transport> split(std::uint64_t sequence, std::vector<int> members) final {
    return connect(group_->part(sequence, members));
  }

 protected:
  const std::shared_ptr<const Group>& group() const { return group_; }

 private:
  /// This rank's end of the communicator of a group.
  virtual std::unique_ptr<Transport> connect(Group group) = 0;

  std::shared_ptr<const Group> group_;
};

/// Combines `parts`, in their order, into each of `results`, by kernels of the device of this rank. A part that is the
/// only one is copied, unless it is the result.
void combine(Backend& mine, Reduction reduction, std::span<const Tensor> parts, std::span<Tensor> results);

}  // namespace heddle
