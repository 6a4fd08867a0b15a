#include <thread>

#include <doctest/doctest.h>

#include "experiments/data/recordio/face_records.h"
#include "tests/experiments/data/recordio/record_samples.h"

namespace heddle::test {

TEST_CASE("recordio: threads that read one file get the same images while its memory is given back") {
  const Scratch folder;
  constexpr std::uint64_t images = 3000;
  std::vector<KeyedPayload> records;
  for (std::uint64_t i = 0; i < images; ++i) {
    Bytes image = bytes_of_number(i);
    if (i % 100 == 0) append(image, bytes_of_number(record_magic));
    records.push_back({i, pack_image_record(static_cast<float>(i % 7), i, image)});
  }
  write_records(folder / "a.rec", records);
  const FaceRecords faces(folder / "a.rec");
  std::vector<std::uint64_t> right(4);
  std::vector<std::thread> readers;
  for (std::uint64_t& mine : right)
    readers.emplace_back([&mine, &faces] {
      std::vector<std::uint8_t> buffer;
      for (std::uint64_t step = 0; step < 3 * images; ++step) {
        const std::uint64_t i = step * 7919 % images;
        const auto image = faces.image(static_cast<std::int64_t>(i), buffer);
        const Bytes number = bytes_of_number(i);
        mine += std::equal(number.begin(), number.end(), image.begin()) ? 1U : 0U;
      }
    });
  for (std::thread& reader : readers) reader.join();
  CHECK(right == std::vector<std::uint64_t>(4, 3 * images));  // 2.4 GB are counted, of which 256 MB may stay
}

}  // namespace heddle::test
