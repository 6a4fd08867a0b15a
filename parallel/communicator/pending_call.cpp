#include "parallel/communicator/pending_call.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "framework/error.h"

namespace heddle {

namespace {

/// Whether two ranks made the same call, with the same root and with shapes that fit.
bool agree(const Call& a, const Call& b) {
  if (a.operation != b.operation || a.reduction != b.reduction || a.peer != b.peer) return false;
  switch (a.operation) {
    case Operation::reduce:
    case Operation::all_reduce:
    case Operation::reduce_scatter:
      return a.parts == b.parts;
    case Operation::all_gather: {
      const Call::Part& x = a.parts[0];
      const Call::Part& y = b.parts[0];
      return x.dtype == y.dtype && x.shape.with(0, 0) == y.shape.with(0, 0);
    }
    default:
      return true;
  }
}

std::int64_t bytes_of(const Call& call) {
  return std::accumulate(call.parts.begin(), call.parts.end(), std::int64_t{0},
                         [](std::int64_t sum, const Call::Part& part) { return sum + part.bytes(); });
}

/// k/(k-1) of the bytes that the busiest rank sends to others or receives from them. Every rank's parts are for the
/// ranks in rank order, as in an all_to_all; ranks without parts send nothing.
std::int64_t whole_of_parts(std::span<const Call* const> calls) {
  const std::size_t ranks = calls.size();
  std::vector<std::int64_t> sent(ranks);
  std::vector<std::int64_t> received(ranks);
  for (std::size_t from = 0; from < ranks; ++from)
    for (std::size_t to = 0; to < calls[from]->parts.size(); ++to)
      if (to != from) {
        sent[from] += calls[from]->parts[to].bytes();
        received[to] += calls[from]->parts[to].bytes();
      }
  const std::int64_t busiest =
      std::max(*std::max_element(sent.begin(), sent.end()), *std::max_element(received.begin(), received.end()));
  return ranks == 1
             ? 0
             : std::llround(static_cast<double>(busiest) * static_cast<double>(ranks) / static_cast<double>(ranks - 1));
}

/// The number of bytes from which the link model computes a collective's time.
std::int64_t whole_bytes(std::span<const Call* const> calls) {
  std::int64_t whole = 0;
  switch (calls[0]->operation) {
    case Operation::all_gather:
    case Operation::gather:
      for (const Call* call : calls) whole += bytes_of(*call);
      return whole;
    case Operation::all_to_all:
    case Operation::scatter:
      return whole_of_parts(calls);
    default:  // one tensor on all ranks or on the root; the other ranks have no parts
      for (const Call* call : calls) whole = std::max(whole, bytes_of(*call));
      return whole;
  }
}

}  // namespace

PendingCall::PendingCall(Call call, Device& device, int rank, RankTraffic& traffic, RankClock::Collectives* collectives,
                         Finish finish)
    : call_(std::move(call)),
      device_(device),
      category_(device.category()),
      rank_(rank),
      traffic_(traffic),
      collectives_(collectives),
      finish_(std::move(finish)) {
  for (const auto& hook : traffic_.hooks) hook->before(call_);
}

void PendingCall::start(std::unique_ptr<TransportCall> transport_call, std::span<const Tensor> offered) {
  transport_call_ = std::move(transport_call);
  outcome_.sent_bytes = bytes_for_others(offered);
  outcome_.begin_seconds = call_.start_seconds;
}

void PendingCall::run() {
  const MemoryScope scope(device_, category_);
  calls_ = transport_call_->calls();
  CollectiveSummary summary;
  if (!is_message()) summary = transport_call_->summary([this] { return summarise(); });
  result_ = finish_(*this);
  // Read before `finish`, after which the calls of the peers are no longer valid.
  const bool is_virtual = traffic_.clock.is_virtual();
  const double end = is_virtual ? virtual_end(summary) : 0;
  transport_call_->finish();
  outcome_.end_seconds = std::max(outcome_.begin_seconds, is_virtual ? end : traffic_.clock.now());
  // What the call held is freed here, at a fixed point of the program, and not when its handle is destroyed.
  transport_call_.reset();
  finish_ = nullptr;
  for (const auto& hook : traffic_.hooks) hook->after(call_, outcome_);
  if (const auto partner = std::move(partner_)) {
    partner->run();
    outcome_.end_seconds = std::max(outcome_.end_seconds, partner->end_seconds());
  }
}

std::vector<Tensor> PendingCall::take_result() {
  if (!result_) fail("{}: its result was taken before", to_string(call_));
  std::vector<Tensor> result = std::move(*result_);
  result_.reset();
  return result;
}

void PendingCall::receive(std::vector<Tensor> incoming) {
  outcome_.received_bytes += bytes_for_others(incoming);
  transport_call_->receive(incoming);
}

void PendingCall::reduce(Reduction reduction, Tensor& result) {
  outcome_.received_bytes += static_cast<std::int64_t>(calls_.size() - 1) * result.bytes();
  transport_call_->reduce(reduction, result);
}

void PendingCall::offer(std::vector<Tensor> offered) {
  outcome_.sent_bytes += bytes_for_others(offered);
  transport_call_->offer(std::move(offered));
}

void PendingCall::all_reduce(Reduction reduction, std::vector<Tensor> results) {
  // This rank reduces its own slice from the others' and sends it to all of them; it receives the other slices.
  const std::int64_t others = static_cast<std::int64_t>(results.size()) - 1;
  const std::int64_t slice = others * results[static_cast<std::size_t>(rank_)].bytes();
  outcome_.sent_bytes += slice;
  outcome_.received_bytes += slice + bytes_for_others(results);
  transport_call_->all_reduce(reduction, rank_, std::move(results));
}

std::int64_t PendingCall::bytes_for_others(std::span<const Tensor> parts) const {
  std::int64_t bytes = 0;
  for (std::size_t p = 0; p < parts.size(); ++p)
    if (parts[p].defined() && (is_message() || static_cast<int>(p) != rank_)) bytes += parts[p].bytes();
  return bytes;
}

void PendingCall::check_agreement() const {
  for (const Call* other : calls_)
    if (!agree(*calls_[0], *other))
      fail<RankFailed>("calls do not match: {}, but {}", to_string(*calls_[0]), to_string(*other));
}

/// Fails if the calls do not match.
CollectiveSummary PendingCall::summarise() const {
  check_agreement();
  CollectiveSummary summary;
  if (collectives_ == nullptr) return summary;
  for (const Call* call : calls_)
    summary.latest_start_seconds = std::max(summary.latest_start_seconds, call->start_seconds);
  summary.bytes = whole_bytes(calls_);
  return summary;
}

/// Depends on the calls alone, not on the time at which this rank asks.
double PendingCall::virtual_end(const CollectiveSummary& summary) const {
  RankClock& clock = traffic_.clock;
  if (call_.operation == Operation::send)
    return clock.left(call_.start_seconds, call_.rank, *call_.peer, outcome_.sent_bytes);
  if (call_.operation == Operation::recv)
    return clock.arrival(calls_[0]->start_seconds, *call_.peer, call_.rank, outcome_.received_bytes);
  return clock.end(*collectives_, summary.latest_start_seconds, call_.operation, summary.bytes);
}

void complete_oldest(RankTraffic& traffic) {
  const std::shared_ptr<PendingCall> oldest = std::move(traffic.started.front());
  traffic.started.pop_front();
  oldest->run();
}

std::vector<Tensor> complete(PendingCall& call) {
  const Communicating communicating(call.traffic().clock);
  if (call.is_message() && !call.is_complete()) call.run();
  while (!call.is_complete()) complete_oldest(call.traffic());
  call.traffic().clock.wait_until(call.end_seconds());
  return call.take_result();
}

}  // namespace heddle
