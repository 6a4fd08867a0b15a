#include "experiments/checkpoint.h"

#include <charconv>
#include <limits>
#include <map>

#include <fmt/ranges.h>

#include "experiments/config/writer.h"
#include "framework/atomic_file.h"
#include "framework/crc32c.h"
#include "framework/safetensors.h"

namespace heddle {

namespace {

constexpr std::string_view step_prefix = "step-";
constexpr std::int64_t piece_bytes = std::int64_t{16} << 20;

struct Saved {
  std::string name;
  Tensor value;
  int owner;  // the rank whose file holds it
};

/// All that this rank holds of the run's state, each thing with the first rank that holds the same.
std::vector<Saved> state_of(Trainer& trainer) {
  std::vector<Saved> saved;
  std::map<std::string, int, std::less<>> owners;
  for (const Parameter* parameter : trainer.parameters()) {
    owners[parameter->name] = owner(trainer.stepped_part(*parameter), trainer.rank());
    saved.push_back({parameter->name, parameter->value, owner(parameter->part, trainer.rank())});
  }
  for (const Optimizer::State& state : trainer.optimizer_state())
    saved.push_back({state.name, state.value, owners.at(state.weight)});
  for (const Buffer* buffer : trainer.buffers())
    saved.push_back({buffer->name, buffer->value, owner(buffer->part, trainer.rank())});
  return saved;
}

/// A tensor as a row of pieces that fit into a small host buffer.
template <class F>
void for_each_piece(const Tensor& tensor, F&& f) {
  const Tensor flat = tensor.reshape({tensor.numel()});
  const std::int64_t step = piece_bytes / static_cast<std::int64_t>(size_of(tensor.dtype()));
  std::vector<std::byte> buffer;
  for (std::int64_t begin = 0; begin < flat.numel(); begin += step) {
    Tensor piece = flat.rows(begin, std::min(begin + step, flat.numel()));
    buffer.resize(static_cast<std::size_t>(piece.bytes()));
    f(piece, std::span(buffer), static_cast<std::uint64_t>(begin) * size_of(tensor.dtype()));
  }
}

std::filesystem::path rank_file(const std::filesystem::path& folder, int rank) {
  return folder / fmt::format("rank-{}.safetensors", rank);
}

std::optional<std::int64_t> steps_of(const std::string& folder) {
  std::int64_t steps = 0;
  const char* const end = folder.data() + folder.size();
  if (!folder.starts_with(step_prefix)) return {};
  const auto result = std::from_chars(folder.data() + step_prefix.size(), end, steps);
  if (result.ec != std::errc{} || result.ptr != end) return {};  // also what is still being written
  return steps;
}

void remove_before(const std::filesystem::path& path, std::int64_t steps_done) {
  std::error_code ignored;  // no folder: nothing to remove
  std::vector<std::filesystem::path> old;
  for (const auto& entry : std::filesystem::directory_iterator(path, ignored))
    if (const auto steps = steps_of(entry.path().filename().string()); steps && *steps < steps_done)
      old.push_back(entry.path());
  for (const std::filesystem::path& folder : old) std::filesystem::remove_all(folder);
}

/// The experiment less what may change when a run goes on: how long it is, what it saves and measures, what bounds it.
std::string unchanging_json(Experiment experiment) {
  const Experiment defaults;
  experiment.name.clear();
  experiment.train.steps = defaults.train.steps;
  experiment.train.save_every = defaults.train.save_every;
  experiment.evaluate = defaults.evaluate;
  experiment.evaluation = defaults.evaluation;
  experiment.memory_budget = defaults.memory_budget;
  experiment.timeout = defaults.timeout;
  experiment.transport = defaults.transport;
  return write_json([&experiment](Describer& d) { describe(d, experiment); });
}

/// What must be the same for a run to go on bit for bit, most telling first. The model's sizes show in its tensors.
std::vector<std::pair<std::string, std::string>> identity_of(Trainer& trainer, std::int64_t steps_done) {
  const Experiment& experiment = trainer.experiment();
  return {{"steps", std::to_string(steps_done)},
          {"mesh", to_string(trainer.rank().mesh)},
          {"seed", std::to_string(experiment.seed)},
          {"batch", std::to_string(experiment.train.batch)},
          {"micro_batches", std::to_string(experiment.train.micro_batches)},
          {"stages", fmt::format("layers {}", fmt::join(trainer.plan().cut.begins, ", "))},
          {"experiment", fmt::format("{:08x}", crc32c(unchanging_json(experiment)))}};
}

std::filesystem::path checksum_file(const std::filesystem::path& folder, int rank) {
  return folder / fmt::format("rank-{}.crc32c", rank);
}

std::string checksum_of(const std::filesystem::path& path) {
  const FileDescriptor file = FileDescriptor::open_for_reading(path);
  std::uint32_t crc = 0;
  std::string piece;
  for (std::uint64_t at = 0; at < file.size(); at += piece.size()) {
    piece.resize(std::min<std::uint64_t>(file.size() - at, static_cast<std::uint64_t>(piece_bytes)));
    file.read_at(at, std::as_writable_bytes(std::span(piece)));
    crc = crc32c(piece, crc);
  }
  return fmt::format("{:08x}\n", crc);
}

void check_whole(const std::filesystem::path& folder, int rank) {
  const std::filesystem::path file = rank_file(folder, rank);
  if (checksum_of(file) != read_file(checksum_file(folder, rank), 64))
    fail<InputError>("{}: is damaged: its checksum is not the one beside it", file.string());
}

}  // namespace

std::filesystem::path CheckpointFolder::step_folder(std::int64_t steps_done) const {
  return path_ / fmt::format("{}{:06}", step_prefix, steps_done);
}

std::optional<std::int64_t> CheckpointFolder::latest() const {
  std::optional<std::int64_t> newest;
  std::error_code ignored;  // no folder: no checkpoint
  for (const auto& entry : std::filesystem::directory_iterator(path_, ignored))
    if (const auto steps = steps_of(entry.path().filename().string()); steps && steps > newest.value_or(-1))
      newest = steps;
  return newest;
}

void CheckpointFolder::clear() const {
  remove_before(path_, std::numeric_limits<std::int64_t>::max());
}

void CheckpointFolder::save(Trainer& trainer, std::int64_t steps_done) const {
  Rank& rank = trainer.rank();
  const std::filesystem::path target = step_folder(steps_done);
  const std::filesystem::path partial = target.string() + ".partial";
  if (rank.index == 0) {
    std::filesystem::remove_all(partial);
    std::filesystem::create_directories(partial);
  }
  rank.world.barrier().wait();
  std::vector<Saved> saved = state_of(trainer);
  std::erase_if(saved, [&](const Saved& s) { return s.owner != rank.index; });
  std::vector<SafetensorsEntry> entries;
  for (const Saved& s : saved) entries.push_back({s.name, s.value.dtype(), s.value.shape()});
  const auto identity = identity_of(trainer, steps_done);
  SafetensorsWriter writer(rank_file(partial, rank.index), entries, {identity.begin(), identity.end()});
  for (const Saved& s : saved)
    for_each_piece(s.value, [&](const Tensor& piece, std::span<std::byte> buffer, std::uint64_t /*offset*/) {
      piece.to_host_bytes(piece.dtype(), buffer);
      writer.write(buffer);
    });
  writer.commit();
  write_file_atomically(checksum_file(partial, rank.index), checksum_of(rank_file(partial, rank.index)));
  rank.world.barrier().wait();
  if (rank.index != 0) return;
  std::filesystem::remove_all(target);
  std::filesystem::rename(partial, target);
  remove_before(path_, steps_done);
}

void CheckpointFolder::load(Trainer& trainer, std::int64_t steps_done) const {
  const std::filesystem::path folder = step_folder(steps_done);
  const SafetensorsReader common(rank_file(folder, 0));
  for (const auto& [key, here] : identity_of(trainer, steps_done)) {
    const auto found = common.metadata().find(key);
    const std::string saved = found == common.metadata().end() ? "nothing" : found->second;
    if (saved != here && key == "experiment")
      fail<InputError>(
          "{}: was saved by another experiment: what may change is how long it trains, what it saves and "
          "how it is evaluated",
          folder.string());
    if (saved != here)
      fail<InputError>("{}: was saved with {} = {}, this run has {}: it would not go on as the same run",
                       folder.string(), key, saved, here);
  }
  std::map<int, SafetensorsReader> readers;
  const auto reader_of = [&](int file) -> const SafetensorsReader& {
    const auto found = readers.find(file);
    if (found != readers.end()) return found->second;
    const SafetensorsReader& reader = readers.emplace(file, rank_file(folder, file)).first->second;
    if (reader.metadata() != common.metadata())
      fail<InputError>("{}: is of another checkpoint than {}", reader.path().string(), common.path().string());
    check_whole(folder, file);
    return reader;
  };
  for (const Saved& s : state_of(trainer)) {
    const SafetensorsReader& reader = reader_of(s.owner);
    const std::size_t index = reader.index_of(s.name);
    const SafetensorsEntry& entry = reader.entries()[index];
    if (entry.shape != s.value.shape() || entry.dtype != s.value.dtype())
      fail<InputError>("{}: {} is {}, this run needs {}", reader.path().string(), s.name,
                       to_string(entry.dtype, entry.shape), to_string(s.value));
    for_each_piece(s.value, [&](Tensor& piece, std::span<std::byte> buffer, std::uint64_t offset) {
      reader.read(index, buffer, offset);
      piece.load_bytes(buffer);
    });
  }
}

}  // namespace heddle
