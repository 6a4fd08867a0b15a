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

}  // namespace heddle::test
