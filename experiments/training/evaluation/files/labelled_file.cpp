#include "experiments/training/evaluation/files/labelled_file.h"

#include <algorithm>
#include <map>
#include <set>

#include "experiments/training/evaluation/files/column_reader.h"
#include "experiments/training/evaluation/files/image_files.h"
#include "experiments/training/evaluation/protocol/identification.h"
#include "framework/description/printable.h"

namespace heddle {

namespace {

class IdentificationReader {
 public:
  explicit IdentificationReader(const std::filesystem::path& folder) : folder_(folder) {}

  void read(const std::filesystem::path& path, bool has_people) {
    ColumnReader list(path);
    // An image may be in several lists and counts in each.
    ImageFiles files(folder_);
    while (list.next()) {
      const std::vector<std::string_view>& columns = list.columns();
      if (columns.size() != (has_people ? 2 : 1))
        list.refuse("expected \"{}\", got {}", has_people ? "image person" : "image", in_quotes(list.line()));
      if (!files.number_of(columns[0])) list.refuse("there is no file {}", files.path_of(columns[0]));
      set_.labels.push_back(has_people ? label_of(columns[1]) : distractor);
      set_.files.push_back((folder_ / columns[0]).string());
    }
  }

  void end_gallery() { set_.gallery = static_cast<std::int64_t>(set_.files.size()); }

  IdentificationSet take() { return std::move(set_); }

 private:
  std::int64_t label_of(std::string_view person) {
    return people_.try_emplace(std::string(person), static_cast<std::int64_t>(people_.size())).first->second;
  }

  std::filesystem::path folder_;
  IdentificationSet set_;
  std::map<std::string, std::int64_t> people_;
};

}  // namespace

IdentificationSet read_identification_set(const std::filesystem::path& gallery, const std::filesystem::path& probes,
                                          const std::filesystem::path& distractors,
                                          const std::filesystem::path& folder) {
  IdentificationReader reader(folder);
  reader.read(gallery, true);
  if (!distractors.empty()) reader.read(distractors, false);
  reader.end_gallery();
  reader.read(probes, true);
  IdentificationSet set = reader.take();
  const auto first_probe = set.labels.begin() + set.gallery;
  const std::set<std::int64_t> people(set.labels.begin(), first_probe);
  if (std::none_of(first_probe, set.labels.end(), [&](std::int64_t label) { return people.contains(label); }))
    fail<InputError>("{}: none of {} probes shows a person in {}", probes.string(), set.labels.end() - first_probe,
                     gallery.string());
  return set;
}

}  // namespace heddle
