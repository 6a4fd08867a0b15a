#include "parallel/transports/processes/process_collective.h"

#include <algorithm>

#include "framework/tensors/device.h"
#include "parallel/transports/processes/element_path.h"

namespace heddle {

namespace {

void combine(Reduction reduction, std::span<const Tensor> parts, Tensor result) {
  heddle::combine(result.device().backend(), reduction, parts, std::span(&result, 1));
}

}  // namespace

ProcessCollective::ProcessCollective(ProgressEngine& engine, std::shared_ptr<const Group> group, Call call,
                                     std::vector<Tensor> offered, std::int64_t piece_bytes)
    : engine_(engine),
      group_(std::move(group)),
      call_(std::move(call)),
      piece_bytes_(piece_bytes),
      offers_(engine, {group_->id, call_.sequence}) {
  whole_ = whole_of(offered);
  offers_.offer(0, std::move(offered), group_->members, call_, whole_);
  engine_.poll();
}

std::vector<const Call*> ProcessCollective::calls() {
  for (std::size_t p = 0; p < group_->size(); ++p) {
    if (p == group_->rank) {
      calls_.push_back(&call_);
      continue;
    }
    // Arrivals stay in place until they are taken, so that pointers to them stay valid.
    Arrival& arrival = arrival_of(p);
    wait_for(p, [&] { return arrival.call.has_value(); });
    calls_.push_back(&*arrival.call);
  }
  return calls_;
}

void ProcessCollective::receive(std::span<Tensor> incoming) {
  std::vector<Tensor> destinations(group_->size());
  for (std::size_t p = 0; p < incoming.size(); ++p)
    if (incoming[p].defined() && incoming[p].bytes() > 0 && (p == group_->rank || !is_inline(incoming[p])))
      destinations[p] = incoming[p];
  begin_move(0, 0, all_bytes, std::move(destinations));
  for (std::size_t p = 0; p < incoming.size(); ++p)
    if (p != group_->rank && is_inline(incoming[p])) copy_content_of(p, incoming[p]);
  wait_for_move(0);
}

void ProcessCollective::reduce(Reduction reduction, Tensor& result) {
  const Tensor mine = offered()[group_->rank];
  if (group_->size() > 1)
    reduce_pieces(reduction, mine.reshape({-1}), result.reshape({-1}));
  else if (result.bytes() > 0)
    combine(reduction, std::span(&mine, 1), result);
}

void ProcessCollective::all_reduce(Reduction reduction, int rank, std::vector<Tensor> results) {
  if (!whole_.defined()) return TransportCall::all_reduce(reduction, rank, std::move(results));
  const std::size_t peer = 1 - group_->rank;
  Tensor theirs;
  {
    const MemoryScope scope(whole_.device(), Category::communication);
    theirs = Tensor::empty_like(whole_);
  }
  copy_content_of(peer, theirs);
  std::array<Tensor, 2> operands;
  operands[group_->rank] = whole_;
  operands[peer] = theirs;
  combine(reduction, operands,
          Tensor::view(results[0].storage(), results[0].byte_offset(), whole_.shape(), whole_.dtype()));
}

void ProcessCollective::offer(std::vector<Tensor> offered) {
  ++step_;
  offers_.offer(step_, std::move(offered), group_->members, call_);
}

void ProcessCollective::finish() {
  wait_until_read();
  for (std::size_t p = 0; p < group_->size(); ++p)
    if (p != group_->rank) engine_.take_arrival(offers_.name(), group_->members[p]);
}

/// Where two ranks all_reduce few elements, they exchange all of them at once, which are no more than the slices of two
/// steps, and both reduce them. Returns all elements that this rank then offers.
Tensor ProcessCollective::whole_of(const std::vector<Tensor>& offered) const {
  if (call_.operation != Operation::all_reduce || offered.size() != 2) return {};
  const Tensor& first = offered[0];
  const std::int64_t count = first.numel() + offered[1].numel();
  const Tensor whole = Tensor::view(first.storage(), first.byte_offset(), {count}, first.dtype());
  return moving_bytes(whole) > 0 && is_inline(whole) ? whole : Tensor();
}

void ProcessCollective::copy_content_of(std::size_t p, const Tensor& destination) {
  if (moving_bytes(destination) == 0) return;
  const auto& content = arrival_of(p).content[static_cast<std::size_t>(step_)];
  wait_for(p, [&] { return content.has_value(); });
  copy_content(*content, destination);
}

/// Reduces piece after piece, so that the next one is on its way while this one is reduced. Ranks whose slices are
/// longer have more pieces: this one takes part in those, too.
void ProcessCollective::reduce_pieces(Reduction reduction, const Tensor& mine, const Tensor& result) {
  std::int64_t longest = 0;
  for (const Tensor& x : offered()) longest = std::max(longest, x.numel());
  const std::int64_t length =
      std::max<std::int64_t>(piece_bytes_ / static_cast<std::int64_t>(size_of(mine.dtype())), 1);
  const auto ranks = static_cast<std::int64_t>(group_->size());
  const MemoryScope scope(result.device(), Category::communication);
  std::array<Tensor, 2> pieces;
  for (std::size_t b = 0; b < (mine.numel() > length ? 2 : 1); ++b)
    pieces[b] = Tensor::empty(result.device(), {ranks - 1, std::min(length, mine.numel())}, mine.dtype());
  begin_piece(0, pieces[0], mine, 0, length);
  for (std::int64_t at = 0, b = 0; at < longest; at += length, b = 1 - b) {
    const auto buffer = static_cast<std::size_t>(b);
    if (at + length < longest) begin_piece(1 - buffer, pieces[1 - buffer], mine, at + length, length);
    wait_for_move(buffer);
    const std::int64_t count = std::min(length, mine.numel() - at);
    if (count <= 0) continue;
    std::vector<Tensor> operands;
    for (std::size_t p = 0; p < group_->size(); ++p)
      operands.push_back(p == group_->rank ? mine.rows(at, at + count) : row_of(p, pieces[buffer], count));
    combine(reduction, operands, result.rows(at, at + count));
  }
}

/// The first `count` elements of rank p in a piece, which has a row for each other rank.
Tensor ProcessCollective::row_of(std::size_t p, const Tensor& piece, std::int64_t count) const {
  const auto row = static_cast<std::int64_t>(p < group_->rank ? p : p - 1);
  return piece.rows(row, row + 1).reshape({-1}).rows(0, count);
}

void ProcessCollective::begin_piece(std::size_t buffer, const Tensor& piece, const Tensor& mine, std::int64_t at,
                                    std::int64_t length) {
  const std::int64_t count = std::min(length, mine.numel() - at);
  std::vector<Tensor> destinations(group_->size());
  for (std::size_t p = 0; p < group_->size() && count > 0; ++p) {
    if (p == group_->rank) continue;
    const Tensor destination = row_of(p, piece, count);
    if (is_inline(mine))
      copy_content_of(p, destination);
    else
      destinations[p] = destination;
  }
  const auto size = static_cast<std::int64_t>(size_of(mine.dtype()));
  begin_move(buffer, at * size, length * size, std::move(destinations));
}

}  // namespace heddle
