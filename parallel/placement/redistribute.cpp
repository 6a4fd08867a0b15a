#include "parallel/placement/redistribute.h"

#include "framework/error.h"
#include "framework/ops/shape.h"

namespace heddle {

namespace {

/// A tensor cut along one dimension among the ranks of an axis, as matrices: a part is a block of columns.
class Cut {
 public:
  Cut(const Shape& outer, int dimension, const Communicator& along)
      : outer_(outer),
        dimension_(dimension),
        ranks_(along.size()),
        rows_(outer.product(0, dimension)),
        inner_(outer.product(dimension + 1, outer.rank())) {}

  int ranks() const { return ranks_; }
  IndexRange range(int rank) const { return shard(outer_[dimension_], ranks_, rank); }
  Shape part_shape(int rank) const { return outer_.with(dimension_, range(rank).size); }
  /// The parts are contiguous in the whole tensor, one after the other.
  bool is_of_rows() const { return rows_ == 1; }
  std::vector<std::int64_t> part_sizes() const {
    std::vector<std::int64_t> sizes;
    for (int p = 0; p < ranks_; ++p) sizes.push_back(part_shape(p).numel());
    return sizes;
  }

  /// A rank's part of the whole; a view if the cut is of rows.
  Tensor part_of(const Tensor& whole, int rank) const {
    const IndexRange part = range(rank);
    if (is_of_rows())
      return whole.reshape({whole.numel()}).rows(part.begin * inner_, part.end() * inner_).reshape(part_shape(rank));
    Tensor y = Tensor::empty(whole.device(), part_shape(rank), whole.dtype());
    take(whole, rank, y);
    return y;
  }
  void take(const Tensor& whole, int rank, Tensor& part) const {
    const std::int64_t columns = range(rank).size * inner_;
    kernels(whole).copy_columns({.rows = rows_,
                                 .columns = columns,
                                 .x_columns = outer_[dimension_] * inner_,
                                 .x_begin = range(rank).begin * inner_,
                                 .y_columns = columns},
                                whole, part);
  }
  void put(const Tensor& part, int rank, Tensor& whole) const {
    const std::int64_t columns = range(rank).size * inner_;
    kernels(whole).copy_columns({.rows = rows_,
                                 .columns = columns,
                                 .x_columns = columns,
                                 .y_columns = outer_[dimension_] * inner_,
                                 .y_begin = range(rank).begin * inner_},
                                part, whole);
  }
  /// All parts, one after the other in one buffer.
  std::vector<Tensor> parts_within(const Tensor& buffer) const {
    std::vector<Tensor> parts;
    std::int64_t begin = 0;
    for (int p = 0; p < ranks_; ++p) {
      const Shape shape = part_shape(p);
      parts.push_back(buffer.rows(begin, begin + shape.numel()).reshape(shape));
      begin += shape.numel();
    }
    return parts;
  }

 private:
  static const ShapeKernels& kernels(const Tensor& x) { return x.device().backend().shape(); }

  Shape outer_;
  int dimension_;
  int ranks_;
  std::int64_t rows_;
  std::int64_t inner_;
};

Tensor gather_parts(const Tensor& part, const Cut& cut, const Shape& outer, Communicator& along) {
  const Tensor flat = part.reshape({part.numel()});
  if (cut.is_of_rows()) {
    const Tensor whole = along.all_gather(flat);
    return whole.reshape(outer);
  }
  Tensor buffer;
  {
    const MemoryScope scope(part.device(), Category::communication);
    buffer = along.all_gather(flat);
  }
  Tensor whole = Tensor::empty(part.device(), outer, part.dtype());
  const std::vector<Tensor> parts = cut.parts_within(buffer);
  for (int p = 0; p < cut.ranks(); ++p) cut.put(parts[static_cast<std::size_t>(p)], p, whole);
  return whole;
}

Tensor reduce_to_parts(const Tensor& x, const Cut& cut, Communicator& along) {
  Tensor flat = x.reshape({x.numel()});
  if (!cut.is_of_rows()) {
    const MemoryScope scope(x.device(), Category::communication);
    flat = Tensor::empty(x.device(), flat.shape(), x.dtype());
    std::vector<Tensor> parts = cut.parts_within(flat);
    for (int p = 0; p < cut.ranks(); ++p) cut.take(x, p, parts[static_cast<std::size_t>(p)]);
  }
  const Tensor part = along.reduce_scatter(flat, cut.part_sizes());
  return part.reshape(cut.part_shape(along.rank()));
}

/// From parts along `from` to parts along `to`.
Tensor exchange_parts(const Tensor& x, int from, int to, const Shape& outer, Communicator& along) {
  std::vector<Tensor> arrived;
  {
    const MemoryScope scope(x.device(), Category::communication);
    const Cut outgoing(x.shape(), to, along);
    std::vector<Tensor> parts;
    for (int p = 0; p < outgoing.ranks(); ++p) parts.push_back(outgoing.part_of(x, p));
    arrived = along.all_to_all(parts);
  }
  const Cut incoming(outer.with(to, Cut(outer, to, along).range(along.rank()).size), from, along);
  Tensor y = Tensor::empty(x.device(), outer.with(to, arrived[0].shape()[to]), x.dtype());
  for (int p = 0; p < incoming.ranks(); ++p) incoming.put(arrived[static_cast<std::size_t>(p)], p, y);
  return y;
}

void check_placed(const Placed& x, const MeshGroups& groups) {
  const Shape expected = local_shape(x.whole, x.where, groups.mesh(), groups.coordinates());
  if (!x.value.defined()) fail<InputError>("redistribute: expected a value, got none");
  if (x.value.shape() != expected)
    fail<InputError>("redistribute: expected {}, rank {}'s part of {} placed {}, got {}",
                     to_string(x.value.dtype(), expected), groups.rank(), to_string(x.whole),
                     to_string(x.where, groups.mesh()), to_string(x.value.value()));
}

void check_sum(const Placed& x, const Placements& where, const MeshGroups& groups) {
  for (const Axis axis : all_axes)
    if (where[axis].value() == Spread::partial && !is_floating(x.value.dtype()))
      fail<InputError>("redistribute: a partial sum is of a floating-point type, got {} placed {}",
                       to_string(x.value.value()), to_string(where, groups.mesh()));
}

Placed change_dimension(std::string_view name, const Placed& x, int from, int to, Axis axis, MeshGroups& groups) {
  if (groups.mesh().size(axis) > 1 && !x.where[axis].is_shard_of(from))
    fail<InputError>("{}: expected a value placed S({}) along {}, got {}", name, from, name_of(axis),
                     to_string(x.where, groups.mesh()));
  Placements where = x.where;
  where[axis] = Placement::shard(to);
  return redistribute(x, where, groups);
}

}  // namespace

Tensor redistribute_along(const Tensor& x, const Distribution& from, const Distribution& to, const Shape& outer,
                          Communicator& along) {
  if (from == to) return x;
  switch (from.spread) {
    case Spread::replicated:
      if (to.spread == Spread::sharded) return Cut(outer, *to.dimension, along).part_of(x, along.rank());
      return along.rank() == 0 ? x : Tensor::zeros_like(x);
    case Spread::sharded: {
      const Cut cut(outer, *from.dimension, along);
      if (to.spread == Spread::replicated) return gather_parts(x, cut, outer, along);
      if (to.spread == Spread::sharded) return exchange_parts(x, *from.dimension, *to.dimension, outer, along);
      Tensor y = Tensor::zeros(x.device(), outer, x.dtype());
      cut.put(x, along.rank(), y);
      return y;
    }
    case Spread::partial:
      if (to.spread == Spread::sharded) return reduce_to_parts(x, Cut(outer, *to.dimension, along), along);
      return along.all_reduce(x);
  }
  return x;
}

Placed redistribute(const Placed& x, const Placements& to, MeshGroups& groups) {
  const Placements from = normalized(x.where, groups.mesh());
  const Placements goal = normalized(to, groups.mesh());
  check_placed(x, groups);
  check_sum(x, from, groups);
  check_placements(x.whole, goal, groups.mesh());
  check_sum(x, goal, groups);
  Placed y{x.value, x.whole, from};
  for (const RedistributionStep& step : redistribution_steps(from, goal, groups.mesh())) {
    y.where[step.axis] = Placement::replicate();
    const Shape outer = local_shape(x.whole, y.where, groups.mesh(), groups.coordinates());
    y.where[step.axis] = step.to;
    Communicator& along = groups.along(step.axis);
    Tensor value =
        redistribute_along(y.value.value(), value_distribution(step.from), value_distribution(step.to), outer, along);
    y.value = record_collective(std::move(value), {y.value}, [step, outer, &along](const Tensor& dy, Wanted) {
      return Gradients{
          redistribute_along(dy, gradient_distribution(step.to), gradient_distribution(step.from), outer, along)};
    });
  }
  return y;
}

Placed dp2mp(const Placed& x, int dimension, Axis axis, MeshGroups& groups) {
  return change_dimension("dp2mp", x, 0, dimension, axis, groups);
}
Placed mp2dp(const Placed& x, int dimension, Axis axis, MeshGroups& groups) {
  return change_dimension("mp2dp", x, dimension, 0, axis, groups);
}

}  // namespace heddle
