#include "framework/fill.h"

#include <vector>

#include "framework/device.h"
#include "framework/error.h"

namespace heddle {

namespace {

/// One dimension of the whole tensor and the box's stretch of it.
struct Cut {
  std::int64_t whole;
  ShardRange stretch;
};

void check(const Shape& whole, std::span<const ShardRange> box) {
  if (static_cast<std::size_t>(whole.rank()) != box.size())
    fail<InputError>("box: {} stretches for a tensor {} of {} dimensions", box.size(), to_string(whole), whole.rank());
  for (int i = 0; i < whole.rank(); ++i) {
    const ShardRange& stretch = box[static_cast<std::size_t>(i)];
    if (stretch.begin < 0 || stretch.size < 0 || stretch.end() > whole[i])
      fail<InputError>("box: elements {} to {} do not lie in dimension {} of a tensor {}", stretch.begin, stretch.end(),
                       i, to_string(whole));
  }
}

/// The cuts that remain when every dimension that is not cut is taken as one with the dimension before it: each but the
/// first is a true one.
std::vector<Cut> cuts_of(const Shape& whole, std::span<const ShardRange> box) {
  check(whole, box);
  std::vector<Cut> cuts{{1, {0, 1}}};
  for (int i = 0; i < whole.rank(); ++i) {
    const std::int64_t size = whole[i];
    const ShardRange& stretch = box[static_cast<std::size_t>(i)];
    Cut& last = cuts.back();
    if (stretch.size == size)
      last = {last.whole * size, {last.stretch.begin * size, last.stretch.size * size}};
    else if (last.stretch.size == 1)  // one row of what is cut before: its elements are neighbours
      last = {last.whole * size, {last.stretch.begin * size + stretch.begin, stretch.size}};
    else
      cuts.push_back({size, stretch});
  }
  return cuts;
}

/// `first`: index of the row at hand, over all dimensions before the last two cuts.
DrawWindow window_at(std::int64_t first, const Cut& rows, const Cut& columns) {
  const std::int64_t row = first * rows.whole + rows.stretch.begin;
  return {row * columns.whole + columns.stretch.begin, columns.stretch.size, columns.whole};
}

/// Calls fill(piece, window) for the pieces of `part` that one window each tells.
template <class F>
void for_windows(const Tensor& part, const Shape& whole, std::span<const ShardRange> box, const F& fill) {
  const std::vector<Cut> cuts = cuts_of(whole, box);
  std::vector<std::int64_t> sizes;
  for (const ShardRange& stretch : box) sizes.push_back(stretch.size);
  if (part.shape() != Shape(std::span<const std::int64_t>(sizes)))
    fail<InputError>("box: expected a part {} of a tensor {}, got {}",
                     to_string(part.dtype(), Shape(std::span<const std::int64_t>(sizes))), to_string(whole),
                     to_string(part));
  if (part.numel() == 0) return;
  const Tensor flat = part.reshape({-1});
  if (cuts.size() == 1) return fill(flat, DrawWindow(cuts[0].stretch.begin));
  const Cut& rows = cuts[cuts.size() - 2];
  const Cut& columns = cuts.back();
  const std::int64_t piece = rows.stretch.size * columns.stretch.size;
  for (std::int64_t i = 0; i < part.numel() / piece; ++i) {
    std::int64_t first = 0;
    std::int64_t scale = 1;
    std::int64_t rest = i;
    for (std::size_t cut = cuts.size() - 2; cut-- > 0;) {
      first += scale * (cuts[cut].stretch.begin + rest % cuts[cut].stretch.size);
      scale *= cuts[cut].whole;
      rest /= cuts[cut].stretch.size;
    }
    fill(flat.rows(i * piece, (i + 1) * piece), window_at(first, rows, columns));
  }
}

}  // namespace

DrawWindow window_of(const Shape& whole, std::span<const ShardRange> box) {
  const std::vector<Cut> cuts = cuts_of(whole, box);
  if (cuts.size() == 1) return cuts[0].stretch.begin;
  if (cuts.size() == 2) return window_at(0, cuts[0], cuts[1]);
  fail<InputError>("box: a tensor {} is cut in {} dimensions; a window tells two", to_string(whole), cuts.size());
}

void fill_normal(Tensor& part, const Shape& whole, std::span<const ShardRange> box, const DrawKey& key, double mean,
                 double deviation) {
  const TrainingKernels& kernels = part.device().backend().training();
  for_windows(part, whole, box, [&](Tensor piece, const DrawWindow& window) {
    kernels.fill_normal(piece, key, window, mean, deviation);
  });
}

void fill_uniform(Tensor& part, const Shape& whole, std::span<const ShardRange> box, const DrawKey& key, double low,
                  double high) {
  const TrainingKernels& kernels = part.device().backend().training();
  for_windows(part, whole, box,
              [&](Tensor piece, const DrawWindow& window) { kernels.fill_uniform(piece, key, window, low, high); });
}

}  // namespace heddle
