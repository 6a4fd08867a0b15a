// An experiment file: one experiment, or a study of variants, each a merge patch on the base.
//
//   Study<Experiment> study = read_study<Experiment>("experiments/quickstart.json", sets);  // sets: {"train.steps=5"}
//   for (const auto& variant : study.variants) run(variant.root);
#pragma once

#include <deque>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/config/document.h"
#include "framework/description/describe.h"

namespace heddle {

/// One variant: the base, its patch and every --set merged.
struct Variant {
  std::string name;  ///< unique in its file and usable as a folder's name
  Document document;
};

/// A file without variants has one, named like the experiment.
struct ExperimentFile {
  std::string name;
  std::vector<Variant> variants;
  /// One line for each value of the file that a patch or --set discards, because it changes the "type" beside it.
  std::vector<std::string> warnings;
};

/// Makes a root struct that holds its defaults and describes it: called once for a look at the description, then once
/// for each variant, in order, to read it. The structs must outlive the call.
using RootMaker = std::function<Describer::Body()>;

/// Reads all variants of a file, or throws one InputError with all errors. `sets` are `a.b=json`; they come after the
/// variants' patches. "$schema" and "variants" are read here; all other keys, "name" included, belong to the root.
ExperimentFile read_experiment_file(const std::filesystem::path& path, std::span<const std::string> sets,
                                    const RootMaker& make_root);
/// The same for a text; `file` begins the messages.
ExperimentFile read_experiment_text(std::string_view text, const std::string& file, std::span<const std::string> sets,
                                    const RootMaker& make_root);

/// One variant's document with further `a.b=json` on top, as if they had come last on the command line. `root`
/// describes what it is read into.
Document with_settings(const Document& document, std::span<const std::string> sets, const Describer::Body& root);

/// A file read into structs that have their own `describe`.
template <class Root>
struct Study {
  struct Member {
    std::string name;
    Root root;
    Document document;  ///< for errors that point into the file
  };
  std::string name;
  std::vector<Member> variants;
  std::vector<std::string> warnings;  ///< as in ExperimentFile
};

/// `read` makes an ExperimentFile with a RootMaker.
template <class Root, class Read>
Study<Root> study_of(const Read& read) {
  std::deque<Root> roots;
  ExperimentFile file = read([&roots]() -> Describer::Body {
    Root& root = roots.emplace_back();
    return [&root](Describer& d) { describe(d, root); };
  });
  Study<Root> study{std::move(file.name), {}, std::move(file.warnings)};
  for (std::size_t i = 0; i < file.variants.size(); ++i) {
    Variant& variant = file.variants[i];
    study.variants.push_back({std::move(variant.name), std::move(roots[i + 1]), std::move(variant.document)});
  }
  return study;
}

template <class Root>
Study<Root> read_study(const std::filesystem::path& path, std::span<const std::string> sets = {}) {
  return study_of<Root>([&](const RootMaker& maker) { return read_experiment_file(path, sets, maker); });
}

/// The same for a text; `file` begins the messages.
template <class Root>
Study<Root> read_study_text(std::string_view text, const std::string& file, std::span<const std::string> sets = {}) {
  return study_of<Root>([&](const RootMaker& maker) { return read_experiment_text(text, file, sets, maker); });
}

/// The same for a variant that was read.
template <class Root>
typename Study<Root>::Member with_settings(const typename Study<Root>::Member& member,
                                           std::span<const std::string> sets) {
  Root root;
  const Describer::Body body = [&root](Describer& d) { describe(d, root); };
  Document document = with_settings(member.document, sets, body);
  read(document, body);
  return {member.name, std::move(root), std::move(document)};
}

}  // namespace heddle
