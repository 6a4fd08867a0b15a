#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "framework/tensors/host_elements.h"
#include "tests/support/devices.h"

namespace heddle::test {
namespace {

std::vector<double> counting(int count) {
  std::vector<double> values;
  for (int i = 0; i < count; ++i) values.push_back(i);
  return values;
}

TEST_CASE("Shapes and tensors print their type and dimensions") {
  Device device = make_device();
  CHECK(to_string(Shape{}) == "[]");
  CHECK(to_string(DType::bf16, {32, 512}) == "bf16[32,512]");
  CHECK(to_string(Tensor::zeros(device, {2, 0, 3}, DType::i64)) == "i64[2,0,3]");
  CHECK(to_string(Tensor()) == "none");
}

TEST_CASE("Impossible shapes are refused") {
  CHECK_THROWS_WITH_AS((Shape{1, 2, 3, 4, 5, 6, 7}), "shape: expected at most 6 dimensions, got 7", InputError);
  CHECK_THROWS_WITH_AS((Shape{2, -3}), "shape: negative dimension in [2,-3]", InputError);
  CHECK_THROWS_WITH_AS((Shape{1LL << 32, 1LL << 31}), "shape: too many elements in [4294967296,2147483648]",
                       InputError);
  CHECK_THROWS_WITH_AS((Shape{0, 1LL << 32, 1LL << 31}), "shape: too many elements in [0,4294967296,2147483648]",
                       InputError);
  CHECK(Shape{}.numel() == 1);
  CHECK(Shape{4, 0}.numel() == 0);
}

TEST_CASE("Types have names and sizes") {
  CHECK(name_of(DType::f16) == "f16");
  CHECK(size_of(DType::f16) == 2);
}

TEST_CASE("The 16-bit types round to nearest even") {
  CHECK(static_cast<float>(BFloat16(1.00390625F)) == 1.0F);       // halfway, even below
  CHECK(static_cast<float>(BFloat16(1.01171875F)) == 1.015625F);  // halfway, even above
  CHECK(std::isinf(static_cast<float>(BFloat16(3.4e38F))));
  CHECK(std::isnan(static_cast<float>(BFloat16(std::numeric_limits<float>::quiet_NaN()))));
  CHECK(static_cast<float>(Float16(1.00048828125F)) == 1.0F);
  CHECK(static_cast<float>(Float16(1e-8F)) == 0.0F);
  CHECK(static_cast<float>(Float16(65504.0F)) == 65504.0F);
  CHECK(std::isinf(static_cast<float>(Float16(65520.0F))));
}

TEST_CASE("Leading slices and reshapes share the elements") {
  Device device = make_device();
  const Tensor x = tensor(device, {4, 3}, counting(12));
  const std::int64_t before = device.meter().live().total();
  Tensor rows = x.rows(1, 3);
  const Tensor flat = rows.reshape({-1});
  CHECK(device.meter().live().total() == before);
  CHECK(rows.to_doubles() == std::vector<double>{3, 4, 5, 6, 7, 8});
  rows.fill(-1);
  CHECK(flat.to_doubles() == std::vector<double>(6, -1));
  CHECK(x.to_doubles() == std::vector<double>{0, 1, 2, -1, -1, -1, -1, -1, -1, 9, 10, 11});
  CHECK(x.rows(4, 4).numel() == 0);
  CHECK(x.reshape({2, -1, 3}).shape() == Shape{2, 2, 3});
  CHECK_FALSE(x.is_sole_owner());
}

TEST_CASE("A clone is an independent copy") {
  Device device = make_device();
  Tensor x = tensor(device, {3}, {1, 2, 3}, DType::f32);
  const Tensor copy = x.rows(1, 3).clone();
  x.fill(0);
  CHECK(copy.to_doubles() == std::vector<double>{2, 3});
  CHECK(copy.is_sole_owner());
}

TEST_CASE("Every change of the elements is counted") {
  Device device = make_device();
  Tensor x = Tensor::zeros(device, {2}, DType::f32);
  const std::uint64_t before = x.storage()->version();
  x.fill(1);
  x.copy_from(Tensor::zeros_like(x));
  const std::vector<float> values{1, 2};
  x.load_bytes(std::as_bytes(std::span(values)));
  CHECK(x.storage()->version() == before + 3);
}

TEST_CASE("A storage moves to the one that its next change was written to, and leaves its elements there") {
  Device device = make_device();
  Tensor x = tensor(device, {2}, {1, 2}, DType::f32);
  const std::int64_t charged = device.meter().live().total();
  const std::shared_ptr<Storage> next = Storage::uncharged_like(*x.storage());
  x.storage()->set_next(next);
  Tensor::view(next, 0, {2}, DType::f32).fill(5);
  CHECK(x.to_doubles() == std::vector<double>{1, 2});
  x.storage()->move_to_next();
  CHECK(x.to_doubles() == std::vector<double>{5, 5});
  CHECK(Tensor::view(next, 0, {2}, DType::f32).to_doubles() == std::vector<double>{1, 2});
  CHECK(x.storage()->next() == nullptr);
  x.storage()->move_to_next();
  CHECK(x.to_doubles() == std::vector<double>{5, 5});
  CHECK(device.meter().live().total() == charged);
  CHECK_THROWS_WITH_AS(x.storage()->set_next(Tensor::zeros(device, {3}, DType::f32).storage()),
                       "tensor: 8 bytes cannot be changed into 12", Error);
}

TEST_CASE("The first element that is not finite is found, in every type") {
  const double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Device device = make_device();
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16})
    for (const double bad : {infinity, -infinity, nan})
      for (const std::size_t place : {0U, 17U, 66U}) {
        std::vector<double> values(67, 1.5);
        const auto found = [&] {
          const Tensor x = tensor(device, {67}, values, dtype);
          std::vector<std::byte> bytes(static_cast<std::size_t>(x.bytes()));
          x.to_host_bytes(dtype, bytes);
          return first_not_finite(bytes, dtype);
        };
        CHECK_FALSE(found());
        values[place] = bad;
        REQUIRE(found());
        CHECK((std::isnan(bad) ? std::isnan(*found()) : *found() == bad));
      }
  const std::vector<std::byte> ones(8, std::byte{0xFF});
  CHECK_FALSE(first_not_finite(ones, DType::i8));
}

TEST_CASE("Shapes that do not fit are refused, with both shapes") {
  Device device = make_device();
  Tensor x = tensor(device, {2, 3}, counting(6), DType::f32);
  CHECK_THROWS_WITH_AS(x.reshape({4, 2}), "reshape: f32[2,3] cannot be seen as [4,2]", InputError);
  CHECK_THROWS_WITH_AS(x.reshape({-1, 4}), "reshape: f32[2,3] cannot be seen as [1,4]", InputError);
  CHECK_THROWS_WITH_AS(x.rows(1, 3), "rows: f32[2,3] has no rows 1 to 3", InputError);
  CHECK_THROWS_WITH_AS(x.item(), "item: expected one element, got f32[2,3]", InputError);
  CHECK_THROWS_WITH_AS(x.to_host<double>(), "tensor: f32[2,3] read as f64", InputError);
  CHECK_THROWS_WITH_AS(x.copy_from(Tensor::zeros(device, {3, 2}, DType::f32)), "copy: expected f32[2,3], got f32[3,2]",
                       InputError);
  CHECK_THROWS_WITH_AS(Tensor::from_host(device, {2}, std::vector<float>{1}), "tensor: f32[2] takes 8 bytes, got 4",
                       InputError);
}

TEST_CASE("A tensor without rows can be filled, copied, sliced and read") {
  Device device = make_device();
  Tensor x = Tensor::full(device, {0, 4}, DType::f32, 3);
  CHECK(x.clone().to_doubles().empty());
  CHECK(x.rows(0, 0).reshape({4, 0}).numel() == 0);
  CHECK(x.reshape({-1, 4}).shape() == Shape{0, 4});
}

TEST_CASE("The values from which a tensor was made may be changed at once") {
  Device device = make_device();
  constexpr std::int64_t count = (70 << 20) / 4 + 3;  // more than is copied to a GPU at once
  std::vector<float> values(count);
  for (std::int64_t i = 0; i < count; ++i) values[static_cast<std::size_t>(i)] = static_cast<float>(i % 9973);
  const Tensor x = Tensor::from_host(device, {count}, values);
  std::fill(values.begin(), values.end(), -1.0F);
  const Tensor after = Tensor::from_host(device, {3}, std::vector<float>{7, 8, 9});
  const std::vector<float> came = x.to_host<float>();
  for (std::int64_t i = 0; i < count; ++i)
    if (came[static_cast<std::size_t>(i)] != static_cast<float>(i % 9973)) FAIL("element ", i);
  CHECK(after.to_host<float>() == std::vector<float>{7, 8, 9});
}

TEST_CASE("Values come back in every type") {
  Device device = make_device();
  for (const DType dtype :
       {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32, DType::u8, DType::i8}) {
    CHECK(Tensor::full(device, {3}, dtype, 7).to_doubles() == std::vector<double>{7, 7, 7});
    CHECK(Tensor::full(device, {}, dtype, 5).item() == 5);
  }
}

}  // namespace
}  // namespace heddle::test
