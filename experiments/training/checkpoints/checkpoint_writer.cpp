#include "experiments/training/checkpoints/checkpoint_writer.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <system_error>
#include <utility>

#include "experiments/training/checkpoints/find_checkpoint.h"
#include "framework/tensors/host_elements.h"

namespace heddle {

namespace {

constexpr std::size_t max_piece = std::size_t{8} << 20;  // between two looks at whether the run has ended

/// A failure as a row of numbers, and back: its kind and the characters of its text.
std::vector<double> numbers_of(const Failure& failure) {
  std::vector<double> numbers{static_cast<double>(failure.kind)};
  for (const char c : failure.why) numbers.push_back(static_cast<unsigned char>(c));
  return numbers;
}

Failure failure_of_numbers(std::span<const double> numbers) {
  Failure failure{static_cast<Failure::Kind>(static_cast<int>(numbers[0])), ""};
  for (const double c : numbers.subspan(1)) failure.why += static_cast<char>(c);
  return failure;
}

/// Returns the failure of rank `root` on all ranks. The others pass nothing or their own.
Failure broadcast_failure(Rank& rank, const std::optional<Failure>& own, int root) {
  Tensor values;
  if (rank.index == root) {
    const std::vector<double> numbers = numbers_of(own.value());
    values = Tensor::empty(rank.device, {static_cast<std::int64_t>(numbers.size())}, DType::f64);
    values.load_bytes(std::as_bytes(std::span(numbers)));
  }
  return failure_of_numbers(rank.world.broadcast(values, root).wait().to_doubles());
}

}  // namespace

CheckpointWriter::~CheckpointWriter() {
  is_given_up_ = true;
  pace_.hurry();
  if (work_.valid()) work_.wait();
}

void CheckpointWriter::start(CheckpointPart part, std::optional<Pace::Seconds> available) {
  folder_ = std::move(part.folder);
  steps_done_ = part.steps_done;
  pace_.begin(available.value_or(Pace::Seconds(0)));
  keep_ = part.keep;
  phase_ = Phase::files;
  // What stays in its memory comes first. There the data of the file begin on a page, as that memory does, and then
  // need not be copied for the disk.
  std::stable_partition(part.tensors.begin(), part.tensors.end(),
                        [](const StateTensor& tensor) { return tensor.is_rewritten; });
  in_background_ = available && copy_.take(part.tensors);
  std::exception_ptr error;
  try {
    partial_ = std::make_unique<PartialFolder>(folder_ / step_name(steps_done_), rank_.index == 0);
  } catch (const InputError&) {
    error = std::current_exception();
  }
  rank_.world.barrier().wait();  // the folder is there
  run([this, error, header = header_of(part.tensors, std::move(part.metadata)), names = std::move(part.names),
       tensors = in_background_ ? std::vector<StateTensor>() : std::move(part.tensors)] {
    try {
      if (error) std::rethrow_exception(error);
      partial_->write([&](const std::filesystem::path& folder) {
        if (rank_.index == 0) names.write(folder);
        write_rank_file(folder, rank_.index, header, [&](SafetensorsWriter& writer) {
          for_each_piece(header.entries, tensors, [&](std::span<const std::byte> piece) { writer.write(piece); });
        });
      });
    } catch (const InputError&) {
      for_each_piece(header.entries, tensors, [](std::span<const std::byte> /*checked*/) {});
      throw;
    }
  });
}

void CheckpointWriter::for_each_piece(const std::vector<SafetensorsEntry>& copied,
                                      const std::vector<StateTensor>& tensors, const UsePiece& use) {
  if (!in_background_)
    return read_in_pieces(tensors, [&](const StateTensor& tensor, std::span<const std::byte> piece) {
      check_finite(tensor.name, tensor.value.dtype(), piece);
      use(piece);
    });
  double done = 0;
  double all = 0;
  for (const std::span<const std::byte> elements : copy_.elements()) all += static_cast<double>(elements.size());
  for (std::size_t i = 0; i < copied.size(); ++i)
    for (std::span<const std::byte> rest = copy_.elements()[i]; !rest.empty() && !is_given_up_;) {
      const std::span<const std::byte> piece = rest.first(std::min(rest.size(), max_piece));
      check_finite(copied[i].name, copied[i].dtype, piece);
      use(piece);
      rest = rest.subspan(piece.size());
      done += static_cast<double>(piece.size());
      if (piece.size() == max_piece) pace_.rest(done / all);
    }
}

void CheckpointWriter::check_finite(const std::string& name, DType dtype, std::span<const std::byte> piece) const {
  if (first_not_finite(piece, dtype))
    fail<RankFailed>("step {}: {} is not finite on rank {}: the training has diverged", steps_done_ - 1, name,
                     rank_.index);
}

void CheckpointWriter::run(std::function<void()> work) {
  if (in_background_) {
    try {
      // At the priority of the threads that compute: below it, it would be late where they use all cores.
      work_ = std::async(std::launch::async, work).share();
      return;
    } catch (const std::system_error&) {
      pace_.hurry();  // the system has no more threads: this one writes
    }
  }
  std::packaged_task<void()> task(std::move(work));
  work_ = task.get_future().share();
  task();
}

std::optional<CheckpointWriter::Written> CheckpointWriter::finish() {
  std::optional<Written> written;
  pace_.hurry();
  while (is_writing() && !written) written = advance(true);
  return written;
}

std::optional<CheckpointWriter::Written> CheckpointWriter::advance(bool waits) {
  // The ranks agree on the largest of their states: a rank that is still writing, else the lowest rank whose state is
  // not finite, else the lowest rank that could not write.
  constexpr int done = 0;
  const int writing = 2 * rank_.size + 1;
  const auto failed = [this](const Failure& failure) {
    return (failure.kind == Failure::Kind::rank_failed ? 2 : 1) * rank_.size - rank_.index;
  };
  if (waits) work_.wait();
  int state = work_.wait_for(std::chrono::seconds(0)) == std::future_status::ready ? done : writing;
  std::optional<Failure> own;
  try {
    if (state == done) work_.get();
  } catch (...) {
    own = failure_of(std::current_exception());
    state = failed(*own);
  }
  const int largest = rank_.world.max_over_ranks(state);
  if (largest == writing) return {};
  if (phase_ == Phase::files) copy_.release();
  if (largest == done && phase_ == Phase::files) {
    phase_ = Phase::name;
    run([this] {
      if (rank_.index != 0) return;
      partial_->commit();
      remove_old(folder_, steps_done_, keep_);
    });
    return {};
  }
  Written written{.folder = folder_, .steps_done = steps_done_, .failure = {}};
  if (largest != done) written.failure = broadcast_failure(rank_, own, (2 * rank_.size - largest) % rank_.size);
  partial_.reset();
  phase_.reset();
  return written;
}

}  // namespace heddle
