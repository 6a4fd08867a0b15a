// Enough steps to fill the table of deferred ones.
#include "tests/support/head/deferred_training.h"

namespace heddle::test::deferred {

TEST_CASE("lazy rows are dense ones to rounding after 20,000 steps at a low rate with a changing learning rate") {
  Case c;
  c.steps = 20000;  // more than a table of deferred steps holds
  c.config.sample.rate = 0.05;
  // Long weights and small gradients: two runs that differ by rounding stay together.
  c.config.initial_deviation = 1;
  c.config.margin.scale = 4;
  c.optimizer.weight_decay = 1e-4;
  const Learned exact = train(c, Unsampled::dense);
  CHECK(difference(train(c, Unsampled::lazy), exact) < 1e-11);
  CHECK(difference(train(c, Unsampled::frozen), exact) > 0.1);
  // In f32 a lazy row is rounded once for many steps.
  c.dtype = DType::f32;
  const double lazy = difference(train(c, Unsampled::lazy), exact);
  const double dense = difference(train(c, Unsampled::dense), exact);
  CHECK(lazy < 2e-5);
  CHECK(lazy < 2 * dense);
}

}  // namespace heddle::test::deferred
