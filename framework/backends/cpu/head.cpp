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
  void margin_logits(const MarginConfig& margin, const Tensor& class_scale, const Tensor& class_bias,
                     const Tensor& labels, std::int64_t class_begin, Tensor& logits, Tensor& target_logit,
                     Tensor& target_slope, Tensor& row_max) const override {
    visit_head(logits.dtype(), "margin_logits", [&]<class T>(T) {
      const RowView view(logits.shape());
      const auto scale = static_cast<T>(margin.scale);
      const T* const factor = optional<T>(class_scale);
      const T* const bias = optional<T>(class_bias);
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
          if (bias != nullptr)
            for (std::int64_t i = begin; i < end; ++i) z[i] += bias[i];
          if (is_here && target >= begin && target < end) z[target] = scale * value.phi;
          most = std::max(most, row_maximum<T>(end - begin, [z, begin](std::int64_t i) { return z[begin + i]; }));
        }
        if (is_here) {
          target_logit.as<T>()[row] = z[target];
          target_slope.as<T>()[row] = value.slope;
        }
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
        if (loss.defined()) loss.as<T>()[row] = static_cast<T>(log_sum - target_logit.as<const T>()[row]);
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

  void raise_reference(const Tensor& row_max, Tensor& reference, Tensor& sums, Tensor& factor) const override {
    visit_head(row_max.dtype(), "raise_reference", [&]<class T>(T) {
      for (std::int64_t row = 0; row < row_max.numel(); ++row) {
        T& now = reference.as<T>()[row];
        const T most = std::max(now, row_max.as<const T>()[row]);
        const T worth = now == most ? T(1) : std::exp(now - most);
        now = most;
        sums.as<double>()[row] *= static_cast<double>(worth);
        factor.as<T>()[row] = worth;
      }
    });
  }

  void accumulate_exponentials(const Tensor& reference, const Tensor& class_scale, const Tensor& labels,
                               std::int64_t class_begin, Tensor& logits, Tensor& sums) const override {
    visit_head(logits.dtype(), "accumulate_exponentials", [&]<class T>(T) {
      const RowView view(logits.shape());
      const T* const factor = optional<T>(class_scale);
      for_each_row(view, [&](std::int64_t row) {
        T* const z = logits.as<T>() + row * view.columns;
        sums.as<double>()[row] += sum_of_exponentials<T>(
            view.columns, [z](std::int64_t i) { return z[i]; }, reference.as<const T>()[row],
            [z, factor](std::int64_t i, T term) { z[i] = factor != nullptr ? term * factor[i] : term; });
        const std::int64_t target = labels.as<const std::int64_t>()[row] - class_begin;
        if (target >= 0 && target < view.columns) z[target] = T(0);
      });
    });
  }

  void local_columns(const Tensor& labels, const ShardRange& range, Tensor& local) const override {
    for (std::int64_t row = 0; row < labels.numel(); ++row) {
      const std::int64_t column = labels.as<const std::int64_t>()[row] - range.begin;
      local.as<std::int64_t>()[row] = column >= 0 && column < range.size ? column : 0;
    }
  }

  void fused_gradient(const MarginConfig& margin, double loss_scale, const Tensor& labels, const ShardRange& range,
                      const Tensor& reference, const Tensor& log_sums, const Tensor& target_logit,
                      const Tensor& target_slope, const Tensor& target_rows, const Tensor& target_scale,
                      Tensor& weighted) const override {
    visit_head(weighted.dtype(), "fused_gradient", [&]<class T>(T) {
      const RowView view(weighted.shape());
      const auto scale = static_cast<T>(margin.scale * loss_scale);
      for_each_row(view, [&](std::int64_t row) {
        T* const gradient = weighted.as<T>() + row * view.columns;
        const T log_sum = log_sums.as<const T>()[row];
        const T share = scale * std::exp(reference.as<const T>()[row] - log_sum);
        for (std::int64_t i = 0; i < view.columns; ++i) gradient[i] *= share;
        const std::int64_t target = labels.as<const std::int64_t>()[row] - range.begin;
        if (target < 0 || target >= range.size) return;
        T own = scale * std::expm1(target_logit.as<const T>()[row] - log_sum) * target_slope.as<const T>()[row];
        if (target_scale.defined()) own *= target_scale.as<const T>()[row];
        const T* const weight = target_rows.as<const T>() + row * view.columns;
        for (std::int64_t i = 0; i < view.columns; ++i) gradient[i] += own * weight[i];
      });
    });
  }

  void stashed_gradient(const MarginConfig& margin, double loss_scale, const Tensor& reference,
                        const Tensor& class_scale, const Tensor& log_sums, const Tensor& target_logit,
                        const Tensor& target_slope, const Tensor& labels, std::int64_t class_begin,
                        const Tensor& exponentials, Tensor& gradient) const override {
    visit_head(gradient.dtype(), "stashed_gradient", [&]<class T>(T) {
      const RowView view(gradient.shape());
      const auto scale = static_cast<T>(margin.scale * loss_scale);
      const T* const factor = optional<T>(class_scale);
      for_each_row(view, [&](std::int64_t row) {
        const T* const from = exponentials.as<const T>() + row * view.columns;
        T* const to = gradient.as<T>() + row * view.columns;
        const T log_sum = log_sums.as<const T>()[row];
        const T share = scale * std::exp(reference.as<const T>()[row] - log_sum);
        if (factor != nullptr)
          for (std::int64_t i = 0; i < view.columns; ++i) to[i] = from[i] * share / factor[i];
        else
          for (std::int64_t i = 0; i < view.columns; ++i) to[i] = from[i] * share;
        const std::int64_t target = labels.as<const std::int64_t>()[row] - class_begin;
        if (target >= 0 && target < view.columns)
          to[target] = scale * std::expm1(target_logit.as<const T>()[row] - log_sum) * target_slope.as<const T>()[row];
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
