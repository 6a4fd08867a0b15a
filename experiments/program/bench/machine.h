// Limits of this machine, measured: the rate of multiply-adds in registers and the bandwidth of memory.
#pragma once

#include <cstdint>
#include <functional>

#include "framework/tensors/dtype.h"

namespace heddle {

class Device;

/// Shortest time of one call, in seconds: one call to warm up, then at least three and as many as fit into `budget`.
double min_seconds(const std::function<void()>& call, double budget_seconds = 1.0);
/// The same for a call that only queues work on a GPU: many calls in a row, so that the time to queue them is hidden.
double min_seconds(const Device& device, const std::function<void()>& call, double budget_seconds = 1.0);

/// Floating-point operations per second in f32 with `threads` threads; one multiply-add counts as two.
double peak_flops(int threads);
/// Bytes per second that `threads` threads read and write when they copy memory far larger than the caches.
double peak_bandwidth(int threads);

/// Floating-point operations per second of the product of two square matrices on a device.
double product_rate(Device& device, DType dtype);

/// The bytes that programs can have before the system must swap; all physical memory if the system does not say.
std::int64_t available_memory();

}  // namespace heddle
