#include "framework/tensors/derived.h"

#include <algorithm>
#include <vector>

#include "framework/tensors/device.h"

namespace heddle {

namespace {

class SourceKey {
 public:
  void add(std::int64_t value) {
    key_ = (key_ ^ static_cast<std::uint64_t>(value)) * 0x9E3779B97F4A7C15;
    key_ ^= key_ >> 31;
  }
  std::uint64_t value() const { return key_; }

 private:
  std::uint64_t key_ = 0;
};

}  // namespace

Tensor derived_from(const Tensor& x, std::initializer_list<std::int64_t> what, std::int64_t bytes,
                    const std::function<void(Tensor&)>& make) {
  constexpr std::size_t kept = 4;  // if there are layouts for many batch sizes, the latest ones
  Storage& storage = *x.storage();
  std::vector<Storage::Derived>& all = storage.derived();
  SourceKey key;
  for (const std::int64_t value : what) key.add(value);
  key.add(x.byte_offset());
  for (const std::int64_t size : x.shape().dimensions()) key.add(size);
  auto place =
      std::find_if(all.begin(), all.end(), [&](const Storage::Derived& derived) { return derived.key == key.value(); });
  const bool is_fresh = place != all.end() && place->version == storage.version();
  if (place == all.end()) {
    if (all.size() >= kept) all.erase(all.begin());
    const MemoryScope scope(x.device(), Category::workspace);
    // Its version is stale until it is filled.
    place = all.insert(all.end(), {key.value(), storage.version() - 1, std::make_shared<Storage>(x.device(), bytes)});
  }
  Tensor derived = Tensor::view(place->storage, 0, {bytes}, DType::u8);
  if (is_fresh) return derived;
  make(derived);
  derived.storage()->changed();
  place->version = storage.version();
  return derived;
}

}  // namespace heddle
