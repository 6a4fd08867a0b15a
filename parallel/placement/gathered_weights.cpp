#include "parallel/placement/gathered_weights.h"

#include <vector>

#include "framework/error.h"
#include "framework/ops/elementwise.h"
#include "framework/tensors/device.h"
#include "parallel/communicator/shard.h"

namespace heddle {

namespace {

/// A whole weight that operations have captured, and where it comes from.
struct Captured {
  Tensor shard;
  Tensor whole;
  Communicator* ranks;
};

void check(const GatheredWeight& weight) {
  const std::int64_t mine = shard(weight.whole.numel(), weight.ranks->size(), weight.ranks->rank()).size;
  if (weight.shard.shape() != Shape{mine})
    fail<InputError>("gathered weight: expected a shard {} of {}, got {}", to_string(weight.shard.dtype(), Shape{mine}),
                     to_string(weight.shard.dtype(), weight.whole), to_string(weight.shard.value()));
}

/// The whole weights. All gathers are started before the first one is waited for.
std::vector<Tensor> gather(std::span<const Captured> weights) {
  std::vector<Work<Tensor>> under_way;
  for (const Captured& weight : weights) {
    const MemoryScope scope(weight.shard.device(), Category::communication);
    under_way.push_back(weight.ranks->all_gather(weight.shard));
  }
  std::vector<Tensor> wholes;
  for (Work<Tensor>& work : under_way) wholes.push_back(work.wait());
  return wholes;
}

void gather_again(std::span<const Captured> weights) {
  const std::vector<Tensor> wholes = gather(weights);
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i].whole.storage()->refill(*wholes[i].storage());
}

/// The whole weight as a variable whose gradient is scattered to the shards. The node does not hold the weight, whose
/// bytes are therefore freed with the last operation that captured it.
Variable whole_variable(const Tensor& whole, const GatheredWeight& weight) {
  return record_collective(
      whole, {weight.shard}, [ranks = weight.ranks, type = weight.shard.dtype()](const Tensor& gradient, Wanted) {
        const Tensor mine = ranks->reduce_scatter(in_type(gradient.reshape({gradient.numel()}), type));
        return Gradients{mine};
      });
}

}  // namespace

Variable with_gathered(std::span<const GatheredWeight> weights,
                       const std::function<Variable(std::span<const Variable>)>& use) {
  std::vector<Captured> all;
  for (const GatheredWeight& weight : weights) {
    check(weight);
    const DType type = weight.type.value_or(weight.shard.dtype());
    all.push_back({weight_in_type(weight.shard.value(), type), Tensor(), weight.ranks});
  }
  Variable y;
  {
    std::vector<Tensor> wholes = gather(all);
    std::vector<Variable> variables;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      all[i].whole = std::exchange(wholes[i], Tensor()).reshape(weights[i].whole.dimensions());
      variables.push_back(whole_variable(all[i].whole, weights[i]));
    }
    y = use(variables);
  }
  for (const Captured& weight : all)
    if (y.value().storage() == weight.whole.storage())
      fail("gathered weight: the result {} is a view of it", to_string(y.value()));
  // A weight that no operation has captured is freed here and not gathered again. In a segment that will run again this
  // is not known yet; it records the same operations both times.
  Device& device = y.device();
  if (device.recorder().recording() != Recording::edges)
    std::erase_if(all, [](const Captured& weight) { return weight.whole.is_sole_owner(); });
  if (all.empty() && !device.recorder().segment()) return y;
  for (const Captured& weight : all) weight.whole.storage()->release();
  const Tensor value = y.value();
  return record_collective(value, {y}, [all = std::move(all)](const Tensor& gradient, Wanted) {
    gather_again(all);
    return Gradients{gradient};
  });
}

}  // namespace heddle
