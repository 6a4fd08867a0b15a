// The one place that knows oneDNN's versions: 2.x describes an operation first, 3.x does not. Included by the kernels
// that oneDNN computes and by nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <unordered_map>
#include <utility>

#include <dnnl.hpp>

#include "framework/tensors/dtype.h"

namespace heddle::cpu {

/// oneDNN's element type; `undef` if it has none (f64).
dnnl::memory::data_type onednn_type(DType dtype);
/// A strided description of `dims`: stride of each in elements.
dnnl::memory::desc strided(const dnnl::memory::dims& dims, DType dtype, const dnnl::memory::dims& strides);
/// Bytes of a buffer, rounded so that another may follow.
inline std::int64_t aligned(std::int64_t bytes) {
  return (bytes + 63) / 64 * 64;
}
/// Scratch memory is the caller's, so that it is metered.
dnnl::primitive_attr user_scratchpad();
/// result = alpha * result, as a post operation.
void append_scale(dnnl::post_ops& operations, float alpha);

/// Type that a product or convolution of `dtype` is run in, given what oneDNN found for it.
inline bool is_widened(DType dtype, bool found) {
  return !found && (dtype == DType::bf16 || dtype == DType::f16);
}

/// A hash of what a cache of primitives is looked up by.
std::size_t hash_of(std::initializer_list<std::int64_t> values);

/// OutOfMemory if the system has no memory for the code that oneDNN writes for a primitive. oneDNN does not ask whether
/// it got any, and would crash.
void require_memory_for_code();

/// An empty (false) descriptor if oneDNN has no implementation. Make the primitive at once: there is memory for its
/// code now.
template <class Primitive, class... Args>
typename Primitive::primitive_desc find_primitive(const dnnl::engine& engine, const dnnl::primitive_attr& attr,
                                                  const Args&... args) {
  require_memory_for_code();
#if DNNL_VERSION_MAJOR >= 3
  return typename Primitive::primitive_desc(engine, args..., attr, true);
#else
  return typename Primitive::primitive_desc(typename Primitive::desc(args...), attr, engine, true);
#endif
}

/// The same for a backward pass, which wants the forward's descriptor.
template <class Primitive, class Hint, class... Args>
typename Primitive::primitive_desc find_backward(const dnnl::engine& engine, const dnnl::primitive_attr& attr,
                                                 const Hint& hint, const Args&... args) {
  require_memory_for_code();
#if DNNL_VERSION_MAJOR >= 3
  return typename Primitive::primitive_desc(engine, args..., hint, attr, true);
#else
  return typename Primitive::primitive_desc(typename Primitive::desc(args...), attr, engine, hint, true);
#endif
}

/// Engine and stream of one rank. `threads` is the team's size while primitives are made and run.
class OneDnn {
 public:
  explicit OneDnn(int threads) : threads_(threads), engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {}

  int threads() const { return threads_; }
  const dnnl::engine& engine() const { return engine_; }
  dnnl::memory memory(const dnnl::memory::desc& desc, const void* data) const {
    return {desc, engine_, const_cast<void*>(data)};
  }
  /// Runs and waits.
  void run(const dnnl::primitive& primitive, const std::unordered_map<int, dnnl::memory>& arguments) const;
  void reorder(const dnnl::memory& from, const dnnl::memory& to) const;

 private:
  int threads_;
  dnnl::engine engine_;
  mutable dnnl::stream stream_;
};

}  // namespace heddle::cpu
