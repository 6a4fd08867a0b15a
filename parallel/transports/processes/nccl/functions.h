// NCCL's functions. The library is opened when the first object is made: a program that is linked to it takes 200 MB
// more, whatever its transport. Internal to the binding.
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>

#include <dlfcn.h>
#include <nccl.h>

#include "framework/error.h"
#include "parallel/transports/processes/element_path.h"

namespace heddle {

struct NcclFunctions {
  static constexpr const char* library_name = "libnccl.so.2";

  /// InputError if the library is not there, or lacks one of the functions.
  NcclFunctions() {
    // With one address for all communicators, each could connect to ranks of another; their ids are sent in control
    // messages instead.
    ::unsetenv("NCCL_COMM_ID");
    // Rings and trees would be connected by the first collective, when kernels may be under way: see channels.h.
    ::setenv("NCCL_RUNTIME_CONNECT", "0", 0);
    void* const library = open_library();
    const auto find = [&]<class Function>(Function*& function, const char* symbol) {
      function = reinterpret_cast<Function*>(dlsym(library, symbol));
      if (function == nullptr) fail<InputError>("transport nccl: {} lacks {}", library_name, symbol);
    };
    find(get_unique_id, "ncclGetUniqueId");
    find(comm_init_rank_config, "ncclCommInitRankConfig");
    find(comm_get_async_error, "ncclCommGetAsyncError");
    find(comm_finalize, "ncclCommFinalize");
    find(comm_destroy, "ncclCommDestroy");
    find(comm_abort, "ncclCommAbort");
    find(get_error_string, "ncclGetErrorString");
    find(get_last_error, "ncclGetLastError");
    find(group_start, "ncclGroupStart");
    find(group_end, "ncclGroupEnd");
    find(send, "ncclSend");
    find(recv, "ncclRecv");
    find(all_gather, "ncclAllGather");
    find(broadcast, "ncclBroadcast");
  }

  /// The first library that is found: on the system's path, or beside the one that CMake has found. InputError with the
  /// reasons if there is none.
  static void* open_library() {
    std::string why;
    for (const std::string& file : {std::string(library_name), std::string(HEDDLE_NCCL_LIBRARIES "/") + library_name}) {
      if (void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL); library != nullptr) return library;
      why += fmt::format("{}{}", why.empty() ? "" : "; ", dlerror());
    }
    fail<InputError>("transport nccl: {}", why);
  }

  /// Throws ElementsLost if the call failed; `comm` is its communicator, if there is one.
  void check(ncclResult_t result, std::string_view call, ncclComm_t comm = nullptr) const {
    if (result == ncclSuccess || result == ncclInProgress) return;
    const char* const last = get_last_error(comm);
    fail<ElementsLost>("{}: {}{}{}", call, get_error_string(result), last[0] == '\0' ? "" : ": ", last);
  }

  decltype(&ncclGetUniqueId) get_unique_id;
  decltype(&ncclCommInitRankConfig) comm_init_rank_config;
  decltype(&ncclCommGetAsyncError) comm_get_async_error;
  decltype(&ncclCommFinalize) comm_finalize;
  decltype(&ncclCommDestroy) comm_destroy;
  decltype(&ncclCommAbort) comm_abort;
  decltype(&ncclGetErrorString) get_error_string;
  decltype(&ncclGetLastError) get_last_error;
  decltype(&ncclGroupStart) group_start;
  decltype(&ncclGroupEnd) group_end;
  decltype(&ncclSend) send;
  decltype(&ncclRecv) recv;
  decltype(&ncclAllGather) all_gather;
  decltype(&ncclBroadcast) broadcast;
};

}  // namespace heddle
