// The only file that uses MPI; compiled once for each MPI that is installed.
#include "parallel/transports/processes/mpi/mpi_wire.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <mpi.h>

#include "framework/error.h"

namespace heddle {

namespace {

// MPI counts in int.
constexpr std::int64_t max_piece = std::int64_t{1} << 30;
constexpr int last_tag = 0;
constexpr int more_follow_tag = 1;

void check_mpi(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  fail<RankFailed>("{}: {}", what, std::string_view(text.data(), static_cast<std::size_t>(length)));
}

/// Open MPI, and the UCX that MPICH loads, handle a crash by printing the stack, for which they allocate memory: a
/// crash inside of malloc, whose lock it holds, would then be a hang. Without a handler the process dies at once, and
/// the launcher reports the signal. Handlers of others, such as a sanitizer's, stay.
void let_crashes_end_the_process() {
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) {
    struct sigaction action {};
    ::sigaction(signal, nullptr, &action);
    Dl_info library{};
    if (::dladdr(reinterpret_cast<const void*>(action.sa_sigaction), &library) == 0) continue;
    const std::string_view file(library.dli_fname);
    for (const std::string_view handling : {"/libucs.", "/libopen-pal."})
      if (file.find(handling) != std::string_view::npos) std::signal(signal, SIG_DFL);
  }
}

class MpiTransfer : public WireTransfer {
 public:
  /// `start(offset, bytes, request)` for each piece.
  template <class Start>
  MpiTransfer(std::int64_t bytes, const Start& start) {
    for (std::int64_t offset = 0; offset < bytes; offset += max_piece) {
      requests_.push_back(MPI_REQUEST_NULL);
      start(offset, static_cast<int>(std::min(bytes - offset, max_piece)), &requests_.back());
    }
  }

  bool is_done() override {
    int done = 0;
    check_mpi(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, MPI_STATUSES_IGNORE),
              "MPI_Testall");
    return done != 0;
  }

  void cancel() override {
    for (MPI_Request& request : requests_) {
      if (request == MPI_REQUEST_NULL) continue;
      MPI_Cancel(&request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
  }

 private:
  std::vector<MPI_Request> requests_;
};

class MpiWire : public Wire {
 public:
  MpiWire() {
    // By default, Open MPI sends at most 4 KiB eagerly within a machine. Here it sends whole frames, unless the user
    // has set the limit.
    ::setenv("OMPI_MCA_btl_vader_eager_limit", "20480", 0);
    int provided = 0;
    check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
    let_crashes_end_the_process();
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &messages_), "MPI_Comm_dup");
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &transfers_), "MPI_Comm_dup");
    for (const MPI_Comm comm : {messages_, transfers_}) MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(messages_, &rank_);
    MPI_Comm_size(messages_, &size_);
    find_local_processes();
    start_receives();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int local_size() const override { return local_size_; }
  int local_rank() const override { return local_rank_; }

  std::string name() const override {
    std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
    int length = 0;
    MPI_Get_library_version(text.data(), &length);
    // `Open MPI v4.1.4, package: ..`, `MPICH Version:\t4.0.2\nMPICH Release ..`
    const std::string_view line(text.data(), std::strcspn(text.data(), ",\n"));
    for (const std::string_view word : {" v", " Version:\t"})
      if (const std::size_t at = line.find(word); at != std::string_view::npos)
        return fmt::format("{} {}", line.substr(0, at), line.substr(at + word.size()));
    return std::string(line);
  }

  void post(int to, std::span<const std::byte> head, std::span<const std::byte> content, bool more_follow) override {
    Slot& slot = free_slot();
    std::memcpy(slot.content.data(), head.data(), head.size());
    if (!content.empty()) std::memcpy(slot.content.data() + head.size(), content.data(), content.size());
    check_mpi(MPI_Isend(slot.content.data(), static_cast<int>(head.size() + content.size()), MPI_BYTE, to,
                        more_follow ? more_follow_tag : last_tag, messages_, &slot.request),
              "MPI_Isend");
  }

  std::optional<Frame> next_frame() override {
    // In the order in which they were posted, so that the frames of one pair stay in order.
    Slot& slot = incoming_[next_];
    if (is_read_) {
      check_mpi(MPI_Start(&incoming_[(next_ + incoming_.size() - 1) % incoming_.size()].request), "MPI_Start");
      is_read_ = false;
    }
    int has_arrived = 0;
    MPI_Status status;
    check_mpi(MPI_Test(&slot.request, &has_arrived, &status), "MPI_Test");
    if (has_arrived == 0) return {};
    int bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    next_ = (next_ + 1) % incoming_.size();
    is_read_ = true;
    return Frame{status.MPI_SOURCE, std::span(slot.content.data(), static_cast<std::size_t>(bytes)),
                 status.MPI_TAG == more_follow_tag};
  }

  bool flush(std::chrono::milliseconds timeout) noexcept override {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    for (Slot& slot : outgoing_)
      for (;;) {
        int is_sent = 0;
        if (MPI_Test(&slot.request, &is_sent, MPI_STATUS_IGNORE) != MPI_SUCCESS || is_sent != 0) break;
        if (std::chrono::steady_clock::now() > deadline) return false;
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    return true;
  }

  std::unique_ptr<WireTransfer> send(int to, int tag, const void* data, std::int64_t bytes) override {
    return std::make_unique<MpiTransfer>(bytes, [&](std::int64_t offset, int count, MPI_Request* request) {
      check_mpi(MPI_Isend(static_cast<const std::byte*>(data) + offset, count, MPI_BYTE, to, tag, transfers_, request),
                "MPI_Isend");
    });
  }

  std::unique_ptr<WireTransfer> receive(int from, int tag, void* data, std::int64_t bytes) override {
    return std::make_unique<MpiTransfer>(bytes, [&](std::int64_t offset, int count, MPI_Request* request) {
      check_mpi(MPI_Irecv(static_cast<std::byte*>(data) + offset, count, MPI_BYTE, from, tag, transfers_, request),
                "MPI_Irecv");
    });
  }

  bool native_collective(Operation operation, std::span<float> in, std::span<float> out) override {
    const int part = static_cast<int>(in.size()) / size_;
    const int all = static_cast<int>(in.size());
    float* const x = in.data();
    float* const y = out.data();
    switch (operation) {
      case Operation::all_reduce:
        check_mpi(MPI_Allreduce(x == y ? MPI_IN_PLACE : x, y, all, MPI_FLOAT, MPI_SUM, transfers_), "MPI_Allreduce");
        return true;
      case Operation::reduce:
        check_mpi(MPI_Reduce(x, y, all, MPI_FLOAT, MPI_SUM, 0, transfers_), "MPI_Reduce");
        return true;
      case Operation::reduce_scatter:
        check_mpi(MPI_Reduce_scatter_block(x, y, part, MPI_FLOAT, MPI_SUM, transfers_), "MPI_Reduce_scatter_block");
        return true;
      case Operation::all_gather:
        check_mpi(MPI_Allgather(x, part, MPI_FLOAT, y, part, MPI_FLOAT, transfers_), "MPI_Allgather");
        return true;
      case Operation::all_to_all:
        check_mpi(MPI_Alltoall(x, part, MPI_FLOAT, y, part, MPI_FLOAT, transfers_), "MPI_Alltoall");
        return true;
      case Operation::broadcast:
        check_mpi(MPI_Bcast(x, all, MPI_FLOAT, 0, transfers_), "MPI_Bcast");
        return true;
      case Operation::gather:
        check_mpi(MPI_Gather(x, part, MPI_FLOAT, y, part, MPI_FLOAT, 0, transfers_), "MPI_Gather");
        return true;
      case Operation::scatter:
        check_mpi(MPI_Scatter(x, part, MPI_FLOAT, y, part, MPI_FLOAT, 0, transfers_), "MPI_Scatter");
        return true;
      case Operation::barrier:
        check_mpi(MPI_Barrier(transfers_), "MPI_Barrier");
        return true;
      case Operation::send:
        // A message is complete when the receiver has it: so are ours.
        if (rank_ == 0) check_mpi(MPI_Ssend(x, all, MPI_FLOAT, 1, 0, transfers_), "MPI_Ssend");
        if (rank_ == 1) check_mpi(MPI_Recv(x, all, MPI_FLOAT, 0, 0, transfers_, MPI_STATUS_IGNORE), "MPI_Recv");
        return true;
      default:
        return false;
    }
  }

  void leave() override {
    // The last frames may still be on their way to a process that keeps its receives posted for them.
    for (Slot& slot : outgoing_) MPI_Wait(&slot.request, MPI_STATUS_IGNORE);
    for (std::size_t i = 0; i < incoming_.size(); ++i) {
      MPI_Request& request = incoming_[i].request;
      if (!is_read_ || (i + 1) % incoming_.size() != next_) {
        MPI_Cancel(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
      }
      MPI_Request_free(&request);
    }
    MPI_Comm_free(&messages_);
    MPI_Comm_free(&transfers_);
    MPI_Finalize();
  }

  void abort(int code) override {
    for (;;) MPI_Abort(MPI_COMM_WORLD, code);
  }

 private:
  struct Slot {
    MPI_Request request = MPI_REQUEST_NULL;
    std::array<std::byte, max_frame> content;
  };

  void find_local_processes() {
    MPI_Comm local = MPI_COMM_NULL;
    check_mpi(MPI_Comm_split_type(messages_, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local), "MPI_Comm_split_type");
    MPI_Comm_size(local, &local_size_);
    MPI_Comm_rank(local, &local_rank_);
    MPI_Comm_free(&local);
  }

  void start_receives() {
    for (Slot& slot : incoming_) {
      check_mpi(MPI_Recv_init(slot.content.data(), max_frame, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, messages_,
                              &slot.request),
                "MPI_Recv_init");
      check_mpi(MPI_Start(&slot.request), "MPI_Start");
    }
  }

  /// A slot whose frame has been sent; the oldest is tried first. A new one if there is none: posting never waits.
  Slot& free_slot() {
    if (!outgoing_.empty()) {
      oldest_ = (oldest_ + 1) % outgoing_.size();
      int is_sent = 0;
      check_mpi(MPI_Test(&outgoing_[oldest_].request, &is_sent, MPI_STATUS_IGNORE), "MPI_Test");
      if (is_sent != 0) return outgoing_[oldest_];
    }
    outgoing_.emplace_back();
    return outgoing_.back();
  }

  MPI_Comm messages_ = MPI_COMM_NULL;
  MPI_Comm transfers_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  int local_size_ = 1;
  int local_rank_ = 0;
  std::array<Slot, 8> incoming_;
  std::size_t next_ = 0;
  bool is_read_ = false;
  std::deque<Slot> outgoing_;
  std::size_t oldest_ = 0;
};

}  // namespace

std::unique_ptr<Wire> join_by_mpi() {
  return std::make_unique<MpiWire>();
}

}  // namespace heddle
