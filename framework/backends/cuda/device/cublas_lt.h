// cublasLt is opened when it is first called, not when the program starts.
#pragma once

namespace heddle::cuda {

/// Opens cublasLt where the program's toolkit has it. cuDNN, which asks for it by name, then finds it. InputError if it
/// is not there.
void open_cublas_lt();

}  // namespace heddle::cuda
