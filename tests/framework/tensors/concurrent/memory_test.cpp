#include <string>

#include <doctest/doctest.h>

#include "tests/support/devices.h"

namespace heddle::test {
namespace {

TEST_CASE("Live bytes are counted by category and released with the last handle") {
  Device device = make_device();
  const Tensor activation = Tensor::zeros(device, {100}, DType::f32);
  Tensor weight;
  {
    const MemoryScope scope(device, Category::parameters);
    weight = Tensor::zeros(device, {10}, DType::f64);
    const Tensor view = weight.rows(0, 5);
    CHECK(device.meter().live()[Category::parameters] == 80);
  }
  CHECK(device.category() == Category::activations);
  CHECK(device.meter().live()[Category::activations] == 400);
  weight = Tensor();
  CHECK(device.meter().live()[Category::parameters] == 0);
  CHECK(device.meter().live().total() == 400);
}

TEST_CASE("The peak has the categories of the moment of the largest total") {
  Device device = make_device();
  const Tensor kept = Tensor::zeros(device, {10}, DType::u8);
  {
    const MemoryScope scope(device, Category::workspace);
    const Tensor scratch = Tensor::zeros(device, {50}, DType::u8);
  }
  const Tensor later = Tensor::zeros(device, {20}, DType::u8);
  CHECK(device.meter().peak()[Category::activations] == 10);
  CHECK(device.meter().peak()[Category::workspace] == 50);
  CHECK(device.meter().peak().total() == 60);
  device.meter().reset_peak();
  CHECK(device.meter().peak().total() == 30);
}

TEST_CASE("A storage changes its category with its bytes") {
  Device device = make_device();
  const Tensor x = Tensor::zeros(device, {4}, DType::f32);
  x.storage()->recategorize(Category::gradients);
  CHECK(device.meter().live()[Category::gradients] == 16);
  CHECK(device.meter().live()[Category::activations] == 0);
}

TEST_CASE("Memory that the system does not have is not part of the peak, and the error names the rank") {
  Device device = make_device();
  const Tensor held = Tensor::zeros(device, {256}, DType::f32);
  const std::string begin = "rank 0: " + std::string(tested_backend()) + ": ";
  CHECK_THROWS_WITH_AS((void)Tensor::empty(device, {std::int64_t{1} << 52}, DType::u8),
                       doctest::Contains(begin.c_str()), OutOfMemory);
  CHECK(device.meter().peak().total() == 1024);
  CHECK(device.meter().live().total() == 1024);
}

TEST_CASE("A rank that exceeds its budget gets an error with the bytes requested and held, and nothing is charged") {
  Device device(make_backend("cpu"), 3, 2048);
  const MemoryScope scope(device, Category::parameters);
  const Tensor held = Tensor::zeros(device, {1536}, DType::u8);
  const MemoryScope gradients(device, Category::gradients);
  CHECK_THROWS_WITH_AS(Tensor::zeros(device, {256, 4}, DType::f32),
                       "rank 3: out of memory: asked for 4.00 KiB of gradients, holds 1.50 KiB of its budget of "
                       "2.00 KiB (parameters 1.50 KiB, gradients 0 B, optimizer 0 B, activations 0 B, workspace 0 B, "
                       "communication 0 B)",
                       OutOfMemory);
  CHECK(device.meter().live().total() == 1536);
  CHECK(Tensor::zeros(device, {512}, DType::u8).numel() == 512);
}

TEST_CASE("Bytes are printed in binary units with two or three digits") {
  CHECK(format_bytes(0) == "0 B");
  CHECK(format_bytes(1023) == "1023 B");
  CHECK(format_bytes(1024) == "1.00 KiB");
  CHECK(format_bytes(15 * 1024 + 512) == "15.5 KiB");
  CHECK(format_bytes(300LL << 20) == "300 MiB");
  CHECK(format_bytes((3LL << 40) / 2) == "1.50 TiB");
}

}  // namespace
}  // namespace heddle::test
