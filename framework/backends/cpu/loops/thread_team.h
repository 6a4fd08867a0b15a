// The threads with which a rank computes. libgomp starts them at the first parallel region and keeps them.
#pragma once

namespace heddle::cpu {

/// Makes parallel regions of the calling thread have `threads` threads, and starts these now. OutOfMemory if the system
/// starts fewer: libgomp, where this happens to it, ends the process.
void start_thread_team(int threads);

}  // namespace heddle::cpu
