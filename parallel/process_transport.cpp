// Tensors of a few KiB travel with the words that announce them. Larger ones wait where they are until the receiver,
// who has the memory ready by then, asks for them: they are copied once, no process holds what nobody asked for, and a
// send is complete when the receiver has it.
#include "parallel/process_transport.h"

#include <algorithm>
#include <array>
#include <utility>

#include "framework/device.h"

namespace heddle {

namespace {

constexpr std::int64_t max_inline_bytes = 8192;
// Reductions hold two such pieces of every other rank's elements: one is reduced while the next is on its way.
constexpr std::int64_t piece_bytes = std::int64_t{1} << 20;

using Kind = PostOffice::Kind;
using Transfers = std::vector<std::shared_ptr<Transfer>>;

/// Bytes that must move; on plan nothing does.
std::int64_t moving_bytes(const Tensor& x) {
  return x.defined() && x.device().has_data() ? x.bytes() : 0;
}
bool is_inline(const Tensor& x) {
  return moving_bytes(x) <= max_inline_bytes;
}
std::span<std::byte> content(const Tensor& x) {
  return {x.as<std::byte>(), static_cast<std::size_t>(x.bytes())};
}

struct Group {
  std::uint64_t id;
  std::vector<int> members;  // world ranks
  std::size_t rank;
};

/// What this rank offers in one exchange, and what became of it.
class Offers : public Addressee {
 public:
  Offers(PostOffice& office, const ExchangeName& name) : office_(office), name_(name) { office_.enroll(name_, *this); }
  ~Offers() override { office_.discharge(name_); }
  Offers(const Offers&) = delete;
  Offers& operator=(const Offers&) = delete;

  const ExchangeName& name() const { return name_; }

  /// To the world ranks `to`: call and small tensors at once, what others have asked for already, and the rest later.
  /// `for_all`, if it is defined, is what travels to each with the call in place of its own tensor, which is small.
  void put(int step, std::vector<Tensor> tensors, const std::vector<int>& to, const Call& call,
           const Tensor& for_all = {}) {
    synchronize(tensors);
    Step& mine = steps_[static_cast<std::size_t>(step)];
    mine.to = to;
    mine.tensors = std::move(tensors);
    mine.owed.resize(to.size());
    LetterWriter& letter = office_.begin(step == 0 ? Kind::call : Kind::content, name_);
    letter.put(step);
    if (step == 0) letter.put_call(call);
    for (std::size_t i = 0; i < to.size(); ++i) {
      const Tensor& x = mine.tensors[i];
      if (to[i] == office_.rank()) continue;
      const Tensor& travels = for_all.defined() ? for_all : x;
      const bool has_content = moving_bytes(travels) > 0 && is_inline(travels);
      if (has_content || step == 0) office_.send(to[i], has_content ? content(travels) : std::span<const std::byte>());
      if (!is_inline(x)) mine.owed[i] = x.bytes();
    }
    mine.is_offered = true;
    for (const auto& [from, want] : std::exchange(early_, {})) wanted(from, want);
  }

  void wanted(int from, const Want& want) override {
    Step& step = steps_[static_cast<std::size_t>(want.slice.step)];
    if (!step.is_offered) {
      early_.emplace_back(from, want);
      return;
    }
    const auto i = static_cast<std::size_t>(std::find(step.to.begin(), step.to.end(), from) - step.to.begin());
    const Tensor& x = step.tensors[i];
    const Tensor slice = Tensor::view(x.storage(), x.byte_offset() + want.slice.offset, {want.slice.bytes}, DType::u8);
    step.owed[i] -= want.slice.bytes;
    sent_.push_back(office_.send_elements(from, want.tag, slice));
  }
  void taken() override { is_taken_ = true; }
  bool is_taken() const { return is_taken_; }

  const Tensor& own(int step, std::size_t i) const { return steps_[static_cast<std::size_t>(step)].tensors[i]; }

  /// Until everybody has what is theirs.
  void wait_until_sent(const Call& call) {
    for (const Step& step : steps_)
      for (std::size_t i = 0; i < step.owed.size(); ++i)
        office_.wait([&] { return step.owed[i] == 0; }, call, step.to[i]);
    for (const std::shared_ptr<Transfer>& transfer : sent_)
      office_.wait([&] { return transfer->is_done; }, call, transfer->peer, Awaited::elements);
  }

 private:
  struct Step {
    bool is_offered = false;
    std::vector<int> to;
    std::vector<Tensor> tensors;
    std::vector<std::int64_t> owed;  // bytes not asked for yet
  };

  /// What others read must be computed before they are told.
  static void synchronize(std::span<const Tensor> tensors) {
    for (const Tensor& x : tensors)
      if (x.defined()) return x.device().backend().synchronize();
  }

  PostOffice& office_;
  ExchangeName name_;
  std::array<Step, 2> steps_;
  std::vector<std::pair<int, Want>> early_;
  Transfers sent_;
  bool is_taken_ = false;
};

void wait_for_elements(PostOffice& office, const Transfers& transfers, const Call& call) {
  for (const std::shared_ptr<Transfer>& transfer : transfers)
    office.wait([&] { return transfer->is_done; }, call, transfer->peer, Awaited::elements);
}

class CollectiveExchange : public Exchange {
 public:
  CollectiveExchange(PostOffice& office, const Group& group, Call call, std::vector<Tensor> offered)
      : office_(office), group_(group), call_(std::move(call)), offers_(office, {group.id, call_.sequence, -1}) {
    whole_ = whole_of(offered);
    offers_.put(0, std::move(offered), group_.members, call_, whole_);
    office_.poll();
  }

  std::vector<const Call*> calls() override {
    std::vector<const Call*> calls;
    for (std::size_t p = 0; p < group_.members.size(); ++p) {
      if (p == group_.rank) {
        calls.push_back(&call_);
        continue;
      }
      // Arrivals stay where they are until they are taken, so that the pointers do.
      Arrival& arrival = arrival_of(p);
      wait_for(p, [&] { return arrival.call.has_value(); });
      calls.push_back(&*arrival.call);
    }
    return calls;
  }

  void receive(std::span<Tensor> incoming) override {
    Transfers transfers;
    for (std::size_t p = 0; p < incoming.size(); ++p)
      if (p != group_.rank && !is_inline(incoming[p]))
        transfers.push_back(fetch(p, {step_, 0, incoming[p].bytes()}, incoming[p]));
    for (std::size_t p = 0; p < incoming.size(); ++p) {
      if (!incoming[p].defined() || incoming[p].bytes() == 0) continue;
      if (p == group_.rank)
        incoming[p].copy_from(offers_.own(step_, p));
      else if (is_inline(incoming[p]))
        copy_content(p, incoming[p]);
    }
    wait_for_elements(office_, transfers, call_);
  }

  void reduce(Reduction reduction, Tensor& result) override {
    if (result.bytes() == 0) return;
    const Tensor mine = offers_.own(step_, group_.rank);
    if (group_.members.size() == 1) {
      if (mine.data() != result.data()) result.copy_from(mine);
      return;
    }
    reduce_pieces(reduction, mine.reshape({-1}), result.reshape({-1}));
    result.device().backend().synchronize();
  }

  void all_reduce(Reduction reduction, int rank, std::vector<Tensor> results) override {
    if (!whole_.defined()) return Exchange::all_reduce(reduction, rank, std::move(results));
    const std::size_t peer = 1 - group_.rank;
    Tensor theirs;
    {
      const MemoryScope scope(whole_.device(), Category::communication);
      theirs = Tensor::empty_like(whole_);
    }
    copy_content(peer, theirs);
    std::array<Tensor, 2> operands;
    operands[group_.rank] = whole_;
    operands[peer] = theirs;
    Tensor result = Tensor::view(results[0].storage(), results[0].byte_offset(), whole_.shape(), whole_.dtype());
    combine(reduction, operands, result);
    result.device().backend().synchronize();
  }

  void offer(std::vector<Tensor> offered) override {
    ++step_;
    offers_.put(step_, std::move(offered), group_.members, call_);
  }

  void finish() override {
    offers_.wait_until_sent(call_);
    for (std::size_t p = 0; p < group_.members.size(); ++p)
      if (p != group_.rank) office_.take_arrival(offers_.name(), group_.members[p]);
  }

 private:
  /// Two ranks that all_reduce few elements exchange all of them at once, which are no more than the slices of two
  /// steps, and both reduce them. All that this rank offers, where that is so.
  Tensor whole_of(const std::vector<Tensor>& offered) const {
    if (call_.operation != Operation::all_reduce || offered.size() != 2) return {};
    const Tensor& first = offered[0];
    const std::int64_t count = first.numel() + offered[1].numel();
    const Tensor whole = Tensor::view(first.storage(), first.byte_offset(), {count}, first.dtype());
    return moving_bytes(whole) > 0 && is_inline(whole) ? whole : Tensor();
  }

  static void combine(Reduction reduction, std::span<const Tensor> operands, Tensor result) {
    result.device().backend().elementwise().combine(reduction == Reduction::sum ? ReduceOp::sum : ReduceOp::max,
                                                    operands, std::span(&result, 1));
  }

  Arrival& arrival_of(std::size_t p) { return office_.arrival(offers_.name(), group_.members[p]); }

  template <class Ready>
  void wait_for(std::size_t p, const Ready& ready) {
    office_.wait(ready, call_, group_.members[p]);
  }

  std::shared_ptr<Transfer> fetch(std::size_t p, const Slice& slice, const Tensor& destination) {
    return office_.fetch_elements(group_.members[p], offers_.name(), slice, destination);
  }

  void copy_content(std::size_t p, const Tensor& destination) {
    if (moving_bytes(destination) == 0) return;
    const auto& came = arrival_of(p).content[static_cast<std::size_t>(step_)];
    wait_for(p, [&] { return came.has_value(); });
    std::copy(came->begin(), came->end(), content(destination).begin());
  }

  /// Piece after piece, so that the next one is on its way while this one is reduced.
  void reduce_pieces(Reduction reduction, const Tensor& mine, const Tensor& result) {
    const std::int64_t most = std::max<std::int64_t>(piece_bytes / static_cast<std::int64_t>(size_of(mine.dtype())), 1);
    const std::int64_t length = std::min(most, mine.numel());
    const auto ranks = static_cast<std::int64_t>(group_.members.size());
    const MemoryScope scope(result.device(), Category::communication);
    const int buffers = length < mine.numel() ? 2 : 1;
    std::array<Tensor, 2> pieces;
    for (int b = 0; b < buffers; ++b)
      pieces[static_cast<std::size_t>(b)] = Tensor::empty(result.device(), {ranks - 1, length}, mine.dtype());
    std::array<Transfers, 2> transfers;
    const auto begin = [&](std::int64_t at) {
      const auto b = static_cast<std::size_t>(at / length % 2);
      transfers[b] = gather_piece(pieces[b], mine, at, std::min(length, mine.numel() - at));
    };
    begin(0);
    for (std::int64_t at = 0; at < mine.numel(); at += length) {
      if (at + length < mine.numel()) begin(at + length);
      const auto b = static_cast<std::size_t>(at / length % 2);
      wait_for_elements(office_, transfers[b], call_);
      const std::int64_t count = std::min(length, mine.numel() - at);
      std::vector<Tensor> operands;
      for (std::size_t p = 0; p < group_.members.size(); ++p)
        operands.push_back(p == group_.rank ? mine.rows(at, at + count) : row_of(p, pieces[b], count));
      combine(reduction, operands, result.rows(at, at + count));
    }
  }

  /// Of another rank's elements.
  Tensor row_of(std::size_t p, const Tensor& piece, std::int64_t count) const {
    const auto row = static_cast<std::int64_t>(p < group_.rank ? p : p - 1);
    return piece.rows(row, row + 1).reshape({-1}).rows(0, count);
  }

  Transfers gather_piece(const Tensor& piece, const Tensor& mine, std::int64_t at, std::int64_t count) {
    Transfers transfers;
    const auto size = static_cast<std::int64_t>(size_of(mine.dtype()));
    for (std::size_t p = 0; p < group_.members.size(); ++p) {
      if (p == group_.rank) continue;
      const Tensor destination = row_of(p, piece, count);
      if (is_inline(mine))
        copy_content(p, destination);
      else
        transfers.push_back(fetch(p, {step_, at * size, count * size}, destination));
    }
    return transfers;
  }

  PostOffice& office_;
  const Group& group_;
  Call call_;
  Offers offers_;
  Tensor whole_;
  int step_ = 0;
};

class SendExchange : public Exchange {
 public:
  SendExchange(PostOffice& office, const Group& group, Call call, Tensor x)
      : office_(office), call_(std::move(call)), offers_(office, {group.id, call_.sequence, call_.peer}) {
    offers_.put(0, {std::move(x)}, {call_.peer}, call_);
    office_.poll();
  }

  std::vector<const Call*> calls() override { return {&call_}; }
  void receive(std::span<Tensor> /*incoming*/) override {}
  void reduce(Reduction /*reduction*/, Tensor& /*result*/) override {}
  void offer(std::vector<Tensor> /*offered*/) override {}
  void finish() override {
    offers_.wait_until_sent(call_);
    office_.wait([&] { return offers_.is_taken(); }, call_, call_.peer);
  }

 private:
  PostOffice& office_;
  Call call_;
  Offers offers_;
};

class RecvExchange : public Exchange {
 public:
  RecvExchange(PostOffice& office, const Group& group, Call call)
      : office_(office), call_(std::move(call)), name_{group.id, call_.sequence, call_.peer} {
    office_.poll();
  }

  std::vector<const Call*> calls() override {
    Arrival& arrival = office_.arrival(name_, call_.peer);
    office_.wait([&] { return arrival.call.has_value(); }, call_, call_.peer);
    arrival_ = office_.take_arrival(name_, call_.peer);
    return {&*arrival_.call};
  }
  void receive(std::span<Tensor> incoming) override {
    const Tensor& x = incoming[0];
    if (moving_bytes(x) == 0) return;
    if (is_inline(x))
      std::copy(arrival_.content[0]->begin(), arrival_.content[0]->end(), content(x).begin());
    else
      wait_for_elements(office_, {office_.fetch_elements(call_.peer, name_, {0, 0, x.bytes()}, x)}, call_);
  }
  void reduce(Reduction /*reduction*/, Tensor& /*result*/) override {}
  void offer(std::vector<Tensor> /*offered*/) override {}
  void finish() override {
    office_.begin(Kind::taken, name_);
    office_.send(call_.peer);
  }

 private:
  PostOffice& office_;
  Call call_;
  ExchangeName name_;
  Arrival arrival_;
};

class ProcessTransport : public Transport {
 public:
  ProcessTransport(PostOffice& office, Group group) : office_(office), group_(std::move(group)) {}

  int rank() const override { return static_cast<int>(group_.rank); }
  int size() const override { return static_cast<int>(group_.members.size()); }
  int world_rank(int rank) const override { return group_.members[static_cast<std::size_t>(rank)]; }

  std::unique_ptr<Exchange> start(Call call, std::vector<Tensor> offered) override {
    return std::make_unique<CollectiveExchange>(office_, group_, std::move(call), std::move(offered));
  }
  std::unique_ptr<Exchange> start_send(Call call, Tensor x, int /*to*/) override {
    return std::make_unique<SendExchange>(office_, group_, std::move(call), std::move(x));
  }
  std::unique_ptr<Exchange> start_recv(Call call, int /*from*/) override {
    return std::make_unique<RecvExchange>(office_, group_, std::move(call));
  }
  std::unique_ptr<Transport> split(std::uint64_t sequence, std::vector<int> members) override {
    // Alike on all members; that two of a rank's groups get one name is as likely as 2^-64.
    std::uint64_t id = group_.id;
    for (const std::uint64_t word : {sequence, static_cast<std::uint64_t>(world_rank(members[0]))})
      id = mixed(id ^ mixed(word + 1));
    for (int& member : members) member = world_rank(member);
    return make_process_transport(office_, id, std::move(members));
  }
  void abort(std::string_view why) override { office_.report({Failure::Kind::error, std::string(why)}); }

 private:
  /// SplitMix64.
  static std::uint64_t mixed(std::uint64_t x) {
    x += 0x9E3779B97F4A7C15ULL;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
    return x ^ (x >> 31);
  }

  PostOffice& office_;
  Group group_;
};

}  // namespace

std::unique_ptr<Transport> make_process_transport(PostOffice& office, std::uint64_t group, std::vector<int> members) {
  const auto me = std::find(members.begin(), members.end(), office.rank());
  const auto rank = static_cast<std::size_t>(me - members.begin());
  return std::make_unique<ProcessTransport>(office, Group{group, std::move(members), rank});
}

}  // namespace heddle
