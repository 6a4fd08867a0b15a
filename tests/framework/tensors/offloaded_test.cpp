#include "framework/tensors/offloaded.h"

#include <doctest/doctest.h>

#include "framework/error.h"
#include "tests/support/devices.h"

namespace heddle::test::offloaded_test {
namespace {

std::int64_t live_bytes(const Device& device, Category category = Category::activations) {
  return device.meter().live()[category];
}

/// The storages of tensors of 8 and 16 bytes, of a view of the second, and of a workspace of 32 bytes.
struct Made {
  explicit Made(Device& device) {
    StorageLog log(device);
    small = Tensor::full(device, {2}, DType::f32, 1.5);
    (void)Tensor::zeros(device, {2}, DType::f32);  // is freed at once
    large = Tensor::full(device, {2, 2}, DType::f32, -3);
    row = large.rows(1, 2);
    log.note(row.storage());
    const MemoryScope scope(device, Category::workspace);
    workspace = Tensor::full(device, {8}, DType::f32, 7);
    storages = log.take();
  }

  Tensor small;
  Tensor large;
  Tensor row;
  Tensor workspace;
  std::vector<std::weak_ptr<Storage>> storages;
};

}  // namespace

TEST_CASE("offloaded activations leave the device's meter for the host's, and come back with the same elements") {
  for (const std::string& backend : {tested_backend(), std::string("plan")}) {
    CAPTURE(backend);
    Device device = make_device(backend);
    const Made made(device);
    Offloaded offloaded(made.storages);
    CHECK(offloaded.bytes() == 24);
    CHECK(live_bytes(device) == 24);
    CHECK(device.meter().peak_offloaded() == 0);
    offloaded.offload();
    CHECK(live_bytes(device) == 0);
    CHECK(live_bytes(device, Category::workspace) == 32);
    CHECK(device.meter().peak_offloaded() == 24);
    CHECK_THROWS_WITH_AS((void)made.row.data(), "tensor: its 16 bytes are released and cannot be read", Error);
    device.backend().wait_for(offloaded.load().get());
    CHECK(live_bytes(device) == 24);
    device.meter().reset_peak();
    CHECK(device.meter().peak_offloaded() == 0);
    if (!device.has_data()) continue;
    CHECK(made.small.to_doubles() == std::vector<double>{1.5, 1.5});
    CHECK(made.row.to_doubles() == std::vector<double>{-3, -3});
    CHECK(made.workspace.to_doubles().front() == 7);
  }
}

TEST_CASE("what is dropped while it is offloaded frees the host's memory, too") {
  Device device = make_device();
  {
    const Made made(device);
    Offloaded offloaded(made.storages);
    offloaded.offload();
  }
  device.meter().reset_peak();
  CHECK(device.meter().peak_offloaded() == 0);
  CHECK(live_bytes(device) == 0);
}

TEST_CASE("moves to the host run beside what is computed meanwhile, in memory that is used again") {
  Device device = make_device();
  std::vector<std::unique_ptr<Offloaded>> moved;
  std::vector<Tensor> made;
  for (int i = 0; i < 4; ++i) {
    StorageLog log(device);
    made.push_back(Tensor::full(device, {1000}, DType::f32, i));
    auto offloaded = std::make_unique<Offloaded>(log.take());
    offloaded->offload();
    Tensor other = Tensor::full(device, {1000}, DType::f32, 100);  // where the elements were, perhaps
    if (i % 2 == 1) device.backend().wait_for(offloaded->load().get());
    other.fill(200);
    moved.push_back(std::move(offloaded));
  }
  for (std::size_t i = 0; i < made.size(); ++i) {
    device.backend().wait_for(moved[i]->load().get());
    CHECK(made[i].to_doubles() == std::vector<double>(1000, static_cast<double>(i)));
  }
}

TEST_CASE("activations that come back count in the budget, those in the host's memory do not") {
  Device device(make_backend("cpu"), 3, 60);
  const Made made(device);
  Offloaded offloaded(made.storages);
  offloaded.offload();
  const Tensor other = Tensor::zeros(device, {5}, DType::f32);  // 32 + 20 bytes, as 24 are out
  CHECK_THROWS_WITH_AS(offloaded.load(),
                       "rank 3: out of memory: asked for 16 B of activations, holds 60 B of its budget of 60 B "
                       "(parameters 0 B, gradients 0 B, optimizer 0 B, activations 28 B, workspace 32 B, communication "
                       "0 B)",
                       OutOfMemory);
}

}  // namespace heddle::test::offloaded_test
