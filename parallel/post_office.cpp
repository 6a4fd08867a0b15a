#include "parallel/post_office.h"

#include <algorithm>
#include <limits>
#include <thread>
#include <utility>

#include "parallel/element_path.h"

namespace heddle {

namespace {

// The section of those that have left.
constexpr std::uint64_t no_more_sections = std::numeric_limits<std::uint64_t>::max();
// How long a rank waits before it asks whether others wait for it in turn, and how often it asks: at most.
constexpr std::chrono::milliseconds longest_probe_interval = std::chrono::seconds(1);
// How long others may take to notice a failure, e.g. because they compute: as long as a wait may last, within these.
constexpr std::chrono::milliseconds least_grace = std::chrono::seconds(10);
constexpr std::chrono::milliseconds most_grace = std::chrono::minutes(1);

}  // namespace

PostOffice::PostOffice(std::unique_ptr<Wire> wire)
    : wire_(std::move(wire)),
      left_(static_cast<std::size_t>(wire_->size())),
      is_crowded_(wire_->local_size() > static_cast<int>(std::thread::hardware_concurrency())) {}

PostOffice::~PostOffice() {
  // What the wire still writes to must not go before it: it is there until the process ends.
  for (const std::shared_ptr<Transfer>& transfer : transfers_) transfer->keeper = transfer;
}

PostOffice::Section& PostOffice::section_of(std::uint64_t number) {
  Section& section = sections_[number];
  section.ended.resize(static_cast<std::size_t>(size()));
  return section;
}

// ---- exchanges -----------------------------------------------------------------------------------------------------

void PostOffice::enroll(const ExchangeName& name, Addressee& addressee) {
  addressees_[name] = &addressee;
}

void PostOffice::discharge(const ExchangeName& name) {
  addressees_.erase(name);
}

Arrival& PostOffice::arrival(const ExchangeName& name, int from) {
  return section_of(section_).arrivals[{name, from}];
}

Arrival PostOffice::take_arrival(const ExchangeName& name, int from) {
  return std::move(section_of(section_).arrivals.extract({name, from}).mapped());
}

void PostOffice::begin(Kind kind, std::uint64_t section) {
  letter_.shrink(0);
  letter_.put(kind);
  letter_.put(section);
}

LetterWriter& PostOffice::begin(Kind kind, const ExchangeName& name) {
  begin(kind, section_);
  letter_.put(name.group);
  letter_.put(name.sequence);
  letter_.put(name.other >= 0);
  return letter_;
}

void PostOffice::send(int to, std::span<const std::byte> content) {
  const std::size_t words = letter_.bytes().size();
  if (words + content.size() <= Wire::max_sheet) return wire_->post(to, letter_.bytes(), content, false);
  letter_.put_bytes(content);
  std::span<const std::byte> rest = letter_.bytes();
  do {
    const std::span<const std::byte> sheet = rest.first(std::min(rest.size(), Wire::max_sheet));
    rest = rest.subspan(sheet.size());
    wire_->post(to, sheet, {}, !rest.empty());
  } while (!rest.empty());
  letter_.shrink(words);
}

void PostOffice::send_to_all() {
  for (int p = 0; p < size(); ++p)
    if (p != rank()) send(p);
}

LetterWriter& PostOffice::begin_for_path() {
  begin(Kind::path, section_);
  return letter_;
}

std::shared_ptr<Transfer> PostOffice::send_elements(int to, int tag, const Tensor& tensor,
                                                    const std::shared_ptr<Mark>& computed) {
  auto transfer = std::make_shared<Transfer>(tensor, to, true);
  transfer->wire = path_->send(to, tag, tensor, computed);
  transfers_.push_back(transfer);
  return transfer;
}

std::shared_ptr<Transfer> PostOffice::fetch_elements(int from, const ExchangeName& name, const Slice& slice,
                                                     Tensor tensor) {
  auto transfer = std::make_shared<Transfer>(std::move(tensor), from, false);
  next_tag_ = (next_tag_ + 1) % Wire::tags;
  transfer->wire = path_->receive(from, next_tag_, transfer->tensor);
  transfers_.push_back(transfer);
  begin(Kind::want, name).put(Want{slice, next_tag_});
  send(from);
  return transfer;
}

// ---- what comes ----------------------------------------------------------------------------------------------------

void PostOffice::poll() {
  while (const std::optional<Wire::Sheet> sheet = wire_->next_sheet()) deliver(*sheet);
  while (const std::optional<int> gone = wire_->next_gone()) lose(*gone);
  path_->progress();
  if (transfers_.empty()) return;
  for (const std::shared_ptr<Transfer>& transfer : transfers_) transfer->is_done = transfer->wire->is_done();
  std::erase_if(transfers_, [](const std::shared_ptr<Transfer>& transfer) { return transfer->is_done; });
}

void PostOffice::deliver(const Wire::Sheet& sheet) {
  const int from = sheet.from;
  const auto unfinished = unfinished_.find(from);
  if (unfinished == unfinished_.end() && !sheet.more_follow) return open(from, sheet.content);
  std::vector<std::byte>& letter = unfinished_[from];
  letter.insert(letter.end(), sheet.content.begin(), sheet.content.end());
  if (sheet.more_follow) return;
  const std::vector<std::byte> whole = std::move(letter);
  unfinished_.erase(from);
  open(from, whole);
}

void PostOffice::open(int from, std::span<const std::byte> content) {
  LetterReader letter(content);
  const auto kind = letter.get<Kind>();
  const auto section = letter.get<std::uint64_t>();
  switch (kind) {
    case Kind::call:
    case Kind::content:
    case Kind::ready:
    case Kind::want:
    case Kind::taken:
      return open_exchange(from, kind, section, letter);
    case Kind::path:
      if (section == section_) path_->told(from, letter);
      return;
    case Kind::failed: {
      const auto reason = letter.get<Failure::Kind>();
      return remember_failure(section_of(section), from, {reason, letter.get_text()});
    }
    case Kind::ended:
      if (section == no_more_sections)
        left_[static_cast<std::size_t>(from)] = true;
      else
        section_of(section).ended[static_cast<std::size_t>(from)] = true;
      return;
    case Kind::probe:
      if (section == section_) relay(from, letter);
      return;
    case Kind::waits_too:
      if (!waiting_ || waiting_->number != letter.get<std::uint64_t>()) return;
      waiting_->peer_waited = Clock::now();
      // Who is late among several is the one that does not answer.
      if (from == waiting_->peer()) waiting_->asked = (waiting_->asked + 1) % waiting_->peers.size();
      return;
    case Kind::gathered:
      gathered_[from].push_back(letter.get_text());
      return;
  }
}

void PostOffice::open_exchange(int from, Kind kind, std::uint64_t section, LetterReader& letter) {
  ExchangeName name;
  name.group = letter.get<std::uint64_t>();
  name.sequence = letter.get<std::uint64_t>();
  name.other = letter.get<bool>() ? from : -1;
  if (kind == Kind::call || kind == Kind::content || kind == Kind::ready) {
    Arrival& arrival = section_of(section).arrivals[{name, from}];
    if (kind == Kind::ready) {
      arrival.ready.emplace(letter.rest().begin(), letter.rest().end());
      return;
    }
    const auto step = letter.get<int>();
    if (kind == Kind::call) arrival.call = letter.get_call();
    const std::span<const std::byte> content = letter.rest();
    if (!content.empty()) arrival.content[static_cast<std::size_t>(step)].emplace(content.begin(), content.end());
    return;
  }
  // Not there: this rank's part has failed and was abandoned.
  const auto addressee = addressees_.find(name);
  if (section != section_ || addressee == addressees_.end()) return;
  if (kind == Kind::want)
    addressee->second->wanted(from, letter.get<Want>());
  else
    addressee->second->taken();
}

/// Those that had left may go.
void PostOffice::lose(int process) {
  const auto p = static_cast<std::size_t>(process);
  if (left_[p]) return;
  left_[p] = true;
  Section& section = section_of(section_);
  remember_failure(section, process,
                   {Failure::Kind::rank_failed, fmt::format("rank {}: its process is gone", process)});
}

void PostOffice::remember_failure(Section& section, int rank, Failure failure) {
  if (section.failures.empty()) section.first_failed = rank;
  section.failures.emplace(rank, std::move(failure));
}

// ---- waits ---------------------------------------------------------------------------------------------------------

void PostOffice::wait(const std::function<bool()>& ready, const Call& call, std::span<const int> peers,
                      Awaited awaited) {
  try {
    if (ready()) return;
    waiting_.emplace(++waits_, call, peers, awaited);
    const auto no_longer_waiting = [this](void*) { waiting_.reset(); };
    const std::unique_ptr<void, decltype(no_longer_waiting)> scope(this, no_longer_waiting);
    wait_patiently(ready);
  } catch (const ElementsLost& error) {
    const RankFailed failure(fmt::format("{}: {}", to_string(call), error.what()));
    give_up(std::make_exception_ptr(failure));
    throw failure;
  } catch (...) {
    give_up(std::current_exception());
    throw;
  }
}

/// The others hear of it first: a path may have to wait until they give up, too.
void PostOffice::give_up(const std::exception_ptr& exception) {
  if (const std::optional<Failure> failure = failure_of(exception)) report(*failure);
  path_->abandon();
}

void PostOffice::wait_patiently(const std::function<bool()>& ready) {
  const Clock::time_point begin = Clock::now();
  const auto probe_interval = std::min(longest_probe_interval, timeout_ / 4);
  Clock::time_point next_probe = begin + probe_interval;
  for (int idle_polls = 0;; ++idle_polls) {
    poll();
    if (ready()) return;
    check();
    check_time(begin);
    if (Clock::now() > next_probe) {
      next_probe = Clock::now() + probe_interval;
      probe({});
    }
    rest(idle_polls);
  }
}

/// The time in which the peer waits for others is not its own: whom they wait for is late, not it. A chain of ranks
/// that wait has as many links as there are ranks, at most.
void PostOffice::check_time(Clock::time_point begin) const {
  const Clock::time_point now = Clock::now();
  if (now - std::max(begin, waiting_->peer_waited) > timeout_ || now - begin > timeout_ * size())
    fail<RankFailed>("{}: rank {} did not come within {} s", to_string(waiting_->call), waiting_->peer(),
                     std::chrono::duration<double>(timeout_).count());
}

void PostOffice::check() {
  const Section& section = section_of(section_);
  if (section.first_failed >= 0)
    fail<Stopped>("{}: stopped, because rank {} failed: {}", to_string(waiting_->call), section.first_failed,
                  section.failures.at(section.first_failed).why);
  const auto peer = static_cast<std::size_t>(waiting_->peer());
  if ((section.ended[peer] || left_[peer]) && waiting_->awaited == Awaited::word)
    fail<RankFailed>("{}: rank {} has ended and will not come", to_string(waiting_->call), peer);
}

void PostOffice::rest(int idle_polls) const {
  using std::chrono::microseconds;
  const int patience = is_crowded_ ? 20 : 2000;
  // What is under way moves only while this process looks at it.
  if (idle_polls < patience || !transfers_.empty()) {
    if (is_crowded_) std::this_thread::yield();
    return;
  }
  const int naps = idle_polls - patience;
  std::this_thread::sleep_for(microseconds(naps < 2000 ? 20 : naps < 20000 ? 100 : 1000));
}

// ---- deadlock ------------------------------------------------------------------------------------------------------
// Edge chasing (Chandy, Misra, Haas 1983): a rank that waits long sends its name and call to the one that it waits for;
// who waits too says so, adds its own and sends it on. A chain that comes back to its first rank is a circle. It counts
// when the next round finds the very same waits, so that letters under way cannot feign one.

void PostOffice::probe(std::vector<Link> chain) {
  // With elements on their way this rank does not depend on what the other does next.
  if (waiting_->awaited != Awaited::elements_of_group && is_sending_to(waiting_->peer())) return;
  chain.push_back({rank(), waiting_->number, to_string(waiting_->call)});
  begin(Kind::probe, section_);
  letter_.put(chain.size());
  for (const Link& link : chain) {
    letter_.put(link.rank);
    letter_.put(link.number);
    letter_.put_text(link.call);
  }
  send(waiting_->peer());
}

void PostOffice::relay(int from, LetterReader& letter) {
  std::vector<Link> chain(letter.get<std::size_t>());
  for (Link& link : chain) {
    link.rank = letter.get<int>();
    link.number = letter.get<std::uint64_t>();
    link.call = letter.get_text();
  }
  if (!waiting_) return;
  begin(Kind::waits_too, section_);
  letter_.put(chain.back().number);
  send(from);
  // Elements between all of a group move without anybody's word.
  if (is_sending_to(from) || waiting_->awaited == Awaited::elements_of_group) return;
  const auto is_mine = [this](const Link& link) { return link.rank == rank(); };
  if (!is_mine(chain.front())) {
    if (std::none_of(chain.begin(), chain.end(), is_mine)) probe(std::move(chain));
    return;
  }
  const bool is_present = chain.front().number == waiting_->number;
  // One rank tells it, so that all print the same.
  const bool is_lowest = std::none_of(chain.begin(), chain.end(), [this](const Link& l) { return l.rank < rank(); });
  if (!is_present || !is_lowest) return;
  if (std::exchange(last_cycle_, chain) != chain) return;
  std::string text;
  for (std::size_t i = 0; i < chain.size(); ++i)
    text += fmt::format("; {} waits for rank {}", chain[i].call, chain[(i + 1) % chain.size()].rank);
  fail<RankFailed>("deadlock: {}", text.substr(2));
}

bool PostOffice::is_sending_to(int peer) const {
  return std::any_of(transfers_.begin(), transfers_.end(),
                     [peer](const auto& transfer) { return transfer->is_send && transfer->peer == peer; });
}

// ---- between sections ----------------------------------------------------------------------------------------------

void PostOffice::report(const Failure& failure) {
  remember_failure(section_of(section_), rank(), failure);
  begin(Kind::failed, section_);
  letter_.put(failure.kind);
  letter_.put_text(failure.why);
  send_to_all();
}

template <class Ready>
bool PostOffice::wait_for_others(const Ready& ready) {
  std::optional<Clock::time_point> deadline;
  for (int idle_polls = 0; !is_broken_; ++idle_polls) {
    try {
      poll();
    } catch (const ElementsLost& error) {
      report({Failure::Kind::rank_failed, fmt::format("rank {}: {}", rank(), error.what())});
      path_->abandon();
    }
    if (ready()) return true;
    const Clock::time_point now = Clock::now();
    if (!deadline && !section_of(section_).failures.empty()) {
      path_->abandon();
      deadline = now + std::clamp(timeout_, least_grace, most_grace);
    }
    is_broken_ = deadline && now > *deadline;
    rest(idle_polls);
  }
  return false;
}

std::map<int, Failure> PostOffice::conclude() {
  // Others ask for elements only when they have the memory ready: those are still to be handed over.
  const auto is_send = [](const auto& transfer) { return transfer->is_send; };
  wait_for_others([&] { return std::none_of(transfers_.begin(), transfers_.end(), is_send); });
  begin(Kind::ended, section_);
  send_to_all();
  Section& section = section_of(section_);
  section.ended[static_cast<std::size_t>(rank())] = true;
  const bool is_clean = wait_for_others([&] {
    for (std::size_t p = 0; p < left_.size(); ++p)
      if (!section.ended[p] && !left_[p]) return false;
    return true;
  });
  if (is_clean) {
    // Nobody sends to these any more.
    for (const std::shared_ptr<Transfer>& transfer : transfers_) transfer->wire->cancel();
    transfers_.clear();
  }
  std::map<int, Failure> failures = std::move(section.failures);
  sections_.erase(section_++);
  return failures;
}

std::vector<std::string> PostOffice::gather(const std::string& content) {
  if (rank() != 0) {
    begin(Kind::gathered, section_);
    letter_.put_text(content);
    send(0);
    return {};
  }
  std::vector<std::string> all(left_.size());
  all[0] = content;
  wait_for_others([&] {
    for (int p = 1; p < size(); ++p)
      if (gathered_[p].empty() && !left_[static_cast<std::size_t>(p)]) return false;
    return true;
  });
  for (int p = 1; p < size(); ++p) {
    std::deque<std::string>& letters = gathered_[p];
    if (letters.empty()) continue;
    all[static_cast<std::size_t>(p)] = std::move(letters.front());
    letters.pop_front();
  }
  return all;
}

void PostOffice::leave(int code) {
  begin(Kind::ended, no_more_sections);
  send_to_all();
  left_[static_cast<std::size_t>(rank())] = true;
  if (wait_for_others([&] { return std::all_of(left_.begin(), left_.end(), [](bool left) { return left; }); }))
    return wire_->leave();
  const Clock::time_point deadline = Clock::now() + least_grace;
  for (int idle_polls = 0; !left_[0] && Clock::now() < deadline; ++idle_polls) {
    poll();
    rest(idle_polls);
  }
  // What was written last is still to be passed on by what started the processes.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  wire_->abort(code);
}

}  // namespace heddle
