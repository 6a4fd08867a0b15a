// Products of f32 on AMX's tiles (tile_kernels.h), where one operand has few rows or columns: the embeddings of a batch
// beside a tile of classes, or a linear layer of a transformer. The smaller operand is packed as a whole, and the other
// one panel by panel as it is multiplied. Measured beside oneDNN with AVX-512 (docs/measurements.md).
#pragma once

#include <cstddef>
#include <cstdint>

#include "framework/backends/cpu/linear_algebra/primitives.h"

namespace heddle::cpu {

/// Whether this process may use AMX: the processor has it, the system grants it, and ONEDNN_MAX_CPU_ISA does not
/// switch it off.
bool has_tiles();

/// Whether a product is faster on tiles. It depends on the shape, the types and the processor alone.
bool is_faster_on_tiles(const GemmShape& shape, GemmTypes types);

/// Bytes of workspace.
std::int64_t tile_needs(const GemmShape& shape);

/// c = op(a) * op(b) + beta * c; b is packed if the shape says so. No bit depends on the number
/// of threads. `workspace` and a packed b are aligned to 64 bytes.
void tile_product(int threads, const GemmShape& shape, const float* a, const void* b, float* c, std::byte* workspace);

/// Bytes of a right operand [k, n] that is packed for tiles.
std::int64_t packed_tile_bytes(std::int64_t n, std::int64_t k);

/// Packs op(b), [k, n].
void pack_for_tiles(int threads, const float* b, bool transpose_b, std::int64_t n, std::int64_t k, std::byte* packed);

}  // namespace heddle::cpu
