// Marks a scalar function that CPU and CUDA kernels share; the attribute exists only for CUDA's compiler.
#pragma once

#ifdef __CUDACC__
#define HEDDLE_HOST_DEVICE __host__ __device__
#else
#define HEDDLE_HOST_DEVICE
#endif
