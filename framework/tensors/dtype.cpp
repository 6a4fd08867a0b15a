#include "framework/tensors/dtype.h"

#include <array>

namespace heddle {

namespace {
struct Row {
  std::string_view name;
  std::size_t size;
  bool floating;
};
constexpr std::array<Row, 8> rows{{{"f64", 8, true},
                                   {"f32", 4, true},
                                   {"bf16", 2, true},
                                   {"f16", 2, true},
                                   {"i64", 8, false},
                                   {"i32", 4, false},
                                   {"u8", 1, false},
                                   {"i8", 1, false}}};
const Row& row(DType dtype) {
  return rows.at(static_cast<std::size_t>(dtype));
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
  fail<InputError>("unknown dtype '{}': expected f64, f32, bf16, f16, i64, i32, u8 or i8", name);
}

}  // namespace heddle
