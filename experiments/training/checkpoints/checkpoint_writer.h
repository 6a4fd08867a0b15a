// Writes checkpoints while the training goes on: at the end of a step each rank keeps a copy of its state in the host's
// memory, and a thread of its own checks and writes the copy, slowly enough that steps take no longer.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "experiments/training/checkpoints/checkpoint_files.h"
#include "experiments/training/checkpoints/class_names.h"
#include "experiments/training/checkpoints/host_copy.h"
#include "experiments/training/checkpoints/partial_folder.h"
#include "parallel/rank.h"
#include "parallel/transports/failure.h"

namespace heddle {

/// What a rank writes of a checkpoint, and where.
struct CheckpointPart {
  std::filesystem::path folder;  // of all checkpoints
  std::int64_t steps_done = 0;
  std::vector<StateTensor> tensors;  // of this rank's file
  SafetensorsMetadata metadata;      // that the files of all ranks have in common
  ClassNames names;                  // rank 0 writes them
  std::int64_t keep = 1;             // the number of checkpoints that stay, this one included
};

class CheckpointWriter {
 public:
  explicit CheckpointWriter(Rank& rank) : rank_(rank), copy_(rank.device) {}
  /// Gives up what is not yet written.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// How the writing of a checkpoint has ended, alike on all ranks.
  struct Written {
    std::filesystem::path folder;  // of all checkpoints
    std::int64_t steps_done = 0;
    /// Why there is no checkpoint: the failure of the lowest rank that has one. Nothing if the checkpoint is whole.
    std::optional<Failure> failure;
  };

  /// Makes the first copy of such tensors take no longer than later ones, within the time that there is.
  void prepare(const std::vector<StateTensor>& tensors, Pace::Seconds available) { copy_.prepare(tensors, available); }
  /// A collective call, while nothing is being written. In the background, where the writing should take the
  /// `available` time, it returns once the state is kept. Without such a time, or where the host has no memory for the
  /// copy, it returns once this rank has written. An element of this rank's part that is not finite fails as
  /// RankFailed.
  void start(CheckpointPart part, std::optional<Pace::Seconds> available);
  bool is_writing() const { return phase_.has_value(); }
  /// A collective call, which does not wait for the disk. Returns nothing while a rank is still writing, or if none
  /// was.
  std::optional<Written> poll() { return is_writing() ? advance(false) : std::nullopt; }
  /// A collective call, which waits until the checkpoint is whole or lost.
  std::optional<Written> finish();
  /// The size of the copy in the host's memory.
  std::int64_t copy_bytes() const { return copy_.capacity(); }

 private:
  enum class Phase { files, name };  // the ranks write their files; rank 0 gives the folder its name

  /// Begins the next phase, or ends the checkpoint, once all ranks have done their work of this one; `waits` for this
  /// rank's. Returns nothing while the checkpoint is being written.
  std::optional<Written> advance(bool waits);
  /// Begins this rank's work of a phase, in a thread of its own if the checkpoint is written in the background.
  void run(std::function<void()> work);
  /// Calls use(piece) with the elements of the state, one tensor after the other, until it is given up: from the copy
  /// of these tensors, or from the tensors where there is none. RankFailed if an element is not finite.
  using UsePiece = std::function<void(std::span<const std::byte> piece)>;
  void for_each_piece(const std::vector<SafetensorsEntry>& copied, const std::vector<StateTensor>& tensors,
                      const UsePiece& use);
  void check_finite(const std::string& name, DType dtype, std::span<const std::byte> piece) const;

  Rank& rank_;
  HostCopy copy_;
  Pace pace_;
  std::optional<Phase> phase_;              // while a checkpoint is being written
  std::unique_ptr<PartialFolder> partial_;  // null if it cannot be made
  std::filesystem::path folder_;
  std::int64_t steps_done_ = 0;
  std::int64_t keep_ = 1;
  bool in_background_ = false;
  std::atomic<bool> is_given_up_ = false;
  std::shared_future<void> work_;  // this rank's part of the phase
};

}  // namespace heddle
