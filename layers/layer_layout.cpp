#include "layers/layer_layout.h"

#include <algorithm>

#include "framework/description/describe.h"

namespace heddle {

ParameterPart ParameterPart::all_of(const Shape& whole) {
  ParameterPart part{.whole = whole, .box = {}, .sharded = {}, .partial = {}};
  for (int d = 0; d < whole.rank(); ++d) part.box.push_back({0, whole[d]});
  return part;
}

Shape ParameterPart::shape() const {
  std::vector<std::int64_t> sizes;
  for (const IndexRange& range : box) sizes.push_back(range.size);
  return Shape(sizes);
}

void for_each_run(const ParameterPart& part, const std::function<void(const ElementRun&)>& visit) {
  // The trailing dimensions that are whole, and the one before them, are contiguous.
  const int rank = part.whole.rank();
  int split = rank - 1;
  while (split > 0 && part.box[static_cast<std::size_t>(split)].size == part.whole[split]) --split;
  std::int64_t inner = 1;
  for (int d = split + 1; d < rank; ++d) inner *= part.whole[d];
  const IndexRange rows = rank == 0 ? IndexRange{0, 1} : part.box[static_cast<std::size_t>(split)];
  const std::int64_t length = rows.size * inner;
  std::int64_t outer = 1;
  for (int d = 0; d < split; ++d) outer *= part.box[static_cast<std::size_t>(d)].size;
  const IndexRange wanted = part.elements.value_or(IndexRange{0, outer * length});
  for (std::int64_t i = length > 0 ? wanted.begin / length : outer; i < outer && i * length < wanted.end(); ++i) {
    std::int64_t index = 0;  // the index of the row's first element, in the whole
    std::int64_t rest = i;
    std::int64_t stride = split > 0 ? part.whole[split] * inner : 0;
    index = rows.begin * inner;
    for (int d = split - 1; d >= 0; --d) {
      const IndexRange& range = part.box[static_cast<std::size_t>(d)];
      index += (range.begin + rest % range.size) * stride;
      rest /= range.size;
      stride *= part.whole[d];
    }
    const std::int64_t begin = std::max(wanted.begin, i * length);
    const std::int64_t end = std::min(wanted.end(), (i + 1) * length);
    visit({.held = begin - wanted.begin, .whole = index + begin - i * length, .count = end - begin});
  }
}

namespace {

/// The row-major index in a part's box of an element of the whole parameter.
std::int64_t index_in_box(const ParameterPart& part, std::int64_t whole) {
  std::int64_t index = 0;
  std::int64_t stride = 1;
  for (int d = part.whole.rank() - 1; d >= 0; --d) {
    const IndexRange& range = part.box[static_cast<std::size_t>(d)];
    index += (whole % part.whole[d] - range.begin) * stride;
    whole /= part.whole[d];
    stride *= range.size;
  }
  return index;
}

/// Visits those elements of a run that both parts hold. The run is contiguous in both boxes, where it begins at a and
/// b.
void visit_held(const ParameterPart& part_a, const ParameterPart& part_b, const SharedRun& run,
                const std::function<void(const SharedRun&)>& visit) {
  const IndexRange in_a = part_a.elements.value_or(IndexRange{0, part_a.shape().numel()});
  const IndexRange in_b = part_b.elements.value_or(IndexRange{0, part_b.shape().numel()});
  const std::int64_t begin = std::max({std::int64_t{0}, in_a.begin - run.a, in_b.begin - run.b});
  const std::int64_t end = std::min({run.count, in_a.end() - run.a, in_b.end() - run.b});
  if (begin < end) visit({.a = run.a + begin - in_a.begin, .b = run.b + begin - in_b.begin, .count = end - begin});
}

}  // namespace

void for_each_shared_run(const ParameterPart& a, const ParameterPart& b,
                         const std::function<void(const SharedRun&)>& visit) {
  if (a.box == b.box) return visit_held(a, b, {.a = 0, .b = 0, .count = a.shape().numel()}, visit);
  ParameterPart both{.whole = a.whole, .box = a.box, .sharded = {}, .partial = {}};
  for (std::size_t d = 0; d < both.box.size(); ++d) {
    const std::int64_t begin = std::max(a.box[d].begin, b.box[d].begin);
    both.box[d] = {begin, std::min(a.box[d].end(), b.box[d].end()) - begin};
    if (both.box[d].size <= 0) return;
  }
  for_each_run(both, [&](const ElementRun& run) {
    visit_held(a, b, {.a = index_in_box(a, run.whole), .b = index_in_box(b, run.whole), .count = run.count}, visit);
  });
}

Placements LayerLayout::input(std::size_t index) const {
  Placements placements;
  for (const Axis axis : layer_axes)
    if (mesh.size(axis) > 1) placements[axis] = options[axis].inputs[index];
  return placements;
}

Placements LayerLayout::output() const {
  Placements placements;
  for (const Axis axis : layer_axes)
    if (mesh.size(axis) > 1) placements[axis] = options[axis].output;
  return placements;
}

ParameterPart LayerLayout::part(std::size_t parameter, const Shape& whole) const {
  ParameterPart part = ParameterPart::all_of(whole);
  if (mesh.size(Axis::pp) > 1) part.sharded.insert(Axis::pp);
  if (mesh.size(Axis::copies) > 1) part.partial.insert(Axis::copies);
  for (const Axis axis : layer_axes) {
    const int ranks = mesh.size(axis);
    if (ranks == 1) continue;
    const Placement& placement = options[axis].parameters[parameter];
    if (options[axis].kind == Parallel::parameter) {
      part.gathered = axis;
      part.sharded.insert(axis);
    } else if (placement.value() == Spread::sharded) {
      IndexRange& range = part.box[static_cast<std::size_t>(*placement.dimension())];
      const IndexRange inner = shard(range.size, ranks, at[axis]);
      range = {range.begin + inner.begin, inner.size};
      part.sharded.insert(axis);
    } else if (placement.gradient() == Spread::partial) {
      part.partial.insert(axis);
    }
  }
  if (part.gathered) part.elements = shard(part.shape().numel(), mesh.size(*part.gathered), at[*part.gathered]);
  return part;
}

AxisSet LayerLayout::axes(Parallel kind) const {
  AxisSet set;
  for (const Axis axis : layer_axes)
    if (mesh.size(axis) > 1 && options[axis].kind == kind) set.insert(axis);
  return set;
}

}  // namespace heddle
