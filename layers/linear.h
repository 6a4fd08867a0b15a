// Fully connected layer.
#pragma once

#include <optional>

#include "layers/layer.h"

namespace heddle {

struct LinearOptions {
  std::int64_t in = 0;
  std::int64_t out = 0;
  bool bias = true;
  /// Deviation of normal initial weights; PyTorch's uniform(-1/sqrt(in), 1/sqrt(in)) without one.
  std::optional<double> deviation{};
};

/// [n, ...] is flattened to [n, in] -> [n, out]. weight [out, in], bias [out].
class Linear final : public Layer {
 public:
  Linear(Construction& construction, const std::string& name, const LinearOptions& options);
  Variable forward(std::span<const Variable> inputs, const Pass& pass) override;
  std::vector<Parameter*> parameters() override;

 private:
  Parameter weight_;
  std::optional<Parameter> bias_;
};

}  // namespace heddle
