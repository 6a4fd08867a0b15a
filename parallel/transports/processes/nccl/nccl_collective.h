// A collective whose larger tensors move by NCCL.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "parallel/transports/processes/nccl/nccl_path.h"
#include "parallel/transports/processes/process_collective.h"

namespace heddle {

class NcclCollective : public ProcessCollective {
 public:
  NcclCollective(NcclPath& path, ProgressEngine& engine, std::shared_ptr<const Group> group, Call call,
                 std::vector<Tensor> offered);

 protected:
  void begin_move(std::size_t buffer, std::int64_t offset, std::int64_t length,
                  std::vector<Tensor> destinations) override;
  void wait_for_move(std::size_t buffer) override;
  void wait_until_read() override;

 private:
  bool has_elements() const;
  bool is_even_all_gather() const;
  void wait_for_all_ranks();
  Channel::Issue all_gather(const std::vector<Tensor>& destinations) const;
  Channel::Issue broadcast(const std::vector<Tensor>& destinations) const;
  Channel::Issue exchange(std::int64_t offset, std::int64_t length, const std::vector<Tensor>& destinations) const;
  /// Another rank of the group.
  std::size_t other() const { return group().rank == 0 ? 1 : 0; }

  NcclPath& path_;
  std::vector<int> others_;  // world ranks
  std::shared_ptr<Channel> channel_;
  std::array<std::shared_ptr<Channel::Operation>, 2> moves_;
  int steps_begun_ = 0;
};

}  // namespace heddle
