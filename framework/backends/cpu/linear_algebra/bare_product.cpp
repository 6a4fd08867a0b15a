#include "framework/backends/bare_product.h"

#include <cstddef>
#include <memory>
#include <unordered_map>
#include <vector>

#include "framework/backends/cpu/linear_algebra/primitives.h"

namespace heddle {

namespace {

class BareProduct {
 public:
  explicit BareProduct(int threads)
      : onednn_(threads),
        primitives_(onednn_),
        product_(primitives_.find({.m = 1, .n = 1, .k = 1, .transpose_b = true}, cpu::gemm_f32)) {
    if (product_ == nullptr) return;
    scratch_.resize(static_cast<std::size_t>(product_->scratch_bytes) + 1);
    arguments_ = {{DNNL_ARG_SRC, onednn_.memory(product_->a, &a_)},
                  {DNNL_ARG_WEIGHTS, onednn_.memory(product_->b, &b_)},
                  {DNNL_ARG_DST, onednn_.memory(product_->c, &c_)},
                  {DNNL_ARG_SCRATCHPAD, onednn_.memory(product_->scratch, scratch_.data())}};
  }
  BareProduct(const BareProduct&) = delete;
  BareProduct& operator=(const BareProduct&) = delete;

  bool exists() const { return product_ != nullptr; }
  void run() const { onednn_.run(product_->primitive, arguments_); }

 private:
  cpu::OneDnn onednn_;
  cpu::GemmPrimitives primitives_;
  const cpu::GemmPrimitive* product_;
  float a_ = 1;
  float b_ = 1;
  float c_ = 0;
  std::vector<std::byte> scratch_;
  std::unordered_map<int, dnnl::memory> arguments_;
};

}  // namespace

std::optional<std::function<void()>> bare_product(int threads) {
  const auto product = std::make_shared<const BareProduct>(threads);
  if (!product->exists()) return {};
  return [product] { product->run(); };
}

}  // namespace heddle
