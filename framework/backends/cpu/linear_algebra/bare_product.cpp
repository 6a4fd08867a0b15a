#include "framework/backends/bare_product.h"

#include <cstddef>
#include <memory>
#include <unordered_map>
#include <vector>

#include "framework/backends/cpu/linear_algebra/primitives.h"
#include "framework/backends/cpu/linear_algebra/serial_product.h"
#include "framework/backends/cpu/loops/parallel.h"

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

std::function<void()> bare_attention_products(std::int64_t pairs, std::int64_t tokens, std::int64_t features) {
  const cpu::GemmShape outer{.m = tokens, .n = tokens, .k = features, .transpose_b = true};
  const cpu::GemmShape inner{.m = tokens, .n = features, .k = tokens};
  cpu::GemmShape transposed = inner;
  transposed.transpose_a = true;
  return [=] {
    cpu::parallel_for(pairs, 1, [&](std::int64_t begin, std::int64_t end) {
      const cpu::ThreadTeam alone(1);
      const std::vector<float> vectors(static_cast<std::size_t>(tokens * features), 1);
      std::vector<float> result(vectors.size());
      std::vector<float> scores(static_cast<std::size_t>(tokens * tokens));
      for (std::int64_t pair = begin; pair < end; ++pair) {
        for (int i = 0; i < 3; ++i) cpu::serial_product(outer, vectors.data(), vectors.data(), scores.data());
        for (int i = 0; i < 2; ++i) cpu::serial_product(inner, scores.data(), vectors.data(), result.data());
        for (int i = 0; i < 2; ++i) cpu::serial_product(transposed, scores.data(), vectors.data(), result.data());
      }
    });
  };
}

}  // namespace heddle
