#include "experiments/data/recordio/face_list.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "experiments/data/parallel_for.h"
#include "experiments/data/recordio/image_record.h"
#include "framework/error.h"

namespace heddle {
namespace {

/// Marks a record whose error is reported later, in the order of the images.
constexpr std::int32_t broken_label = -1;

std::int32_t label_of(const ImageRecord& record, const RecordName& name) {
  if (record.image.empty()) fail<InputError>("{}: there is no image in it", name.text());
  const float label = record.label();
  if (std::floor(label) != label) fail<InputError>("{}: label {} is not an integer", name.text(), label);
  if (label < 0) fail<InputError>("{}: label {} is negative", name.text(), label);
  if (label > static_cast<float>(max_face_label))
    fail<InputError>("{}: label {} is above {}, up to which 32-bit floats hold every integer", name.text(), label,
                     max_face_label);
  return static_cast<std::int32_t>(label);
}

/// Positions in the index, sorted by where their records lie in the file.
std::vector<std::size_t> by_offset(const RecordIndex& index) {
  std::vector<std::size_t> positions(index.size());
  std::iota(positions.begin(), positions.end(), std::size_t{0});
  std::sort(positions.begin(), positions.end(),
            [&](std::size_t a, std::size_t b) { return index.place(a).offset < index.place(b).offset; });
  return positions;
}

class FaceLister {
 public:
  FaceLister(const RecordFile& records, const OnBrokenRecord& on_broken) : records_(records), on_broken_(on_broken) {}

  FaceList with_index(const std::filesystem::path& path) {
    index_ = read_record_index(path, records_);
    const auto zero = index_.find(0);
    if (zero) header_ = read_header(index_.place(*zero));
    if (header_) {
      index_.sort_by_key();
      const std::uint64_t images = first_identity() - 1;
      const std::uint64_t missing = first_missing_key();
      if (missing <= images)
        fail<InputError>("{}: key {} is missing; record 0 of {} says that keys 1 to {} are images", path.string(),
                         missing, records_.path().string(), images);
      index_.keep(1, images);
    }
    const std::uint64_t unlisted = header_ ? 0 : unlisted_bytes();
    read_labels();
    drop_broken();
    return {std::move(index_), std::move(labels_), unlisted};
  }

  FaceList without_index() {
    std::optional<std::string> rest = walk();
    if (header_) {
      const std::uint64_t images = first_identity() - 1;
      const std::uint64_t found = index_.size() - 1;
      if (found < images) {
        const std::string promised = fmt::format("; record 0 says that records 1 to {} are images", images);
        if (!rest) fail<InputError>("{}: ends with record {}{}", records_.path().string(), found, promised);
        *rest += promised;
      }
      labels_.erase(labels_.begin());
      labels_.resize(std::min(found, images));
      index_.keep(1, labels_.size());
    }
    drop_broken();
    if (rest) on_broken_(*rest);
    return {.index = std::move(index_), .labels = std::move(labels_)};
  }

 private:
  ImageRecord read(RecordPlace place) {
    return parse_image_record(records_.read(place, buffer_).bytes, records_.name(place.key));
  }

  /// The key of the first identity as InsightFace's record 0 gives it; empty if the record is something else.
  std::optional<float> read_header(RecordPlace place) {
    ImageRecord record;
    try {
      record = read(place);
    } catch (const InputError&) {
      return {};  // it is reported later as a broken image
    }
    if (record.flag != 2 || !record.image.empty()) return {};
    const float first = record.label(0);
    const float end = record.label(1);
    if (!(first >= 1 && first <= end && end < 0x1p62F) || std::floor(first) != first)
      fail<InputError>("{}: expected the first key of the identities and the end of their keys, got {} and {}",
                       records_.name(place.key).text(), first, end);
    return first;
  }

  std::uint64_t first_identity() {
    return heddle::first_identity(*header_, index_.size(), [&](std::uint64_t key) {
      if (index_.key(key) != key) return false;  // keys before it are missing
      try {
        const ImageRecord record = read(index_.place(key));
        return record.flag == 2 && record.image.empty();
      } catch (const InputError&) {
        return false;
      }
    });
  }

  /// The smallest key that the sorted index does not have.
  std::uint64_t first_missing_key() const {
    std::size_t key = 0;
    while (key < index_.size() && index_.key(key) == key) ++key;
    return key;
  }

  std::uint64_t unlisted_bytes() {
    RecordPlace last;
    for (std::size_t i = 0; i < index_.size(); ++i)
      if (const RecordPlace place = index_.place(i); place.offset >= last.offset) last = place;
    try {
      return records_.size() - records_.read(last, buffer_).end;
    } catch (const InputError&) {
      return 0;  // it is reported later as a broken image
    }
  }

  void read_labels() {
    const std::vector<std::size_t> order = index_.follows_file() ? std::vector<std::size_t>{} : by_offset(index_);
    // Reading the whole file is faster than reading only the pages of the headers, unless these are far apart.
    constexpr std::uint64_t far = std::uint64_t{64} << 10;
    records_.expect(index_.size() > records_.size() / far ? MappedFile::Order::ascending : MappedFile::Order::random);
    labels_.resize(index_.size());
    constexpr std::size_t piece = 4096;
    parallel_for(static_cast<std::int64_t>((labels_.size() + piece - 1) / piece), [&](std::int64_t i) {
      const std::size_t first = static_cast<std::size_t>(i) * piece;
      std::vector<std::uint8_t> buffer;
      for (std::size_t at = first; at < std::min(first + piece, labels_.size()); ++at) {
        const std::size_t position = order.empty() ? at : order[at];
        const RecordPlace place = index_.place(position);
        labels_[position] = label_or_broken(place, [&] { return records_.read(place, buffer); });
      }
    });
  }

  /// Lists all records, and the labels of those that may be images. After a broken record no other can be found; its
  /// error is returned, or thrown if there is no `on_broken_`.
  std::optional<std::string> walk() {
    records_.expect(MappedFile::Order::ascending);
    std::uint64_t end = std::numeric_limits<std::uint64_t>::max();
    try {
      records_.walk([&](RecordPlace place, const Record& record) {
        if (place.key == 0) header_ = read_header(place);
        if (place.key == 0 && header_)
          end = static_cast<std::uint64_t>(std::nextafter(*header_, std::numeric_limits<float>::infinity())) + 1;
        index_.add(place);
        labels_.push_back(place.key < end ? label_or_broken(place, [&] { return record; }) : broken_label);
      });
    } catch (const InputError& error) {
      if (!on_broken_) throw;
      return error.what();
    }
    return {};
  }

  std::int32_t label_or_broken(RecordPlace place, const auto& read_record) const {
    try {
      const RecordName name = records_.name(place.key);
      return label_of(parse_image_record(read_record().bytes, name), name);
    } catch (const InputError&) {
      return broken_label;
    }
  }

  void drop_broken() {
    std::vector<std::size_t> dropped;
    for (std::size_t i = 0; i < labels_.size(); ++i) {
      if (labels_[i] != broken_label) continue;
      const RecordPlace place = index_.place(i);
      try {
        labels_[i] = label_of(read(place), records_.name(place.key));
      } catch (const InputError& error) {
        if (!on_broken_) throw;
        on_broken_(error.what());
        dropped.push_back(i);
      }
    }
    index_.erase(dropped);
    erase_positions(labels_, dropped);
  }

  const RecordFile& records_;
  const OnBrokenRecord& on_broken_;
  RecordIndex index_;
  std::vector<std::int32_t> labels_;
  std::optional<float> header_;  // the first identity's key in InsightFace's layout
  std::vector<std::uint8_t> buffer_;
};

}  // namespace

FaceList list_faces(const RecordFile& records, const std::optional<std::filesystem::path>& index,
                    const OnBrokenRecord& on_broken) {
  FaceLister lister(records, on_broken);
  FaceList faces = index ? lister.with_index(*index) : lister.without_index();
  faces.labels.shrink_to_fit();
  records.expect(MappedFile::Order::random);
  return faces;
}

std::uint64_t first_identity(float given, std::uint64_t records,
                             const std::function<bool(std::uint64_t key)>& is_identity) {
  const auto key = static_cast<std::uint64_t>(given);
  const auto next = static_cast<std::uint64_t>(std::nextafter(given, std::numeric_limits<float>::infinity()));
  const std::uint64_t rounded = next > key ? (next - key) / 2 : 0;
  for (std::uint64_t candidate = key - rounded; candidate < std::min(key + rounded + 1, records); ++candidate)
    if (is_identity(candidate)) return candidate;
  return key;
}

}  // namespace heddle
