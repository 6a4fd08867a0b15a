#include <doctest/doctest.h>

#include "framework/backends/cpu/linear_algebra/primitives.h"

namespace heddle::test {

TEST_CASE("bf16 is fast with AMX on any processor, and with avx512_bf16 on an AMD processor") {
  using dnnl::cpu_isa;
  for (const bool is_amd : {false, true}) {
    CHECK(cpu::is_bf16_fast(cpu_isa::avx512_core_amx, is_amd));
    CHECK(cpu::is_bf16_fast(cpu_isa::avx512_core_bf16, is_amd) == is_amd);
    CHECK_FALSE(cpu::is_bf16_fast(cpu_isa::avx512_core_vnni, is_amd));
    CHECK_FALSE(cpu::is_bf16_fast(cpu_isa::avx2, is_amd));
  }
}

TEST_CASE("oneDNN is not asked for products whose sides need more than 32 bits") {
  const cpu::OneDnn onednn(1);
  cpu::GemmPrimitives primitives(onednn);
  CHECK(primitives.find({.m = 1, .n = 8, .k = 64, .transpose_b = true}, cpu::gemm_f32) != nullptr);
  CHECK(primitives.find({.m = 1, .n = 8, .k = std::int64_t{1} << 36, .transpose_b = true}, cpu::gemm_f32) == nullptr);
}

}  // namespace heddle::test
