// The experiments that ship with the program, cut short enough to be tested.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace heddle::test {

/// The files of all shipped experiments.
std::vector<std::string> shipped();
/// The file of one experiment, by its name without an ending.
std::string experiment_file(const std::string& name);

/// Grey noise in the form of the ORL faces: what a run holds does not depend on what the images show.
void write_faces(const std::filesystem::path& folder);

/// The file and the options with which a run and a plan of the experiment take seconds. `samples`: of each micro-batch
/// of a pipeline.
std::vector<std::string> cut_short(const std::string& file, const nlohmann::json& experiment,
                                   const std::filesystem::path& faces, std::int64_t samples = 2);

/// The experiment with the patch of one of its variants.
nlohmann::json patched(nlohmann::json experiment, std::size_t variant);
/// Whether this variant's stages are cut by measured times, for which plan takes those of its profile.
bool is_cut_by_time(const nlohmann::json& variant);

}  // namespace heddle::test
