// Reads training images ahead of the network: threads decode, augment and normalise the images of the next steps into a
// ring of buffers, from which they are taken in their order. Neither the order nor the pixels depend on the threads.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "experiments/data/dataset.h"

namespace heddle {

class Describer;

struct LoaderConfig {
  std::int64_t threads = 0;   ///< per rank; 0: as many as its computing threads
  std::int64_t prefetch = 2;  ///< steps; 0: images are read when the step needs them, by the computing threads
};
void describe(Describer& d, LoaderConfig& config);

class ImageLoader {
 public:
  /// The largest size of a loader's ring in bytes, whatever the batch and the number of steps ahead. If one image is
  /// larger, the ring holds one image.
  static constexpr std::int64_t max_bytes = std::int64_t{256} << 20;

  struct Options {
    std::vector<AugmentationConfig> augmentation{AugmentationConfig{}};  ///< of each data set
    RandomKey key{};
    int threads = 1;
    std::int64_t images_ahead = 1;
  };
  /// The samples in their order, counted from 0; nothing after the last one. Several threads call it concurrently.
  using Samples = std::function<std::optional<TrainingSample>(std::int64_t number)>;

  ImageLoader(const Dataset& dataset, Samples samples, const Options& options);
  /// Ends the threads, each after the image that it is reading.
  ~ImageLoader();
  ImageLoader(const ImageLoader&) = delete;
  ImageLoader& operator=(const ImageLoader&) = delete;

  /// Waits for the next images and returns their pixels, which stay valid until `release`: at most `images` of them,
  /// and fewer where half of the ring has fewer or the ring wraps around. Rethrows what reading one of them threw.
  /// Error if the samples end before them. One thread calls both `next` and `release`.
  std::span<const float> next(std::int64_t images);
  /// Frees the buffers of the images that `next` returned for the images that follow.
  void release();

 private:
  struct Slot {
    bool is_read = false;
    std::exception_ptr error{};
  };

  void work();
  void end();
  /// Reads the image into its slot. Returns false if no image has this number.
  bool read(std::int64_t number);
  Slot& slot(std::int64_t number) { return slots_[static_cast<std::size_t>(number) % slots_.size()]; }
  /// The pixels of images that lie side by side in the ring.
  std::span<float> pixels(std::int64_t number, std::int64_t images);

  const Dataset& dataset_;
  Samples samples_;
  std::vector<AugmentationConfig> augmentation_;
  RandomKey key_;
  std::vector<float> ring_;
  std::vector<Slot> slots_;

  std::mutex lock_;
  std::condition_variable room_;   // a slot is free, or the loader ends
  std::condition_variable ready_;  // the images that `next` waits for are read
  // Images are counted from the first: those below released_ were used, those below read_ are all read, and those below
  // claimed_ were taken by a thread.
  std::int64_t claimed_ = 0;
  std::int64_t read_ = 0;
  std::int64_t released_ = 0;
  std::int64_t wanted_ = 0;                                      // `next` waits until read_ reaches it
  std::int64_t end_ = std::numeric_limits<std::int64_t>::max();  // the first number without a sample, once it is known
  bool ends_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace heddle
