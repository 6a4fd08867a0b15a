// The option `data` of an experiment, and the table of data sets. `heddle data` also knows the containers that it
// reads (experiments/program/data/stored_images.h); profiles of heads and benchmarks use synthetic_identities directly.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "experiments/data/augmentation.h"
#include "experiments/data/dataset.h"
#include "experiments/data/files/image_folder.h"
#include "experiments/data/files/image_list.h"
#include "experiments/data/image_loader.h"
#include "experiments/data/preprocessing.h"
#include "experiments/data/recordio/record_images.h"
#include "experiments/data/synthetic/synthetic_identities.h"
#include "framework/description/enum_table.h"

namespace heddle {

enum class DataType { synthetic_identities, image_folder, image_list, recordio };

struct DataConfig {
  DataType type = DataType::synthetic_identities;
  SyntheticIdentitiesConfig synthetic_identities{};
  ImageFolderConfig image_folder{};
  ImageListConfig image_list{};
  RecordImagesConfig recordio{};
  PreprocessingConfig preprocessing{};
  AugmentationConfig augmentation{};
  LoaderConfig loader{};
  std::string name{};      // of the set; several sets need one each
  std::int64_t share = 1;  // see BatchShares
};

/// A data set: how its part of the configuration is described and used.
struct DataSetRow {
  std::string_view name;  ///< the value of "type"
  std::string_view help;
  void (*describe)(Describer&, DataConfig&);
  const std::vector<std::int64_t>& (*image)(const DataConfig&);
  std::optional<std::int64_t> (*known_classes)(const DataConfig&);
  void (*check)(const DataConfig&);
  std::vector<std::string*> (*paths)(DataConfig&);  // of files and folders, some of which may be empty
  bool is_encoded;                                  // whether its images are stored encoded
  OnBroken (*on_broken)(const DataConfig&);         // what happens where an encoded image is broken
  FileSet (*files)(const DataConfig&);              // null unless each image is a file of its own
  std::unique_ptr<const Dataset> (*open)(const DataConfig&, const Preprocessing&, RandomKey seed);
};

/// Whether the configuration of a data set names files, in which its images are stored encoded.
template <class Config>
concept ReadsFiles = requires(Config config) {
  config.paths();
};

/// Whether each image of the data set is a file of its own.
template <class Config>
concept ListsFiles = requires(const Config config) {
  list_files(config);
};

/// The row of a data set whose configuration is a member of DataConfig with its own `describe`, `image`,
/// `known_classes` and `open_data`; with a `check`, if some of its keys must agree; with `paths` and `on_broken`, if it
/// reads files; and with `list_files`, if each image is a file of its own.
template <auto member>
constexpr DataSetRow data_set(std::string_view name, std::string_view help) {
  using Config = std::remove_cvref_t<decltype(std::declval<DataConfig&>().*member)>;
  FileSet (*files)(const DataConfig&) = nullptr;
  if constexpr (ListsFiles<Config>) files = [](const DataConfig& config) { return list_files(config.*member); };
  return {.name = name,
          .help = help,
          .describe = [](Describer& d, DataConfig& config) { describe(d, config.*member); },
          .image = [](const DataConfig& config) -> const std::vector<std::int64_t>& { return (config.*member).image; },
          .known_classes = [](const DataConfig& config) { return (config.*member).known_classes(); },
          .check =
              [](const DataConfig& config) {
                if constexpr (requires { check(config.*member); }) check(config.*member);
              },
          .paths =
              [](DataConfig& config) {
                if constexpr (ReadsFiles<Config>)
                  return (config.*member).paths();
                else
                  return std::vector<std::string*>();
              },
          .is_encoded = ReadsFiles<Config>,
          .on_broken =
              [](const DataConfig& config) {
                if constexpr (ReadsFiles<Config>)
                  return (config.*member).on_broken;
                else
                  return OnBroken::stop;
              },
          .files = files,
          .open = [](const DataConfig& config, const Preprocessing& preprocessing,
                     RandomKey seed) { return open_data(config.*member, preprocessing, seed); }};
}

inline constexpr auto data_sets = enum_table<DataType, DataSetRow>({
    {DataType::synthetic_identities,
     data_set<&DataConfig::synthetic_identities>(
         "synthetic_identities", "synthetic faces; each image is a function of seed, person and number")},
    {DataType::image_folder, data_set<&DataConfig::image_folder>(
                                 "image_folder", "photographs, in one folder for each person or in one for all")},
    {DataType::image_list,
     data_set<&DataConfig::image_list>("image_list", "photographs that text files list with labels")},
    {DataType::recordio,
     data_set<&DataConfig::recordio>("recordio", "a .rec of MXNet, as InsightFace packs training sets")},
});

/// The tagged union {"type": ..., ...}.
void describe(Describer& d, DataConfig& config);

/// The [channels, height, width] of the chosen data set, without opening anything.
ImageShape image_shape(const DataConfig& config);

/// How images become what the network takes. InputError if `preprocessing` and `image` do not agree.
Preprocessing preprocessing_of(const DataConfig& config);

/// Checks conditions that concern several keys, without opening anything. InputError, which names the key.
void check(const DataConfig& config);

/// The number of people in the chosen data set, where it is known without opening anything.
std::optional<std::int64_t> known_classes(const DataConfig& config);

/// The key of the random numbers of one data set among several, which determine its order and, if they are generated,
/// its people. The first set has the training's key.
RandomKey key_of_set(RandomKey key, std::size_t set);

/// Whether the images of the chosen data set are stored encoded, as Dataset::is_encoded() says of an open one.
bool is_encoded(const DataConfig& config);

/// Opens or generates the data. `seed` draws the people of generated sets. InputError if the data cannot be used.
std::unique_ptr<const Dataset> make_dataset(const DataConfig& config, RandomKey seed);

}  // namespace heddle
