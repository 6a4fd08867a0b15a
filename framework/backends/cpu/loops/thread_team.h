// The threads with which a rank computes. libgomp starts them at the first parallel region and keeps them.
#pragma once

namespace heddle::cpu {

/// Makes parallel regions of the calling thread have `threads` threads, and starts these now. OutOfMemory if the system
/// starts fewer, where libgomp would end the process. That can still happen if another process takes the threads
/// between the check and the start.
void start_thread_team(int threads);

}  // namespace heddle::cpu
