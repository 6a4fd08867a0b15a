// What the cpu backend's kernels of one rank share: the size of its thread team, and oneDNN with what it has made so
// far.
#pragma once

#include <memory>

namespace heddle::cpu {

class ConvolutionPrimitives;
class GemmPrimitives;
class OneDnn;

/// Only the kernels that oneDNN computes include its headers. Not thread-safe.
class Context {
 public:
  /// `winograd`: whether convolutions use it where it fits.
  Context(int threads, bool winograd);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  int threads() const { return threads_; }
  const OneDnn& onednn() const { return *onednn_; }
  GemmPrimitives& gemms() { return *gemms_; }
  ConvolutionPrimitives& convolutions() { return *convolutions_; }
  /// The seconds spent in matrix products so far.
  double& product_seconds() { return product_seconds_; }

 private:
  int threads_;
  std::unique_ptr<const OneDnn> onednn_;
  std::unique_ptr<GemmPrimitives> gemms_;
  std::unique_ptr<ConvolutionPrimitives> convolutions_;
  double product_seconds_ = 0;
};

}  // namespace heddle::cpu
