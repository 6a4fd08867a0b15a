#include "framework/backends/cpu/cpu_kernels.h"
#include "framework/backends/cpu/row_math.h"

namespace heddle::cpu {

namespace {

/// f32 and f64 only: 16-bit logits of millions of classes lose the loss.
template <class F>
void visit_head(DType dtype, const char* what, F&& f) {
  if (dtype == DType::f64)
    f(double{});
  else if (dtype == DType::f32)
    f(float{});
  else
    fail<InputError>("{}: expected f32 or f64 logits, got {}", what, name_of(dtype));
}

template <class T>
const T* optional(const Tensor& x) {
  return x.defined() ? x.as<const T>() : nullptr;
}

class CpuHead final : public HeadKernels {
 public:
  void margin_logits(const MarginConfig& margin, const Tensor& class_scale, const Tensor& labels,
                     std::int64_t class_begin, Tensor& logits, Tensor& target_logit, Tensor& target_slope,
                     Tensor& row_max) const override {
    visit_head(logits.dtype(), "margin_logits", [&]<class T>(T) {
      const RowView view(logits.shape());
      const auto scale = static_cast<T>(margin.scale);
      const T* const factor = optional<T>(class_scale);
      for_each_row(view, [&](std::int64_t row) {
        T* const z = logits.as<T>() + row * view.columns;
        const std::int64_t target = labels.as<const std::int64_t>()[row] - class_begin;
        const bool is_here = target >= 0 && target < view.columns;
        TargetValue<T> value{T(0), T(0)};
        if (is_here) value = margin_target(margin, factor != nullptr ? z[target] * factor[target] : z[target]);
        // The maximum of a stretch is taken while it is in the first-level cache.
        T most = -std::numeric_limits<T>::infinity();
        for (std::int64_t begin = 0; begin < view.columns; begin += stretch) {
          const std::int64_t end = std::min(begin + stretch, view.columns);
          if (factor != nullptr)
            for (std::int64_t i = begin; i < end; ++i) z[i] = z[i] * factor[i] * scale;
          else
            for (std::int64_t i = begin; i < end; ++i) z[i] *= scale;
          if (is_here && target >= begin && target < end) z[target] = scale * value.phi;
          most = std::max(most, row_maximum<T>(end - begin, [z, begin](std::int64_t i) { return z[begin + i]; }));
        }
        target_logit.as<T>()[row] = is_here ? z[target] : T(0);
        target_slope.as<T>()[row] = value.slope;
        row_max.as<T>()[row] = most;
      });
    });
  }

  void exponential_sums(const Tensor& logits, const Tensor& row_max, Tensor& sums) const override {
    visit_head(logits.dtype(), "exponential_sums", [&]<class T>(T) {
      const RowView view(logits.shape());
      for_each_row(view, [&](std::int64_t row) {
        const T* const z = logits.as<const T>() + row * view.columns;
        sums.as<double>()[row] = sum_of_exponentials<T>(
            view.columns, [z](std::int64_t i) { return z[i]; }, row_max.as<const T>()[row]);
      });
    });
  }

  void margin_loss(const Tensor& row_max, const Tensor& sums, const Tensor& target_logit, Tensor& log_sums,
                   Tensor& loss) const override {
    visit_head(row_max.dtype(), "margin_loss", [&]<class T>(T) {
      for (std::int64_t row = 0; row < row_max.numel(); ++row) {
        const double log_sum = row_max.as<const T>()[row] + std::log(sums.as<const double>()[row]);
        log_sums.as<T>()[row] = static_cast<T>(log_sum);
        loss.as<T>()[row] = static_cast<T>(log_sum - target_logit.as<const T>()[row]);
      }
    });
  }

  void margin_gradient(const MarginConfig& margin, const Tensor& class_scale, const Tensor& log_sums,
                       const Tensor& target_slope, const Tensor& labels, std::int64_t class_begin, double loss_scale,
                       Tensor& logits) const override {
    visit_head(logits.dtype(), "margin_gradient", [&]<class T>(T) {
      const RowView view(logits.shape());
      const auto scale = static_cast<T>(margin.scale * loss_scale);
      const T* const factor = optional<T>(class_scale);
      for_each_row(view, [&](std::int64_t row) {
        T* const z = logits.as<T>() + row * view.columns;
        const T log_sum = log_sums.as<const T>()[row];
        const std::int64_t target = labels.as<const std::int64_t>()[row] - class_begin;
        const bool is_here = target >= 0 && target < view.columns;
        // expm1 keeps the digits of a probability near one.
        T at_target = T(0);
        if (is_here) at_target = std::expm1(z[target] - log_sum) * scale * target_slope.as<const T>()[row];
        if (factor != nullptr)
          for (std::int64_t i = 0; i < view.columns; ++i) z[i] = exponential(z[i] - log_sum) * scale * factor[i];
        else
          for (std::int64_t i = 0; i < view.columns; ++i) z[i] = exponential(z[i] - log_sum) * scale;
        if (is_here) z[target] = factor != nullptr ? at_target * factor[target] : at_target;
      });
    });
  }

 private:
  static constexpr std::int64_t stretch = 2048;
};

}  // namespace

std::unique_ptr<HeadKernels> make_cpu_head() {
  return std::make_unique<CpuHead>();
}

}  // namespace heddle::cpu
