#include "framework/dtype.h"

#include <array>

namespace heddle {

namespace {
struct Row {
  std::string_view name;
  std::size_t size;
  bool floating;
};
constexpr std::array<Row, 7> rows{{{"f64", 8, true},
                                   {"f32", 4, true},
                                   {"bf16", 2, true},
                                   {"f16", 2, true},
                                   {"i64", 8, false},
                                   {"i32", 4, false},
                                   {"u8", 1, false}}};
const Row& row(DType dtype) {
  return rows[static_cast<std::size_t>(dtype)];
}
}  // namespace

std::string_view name_of(DType dtype) {
  return row(dtype).name;
}
std::size_t size_of(DType dtype) {
  return row(dtype).size;
}
bool is_floating(DType dtype) {
  return row(dtype).floating;
}

DType dtype_from_name(std::string_view name) {
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i].name == name) return static_cast<DType>(i);
  fail<InputError>("unknown dtype '{}': expected f64, f32, bf16, f16, i64, i32 or u8", name);
}

// _Float16 converts in hardware where there is F16C and in software elsewhere, both rounding to nearest even.
Float16::Float16(float value) : bits(std::bit_cast<std::uint16_t>(static_cast<_Float16>(value))) {}
Float16::operator float() const {
  return static_cast<float>(std::bit_cast<_Float16>(bits));
}

}  // namespace heddle
