#include "tests/fuzz/formats.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "experiments/config/study.h"
#include "experiments/data/files/class_weights.h"
#include "experiments/data/files/image_list.h"
#include "experiments/data/files/people_list.h"
#include "experiments/data/image.h"
#include "experiments/data/recordio/face_records.h"
#include "experiments/export/npy.h"
#include "experiments/import/weights_source.h"
#include "experiments/program/bench/bench.h"
#include "experiments/program/commands/compare/compared_run.h"
#include "experiments/program/commands/search/recorded_threshold.h"
#include "experiments/program/reproduce/claims.h"
#include "experiments/program/schedule/results_pictures.h"
#include "experiments/results/results_folder.h"
#include "experiments/training/checkpoints/checkpoint_files.h"
#include "experiments/training/evaluation/files/bin_file.h"
#include "experiments/training/evaluation/files/labelled_file.h"
#include "experiments/training/evaluation/files/pair_file.h"
#include "experiments/training/evaluation/files/template_file.h"
#include "experiments/training/experiment.h"
#include "framework/error.h"
#include "framework/files/zip_file.h"
#include "parallel/pipeline/schedule_csv.h"
#include "tests/fuzz/stored_zip.h"
#include "tests/support/files/rewrite.h"
#include "tests/support/images/encoded_image.h"

namespace heddle::test {

namespace {

using Folder = std::filesystem::path;

std::filesystem::path written(const std::filesystem::path& path, std::string_view bytes) {
  rewrite(path, bytes);
  return path;
}

/// The contents of a format's files; those that are missing are empty.
template <std::size_t count>
std::array<std::string_view, count> split_files(std::string_view bytes) {
  constexpr std::string_view separator = "\n--\n";
  std::array<std::string_view, count> files;
  for (std::string_view& file : files) {
    const std::size_t end = &file == &files.back() ? std::string_view::npos : bytes.find(separator);
    file = bytes.substr(0, end);
    bytes = end == std::string_view::npos ? std::string_view() : bytes.substr(end + separator.size());
  }
  return files;
}

/// Images that lists may name.
void add_images(const Folder& folder) {
  for (const char* const name : {"a.png", "b.png", "c.png", "d.png"})
    if (!std::filesystem::exists(folder / name)) (void)written(folder / name, "");
}

void decode_image_and_header(const Bytes& bytes, const Folder& folder) {
  constexpr std::array<int, 4> reductions{1, 2, 4, 8};
  const std::string name = (folder / "image").string();
  const ImageHeader header = decode_image_header(bytes, bytes.size(), name);
  if (std::int64_t{header.height} * header.width > 1 << 20) return;  // so that no input takes long
  const Image image = decode_image(bytes, name, reductions[bytes.size() % 4], static_cast<int>(bytes.size() % 8));
  if (image.pixels.size() != static_cast<std::size_t>(image.height) * static_cast<std::size_t>(image.width) *
                                 static_cast<std::size_t>(image.channels) ||
      image.channels != header.channels)
    fail("the image does not have the size that its header says");
}

void read_image(std::string_view bytes, const Folder& folder) {
  decode_image_and_header(bytes_of(bytes), folder);
}

void read_png(std::string_view bytes, const Folder& folder) {
  Bytes png = bytes_of(bytes);
  repair_checksums(png);
  decode_image_and_header(png, folder);
}

void read_records(std::string_view bytes, const Folder& folder) {
  const auto [records, index, property] = split_files<3>(bytes);
  for (const auto& [name, contents] : {std::pair("a.idx", index), std::pair("property", property)})
    if (contents.empty())
      std::filesystem::remove(folder / name);
    else
      (void)written(folder / name, contents);
  const FaceRecords faces(
      written(folder / "a.rec", records), bytes.size() % 2 == 0 ? OnBrokenRecord() : [](const std::string&) {});
  std::vector<std::uint8_t> buffer;
  for (std::int64_t i = 0; i < faces.size(); ++i) (void)faces.image(i, buffer);
}

void read_list(ImageListConfig config, std::string_view bytes, const Folder& folder) {
  config.train = written(folder / "list.txt", bytes).string();
  (void)list_files(config);
}

void read_plain_list(std::string_view bytes, const Folder& folder) {
  read_list({}, bytes, folder);
}

void read_csv_list(std::string_view bytes, const Folder& folder) {
  ImageListConfig config;
  config.path_column = "file";
  config.label_column = "person";
  config.weight_column = "weight";
  read_list(config, bytes, folder);
}

void read_class_weights(std::string_view bytes, const Folder& folder) {
  ClassWeights weights(written(folder / "weights.txt", bytes).string());
  (void)weights.of("Ann");
}

void read_people_list(std::string_view bytes, const Folder& folder) {
  (void)read_people(written(folder / "people.txt", bytes).string());
}

void read_bin(std::string_view bytes, const Folder& folder) {
  const BinFile file(written(folder / "a.bin", bytes));
  for (std::int64_t i = 0; i < file.images(); ++i) (void)file.image(i);
}

void read_pairs(std::string_view bytes, const Folder& folder) {
  add_images(folder);
  (void)read_pair_file(written(folder / "pairs.txt", bytes));
}

void read_templates(std::string_view bytes, const Folder& folder) {
  add_images(folder);
  const auto [templates, pairs] = split_files<2>(bytes);
  (void)read_template_set(written(folder / "t.txt", templates), written(folder / "p.txt", pairs), folder);
}

void read_identification(std::string_view bytes, const Folder& folder) {
  add_images(folder);
  const auto [gallery, probes, others] = split_files<3>(bytes);
  (void)read_identification_set(written(folder / "g.txt", gallery), written(folder / "p.txt", probes),
                                others.empty() ? Folder() : written(folder / "d.txt", others), folder);
}

void read_weights(const std::filesystem::path& path) {
  const auto weights = open_weights(path, "");
  for (std::size_t i = 0; i < weights->entries().size(); ++i) (void)weights->read(i);
}

void read_safetensors(std::string_view bytes, const Folder& folder) {
  read_weights(written(folder / "a.safetensors", bytes));
}

void read_torch(std::string_view bytes, const Folder& folder) {
  const std::string storage(64, '\1');
  const std::string_view elements = storage;
  // A storage must have the bytes that the pickle says.
  read_weights(written(folder / "a.pt", stored_zip({{"a/data.pkl", bytes},
                                                    {"a/data/0", elements.substr(0, 8)},
                                                    {"a/data/1", elements.substr(0, 4)},
                                                    {"a/data/2", elements.substr(0, 24)},
                                                    {"a/data/3", elements}})));
}

void read_zip(std::string_view bytes, const Folder& folder) {
  const ZipFile zip(written(folder / "a.zip", bytes));
  for (const ZipFile::Member& member : zip.members()) (void)zip.read(member, 1 << 16);
}

void read_npy_file(std::string_view bytes, const Folder& folder) {
  const NpyReader reader(written(folder / "a.npy", bytes));
  std::vector<float> values(static_cast<std::size_t>(reader.rows() * reader.columns()));
  reader.read(0, values);
}

void read_checkpoint(std::string_view bytes, const Folder& folder) {
  (void)written(folder / "rank-0.safetensors", bytes);
  const CheckpointFiles files(folder);
  for (const std::string& name : files.names()) (void)files.find(name);
}

void read_schedule(std::string_view bytes, const Folder& folder) {
  (void)from_csv(bytes, (folder / "s.csv").string());
}

void read_experiment_json(std::string_view bytes, const Folder& folder) {
  (void)read_study_text<Experiment>(bytes, (folder / "e.json").string());
}

void read_claims_json(std::string_view bytes, const Folder& folder) {
  (void)read_claims(written(folder / "claims.json", bytes));
}

void read_bench(std::string_view bytes, const Folder& folder) {
  std::vector<BenchRow> rows = read_bench_json(written(folder / "bench.json", bytes));
  compare_with(rows, rows);
}

void read_summary(std::string_view bytes, const Folder& folder) {
  const auto [summary, experiment, schedule] = split_files<3>(bytes);
  (void)written(folder / "summary.json", summary);
  (void)written(folder / "experiment.json", experiment);
  (void)written(folder / "schedule.csv", schedule);
  (void)recorded_threshold({folder / "checkpoint" / "a", 2});
  draw_schedules_of(folder);
  const std::vector<ComparedRun> runs = read_runs(folder);
  (void)differences(runs);
}

void read_metrics(std::string_view bytes, const Folder& folder) {
  (void)written(folder / "metrics.jsonl", bytes);
  ResultsFolder results(folder, "{}", true, [] { return 0.0; });
  (void)results.begin_variant("a", 3, 8);
}

constexpr std::array<FuzzedFormat, 23> formats{{{"bench", read_bench},
                                                {"bin", read_bin},
                                                {"checkpoint", read_checkpoint},
                                                {"claims", read_claims_json},
                                                {"class_weights", read_class_weights},
                                                {"csv_list", read_csv_list},
                                                {"experiment", read_experiment_json},
                                                {"identification", read_identification},
                                                {"jpeg", read_image},
                                                {"list", read_plain_list},
                                                {"metrics", read_metrics},
                                                {"npy", read_npy_file},
                                                {"pairs", read_pairs},
                                                {"people", read_people_list},
                                                {"png", read_png},
                                                {"pnm", read_image},
                                                {"records", read_records},
                                                {"safetensors", read_safetensors},
                                                {"schedule", read_schedule},
                                                {"summary", read_summary},
                                                {"templates", read_templates},
                                                {"torch", read_torch},
                                                {"zip", read_zip}}};
static_assert(std::is_sorted(formats.begin(), formats.end(),
                             [](const auto& a, const auto& b) { return a.name < b.name; }));

}  // namespace

std::span<const FuzzedFormat> fuzzed_formats() {
  return formats;
}

bool read_fuzzed(const FuzzedFormat& format, std::string_view bytes, const std::filesystem::path& folder) {
  try {
    format.read(bytes, folder);
  } catch (const InputError& error) {
    const std::string_view message = error.what();
    if (!message.starts_with(folder.string()) && !message.starts_with("image \"" + folder.string()))
      fail("a refusal that does not begin with the file: {}", message);
    return false;
  }
  return true;
}

}  // namespace heddle::test
