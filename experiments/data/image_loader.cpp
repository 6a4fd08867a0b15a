#include "experiments/data/image_loader.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include <sched.h>
#include <unistd.h>

#include "framework/description/describe.h"
#include "framework/error.h"

namespace heddle {
namespace {

/// With a virtual clock, the thread of a rank is bound to one core, and the threads that it creates inherit this. A
/// loader's thread may run on all cores that the program has.
void unbind_thread() {
  cpu_set_t cores;
  if (sched_getaffinity(getpid(), sizeof(cores), &cores) == 0) (void)sched_setaffinity(0, sizeof(cores), &cores);
}

std::int64_t slots_of(std::int64_t images_ahead, std::int64_t image_floats) {
  const std::int64_t room = ImageLoader::max_bytes / (image_floats * static_cast<std::int64_t>(sizeof(float)));
  return std::max<std::int64_t>(1, std::min(images_ahead, room));
}

}  // namespace

void describe(Describer& d, LoaderConfig& c) {
  d.field("threads", c.threads, between(0, 1024),
          "threads of each rank that read and augment images ahead of the step; 0: as many as it computes with");
  d.field("prefetch", c.prefetch, between(0, 1024),
          "steps whose images are read ahead, within 256 MiB for each rank; 0: none, the computing threads read the "
          "images when the step needs them");
}

ImageLoader::ImageLoader(const Dataset& dataset, Samples samples, const Options& options)
    : dataset_(dataset), samples_(std::move(samples)), augmentation_(options.augmentation), key_(options.key) {
  slots_.resize(static_cast<std::size_t>(slots_of(options.images_ahead, dataset.image().size())));
  ring_.resize(slots_.size() * static_cast<std::size_t>(dataset.image().size()));
  threads_.reserve(static_cast<std::size_t>(options.threads));
  try {
    for (int i = 0; i < options.threads; ++i) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error& error) {
    const std::size_t begun = threads_.size();
    end();
    fail("data.loader.threads: the system gave {} of {} threads: {}", begun, options.threads, error.what());
  }
}

ImageLoader::~ImageLoader() {
  end();
}

void ImageLoader::end() {
  {
    const std::scoped_lock guard(lock_);
    ends_ = true;
  }
  room_.notify_all();
  threads_.clear();  // joins them
}

std::span<float> ImageLoader::pixels(std::int64_t number, std::int64_t images) {
  const auto size = static_cast<std::size_t>(dataset_.image().size());
  return std::span(ring_).subspan(static_cast<std::size_t>(number) % slots_.size() * size,
                                  static_cast<std::size_t>(images) * size);
}

bool ImageLoader::read(std::int64_t number) {
  Slot& target = slot(number);
  try {
    const std::optional<TrainingSample> sample = samples_(number);
    if (!sample) return false;
    read_training_image(dataset_, *sample, augmentation_, key_, pixels(number, 1));
  } catch (...) {
    target.error = std::current_exception();
  }
  return true;
}

void ImageLoader::work() {
  unbind_thread();
  std::unique_lock guard(lock_);
  while (true) {
    room_.wait(guard, [&] { return ends_ || claimed_ < released_ + static_cast<std::int64_t>(slots_.size()); });
    if (ends_) return;
    const std::int64_t number = claimed_++;
    guard.unlock();
    const bool is_sample = read(number);
    guard.lock();
    slot(number).is_read = is_sample;
    if (!is_sample) end_ = std::min(end_, number);
    while (read_ < claimed_ && slot(read_).is_read) ++read_;
    if (read_ >= std::min(wanted_, end_)) ready_.notify_one();
    if (!is_sample) return;
  }
}

std::span<const float> ImageLoader::next(std::int64_t images) {
  const auto slots = static_cast<std::int64_t>(slots_.size());
  const std::int64_t first = released_;
  // Half of the ring is filled while the other half is used.
  const std::int64_t count = std::min({images, std::max<std::int64_t>(1, slots / 2), slots - first % slots});
  std::unique_lock guard(lock_);
  wanted_ = first + count;
  ready_.wait(guard, [&] { return read_ >= std::min(wanted_, end_); });
  if (wanted_ > end_) fail("the loader's samples end after {}, expected {}", end_, wanted_);
  for (std::int64_t i = first; i < wanted_; ++i)
    if (slot(i).error) std::rethrow_exception(slot(i).error);
  return pixels(first, count);
}

void ImageLoader::release() {
  {
    const std::scoped_lock guard(lock_);
    for (; released_ < wanted_; ++released_) slot(released_) = {};
  }
  room_.notify_all();
}

}  // namespace heddle
