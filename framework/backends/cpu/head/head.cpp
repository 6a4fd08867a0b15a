#include "framework/kernels/head.h"

#include "framework/backends/cpu/context.h"
#include "framework/backends/cpu/head/by_class.h"
#include "framework/backends/cpu/head/exponentials.h"
#include "framework/backends/cpu/head/own_class.h"
#include "framework/backends/cpu/loops/row_math.h"
#include "framework/backends/dispatch.h"

namespace heddle::cpu {

namespace {

template <class T>
double dot_of(const T* a, const T* b, std::int64_t size) {
  return stretched_sum<T>(0, size, [=](std::int64_t i) { return a[i] * b[i]; });
}

/// Columns whose maximum is taken while they are in the first-level cache.
constexpr std::int64_t stretch = 2048;

/// The logits of a row whose margin maps negatives: its buffer has cosines, and at the row's own class the logit.
template <class T>
class MappedRow {
 public:
  MappedRow(const StepMargin& margin, const HeadColumns& columns, const T* row, std::int64_t index, std::int64_t target)
      : values_(row),
        target_(target),
        scale_(static_cast<T>(margin.config.scale)),
        bias_(optional<T>(columns.bias)),
        map_(negative_map(margin.config, optional<double>(margin.running),
                          margin.parameter.defined() ? margin.parameter.as<const T>()[index] : T(0))) {}

  T logit(std::int64_t i) const {
    if (i == target_) return values_[i];
    const T z = scale_ * map_.value(values_[i]);
    return bias_ != nullptr ? z + bias_[i] : z;
  }
  T slope(std::int64_t i) const { return map_.slope(values_[i]); }

 private:
  const T* values_;
  std::int64_t target_;
  T scale_;
  const T* bias_;
  NegativeMap<T> map_;
};

}  // namespace

}  // namespace heddle::cpu

namespace heddle {

template <>
void HeadKernelsOn<cpu::Context>::target_products(const HeadTargets& targets, const Tensor& rows, Tensor& products,
                                                  Tensor& radii, Tensor& best) const {
  visit_head(rows.dtype(), "target_products", [&]<class T>(T) {
    const std::int64_t width = rows.shape()[1];
    const std::int64_t centres = rows.shape()[0] == 0 ? 1 : targets.rows.shape()[0] / rows.shape()[0];
    const T* const scale = cpu::optional<T>(targets.scale);
    cpu::for_each_row(cpu::RowView(rows.shape()), [&](std::int64_t row) {
      const T* const x = rows.as<const T>() + row * width;
      const auto weight = [&](std::int64_t at) { return targets.rows.as<const T>() + at * width; };
      const bool is_here = targets.range.contains(targets.labels.as<const std::int64_t>()[row]);
      std::int64_t largest = row * centres;
      T product = T(0);
      for (std::int64_t at = row * centres; is_here && at < (row + 1) * centres; ++at) {
        const auto dot = static_cast<T>(cpu::dot_of(x, weight(at), width) * (scale != nullptr ? scale[at] : T(1)));
        if (at > row * centres && !(dot > product || dot != dot)) continue;  // a NaN wins, so that it is seen
        largest = at;
        product = dot;
      }
      products.as<T>()[row] = product;
      if (best.defined()) best.as<std::int64_t>()[row] = largest;
      if (!radii.defined()) return;
      const T* const w = weight(largest);
      radii.as<T>()[row] =
          is_here ? static_cast<T>(std::sqrt(cpu::dot_of(x, x, width) * cpu::dot_of(w, w, width))) : T(0);
    });
  });
}

template <>
void HeadKernelsOn<cpu::Context>::row_parameters(const MarginConfig& margin, const Tensor& running,
                                                 const Tensor& statistic, Tensor& parameter, Tensor& moments) const {
  visit_head(statistic.dtype(), "row_parameters", [&]<class T>(T) {
    double* const sums = moments.as<double>();
    for (std::int64_t row = 0; row < statistic.numel(); ++row) {
      const T value = statistic.as<const T>()[row];
      parameter.as<T>()[row] = row_parameter(margin, cpu::optional<double>(running), value);
      const auto observed = static_cast<double>(observed_value(margin, value));
      sums[0] += 1;
      sums[1] += observed;
      sums[2] += observed * observed;
    }
  });
}

template <>
void HeadKernelsOn<cpu::Context>::update_running(const MarginConfig& margin, const Tensor& moments,
                                                 Tensor& running) const {
  heddle::update_running(margin, moments.as<const double>(), running.as<double>());
}

template <>
void HeadKernelsOn<cpu::Context>::margin_logits(const StepMargin& margin, const HeadColumns& columns, Tensor& logits,
                                                Tensor& target_logit, Tensor& target_slope, Tensor& row_max) const {
  visit_head(logits.dtype(), "margin_logits", [&]<class T>(T) {
    const cpu::RowView view(logits.shape());
    const bool maps = has_negative_map(margin.config);
    const auto scale = static_cast<T>(margin.config.scale);
    const T* const factor = cpu::optional<T>(columns.scale);
    const T* const bias = cpu::optional<T>(columns.bias);
    cpu::for_each_row(view, [&](std::int64_t row) {
      T* const z = logits.as<T>() + row * view.columns;
      const std::int64_t target = columns.labels.as<const std::int64_t>()[row] - columns.begin;
      const bool is_here = target >= 0 && target < view.columns;
      cpu::OwnLogit<T> own;
      if (is_here) {
        own = cpu::own_logit<T>(margin, columns, row, target, z[target]);
        target_logit.as<T>()[row] = own.logit;
        target_slope.as<T>()[row] = own.slope;
      }
      const cpu::MappedRow<T> mapped(margin, columns, z, row, target);
      // The maximum of a stretch is taken while it is in the first-level cache.
      T maximum = -std::numeric_limits<T>::infinity();
      for (std::int64_t begin = 0; begin < view.columns; begin += cpu::stretch) {
        const std::int64_t end = std::min(begin + cpu::stretch, view.columns);
        const bool has_target = is_here && target >= begin && target < end;
        if (maps) {
          if (factor != nullptr)
            for (std::int64_t i = begin; i < end; ++i) z[i] *= factor[i];
          if (has_target) z[target] = own.logit;
          maximum = std::max(maximum,
                             cpu::row_maximum<T>(end - begin, [&](std::int64_t i) { return mapped.logit(begin + i); }));
          continue;
        }
        if (factor != nullptr)
          for (std::int64_t i = begin; i < end; ++i) z[i] = z[i] * factor[i] * scale;
        else
          for (std::int64_t i = begin; i < end; ++i) z[i] *= scale;
        if (bias != nullptr)
          for (std::int64_t i = begin; i < end; ++i) z[i] += bias[i];
        if (has_target) z[target] = own.logit;
        maximum =
            std::max(maximum, cpu::row_maximum<T>(end - begin, [z, begin](std::int64_t i) { return z[begin + i]; }));
      }
      row_max.as<T>()[row] = maximum;
    });
  });
}

template <>
void HeadKernelsOn<cpu::Context>::exponential_sums(const StepMargin& margin, const HeadColumns& columns,
                                                   const Tensor& logits, const Tensor& row_max, Tensor& sums) const {
  visit_head(logits.dtype(), "exponential_sums", [&]<class T>(T) {
    const cpu::RowView view(logits.shape());
    const bool maps = has_negative_map(margin.config);
    cpu::for_each_row(view, [&](std::int64_t row) {
      const T* const z = logits.as<const T>() + row * view.columns;
      const T maximum = row_max.as<const T>()[row];
      if (!maps) {
        sums.as<double>()[row] = cpu::sum_of_exponentials<T>(
            view.columns, [z](std::int64_t i) { return z[i]; }, maximum);
        return;
      }
      const cpu::MappedRow<T> mapped(margin, columns, z, row,
                                     columns.labels.as<const std::int64_t>()[row] - columns.begin);
      sums.as<double>()[row] = cpu::sum_of_exponentials<T>(
          view.columns, [&](std::int64_t i) { return mapped.logit(i); }, maximum);
    });
  });
}

template <>
void HeadKernelsOn<cpu::Context>::margin_loss(const Tensor& row_max, const Tensor& sums, const Tensor& target_logit,
                                              Tensor& log_sums, Tensor& loss) const {
  visit_head(row_max.dtype(), "margin_loss", [&]<class T>(T) {
    for (std::int64_t row = 0; row < row_max.numel(); ++row) {
      const double log_sum = row_max.as<const T>()[row] + std::log(sums.as<const double>()[row]);
      log_sums.as<T>()[row] = static_cast<T>(log_sum);
      if (loss.defined()) loss.as<T>()[row] = static_cast<T>(log_sum - target_logit.as<const T>()[row]);
    }
  });
}

template <>
void HeadKernelsOn<cpu::Context>::margin_gradient(const StepMargin& margin, const HeadColumns& columns,
                                                  const Tensor& log_sums, const Tensor& target_slope,
                                                  const LossFactors& factors, Tensor& logits) const {
  visit_head(logits.dtype(), "margin_gradient", [&]<class T>(T) {
    const cpu::RowView view(logits.shape());
    const bool maps = has_negative_map(margin.config);
    const cpu::RowFactors<T> scales(factors, margin.config.scale);
    const T* const factor = cpu::optional<T>(columns.scale);
    cpu::for_each_row(view, [&](std::int64_t row) {
      T* const z = logits.as<T>() + row * view.columns;
      const T scale = scales.at(row);
      const T log_sum = log_sums.as<const T>()[row];
      const std::int64_t target = columns.labels.as<const std::int64_t>()[row] - columns.begin;
      const bool is_here = target >= 0 && target < view.columns;
      // expm1 keeps the digits of a probability near one.
      T at_target = T(0);
      if (is_here) at_target = std::expm1(z[target] - log_sum) * scale * target_slope.as<const T>()[row];
      if (maps) {
        const cpu::MappedRow<T> mapped(margin, columns, z, row, target);
        for (std::int64_t i = 0; i < view.columns; ++i)
          z[i] =
              exponential(mapped.logit(i) - log_sum) * mapped.slope(i) * scale * (factor != nullptr ? factor[i] : T(1));
      } else if (factor != nullptr) {
        for (std::int64_t i = 0; i < view.columns; ++i) z[i] = exponential(z[i] - log_sum) * scale * factor[i];
      } else {
        for (std::int64_t i = 0; i < view.columns; ++i) z[i] = exponential(z[i] - log_sum) * scale;
      }
      if (is_here) z[target] = factor != nullptr ? at_target * factor[target] : at_target;
    });
  });
}

template <>
void HeadKernelsOn<cpu::Context>::raise_reference(const Tensor& row_max, Tensor& reference, Tensor& sums,
                                                  Tensor& factor) const {
  visit_head(row_max.dtype(), "raise_reference", [&]<class T>(T) {
    for (std::int64_t row = 0; row < row_max.numel(); ++row) {
      T& now = reference.as<T>()[row];
      const T maximum = std::max(now, row_max.as<const T>()[row]);
      const T worth = now == maximum ? T(1) : std::exp(now - maximum);
      now = maximum;
      sums.as<double>()[row] *= static_cast<double>(worth);
      factor.as<T>()[row] = worth;
    }
  });
}

template <>
void HeadKernelsOn<cpu::Context>::accumulate_exponentials(const StepMargin& margin, const HeadColumns& columns,
                                                          const Tensor& reference, Tensor& logits, Tensor& sums) const {
  visit_head(logits.dtype(), "accumulate_exponentials", [&]<class T>(T) {
    const cpu::RowView view(logits.shape());
    const bool maps = has_negative_map(margin.config);
    const T* const factor = cpu::optional<T>(columns.scale);
    cpu::for_each_row(view, [&](std::int64_t row) {
      T* const z = logits.as<T>() + row * view.columns;
      const T base = reference.as<const T>()[row];
      const std::int64_t target = columns.labels.as<const std::int64_t>()[row] - columns.begin;
      if (maps) {
        const cpu::MappedRow<T> mapped(margin, columns, z, row, target);
        sums.as<double>()[row] += cpu::sum_of_exponentials<T>(
            view.columns, [&](std::int64_t i) { return mapped.logit(i); }, base,
            [&](std::int64_t i, T term) { z[i] = term * mapped.slope(i) * (factor != nullptr ? factor[i] : T(1)); });
      } else {
        sums.as<double>()[row] += cpu::sum_of_exponentials<T>(
            view.columns, [z](std::int64_t i) { return z[i]; }, base,
            [z, factor](std::int64_t i, T term) { z[i] = factor != nullptr ? term * factor[i] : term; });
      }
      if (target >= 0 && target < view.columns) z[target] = T(0);
    });
  });
}

template <>
void HeadKernelsOn<cpu::Context>::product_exponentials(const StepMargin& margin, const HeadColumns& columns,
                                                       const Tensor& reference, Tensor& products, Tensor& target_logit,
                                                       Tensor& target_slope, Tensor& exponentials, Tensor& sums) const {
  visit_head_result(products.dtype(), exponentials.dtype(), "product_exponentials", [&]<class T, class Out>(T, Out) {
    cpu::product_exponentials<T, Out>(margin, columns, reference, products, target_logit, target_slope, exponentials,
                                      sums);
  });
}

template <>
void HeadKernelsOn<cpu::Context>::gradient_by_class(const StepMargin& margin, const HeadColumns& columns,
                                                    const Tensor& log_sums, const LossFactors& factors,
                                                    Tensor& products, Tensor& gradient) const {
  visit_head_result(products.dtype(), gradient.dtype(), "gradient_by_class", [&]<class T, class Out>(T, Out) {
    cpu::gradient_by_class<T, Out>(margin, columns, log_sums, factors, products, gradient);
  });
}

template <>
void HeadKernelsOn<cpu::Context>::local_columns(const Tensor& labels, const IndexRange& range, Tensor& local) const {
  const std::int64_t centres = labels.numel() == 0 ? 1 : local.numel() / labels.numel();
  for (std::int64_t row = 0; row < labels.numel(); ++row) {
    const std::int64_t label = labels.as<const std::int64_t>()[row];
    const std::int64_t column = range.contains(label) ? label - range.begin : 0;
    for (std::int64_t i = 0; i < centres; ++i) local.as<std::int64_t>()[row * centres + i] = column * centres + i;
  }
}

template <>
void HeadKernelsOn<cpu::Context>::fused_gradient(const MarginConfig& margin, const LossFactors& factors,
                                                 const HeadTargets& targets, const HeadSoftmax& known,
                                                 Tensor& weighted) const {
  visit_head(weighted.dtype(), "fused_gradient", [&]<class T>(T) {
    const cpu::RowView view(weighted.shape());
    const cpu::RowFactors<T> scales(factors, margin.scale);
    cpu::for_each_row(view, [&](std::int64_t row) {
      const T scale = scales.at(row);
      T* const gradient = weighted.as<T>() + row * view.columns;
      const T log_sum = known.log_sums.as<const T>()[row];
      const T share = scale * std::exp(known.reference.as<const T>()[row] - log_sum);
      for (std::int64_t i = 0; i < view.columns; ++i) gradient[i] *= share;
      const std::int64_t target = targets.labels.as<const std::int64_t>()[row] - targets.range.begin;
      if (target < 0 || target >= targets.range.size) return;
      T own =
          scale * std::expm1(known.target_logit.as<const T>()[row] - log_sum) * known.target_slope.as<const T>()[row];
      if (targets.scale.defined()) own *= targets.scale.as<const T>()[row];
      const T* const weight = targets.rows.as<const T>() + row * view.columns;
      for (std::int64_t i = 0; i < view.columns; ++i) gradient[i] += own * weight[i];
    });
  });
}

template <>
void HeadKernelsOn<cpu::Context>::stashed_gradient(const MarginConfig& margin, const HeadColumns& columns,
                                                   const LossFactors& factors, const HeadSoftmax& known,
                                                   const Tensor& exponentials, Tensor& gradient) const {
  visit_head_result(known.log_sums.dtype(), gradient.dtype(), "stashed_gradient", [&]<class T, class Out>(T, Out) {
    const cpu::RowView view(gradient.shape());
    const cpu::RowFactors<T> scales(factors, margin.scale);
    const T* const factor = cpu::optional<T>(columns.scale);
    cpu::for_each_row(view, [&](std::int64_t row) {
      const T scale = scales.at(row);
      const Out* const from = exponentials.as<const Out>() + row * view.columns;
      Out* const to = gradient.as<Out>() + row * view.columns;
      const T log_sum = known.log_sums.as<const T>()[row];
      const T share = scale * std::exp(known.reference.as<const T>()[row] - log_sum);
      if (factor != nullptr)
        for (std::int64_t i = 0; i < view.columns; ++i)
          to[i] = static_cast<Out>(static_cast<T>(from[i]) * share / factor[i]);
      else
        for (std::int64_t i = 0; i < view.columns; ++i) to[i] = static_cast<Out>(static_cast<T>(from[i]) * share);
      const std::int64_t target = columns.labels.as<const std::int64_t>()[row] - columns.begin;
      if (target >= 0 && target < view.columns)
        to[target] = static_cast<Out>(scale * std::expm1(known.target_logit.as<const T>()[row] - log_sum) *
                                      known.target_slope.as<const T>()[row]);
    });
  });
}

template <>
void HeadKernelsOn<cpu::Context>::radial_share(const StepMargin& margin, const Tensor& products, const Tensor& log_sums,
                                               const LossFactors& factors, Tensor& share) const {
  visit_head(products.dtype(), "radial_share", [&]<class T>(T) {
    const auto scale = static_cast<T>(margin.config.scale);
    const cpu::RowFactors<T> times(factors, 1);
    for (std::int64_t row = 0; row < products.numel(); ++row) {
      const T product = products.as<const T>()[row];
      const T radius = margin.parameter.as<const T>()[row];
      const T logit = scale * margin_target(margin.config, product, radius).phi;
      share.as<T>()[row] = std::expm1(logit - log_sums.as<const T>()[row]) * scale * times.at(row) *
                           radial_slope(margin.config, product, radius) * radius;
    }
  });
}

template <>
void HeadKernelsOn<cpu::Context>::add_radial(const Tensor& share, const Tensor& index, std::int64_t begin,
                                             const Tensor& rows, Tensor& gradient) const {
  visit_head(rows.dtype(), "add_radial", [&]<class T>(T) {
    const std::int64_t width = rows.shape()[1];
    for (std::int64_t i = 0; i < share.numel(); ++i) {
      const std::int64_t row = index.defined() ? index.as<const std::int64_t>()[i] - begin : i;
      if (row < 0 || row >= rows.shape()[0]) continue;
      const T* const x = rows.as<const T>() + row * width;
      const double square = cpu::dot_of(x, x, width);
      if (square == 0) continue;
      const auto part = static_cast<T>(share.as<const T>()[i] / square);
      T* const to = gradient.as<T>() + row * width;
      for (std::int64_t k = 0; k < width; ++k) to[k] += part * x[k];
    }
  });
}

}  // namespace heddle
