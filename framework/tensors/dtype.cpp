#include "framework/tensors/dtype.h"

#include "framework/description/enum_table.h"

namespace heddle {

namespace {
struct Row {
  std::string_view name;
  std::size_t size;
  bool floating;
};
constexpr auto dtypes = enum_table<DType, Row>({
    {DType::f64, {"f64", 8, true}},
    {DType::f32, {"f32", 4, true}},
    {DType::bf16, {"bf16", 2, true}},
    {DType::f16, {"f16", 2, true}},
    {DType::i64, {"i64", 8, false}},
    {DType::i32, {"i32", 4, false}},
    {DType::u8, {"u8", 1, false}},
    {DType::i8, {"i8", 1, false}},
});
}  // namespace

std::string_view name_of(DType dtype) {
  return dtypes[dtype].name;
}
std::size_t size_of(DType dtype) {
  return dtypes[dtype].size;
}
bool is_floating(DType dtype) {
  return dtypes[dtype].floating;
}

}  // namespace heddle
