#include "parallel/communicator/collective_ops.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <vector>

#include <fmt/ranges.h>

#include "framework/error.h"
#include "framework/ops/shape.h"

namespace heddle {

namespace {

using Rows = std::vector<std::int64_t>;

Tensor token(Communicator& group) {
  return Tensor::empty(group.device(), {0}, DType::f32);
}

/// For calls to which not all ranks pass a value, or which only some ranks differentiate: an additional input keeps the
/// call in the graph of every rank. Integers have no gradient on any rank.
Variable record_everywhere(const Tensor& y, const Variable& x, DType moved, Communicator& group, Vjp vjp) {
  if (!is_floating(moved)) return y;
  const Variable anchor = Variable::input(token(group), std::make_shared<Accumulator>(Category::activations));
  return record_collective(y, {x, anchor}, std::move(vjp));
}

Rows shard_rows(std::int64_t total, const Communicator& group) {
  Rows rows;
  for (int p = 0; p < group.size(); ++p) rows.push_back(shard(total, group.size(), p).size);
  return rows;
}

void check_value(std::string_view name, const Variable& x) {
  if (!x.defined()) fail<InputError>("{}: expected a value, got none", name);
}

void check_rows(std::string_view name, const Tensor& x, std::span<const std::int64_t> rows, const Communicator& group) {
  if (x.shape().rank() == 0 || static_cast<int>(rows.size()) != group.size() ||
      std::any_of(rows.begin(), rows.end(), [](std::int64_t count) { return count < 0; }) ||
      std::accumulate(rows.begin(), rows.end(), std::int64_t{0}) != x.shape()[0])
    fail<InputError>("{}: expected {} numbers of rows that make up {}, got [{}]", name, group.size(), to_string(x),
                     fmt::join(rows, ","));
}

Rows rows_of(std::span<const Tensor> blocks) {
  Rows rows;
  std::transform(blocks.begin(), blocks.end(), std::back_inserter(rows), [](const Tensor& x) { return x.shape()[0]; });
  return rows;
}

/// The blocks that were received, as one tensor; `arrived` has their numbers of rows.
Tensor all_to_all_rows(const Tensor& x, std::span<const std::int64_t> rows, Communicator& group,
                       Rows* arrived = nullptr) {
  std::vector<Tensor> blocks;
  {
    const MemoryScope scope(group.device(), Category::communication);
    blocks = group.all_to_all(split_rows(x, rows));
  }
  if (arrived) *arrived = rows_of(blocks);
  return concat_tensors(blocks, 0);
}

/// On the root, all rows and the number of rows from each rank; elsewhere, a token.
Tensor gather_rows_to(const Tensor& x, int root, Communicator& group, Rows& rows) {
  std::vector<Tensor> blocks;
  {
    const MemoryScope scope(group.device(), Category::communication);
    blocks = group.gather(x, root);
  }
  rows = rows_of(blocks);
  return blocks.empty() ? token(group) : concat_tensors(blocks, 0);
}

Gradients whole_gradient(const Tensor& dy, Communicator& group) {
  const Tensor dx = group.all_gather(dy);
  return {dx};
}

Variable gathered(const Variable& x, const Tensor& whole, const Rows& rows, Communicator& group, Spread gradient) {
  check_rows("all_gather", whole, rows, group);
  const auto me = static_cast<std::size_t>(group.rank());
  if (rows[me] != x.shape()[0])
    fail<InputError>("all_gather: expected {} of {} rows on rank {}, got {}", rows[me], whole.shape()[0], me,
                     to_string(x.value()));
  if (gradient == Spread::partial)
    return record_collective(whole, {x}, [&group, rows](const Tensor& dy, Wanted) {
      const Tensor dx = group.reduce_scatter(dy, rows);
      return Gradients{dx};
    });
  const std::int64_t begin = std::accumulate(rows.begin(), rows.begin() + group.rank(), std::int64_t{0});
  return record(whole, {x},
                [begin, end = begin + rows[me]](const Tensor& dy, Wanted) { return Gradients{dy.rows(begin, end)}; });
}

}  // namespace

Variable all_reduce(const Variable& x, Communicator& group, Spread gradient) {
  check_value("all_reduce", x);
  const Tensor total = group.all_reduce(x.value());
  if (gradient != Spread::partial) return record(total, {x}, [](const Tensor& dy, Wanted) { return Gradients{dy}; });
  return record_collective(total, {x}, [&group](const Tensor& dy, Wanted) {
    const Tensor dx = group.all_reduce(dy);
    return Gradients{dx};
  });
}

Variable all_gather(const Variable& x, Communicator& group, Spread gradient) {
  check_value("all_gather", x);
  const Tensor whole = group.all_gather(x.value());
  return gathered(x, whole, shard_rows(whole.shape()[0], group), group, gradient);
}

Variable all_gather(const Variable& x, std::span<const std::int64_t> rows, Communicator& group, Spread gradient) {
  check_value("all_gather", x);
  const Tensor whole = group.all_gather(x.value());
  return gathered(x, whole, {rows.begin(), rows.end()}, group, gradient);
}

Variable reduce_scatter(const Variable& x, Communicator& group) {
  check_value("reduce_scatter", x);
  const Tensor y = group.reduce_scatter(x.value());
  return record_collective(y, {x}, [&group](const Tensor& dy, Wanted) { return whole_gradient(dy, group); });
}

Variable reduce_scatter(const Variable& x, std::span<const std::int64_t> rows, Communicator& group) {
  check_value("reduce_scatter", x);
  const Tensor y = group.reduce_scatter(x.value(), rows);
  return record_collective(y, {x}, [&group](const Tensor& dy, Wanted) { return whole_gradient(dy, group); });
}

Variable all_to_all(const Variable& x, std::span<const std::int64_t> rows, Communicator& group) {
  check_value("all_to_all", x);
  check_rows("all_to_all", x.value(), rows, group);
  Rows arrived;
  const Tensor y = all_to_all_rows(x.value(), rows, group, &arrived);
  return record_collective(
      y, {x}, [&group, arrived](const Tensor& dy, Wanted) { return Gradients{all_to_all_rows(dy, arrived, group)}; });
}

Variable broadcast(const Variable& x, int root, Communicator& group) {
  const bool is_root = group.rank() == root;
  if (is_root) check_value("broadcast", x);
  const Tensor y = group.broadcast(x.value(), root);
  return record_everywhere(y, is_root ? x : Variable(), y.dtype(), group, [&group, root](const Tensor& dy, Wanted) {
    const Tensor dx = group.reduce(dy, root);
    return Gradients{dx};
  });
}

Variable reduce(const Variable& x, int root, Communicator& group) {
  check_value("reduce", x);
  const Tensor y = group.reduce(x.value(), root);
  return record_collective(y.defined() ? y : token(group), {x}, [&group, root](const Tensor& dy, Wanted) {
    const Tensor dx = group.broadcast(dy, root);
    return Gradients{dx};
  });
}

Variable gather(const Variable& x, int root, Communicator& group) {
  check_value("gather", x);
  if (x.shape().rank() == 0) fail<InputError>("gather: expected rows, got {}", to_string(x.value()));
  Rows rows;
  const Tensor y = gather_rows_to(x.value(), root, group, rows);
  return record_collective(y, {x}, [&group, root, rows](const Tensor& dy, Wanted) {
    const Tensor dx = group.scatter(rows.empty() ? std::vector<Tensor>() : split_rows(dy, rows), root);
    return Gradients{dx};
  });
}

Variable scatter(const Variable& x, std::span<const std::int64_t> rows, int root, Communicator& group) {
  const bool is_root = group.rank() == root;
  std::vector<Tensor> blocks;
  if (is_root) {
    check_value("scatter", x);
    check_rows("scatter", x.value(), rows, group);
    blocks = split_rows(x.value(), rows);
  }
  const Tensor y = group.scatter(blocks, root);
  return record_everywhere(y, is_root ? x : Variable(), y.dtype(), group, [&group, root](const Tensor& dy, Wanted) {
    Rows arrived;
    const Tensor dx = gather_rows_to(dy, root, group, arrived);
    return Gradients{group.rank() == root ? dx : Tensor()};
  });
}

Variable send(const Variable& x, int to, Communicator& group) {
  check_value("send", x);
  group.send(x.value(), to).wait();
  return record_everywhere(token(group), x, x.dtype(), group, [&group, to](const Tensor&, Wanted) {
    const Tensor dx = group.recv(to);
    return Gradients{dx};
  });
}

Variable recv(int from, Communicator& group) {
  const Tensor y = group.recv(from);
  return record_everywhere(y, {}, y.dtype(), group, [&group, from](const Tensor& dy, Wanted) {
    group.send(dy, from).wait();
    return Gradients{};
  });
}

Variable exchange(const Variable& x, int to, int from, Communicator& group) {
  check_value("exchange", x);
  const Tensor y = group.exchange(x.value(), to, from);
  return record_everywhere(y, x, x.dtype(), group, [&group, to, from](const Tensor& dy, Wanted) {
    const Tensor dx = group.exchange(dy, from, to);
    return Gradients{dx};
  });
}

Variable tie(const Variable& loss, std::span<const Variable> tokens) {
  check_value("tie", loss);
  std::vector<Variable> inputs{loss};
  inputs.insert(inputs.end(), tokens.begin(), tokens.end());
  return record(loss.value(), inputs, [](const Tensor& dy, Wanted) { return Gradients{dy}; });
}

}  // namespace heddle
