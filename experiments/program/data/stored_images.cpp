#include "experiments/program/data/stored_images.h"

#include <cstring>
#include <system_error>
#include <utility>

#include "experiments/config/study.h"
#include "experiments/data/recordio/face_records.h"
#include "experiments/training/evaluation/files/bin_file.h"
#include "experiments/training/experiment.h"
#include "framework/error.h"
#include "framework/files/atomic_file.h"

namespace heddle {

namespace {

namespace fs = std::filesystem;

class StoredFiles final : public StoredImages {
 public:
  StoredFiles(std::shared_ptr<const FileSet> files, Split split) : files_(std::move(files)), split_(split) {
    title_ = files_->title;
    classes_ = files_->classes;
    notes_ = files_->notes;
  }

  std::int64_t size() const override { return samples().size(); }
  std::int64_t label(std::int64_t i) const override { return samples().label(i); }
  std::string name(std::int64_t i) const override { return (fs::path(files_->root) / samples().path(i)).string(); }
  std::span<const std::uint8_t> encoded(std::int64_t i, std::vector<std::uint8_t>& buffer) const override {
    buffer = read_image_file(name(i));
    return buffer;
  }
  ImageHeader header(std::int64_t i) const override { return load_image_header(name(i)); }

 private:
  const SampleList& samples() const { return split_ == Split::train ? files_->train : files_->test; }

  std::shared_ptr<const FileSet> files_;
  Split split_;
};

class StoredRecords final : public StoredImages {
 public:
  explicit StoredRecords(const std::string& path)
      : records_(path, [this, &path](const std::string& message) {
          const std::size_t end = message.find(": ", path.size());
          broken_.push_back(broken_image(message.substr(0, end), message));
        }) {
    if (const std::string note = records_.index_note(); !note.empty()) notes_.push_back(note);
    title_ = fmt::format("records \"{}\"", path);
    classes_ = records_.classes();
  }

  std::int64_t size() const override { return records_.size(); }
  std::int64_t label(std::int64_t i) const override { return records_.label(i); }
  std::string name(std::int64_t i) const override { return records_.name(i); }
  std::span<const std::uint8_t> encoded(std::int64_t i, std::vector<std::uint8_t>& buffer) const override {
    return records_.image(i, buffer);
  }

 private:
  FaceRecords records_;
};

class StoredPairs final : public StoredImages {
 public:
  explicit StoredPairs(const fs::path& path) : file_(path) {
    title_ = fmt::format("verification set \"{}\"", path.string());
    std::int64_t same = 0;
    for (const Pair& pair : file_.pairs()) same += pair.same ? 1 : 0;
    notes_.push_back(fmt::format("{}: {} pairs, {} of them of one person", title_, file_.pairs().size(), same));
  }

  std::int64_t size() const override { return file_.images(); }
  std::int64_t label(std::int64_t /*i*/) const override { return -1; }
  std::string name(std::int64_t i) const override { return file_.image_name(i); }
  std::span<const std::uint8_t> encoded(std::int64_t i, std::vector<std::uint8_t>& /*buffer*/) const override {
    return file_.image(i);
  }

 private:
  BinFile file_;
};

StoredData stored_files(FileSet files) {
  const auto shared = std::make_shared<const FileSet>(std::move(files));
  StoredData data;
  data.splits.push_back({Split::train, std::make_unique<StoredFiles>(shared, Split::train)});
  if (shared->test.size() > 0) data.splits.push_back({Split::test, std::make_unique<StoredFiles>(shared, Split::test)});
  return data;
}

StoredData stored_records(const std::string& train, const std::string& test) {
  StoredData data;
  data.splits.push_back({Split::train, std::make_unique<StoredRecords>(train)});
  if (!test.empty()) data.splits.push_back({Split::test, std::make_unique<StoredRecords>(test)});
  return data;
}

StoredData stored_list(const std::string& path) {
  ImageListConfig config;
  config.train = path;
  return stored_files(list_files(config));
}

StoredData stored_folder(const StoredInput& input) {
  ImageFolderConfig config;
  config.path = input.path.string();
  if (input.people.empty()) {
    config.split = FolderSplit::share;
    config.train_share = 1;
  } else {
    config.split = FolderSplit::people;
    config.people = input.people;
  }
  return stored_files(list_files(config));
}

StoredData stored_experiment(const StoredInput& input) {
  Study<Experiment> study = read_study<Experiment>(input.path, input.sets);
  Experiment& experiment = study.variants.front().root;
  if (!experiment.further_data.empty())
    fail<InputError>(
        "{}: data: expected one data set, got a list of {}: name the images of one of them, a folder, a "
        "list or a .rec",
        input.path.string(), 1 + experiment.further_data.size());
  check(experiment.data);
  resolve_paths(experiment);
  const DataConfig& config = experiment.data;
  const auto with = [&config](StoredData data, OnBroken on_broken) {
    data.on_broken = on_broken;
    data.preprocessing = preprocessing_of(config);
    return data;
  };
  const DataSetRow& row = data_sets[config.type];
  if (row.files != nullptr) return with(stored_files(row.files(config)), row.on_broken(config));
  if (config.type == DataType::recordio)
    return with(stored_records(config.recordio.train, config.recordio.test), row.on_broken(config));
  fail<InputError>("{}: data.type: expected image_folder, image_list or recordio: {} has no files", input.path.string(),
                   data_sets[config.type].name);
}

/// The beginning of a regular file, long enough to tell formats apart.
std::string beginning_of(const fs::path& path) {
  constexpr std::uint64_t enough = 4096;
  const FileDescriptor file = FileDescriptor::open_for_reading(path);
  std::string text(std::min(file.size(), enough), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(text)));
  return text;
}

StoredData stored_file(const StoredInput& input) {
  const std::string name = input.path.string();
  const std::string beginning = beginning_of(input.path);
  if (beginning.empty()) fail<InputError>("{}: the file is empty", name);
  if (input.path.extension() == ".json") return stored_experiment(input);
  if (!input.sets.empty()) fail<InputError>("--set: expected an experiment (.json), got {}", name);
  std::uint32_t word = 0;
  std::memcpy(&word, beginning.data(), std::min(beginning.size(), sizeof word));
  if (word == record_magic || input.path.extension() == ".rec") return stored_records(name, "");
  if (input.path.extension() == ".bin") {
    StoredData data{.splits = {}, .on_broken = {}, .preprocessing = {}, .has_people = false};
    data.splits.push_back({Split::train, std::make_unique<StoredPairs>(input.path)});
    return data;
  }
  if (beginning.find('\0') == std::string::npos) return stored_list(name);
  fail<InputError>(
      "{}: unknown format: expected a folder of people, a list of images, a .rec, a .bin or an experiment "
      "(.json)",
      name);
}

}  // namespace

BrokenImage broken_image(const std::string& name, const std::string& message) {
  for (const std::string& prefix : {fmt::format("image \"{}\": ", name), name + ": "})
    if (message.starts_with(prefix)) return {name, message.substr(prefix.size())};
  return {name, message};
}

ImageHeader StoredImages::header(std::int64_t i) const {
  std::vector<std::uint8_t> buffer;
  const std::span<const std::uint8_t> bytes = encoded(i, buffer);
  return decode_image_header(bytes, bytes.size(), name(i));
}

StoredData open_stored(const StoredInput& input) {
  std::error_code error;
  const fs::file_status status = fs::status(input.path, error);
  if (status.type() == fs::file_type::not_found) fail<InputError>("{}: no such file or folder", input.path.string());
  if (!fs::is_directory(status)) {
    if (!input.people.empty())
      fail<InputError>("--people: expected a folder of people, got the file {}", input.path.string());
    return stored_file(input);
  }
  if (!input.sets.empty()) fail<InputError>("--set: expected an experiment (.json), got {}", input.path.string());
  return stored_folder(input);
}

}  // namespace heddle
