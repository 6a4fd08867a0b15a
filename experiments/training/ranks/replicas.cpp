#include "experiments/training/ranks/replicas.h"

#include <algorithm>
#include <map>
#include <vector>

#include <fmt/ranges.h>

#include "framework/files/crc32c.h"

namespace heddle {

namespace {

std::int64_t crc_of(const Tensor& tensor) {
  constexpr std::int64_t piece_bytes = std::int64_t{8} << 20;
  const Tensor flat = tensor.reshape({tensor.numel()});
  const std::int64_t most = piece_bytes / static_cast<std::int64_t>(size_of(flat.dtype()));
  std::vector<std::byte> piece;
  std::uint32_t checksum = 0;
  for (std::int64_t begin = 0; begin < flat.numel(); begin += most) {
    const Tensor rows = flat.rows(begin, std::min(begin + most, flat.numel()));
    piece.resize(static_cast<std::size_t>(rows.bytes()));
    rows.to_host_bytes(rows.dtype(), piece);
    checksum = crc32c(piece, checksum);
  }
  return checksum;
}

/// Which ranks hold other values than most of their replicas; where there is no majority, all of them.
std::string difference_of(const std::vector<int>& ranks, const std::vector<std::int64_t>& checksums) {
  const auto count = [&](std::int64_t checksum) { return std::count(checksums.begin(), checksums.end(), checksum); };
  const std::int64_t usual =
      *std::max_element(checksums.begin(), checksums.end(), [&](auto a, auto b) { return count(a) < count(b); });
  if (2 * count(usual) <= static_cast<std::int64_t>(checksums.size()))
    return fmt::format("differs between its replicas on ranks {}: the memory or the device of one of them is faulty",
                       fmt::join(ranks, ", "));
  std::vector<int> others;
  for (std::size_t i = 0; i < ranks.size(); ++i)
    if (checksums[i] != usual) others.push_back(ranks[i]);
  return fmt::format("on rank {} differs from its replicas: the memory or the device there is faulty",
                     fmt::join(others, " and on rank "));
}

/// Compares tensors of which the ranks of a communicator, given by their world ranks, hold copies.
void compare(const std::vector<StateTensor>& states, Communicator& replicas, const std::vector<int>& ranks,
             std::int64_t step) {
  std::vector<std::int64_t> mine;
  for (const StateTensor& state : states) mine.push_back(crc_of(state.value));
  const auto tensors = static_cast<std::int64_t>(mine.size());
  Tensor row = Tensor::empty(replicas.device(), {1, tensors}, DType::i64);
  row.load_bytes(std::as_bytes(std::span(mine)));
  const std::vector<std::int64_t> all = replicas.all_gather(row).wait().to_host<std::int64_t>();
  for (std::size_t i = 0; i < states.size(); ++i) {
    std::vector<std::int64_t> checksums;
    for (std::size_t p = 0; p < ranks.size(); ++p) checksums.push_back(all[p * states.size() + i]);
    if (std::any_of(checksums.begin(), checksums.end(), [&](std::int64_t sum) { return sum != checksums.front(); }))
      fail<RankFailed>("step {}: {} {}", step, states[i].name, difference_of(ranks, checksums));
  }
}

}  // namespace

void check_replicas(Trainer& trainer, std::int64_t step) {
  Rank& rank = trainer.rank();
  if (!rank.device.has_data()) return;
  const MemoryScope scope(rank.device, Category::workspace);
  // Keyed by the axes along which ranks hold copies, in an order that is the same on all ranks.
  std::map<unsigned, std::vector<StateTensor>> states;
  for (StateTensor& state : trainer.state())
    states[every_axis_and_copies.without(state.part.sharded).index()].push_back(std::move(state));
  for (const auto& [axes, alike] : states) {
    const AxisSet along = AxisSet::of_index(axes);
    Communicator& replicas = rank.over(along);
    if (replicas.size() > 1) compare(alike, replicas, rank.mesh.ranks_over(along, rank.index), step);
  }
}

}  // namespace heddle
