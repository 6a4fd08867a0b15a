#include "layers/pooling.h"

namespace heddle {

LayerSpecPointer Pool::spec(PoolOp op, const PoolOptions& options) {
  return channelwise_spec({.type = op == PoolOp::max ? "max_pool" : "average_pool",
                           .output = [options](const Shape& x) { return pooled_shape(x, options); },
                           .build = [op, options](Construction&, const std::string&,
                                                  const LayerLayout&) { return std::make_unique<Pool>(op, options); }});
}

LayerSpecPointer GlobalAveragePool::spec() {
  return channelwise_spec({.type = "global_average_pool",
                           .output =
                               [](const Shape& x) {
                                 if (x.rank() != 4)
                                   fail<InputError>("global_average_pool: expected images [n,h,w,c], got {}",
                                                    to_string(x));
                                 return Shape{x[0], x[3]};
                               },
                           .build = [](Construction&, const std::string&,
                                       const LayerLayout&) { return std::make_unique<GlobalAveragePool>(); }});
}

}  // namespace heddle
