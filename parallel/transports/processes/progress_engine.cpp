#include "parallel/transports/processes/progress_engine.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "parallel/transports/processes/element_path.h"

namespace heddle {

namespace {

/// Of an exchange.
std::size_t step_of(int written) {
  const auto step = static_cast<std::size_t>(written);
  if (step >= std::tuple_size_v<decltype(Arrival::content)>)
    fail<StrangeLetter>("a letter about step {} of a call", written);
  return step;
}

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
                                                    const std::shared_ptr<const Mark>& computed) {
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
  while (const std::optional<Wire::Gone> gone = wire_->next_gone()) lose(*gone);
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

/// One that cannot be understood is a failure of this process's part, which tells whose letter it was.
void PostOffice::open(int from, std::span<const std::byte> content) {
  try {
    LetterReader letter(content);
    sort(from, letter);
  } catch (const StrangeLetter& error) {
    if (section_of(section_).failures.contains(rank())) return;
    report({Failure::Kind::rank_failed,
            fmt::format("rank {} sent {}: all processes must run the same build of this program", from, error.what())});
  }
}

void PostOffice::sort(int from, LetterReader& letter) {
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
      if (WaitChain chain = get_chain(letter, size()); section == section_ && waiting_)
        probes_.emplace_back(from, std::move(chain));
      return;
    case Kind::waits_too:
      if (!waiting_ || waiting_->number != letter.get<std::uint64_t>()) return;
      waiting_->peer_waited = waiting_->time.look();
      if (from != waiting_->peer()) return;
      waiting_->answered_in = letter.get<std::uint64_t>();
      // Who is late among several is the one that does not answer.
      waiting_->asked = (waiting_->asked + 1) % waiting_->peers.size();
      return;
    case Kind::gathered:
      gathered_[from].push_back(letter.get_text());
      return;
    case Kind::speaks:
      section_of(section).speakers.insert(from);
      if (letter.get<bool>()) section_of(section).is_reported = true;
      return;
  }
  fail<StrangeLetter>("a letter of kind {}", static_cast<int>(kind));
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
    const auto step = step_of(letter.get<int>());
    if (kind == Kind::call) arrival.call = letter.get_call();
    const std::span<const std::byte> content = letter.rest();
    if (!content.empty()) arrival.content[step].emplace(content.begin(), content.end());
    return;
  }
  // Not there: this rank's part has failed and was abandoned.
  const auto addressee = addressees_.find(name);
  if (section != section_ || addressee == addressees_.end()) return;
  if (kind == Kind::taken) return addressee->second->taken();
  const auto want = letter.get<Want>();
  (void)step_of(want.slice.step);
  if (want.slice.offset < 0 || want.slice.bytes < 0 || want.tag < 0 || want.tag >= Wire::tags)
    fail<StrangeLetter>("a letter that asks for {} bytes from byte {}, tag {}", want.slice.bytes, want.slice.offset,
                        want.tag);
  addressee->second->wanted(from, want);
}

/// Those that had left may go. A section that it has ended is whole: others may be past it already, and it is the next
/// one that lacks this process. Others may not have noticed yet, or cannot.
void PostOffice::lose(const Wire::Gone& gone) {
  const auto p = static_cast<std::size_t>(gone.process);
  if (left_[p]) return;
  left_[p] = true;
  const Failure failure{Failure::Kind::rank_failed, fmt::format("rank {}: {}", gone.process, gone.why)};
  lost_.emplace(gone.process, failure.why);
  std::uint64_t lacking = section_;
  while (section_of(lacking).ended[p]) ++lacking;
  Section& section = section_of(lacking);
  if (section.failures.contains(gone.process)) return;  // it has told why itself
  remember_failure(section, gone.process, failure);
  report(failure, lacking);
}

void PostOffice::remember_failure(Section& section, int rank, Failure failure) {
  if (section.failures.empty()) section.first_failed = rank;
  section.failures.emplace(rank, std::move(failure));
}

}  // namespace heddle
