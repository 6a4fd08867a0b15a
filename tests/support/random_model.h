// Random networks and random placements of their layers, for the tests against the serial reference.
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
/// every kind, residual branches, pooling, dropout and linear layers. Its weighted layers are placed at random in any
/// way that they allow on the mesh. No bias comes before a norm: its gradient would be 0 except for rounding errors,
/// which AdamW would divide by themselves. The same holds at first for a norm's scale before a depthwise convolution
/// and the next norm.
ModelPointer random_model(RandomStream& draws, const RandomModelOptions& options, const Mesh& mesh);

}  // namespace heddle::test
