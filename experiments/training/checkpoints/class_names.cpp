#include "experiments/training/checkpoints/class_names.h"

#include <fmt/format.h>

#include "experiments/data/dataset.h"
#include "framework/description/text.h"
#include "framework/error.h"
#include "framework/files/crc32c.h"

namespace heddle {

namespace {

constexpr std::uint64_t max_file_bytes = std::uint64_t{1} << 36;

/// `classes`, or of several sets `classes-NAME`.
std::string stem_of(const Experiment& experiment, std::size_t set) {
  return experiment.heads() == 1 ? "classes" : fmt::format("classes-{}", experiment.data_of(set).name);
}

std::string names_checksum(const std::string& text) {
  return fmt::format("{:08x}", crc32c(text));
}

/// A name within one line: the name of a folder may have a newline.
std::string escaped(const std::string& name) {
  std::string text;
  for (const char c : name) {
    if (c == '\\' || c == '\n') text += '\\';
    text += c == '\n' ? 'n' : c;
  }
  return text;
}

std::string unescaped(const std::string& line) {
  std::string name;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const bool is_escape = line[i] == '\\' && i + 1 < line.size();
    if (is_escape) ++i;
    name += is_escape && line[i] == 'n' ? '\n' : line[i];
  }
  return name;
}

}  // namespace

ClassNames::ClassNames(const Experiment& experiment, const Dataset& dataset) {
  for (std::size_t set = 0; set < experiment.heads(); ++set) {
    files_.push_back(stem_of(experiment, set));
    names_.push_back(dataset.set(set).class_names());
    std::string& text = texts_.emplace_back();
    for (const std::string& name : names_.back()) text += escaped(name) + "\n";
  }
}

std::string ClassNames::file_of(const Experiment& experiment, std::size_t set) {
  return stem_of(experiment, set) + ".txt";
}

void ClassNames::add_checksums(SafetensorsMetadata& metadata) const {
  for (std::size_t set = 0; set < files_.size(); ++set)
    if (!names_[set].empty()) metadata.emplace(files_[set], names_checksum(texts_[set]));
}

void ClassNames::write(const std::filesystem::path& folder) const {
  for (std::size_t set = 0; set < files_.size(); ++set)
    if (!names_[set].empty()) write_file_atomically(folder / (files_[set] + ".txt"), texts_[set]);
}

std::string ClassNames::read_text(const std::filesystem::path& folder, const SafetensorsMetadata& metadata,
                                  const Experiment& experiment, std::size_t set) {
  const std::string stem = stem_of(experiment, set);
  const auto checksum = metadata.find(stem);
  if (checksum == metadata.end()) return {};
  const std::filesystem::path path = folder / file_of(experiment, set);
  std::string text = read_file(path, max_file_bytes);
  if (names_checksum(text) != checksum->second)
    fail<InputError>("{}: is damaged: its checksum differs from the saved one", path.string());
  return text;
}

std::vector<std::string> ClassNames::of_text(const std::string& text) {
  std::vector<std::string> names;
  for (const std::string& line : lines_of(text)) names.push_back(unescaped(line));
  return names;
}

std::vector<std::string> ClassNames::read(const std::filesystem::path& folder, const SafetensorsMetadata& metadata,
                                          const Experiment& experiment, std::size_t set) {
  return of_text(read_text(folder, metadata, experiment, set));
}

}  // namespace heddle
