// The part of cublasLt that the cuda backend uses, on a machine without a GPU.
#pragma once

#include <cstddef>

std::size_t cublasLtGetVersion();
