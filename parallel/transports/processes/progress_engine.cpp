#include "parallel/transports/processes/progress_engine.h"

#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>

#include "parallel/transports/processes/element_path.h"

namespace heddle {

namespace {

/// Keeps transfers until the process ends: the wire of a broken job may still write to their memory.
void keep_for_good(const std::vector<std::shared_ptr<Transfer>>& transfers) {
  struct Kept {
    std::mutex mutex;
    std::vector<std::shared_ptr<Transfer>> transfers;
  };
  static Kept& kept = *new Kept;  // never destroyed
  const std::lock_guard lock(kept.mutex);
  kept.transfers.insert(kept.transfers.end(), transfers.begin(), transfers.end());
}

/// The step of a call, checked.
std::size_t step_of(int written) {
  const auto step = static_cast<std::size_t>(written);
  if (step >= std::tuple_size_v<decltype(Arrival::content)>)
    fail<MalformedMessage>("a message about step {} of a call", written);
  return step;
}

}  // namespace

ProgressEngine::ProgressEngine(std::unique_ptr<Wire> wire, std::chrono::milliseconds min_section_timeout)
    : wire_(std::move(wire)),
      min_section_timeout_(min_section_timeout),
      left_(static_cast<std::size_t>(wire_->size())),
      needed_(wire_->size()),
      is_oversubscribed_(wire_->local_size() > static_cast<int>(std::thread::hardware_concurrency())) {}

ProgressEngine::~ProgressEngine() {
  keep_for_good(transfers_);
}

ProgressEngine::Section& ProgressEngine::section_of(std::uint64_t number) {
  Section& section = sections_[number];
  section.ended.resize(static_cast<std::size_t>(size()));
  return section;
}

// ---- calls ---------------------------------------------------------------------------------------------------------

void ProgressEngine::add_endpoint(const CallName& name, Endpoint& endpoint) {
  endpoints_[name] = &endpoint;
}

void ProgressEngine::remove_endpoint(const CallName& name) {
  endpoints_.erase(name);
}

Arrival& ProgressEngine::arrival(const CallName& name, int from) {
  return section_of(section_).arrivals[{name, from}];
}

Arrival ProgressEngine::take_arrival(const CallName& name, int from) {
  return std::move(section_of(section_).arrivals.extract({name, from}).mapped());
}

void ProgressEngine::begin(Kind kind, std::uint64_t section) {
  message_.shrink(0);
  message_.put(kind);
  message_.put(section);
}

MessageWriter& ProgressEngine::begin(Kind kind, const CallName& name) {
  begin(kind, section_);
  message_.put(name.group);
  message_.put(name.sequence);
  message_.put(name.peer.has_value());
  return message_;
}

void ProgressEngine::send(int to, std::span<const std::byte> content) {
  const std::size_t head = message_.bytes().size();
  if (head + content.size() <= Wire::max_frame) return wire_->post(to, message_.bytes(), content, false);
  message_.put_bytes(content);
  std::span<const std::byte> rest = message_.bytes();
  do {
    const std::span<const std::byte> frame = rest.first(std::min(rest.size(), Wire::max_frame));
    rest = rest.subspan(frame.size());
    wire_->post(to, frame, {}, !rest.empty());
  } while (!rest.empty());
  message_.shrink(head);
}

void ProgressEngine::send_to_all() {
  for (int p = 0; p < size(); ++p)
    if (p != rank()) send(p);
}

MessageWriter& ProgressEngine::begin_for_path() {
  begin(Kind::path, section_);
  return message_;
}

std::shared_ptr<Transfer> ProgressEngine::send_elements(int to, int tag, const Tensor& tensor,
                                                        const std::shared_ptr<const Mark>& computed) {
  auto transfer = std::make_shared<Transfer>(tensor, to, true);
  transfer->wire = path_->send(to, tag, tensor, computed);
  transfers_.push_back(transfer);
  return transfer;
}

std::shared_ptr<Transfer> ProgressEngine::fetch_elements(int from, const CallName& name, const Slice& slice,
                                                         Tensor tensor) {
  auto transfer = std::make_shared<Transfer>(std::move(tensor), from, false);
  next_tag_ = (next_tag_ + 1) % Wire::tags;
  transfer->wire = path_->receive(from, next_tag_, transfer->tensor);
  transfers_.push_back(transfer);
  begin(Kind::request, name).put(ElementRequest{slice, next_tag_});
  send(from);
  return transfer;
}

// ---- arriving messages ---------------------------------------------------------------------------------------------

void ProgressEngine::poll() {
  while (const std::optional<Wire::Frame> frame = wire_->next_frame()) receive_frame(*frame);
  while (const std::optional<Wire::Loss> loss = wire_->next_loss()) lose(*loss);
  path_->progress();
  if (transfers_.empty()) return;
  for (const std::shared_ptr<Transfer>& transfer : transfers_) transfer->is_done = transfer->wire->is_done();
  std::erase_if(transfers_, [](const std::shared_ptr<Transfer>& transfer) { return transfer->is_done; });
}

void ProgressEngine::receive_frame(const Wire::Frame& frame) {
  const int from = frame.from;
  const auto unfinished = unfinished_.find(from);
  if (unfinished == unfinished_.end() && !frame.more_follow) return receive_message(from, frame.content);
  std::vector<std::byte>& message = unfinished_[from];
  message.insert(message.end(), frame.content.begin(), frame.content.end());
  if (frame.more_follow) return;
  const std::vector<std::byte> whole = std::move(message);
  unfinished_.erase(from);
  receive_message(from, whole);
}

/// A message that cannot be read is a failure of this process's part, which names the sender.
void ProgressEngine::receive_message(int from, std::span<const std::byte> content) {
  try {
    MessageReader message(content);
    dispatch(from, message);
  } catch (const MalformedMessage& error) {
    if (section_of(section_).failures.contains(rank())) return;
    report({Failure::Kind::rank_failed,
            fmt::format("rank {} sent {}: all processes must run the same build of this program", from, error.what())});
  }
}

void ProgressEngine::dispatch(int from, MessageReader& message) {
  const auto kind = message.get<Kind>();
  const auto section = message.get<std::uint64_t>();
  switch (kind) {
    case Kind::call:
    case Kind::content:
    case Kind::ready:
      return keep_arrival(from, kind, section, message);
    case Kind::request:
    case Kind::taken:
      return dispatch_to_endpoint(from, kind, section, message);
    case Kind::path:
      if (section == section_) path_->receive_message(from, message);
      return;
    case Kind::failed: {
      Failure failure{.kind = message.get<Failure::Kind>()};
      failure.why = message.get_text();
      failure.late_rank = message.get_rank();
      return record_failure(section_of(section), from, std::move(failure));
    }
    case Kind::ended:
      if (section == no_more_sections)
        left_[static_cast<std::size_t>(from)] = true;
      else
        section_of(section).ended[static_cast<std::size_t>(from)] = true;
      return;
    case Kind::probe:
      if (WaitChain chain = get_chain(message, size()); section == section_ && waiting_)
        probes_.emplace_back(from, std::move(chain));
      return;
    case Kind::waits_too:
      return receive_probe_answer(from, message);
    case Kind::gathered:
      gathered_[from].push_back(message.get_text());
      return;
    case Kind::responsive:
      section_of(section).responsive_ranks.insert(from);
      if (message.get<bool>()) section_of(section).is_reported = true;
      return;
  }
  fail<MalformedMessage>("a message of kind {}", static_cast<int>(kind));
}

/// Reads the name that `begin` wrote. For each of the two processes of a send or receive, the peer is the other one.
CallName ProgressEngine::read_call_name(int from, MessageReader& message) {
  CallName name;
  name.group = message.get<std::uint64_t>();
  name.sequence = message.get<std::uint64_t>();
  if (message.get<bool>()) name.peer = from;
  return name;
}

/// Keeps a message until this rank reaches the call, also one of a later section.
void ProgressEngine::keep_arrival(int from, Kind kind, std::uint64_t section, MessageReader& message) {
  const CallName name = read_call_name(from, message);
  Arrival& arrival = section_of(section).arrivals[{name, from}];
  if (kind == Kind::ready) {
    arrival.ready.emplace(message.rest().begin(), message.rest().end());
    return;
  }
  const auto step = step_of(message.get<int>());
  if (kind == Kind::call) arrival.call = message.get_call();
  const std::span<const std::byte> content = message.rest();
  if (!content.empty()) arrival.content[step].emplace(content.begin(), content.end());
}

void ProgressEngine::dispatch_to_endpoint(int from, Kind kind, std::uint64_t section, MessageReader& message) {
  const CallName name = read_call_name(from, message);
  // Without an endpoint, this rank's part has failed and was abandoned.
  const auto endpoint = endpoints_.find(name);
  if (section != section_ || endpoint == endpoints_.end()) return;
  if (kind == Kind::taken) return endpoint->second->on_taken();
  const auto request = message.get<ElementRequest>();
  (void)step_of(request.slice.step);
  if (request.slice.offset < 0 || request.slice.bytes < 0 || request.tag < 0 || request.tag >= Wire::tags)
    fail<MalformedMessage>("a message that requests {} bytes from byte {}, tag {}", request.slice.bytes,
                           request.slice.offset, request.tag);
  endpoint->second->on_request(from, request);
}

/// Another rank answers a probe: it waits, too.
void ProgressEngine::receive_probe_answer(int from, MessageReader& message) {
  if (!waiting_ || waiting_->number != message.get<std::uint64_t>()) return;
  waiting_->peer_waited = waiting_->time.look();
  if (from != waiting_->peer()) return;
  waiting_->answered_in = message.get<std::uint64_t>();
  // Among several peers, the one that does not respond is the late one.
  waiting_->asked = (waiting_->asked + 1) % waiting_->peers.size();
}

/// Processes that have left may end. A section that the lost process has ended is complete, and other processes may be
/// past it already: the process is missing in the next one. The loss is reported, since others may not have noticed it.
void ProgressEngine::lose(const Wire::Loss& loss) {
  const auto p = static_cast<std::size_t>(loss.process);
  if (left_[p]) return;
  left_[p] = true;
  const Failure failure{Failure::Kind::rank_failed, fmt::format("rank {}: {}", loss.process, loss.why)};
  lost_.emplace(loss.process, failure.why);
  if (loss.process >= needed_) return;
  std::uint64_t lacking = section_;
  while (section_of(lacking).ended[p]) ++lacking;
  Section& section = section_of(lacking);
  if (section.failures.contains(loss.process)) return;  // it has reported the reason itself
  record_failure(section, loss.process, failure);
  report(failure, lacking);
}

void ProgressEngine::record_failure(Section& section, int rank, Failure failure) {
  if (section.failures.empty()) section.first_failed = rank;
  section.failures.emplace(rank, std::move(failure));
}

}  // namespace heddle
