#include "experiments/training/checkpoints/initial_weights.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include <fmt/format.h>

#include "framework/description/printable.h"
#include "framework/description/text.h"
#include "framework/tensors/host_elements.h"

namespace heddle {

namespace {

constexpr std::string_view steps_of_norm = ".num_batches_tracked";
constexpr std::size_t max_listed_rows = 20;

/// The elements that are read for a part: its rows, or all if an image spans several rows or the rows have another
/// order.
ParameterPart read_for(const InferenceTensor& tensor, const ParameterPart& part) {
  ParameterPart read = ParameterPart::all_of(part.whole);
  const std::int64_t rows = std::max<std::int64_t>(1, part.whole[0]);
  const std::int64_t row = part.whole.numel() / rows;
  const std::int64_t image = tensor.image ? tensor.image->channels * tensor.image->height * tensor.image->width : 1;
  if (image <= row && tensor.heads == 0) read.box[0] = part.box[0];
  return read;
}

}  // namespace

InitialWeights::InitialWeights(const ModelSpec& model, const std::filesystem::path& file, bool is_strict)
    : tensors_(InferenceGraph(model).tensors()), reader_(file) {
  for (const InferenceTensor& tensor : tensors_) compare(tensor);
  for (const SafetensorsEntry& entry : reader_.entries()) {
    const bool is_known =
        std::any_of(tensors_.begin(), tensors_.end(), [&](const auto& tensor) { return tensor.name == entry.name; });
    if (!is_known && !entry.name.ends_with(steps_of_norm))
      unfit_.push_back({entry.name, "-", to_string(entry.shape), "not in the model"});
  }
  if (fitting_ == 0) fail<InputError>("model.weights: no tensor of {} fits the model\n{}", file.string(), table());
  if (is_strict && !unfit_.empty())
    fail<InputError>(
        "model.weights: {} has other tensors than the model (model.weights_strict = false loads the {} that fit, and "
        "draws the others)\n{}",
        file.string(), counted(static_cast<std::int64_t>(fitting_), "tensor", "tensors"), table());
}

void InitialWeights::compare(const InferenceTensor& tensor) {
  const std::string in_model = to_string(tensor.shape);
  if (!reader_.contains(tensor.name)) {
    unfit_.push_back({tensor.name, in_model, "-", "not in the file"});
    return;
  }
  const SafetensorsEntry& entry = reader_.entries()[reader_.index_of(tensor.name)];
  if (entry.shape != tensor.shape)
    unfit_.push_back({tensor.name, in_model, to_string(entry.shape), "other shape"});
  else if (!is_floating(entry.dtype))
    unfit_.push_back({tensor.name, in_model, to_string(entry.dtype, entry.shape), "no floating-point type"});
  else
    ++fitting_;
}

std::string InitialWeights::table() const {
  std::vector<std::array<std::string, 4>> rows{{"tensor", "model", "file", ""}};
  for (std::size_t i = 0; i < std::min(unfit_.size(), max_listed_rows); ++i)
    rows.push_back({shorten(printable(unfit_[i].name), 40), unfit_[i].in_model, unfit_[i].in_file, unfit_[i].what});
  std::array<std::size_t, 3> widths{};
  for (const auto& row : rows)
    for (std::size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < widths.size(); ++i) line += row[i] + std::string(widths[i] - width_of(row[i]) + 2, ' ');
    line += row.back();
    text += "  " + line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  if (unfit_.size() > max_listed_rows) text += fmt::format("  and {} more\n", unfit_.size() - max_listed_rows);
  text.pop_back();
  return text;
}

std::string InitialWeights::report() const {
  std::string text = fmt::format("model.weights: {} of the model's {} are loaded from {}", fitting_,
                                 counted(std::ssize(tensors_), "tensor", "tensors"), reader_.path().string());
  if (!unfit_.empty()) text += "; these are not:\n" + table();
  return text;
}

void InitialWeights::load(const InferenceTensor& tensor, const StateTensor& state) const {
  const std::size_t index = reader_.index_of(tensor.name);
  const DType stored = reader_.entries()[index].dtype;
  const DType held = state.value.dtype();
  const ParameterPart read = read_for(tensor, state.part);
  const std::int64_t row = state.part.whole.numel() / std::max<std::int64_t>(1, state.part.whole[0]);
  std::vector<std::byte> bytes(static_cast<std::size_t>(read.shape().numel()) * size_of(stored));
  reader_.read(index, bytes, static_cast<std::uint64_t>(read.box[0].begin * row) * size_of(stored));
  const std::size_t element = size_of(held);
  const std::vector<std::byte> torch = converted(bytes, stored, held);
  if (const auto bad = first_not_finite(torch, held))
    fail<InputError>("model.weights: {}: tensor {} has an element that is {}{}", reader_.path().string(), tensor.name,
                     *bad, held == stored ? "" : fmt::format(" in {}", name_of(held)));
  std::vector<std::byte> ours(torch.size());
  tensor.for_each_element(torch.size() / element, [&](std::size_t i, std::size_t in_torch) {
    std::memcpy(ours.data() + i * element, torch.data() + in_torch * element, element);
  });
  std::vector<std::byte> part(static_cast<std::size_t>(state.value.numel()) * element);
  for_each_shared_run(state.part, read, [&](const SharedRun& run) {
    std::memcpy(part.data() + static_cast<std::size_t>(run.a) * element,
                ours.data() + static_cast<std::size_t>(run.b) * element, static_cast<std::size_t>(run.count) * element);
  });
  Tensor value = state.value;
  value.load_bytes(part);
}

void InitialWeights::load(Trainer& trainer) const {
  std::map<std::string, const InferenceTensor*> fitting;
  for (const InferenceTensor& tensor : tensors_)
    if (std::none_of(unfit_.begin(), unfit_.end(), [&](const Unfit& unfit) { return unfit.name == tensor.name; }))
      fitting.emplace(tensor.name, &tensor);
  for (const StateTensor& state : trainer.backbone_state())
    if (const auto found = fitting.find(state.name); found != fitting.end()) load(*found->second, state);
  trainer.parameters().restart_averages();
  trainer.rank().world.barrier().wait();  // no rank goes on where one cannot read its part
}

}  // namespace heddle
