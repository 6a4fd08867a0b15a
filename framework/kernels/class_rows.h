// Kernels of the rows of a class table: what a rank keeps of the classes of a large head, possibly in 16 or 8 bits,
// read and stepped tile by tile while the tile is in cache. A step's results of 16 and 8 bits are rounded
// stochastically (framework/scalars/rounding.h). Arithmetic is done in the compute type: f64 for f64 weights, else f32.
#pragma once

#include <cstdint>

#include "framework/kernels/training.h"
#include "framework/tensors/tensor.h"

namespace heddle {

/// A rank's classes, c rows of d elements. State that an optimizer or its experiment does without is undefined.
struct ClassTable {
  Tensor weight{};  // [c, d]: f64, f32, bf16, f16 or i8
  Tensor scale{};  // [c] f32, of i8 weights only: a row's largest magnitude / 127, by which its integers are multiplied
  Tensor momentum{};  // [c, d]: sgd's velocity or adamw's mean; f64 beside f64 weights, else f32, bf16 or f16
  Tensor square{};    // [c, d] of the compute type: adamw's mean of squares
  Tensor taken{};     // [c] i32, of rows that may defer steps: how many of the DeferredSteps a row has taken
};

/// Sgd's steps with a gradient of zero, which a row may defer until it catches up with all of them at once: each is a
/// linear map of its weights and velocities, the same for all rows.
struct DeferredSteps {
  std::int64_t count = 0;
  /// f64 [n, 4], n >= 2 * count: products of SgdMaps (framework/scalars/sgd_map.h), where `place_of` puts them.
  Tensor maps{};
};

/// `size` rows of a table: begin .. begin + size - 1, or those that the index names.
struct ClassSelection {
  std::int64_t begin = 0;
  std::int64_t size = 0;
  Tensor index{};  // i64 [size], rows of the table, ascending where they are written; undefined: all from `begin` on
};

/// One optimizer step of some rows.
struct ClassStep {
  OptimizerStep update{};
  double bound = 0;                // each element of the gradient is first clamped into [-bound, bound]; 0: it is not
  double factor = 1;               // and then multiplied by this
  DrawKey rounding{};              // of Purpose::rounding
  std::int64_t first_element = 0;  // the global element that the table begins with
  std::int64_t row_stride = 0;     // from a row to the next in global elements; 0: rows follow each other
  std::int64_t taken = 0;          // what the stepped rows' `taken` becomes, where there is one
  ClassTable* target = nullptr;    // the rows are written there, to a table of the same tensors; null: in their place
};

/// How the rows of a new table are drawn.
struct ClassInitial {
  enum class Kind { normal, unit } kind = Kind::normal;
  double deviation = 0.01;  // of `normal`; `unit` rows are uniform in (-1, 1), then scaled to length one
};

class ClassRowKernels {
 public:
  virtual ~ClassRowKernels() = default;

  /// rows [n, d] = the n selected rows in the compute type, exact for 16-bit weights; inverse_norm [n] =
  /// 1 / max(|row|, epsilon), of the compute type, too. Either may be undefined. Rows begin .. of f32 and f64 weights
  /// can be read where they are: weight.rows(begin, begin + n).
  virtual void load(const ClassTable& table, const ClassSelection& selection, double epsilon, Tensor& rows,
                    Tensor& inverse_norm) const = 0;
  /// Steps the selected rows, and no others. `rows` are those that `load` gave, or the weight's own, or of 16-bit
  /// weights copies of these in their type. products [n, d] = U is the loss's gradient by the rows divided by their
  /// norms, and the gradient (U - (U . w) w) * inverse_norm with w = row * inverse_norm; without inverse_norm
  /// (undefined) U itself; without U zero.
  virtual void step(ClassTable& table, const ClassSelection& selection, const Tensor& rows, const Tensor& inverse_norm,
                    const Tensor& products, const ClassStep& step) const = 0;
  /// Whether `step` can write to ClassStep::target. Only on cpu.
  virtual bool can_step_into_target() const = 0;
  /// The selected rows take the steps that they have deferred, from their `taken` on. f64 weights and momentum, or f32
  /// ones; products and their application in f64, rounded once.
  virtual void catch_up(ClassTable& table, const ClassSelection& selection, const DeferredSteps& steps) const = 0;
  /// result (f64, one element) += the sum of squares of the gradient that `step` takes of the same arguments, clamped
  /// (bound > 0) but without its factor. In the order of rows: cutting them into tiles changes no bit.
  virtual void add_squared_gradient(const Tensor& rows, const Tensor& inverse_norm, const Tensor& products,
                                    double bound, Tensor& result) const = 0;
  /// Draws all rows, each element from its global index; narrow weights are rounded to nearest.
  virtual void fill(ClassTable& table, const DrawKey& key, std::int64_t first_element,
                    const ClassInitial& initial) const = 0;
};

/// The kernels of one backend, which defines each of them for its own Context (framework/backends/kernels_on.h).
template <class Context>
class ClassRowKernelsOn final : public ClassRowKernels {
 public:
  explicit ClassRowKernelsOn(Context& context) : context_(context) {}

  void load(const ClassTable& table, const ClassSelection& selection, double epsilon, Tensor& rows,
            Tensor& inverse_norm) const override;
  void step(ClassTable& table, const ClassSelection& selection, const Tensor& rows, const Tensor& inverse_norm,
            const Tensor& products, const ClassStep& step) const override;
  bool can_step_into_target() const override;
  void catch_up(ClassTable& table, const ClassSelection& selection, const DeferredSteps& steps) const override;
  void add_squared_gradient(const Tensor& rows, const Tensor& inverse_norm, const Tensor& products, double bound,
                            Tensor& result) const override;
  void fill(ClassTable& table, const DrawKey& key, std::int64_t first_element,
            const ClassInitial& initial) const override;

 private:
  Context& context_;
};

}  // namespace heddle
