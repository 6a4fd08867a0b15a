#include "layers/modules/pooling.h"

namespace heddle {

namespace {

InferenceValue write_pool(PoolOp op, const PoolOptions& options, InferenceGraph& graph, const std::string& name,
                          const InferenceInputs& inputs) {
  const auto both = [](const Extent& extent) { return std::vector{extent.height, extent.width}; };
  const auto [top, left] = options.padding;
  std::map<std::string, InferenceAttribute> attributes{{"kernel_shape", both(options.kernel)},
                                                       {"strides", both(options.stride)},
                                                       {"pads", std::vector{top, left, top, left}}};
  if (op == PoolOp::average) attributes["count_include_pad"] = std::int64_t{options.count_padding ? 1 : 0};
  return {graph.node(name, op == PoolOp::max ? "MaxPool" : "AveragePool", {inputs.name()}, std::move(attributes))};
}

}  // namespace

LayerSpecPointer Pool::spec(PoolOp op, const PoolOptions& options) {
  return channelwise_spec(
      {.type = op == PoolOp::max ? "max_pool" : "average_pool",
       .output = [options](const Shape& x) { return pooled_shape(x, options); },
       .build = [op, options](Construction&, const std::string&,
                              const LayerLayout&) { return std::make_unique<Pool>(op, options); },
       .write = [op, options](InferenceGraph& graph, const std::string& name,
                              const InferenceInputs& inputs) { return write_pool(op, options, graph, name, inputs); }});
}

LayerSpecPointer GlobalAveragePool::spec() {
  return channelwise_spec(
      {.type = "global_average_pool",
       .output =
           [](const Shape& x) {
             if (x.rank() != 4)
               fail<InputError>("global_average_pool: expected images [n,h,w,c], got {}", to_string(x));
             return Shape{x[0], x[3]};
           },
       .build = [](Construction&, const std::string&,
                   const LayerLayout&) { return std::make_unique<GlobalAveragePool>(); },
       .write = [](InferenceGraph& graph, const std::string& name, const InferenceInputs& inputs) -> InferenceValue {
         const std::string pixel = graph.node(name + ".pixel", "GlobalAveragePool", {inputs.name()});
         return {graph.node(name, "Flatten", {pixel})};
       }});
}

}  // namespace heddle
