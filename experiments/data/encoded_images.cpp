#include "experiments/data/encoded_images.h"

#include <algorithm>

#include "framework/description/describe.h"
#include "framework/error.h"

namespace heddle {

void describe_on_broken(Describer& d, OnBroken& on_broken) {
  choice(d, "on_broken", on_broken,
         "what happens to a broken image: it ends the run (stop), or is left out or, if it is found during training, "
         "replaced by another image of the same person (skip)");
}

void EncodedImages::read_sound(Split split, std::int64_t index, std::span<float> pixels) const {
  std::vector<std::uint8_t> buffer;
  preprocessing().resize(encoded(split, index, buffer), sample_name(split, index), pixels);
}

void EncodedImages::read(Split split, std::int64_t index, std::span<float> pixels) const {
  if (on_broken_ == OnBroken::stop) return read_sound(split, index, pixels);
  try {
    read_sound(split, index, pixels);
  } catch (const InputError& error) {
    read_substitute({split, index}, error.what(), pixels);
  }
}

void EncodedImages::read_substitute(const Sample& sample, const std::string& reason, std::span<float> pixels) const {
  const auto [split, index] = sample;
  std::unique_lock guard(lock_);
  const auto known = substitutes_.find(sample);
  std::optional<std::int64_t> substitute;
  if (known == substitutes_.end()) {
    check_share_of_broken(broken_[split] + 1, size(split), reason);
    substitute = next_sound(sample, pixels);
    substitutes_.emplace(sample, substitute);
    ++broken_[split];
    if (substitutes_.size() <= max_named)
      notes_.push_back(
          fmt::format("{}; {} in its place", reason,
                      substitute ? fmt::format("\"{}\"", sample_name(split, *substitute)) : "a gray image"));
  } else {
    substitute = known->second;
    guard.unlock();
    if (substitute) read_sound(split, *substitute, pixels);
  }
  if (!substitute) std::fill(pixels.begin(), pixels.end(), 0.0F);
}

std::optional<std::int64_t> EncodedImages::next_sound(const Sample& sample, std::span<float> pixels) const {
  const auto [split, index] = sample;
  const std::int64_t images = size(split);
  const std::int64_t person = label(split, index);
  for (std::int64_t step = 1; step < images; ++step) {
    const std::int64_t other = (index + step) % images;
    if (label(split, other) != person) continue;
    try {
      read_sound(split, other, pixels);
      return other;
    } catch (const InputError&) {  // it gets a note of its own when its turn comes
    }
  }
  return {};
}

std::vector<std::string> EncodedImages::notes(std::size_t first) const {
  const std::scoped_lock guard(lock_);
  return {notes_.begin() + static_cast<std::ptrdiff_t>(std::min(first, notes_.size())), notes_.end()};
}

std::int64_t EncodedImages::broken_images() const {
  const std::scoped_lock guard(lock_);
  return static_cast<std::int64_t>(substitutes_.size());
}

void EncodedImages::add_note(std::string note) const {
  const std::scoped_lock guard(lock_);
  notes_.push_back(std::move(note));
}

void check_share_of_broken(std::int64_t broken, std::int64_t images, std::string_view example) {
  if (broken > 1 && broken * 10 > images)
    fail<InputError>("data: {} of {} images cannot be used, more than a tenth, and are not skipped; one is {}", broken,
                     images, example);
}

}  // namespace heddle
