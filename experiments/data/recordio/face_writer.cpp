#include "experiments/data/recordio/face_writer.h"

#include <array>
#include <optional>
#include <system_error>

#include "experiments/data/recordio/image_record.h"
#include "framework/error.h"
#include "framework/files/atomic_file.h"

namespace heddle {
namespace {

/// Two keys, as record 0 and the identities' records hold them.
std::vector<std::uint8_t> keys_record(std::uint64_t begin, std::uint64_t end, std::uint64_t id) {
  const std::array<float, 2> keys{static_cast<float>(begin), static_cast<float>(end)};
  return pack_image_record(keys, id, {});
}

}  // namespace

FaceWriter::FaceWriter(const std::filesystem::path& path, RecordLayout layout)
    : path_(path), layout_(layout), records_(path) {
  if (layout_ == RecordLayout::identities) write(0, keys_record(0, 0, 0));  // the keys follow
}

void FaceWriter::write(std::uint64_t key, std::span<const std::uint8_t> payload) {
  index_.add({.offset = records_.write(payload), .key = key});
}

void FaceWriter::add(std::int64_t label, std::span<const std::uint8_t> image) {
  if (label > max_face_label)
    fail<InputError>("{}: label {} is above {}, up to which 32-bit floats hold every integer", path_.string(), label,
                     max_face_label);
  const std::uint64_t key = static_cast<std::uint64_t>(images_) + (layout_ == RecordLayout::identities ? 1 : 0);
  write(key, pack_image_record(static_cast<float>(label), key, image));
  ++images_;
  if (layout_ == RecordLayout::plain) return;
  if (label == last_label_)
    ++runs_.back().end;
  else
    runs_.push_back({.begin = key, .end = key + 1});
  last_label_ = label;
}

void FaceWriter::write_identities() {
  const std::uint64_t first = static_cast<std::uint64_t>(images_) + 1;
  std::uint64_t key = first;
  for (const Run& run : runs_) {
    write(key, keys_record(run.begin, run.end, key));
    ++key;
  }
  records_.rewrite(index_.place(0).offset, keys_record(first, key, 0));
}

void FaceWriter::commit(const std::optional<FaceProperty>& property) {
  if (layout_ == RecordLayout::identities) write_identities();
  const std::filesystem::path index_path = std::filesystem::path(path_).replace_extension(".idx");
  AtomicFile index(index_path);
  write_record_index(index, index_);
  std::optional<AtomicFile> property_file;
  if (property) {
    property_file.emplace(path_.parent_path() / "property");
    property_file->write(fmt::format("{},{},{}", property->classes, property->height, property->width));
    property_file->finish();
  }
  index.finish();
  records_.finish();
  records_.commit();
  bool has_index = false;
  try {
    index.commit();
    has_index = true;
    if (property_file) property_file->commit();
  } catch (...) {  // a .rec with the index of another must not stay
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
    if (has_index) std::filesystem::remove(index_path, ignored);
    throw;
  }
}

}  // namespace heddle
