// Random networks and random placements of their layers, for the tests against the serial judge.
#pragma once

#include <cstdint>

#include "framework/scalars/random.h"
#include "tests/support/layouts.h"

namespace heddle::test {

struct RandomModelOptions {
  bool with_norms = false;
  bool synchronized = false;
  bool with_depthwise = true;
  std::int64_t embedding = 6;
};

/// A network on 8 x 8 images: convolutions (also strided, grouped, depthwise, with bias) with norms and activations of
/// every kind, residual branches, pooling, dropout, linear layers; its weighted layers placed at random in any way that
/// they accept on the mesh. No bias stands before a norm: its gradient is 0 but for rounding, which AdamW would divide
/// by itself. So is, at first, that of a norm's scale before a depthwise convolution and the next norm.
ModelPointer random_model(RandomStream& draws, const RandomModelOptions& options, const Mesh& mesh);

}  // namespace heddle::test
