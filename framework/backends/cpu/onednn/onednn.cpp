#include "framework/backends/cpu/onednn/onednn.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include "framework/backends/backend.h"
#include "framework/backends/cpu/loops/parallel.h"
#include "framework/error.h"

namespace heddle {

namespace cpu {

dnnl::memory::data_type onednn_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return dnnl::memory::data_type::f32;
    case DType::bf16:
      return dnnl::memory::data_type::bf16;
    case DType::f16:
      return dnnl::memory::data_type::f16;
    default:
      return dnnl::memory::data_type::undef;
  }
}

dnnl::memory::desc strided(const dnnl::memory::dims& dims, DType dtype, const dnnl::memory::dims& strides) {
  return {dims, onednn_type(dtype), strides};
}

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

void append_scale(dnnl::post_ops& operations, float alpha) {
#if DNNL_VERSION_MAJOR >= 3
  operations.append_eltwise(dnnl::algorithm::eltwise_linear, alpha, 0);
#else
  operations.append_eltwise(1, dnnl::algorithm::eltwise_linear, alpha, 0);
#endif
}

std::size_t hash_of(std::initializer_list<std::int64_t> values) {
  std::uint64_t hash = 0x9E3779B97F4A7C15;
  for (const std::int64_t value : values) {
    hash = (hash ^ static_cast<std::uint64_t>(value)) * 0xBF58476D1CE4E5B9;
    hash ^= hash >> 29;
  }
  return hash;
}

void require_memory_for_code() {
  constexpr std::size_t bytes = std::size_t{16} << 20;  // several times what the code of any primitive takes
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    fail<OutOfMemory>(
        "cpu: out of memory: the system has none for oneDNN's code, perhaps because of a limit (ulimit -v)");
  munmap(memory, bytes);
}

void OneDnn::run(const dnnl::primitive& primitive, const std::unordered_map<int, dnnl::memory>& arguments) const {
  const ThreadTeam team(threads_);
  primitive.execute(stream_, arguments);
  stream_.wait();
}

void OneDnn::reorder(const dnnl::memory& from, const dnnl::memory& to) const {
  const ThreadTeam team(threads_);
  dnnl::reorder(from, to).execute(stream_, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
  stream_.wait();
}

}  // namespace cpu

std::vector<std::pair<std::string, std::string>> cpu_versions() {
  const dnnl_version_t& version = *dnnl_version();
  const auto instructions = [] {
    switch (dnnl::get_effective_cpu_isa()) {
      case dnnl::cpu_isa::avx512_core_amx:
        return "avx512_core_amx";
      case dnnl::cpu_isa::avx512_core_bf16:
        return "avx512_core_bf16";
      case dnnl::cpu_isa::avx512_core_vnni:
        return "avx512_core_vnni";
      case dnnl::cpu_isa::avx512_core:
        return "avx512_core";
      case dnnl::cpu_isa::avx2_vnni:
        return "avx2_vnni";
      case dnnl::cpu_isa::avx2:
        return "avx2";
      default:
        return "older than avx2";
    }
  };
  return {{"onednn", fmt::format("{}.{}.{}", version.major, version.minor, version.patch)},
          {"onednn_instructions", instructions()}};
}

}  // namespace heddle
