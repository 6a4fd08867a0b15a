#include "parallel/transports/processes/job.h"

#include <algorithm>
#include <utility>

#include "parallel/transports/processes/process_transport.h"
#include "parallel/transports/processes/progress_engine.h"
#include "parallel/transports/processes/wire_path.h"

namespace heddle {

namespace {

/// The texts of failed ranks and of ranks without memory name the rank already. Of all other texts, rank 0's is what
/// the user expects, and needs no rank.
[[noreturn]] void raise_for_rank(int rank, Failure failure) {
  const bool names_rank = failure.kind == Failure::Kind::rank_failed || failure.kind == Failure::Kind::out_of_memory;
  if (rank != 0 && !names_rank) failure.why = fmt::format("rank {}: {}", rank, failure.why);
  raise(failure);
}

}  // namespace

Job::Job(std::unique_ptr<Wire> wire, std::chrono::milliseconds min_section_timeout)
    : engine_(std::make_unique<ProgressEngine>(std::move(wire), min_section_timeout)),
      wire_(std::make_unique<WirePath>(*engine_)) {
  engine_->set_path(*wire_);
}
Job::~Job() = default;

int Job::rank() const {
  return engine_->rank();
}
int Job::size() const {
  return engine_->size();
}
int Job::local_size() const {
  return engine_->wire().local_size();
}
int Job::local_rank() const {
  return engine_->wire().local_rank();
}
std::string Job::name() const {
  return engine_->wire().name();
}

std::unique_ptr<Transport> Job::connect(int ranks, std::chrono::milliseconds timeout) {
  if (engine_->is_broken())
    fail<RankFailed>("the processes cannot continue: some did not respond after an earlier failure");
  engine_->set_timeout(timeout);
  return make_process_transport(*engine_, ranks);
}

std::unique_ptr<Transport> Job::connect(int ranks, std::chrono::milliseconds timeout, const MakeElementPath& make,
                                        const Device& device) {
  path_ = make(*engine_, device);
  engine_->set_path(*path_);
  std::unique_ptr<Transport> transport = connect(ranks, timeout);
  path_->begin(ranks);
  return transport;
}

std::optional<std::pair<int, Failure>> Job::conclude(const std::exception_ptr& exception) {
  // The next section begins without this one's path, also where the end of this one throws.
  const auto drop_path = [this](void*) {
    engine_->set_path(*wire_);
    path_.reset();
  };
  const std::unique_ptr<void, decltype(drop_path)> scope(this, drop_path);
  if (exception) engine_->give_up(exception);
  const std::map<int, Failure> failures = engine_->conclude();
  if (path_ != nullptr && failures.empty()) path_->close();
  if (failures.empty()) return {};
  return *failures.begin();
}

bool Job::is_broken() const {
  return engine_->is_broken();
}

void Job::together(const std::function<void()>& body) {
  std::exception_ptr exception;
  try {
    body();
  } catch (...) {
    exception = std::current_exception();
  }
  if (const auto failed = conclude(exception)) raise_for_rank(failed->first, failed->second);
}

void Job::set_timeout(std::chrono::milliseconds timeout) {
  engine_->set_timeout(timeout);
}

std::chrono::milliseconds Job::section_timeout() const {
  return engine_->section_timeout();
}

void Job::set_needed(int processes) {
  engine_->set_needed(processes);
}

std::vector<std::string> Job::gather(const std::string& content) {
  return engine_->gather(content);
}

void Job::set_on_silent_leader(std::function<void(const std::string& why)> on_silent_leader) {
  engine_->set_on_silent_leader(std::move(on_silent_leader));
}

bool Job::native_collective(Operation operation, std::span<float> in, std::span<float> out) {
  return engine_->wire().native_collective(operation, in, out);
}

std::optional<std::string> Job::why_lost(int process) const {
  return has_left_ ? std::nullopt : engine_->why_lost(process);
}

const std::set<int>& Job::missing() const {
  return engine_->missing();
}

bool Job::is_whole() const {
  return engine_->is_whole();
}

std::optional<RankAssignment> Job::regroup(const RegroupOptions& options) {
  has_left_ = true;
  return engine_->wire().regroup(engine_->missing(), options);
}

void Job::leave(int code) {
  if (!has_left_) engine_->leave(code);
}

}  // namespace heddle
