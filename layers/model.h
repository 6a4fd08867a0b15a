// A model is a list of layer applications in topological order, each naming its inputs by index: value 0 is the model's
// input, value i + 1 the output of application i. A residual branch is a value that is used twice.
#pragma once

#include <string>
#include <vector>

#include "layers/layer.h"

namespace heddle {

class Model {
 public:
  /// Appends an application and gives the index of its output.
  int apply(std::string name, LayerPointer layer, std::vector<int> inputs);
  /// Appends a layer that reads the last value.
  int then(std::string name, LayerPointer layer);

  /// The last value for input x. Values are let go after their last reader.
  Variable forward(const Variable& x, const Pass& pass);
  /// In model order.
  std::vector<Parameter*> parameters();
  std::vector<Buffer*> buffers();
  void end_step(Rank& rank);

  struct Application {
    std::string name;
    LayerPointer layer;
    std::vector<int> inputs;
  };
  const std::vector<Application>& applications() const { return applications_; }
  int last_value() const { return static_cast<int>(applications_.size()); }

 private:
  std::vector<Application> applications_;
  std::vector<int> last_reader_{-1};  // of each value: index of the application that reads it last
};

}  // namespace heddle
