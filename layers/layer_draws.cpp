#include "layers/layer_draws.h"

namespace heddle {

LayerDraws::LayerDraws(const DrawKey& stream, LayerLayout layout) : stream_(stream), layout_(std::move(layout)) {}

LayerDraws LayerDraws::of_dropout(Construction& construction, LayerLayout layout) {
  return {{construction.key, Purpose::dropout, 0, construction.next_stream++}, std::move(layout)};
}

DrawKey LayerDraws::key(const Pass& pass) const {
  DrawKey key = stream_;
  key.step = static_cast<std::uint32_t>(pass.step);
  return key;
}

std::vector<IndexRange> LayerDraws::box(const Pass& pass) const {
  const Shape whole = layout_.inputs[0].with(0, pass.samples.size);
  std::vector<IndexRange> box = local_box(whole, layout_.input(0), layout_.mesh, layout_.at);
  box[0].begin += pass.samples.begin;
  return box;
}

}  // namespace heddle
