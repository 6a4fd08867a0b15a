#include <CLI/CLI.hpp>

#include "experiments/data/codecs/image_codecs.h"
#include "experiments/program/commands/command.h"
#include "experiments/program/data/check.h"
#include "experiments/program/data/overview.h"
#include "experiments/program/data/pack.h"
#include "experiments/program/data/stored_images.h"
#include "experiments/program/target_file.h"
#include "experiments/results/progress.h"
#include "framework/description/text.h"
#include "framework/error.h"
#include "framework/files/atomic_file.h"

namespace heddle {

namespace {

struct DataCommand {
  StoredInput input;
  bool json = false;
  std::filesystem::path sheet;  // for show; empty: no sheet is drawn
};

struct PackCommand {
  StoredInput input;
  std::filesystem::path out;
  PackOptions options;
  std::optional<OnBroken> on_broken;  // none: as the experiment says, or stop
  Split split = Split::train;
};

StoredData open_with_notes(const StoredInput& input, const Console& console) {
  StoredData data = open_stored(input);
  for (const std::string& note : data.splits.front().images->notes()) console.err << note << "\n" << std::flush;
  return data;
}

const StoredImages& split_to_pack(const StoredData& data, const PackCommand& command) {
  if (!data.has_people)
    fail<InputError>("{}: expected images of people: its pairs do not say who they are",
                     data.splits.front().images->title());
  for (const StoredSplit& split : data.splits)
    if (split.split == command.split) return *split.images;
  fail<InputError>("--split test: {} has no images for testing", data.splits.front().images->title());
}

void run_pack(const PackCommand& command, const Console& console) {
  if (command.out.extension() != ".rec")
    fail<InputError>("expected the name of a .rec to write, got {}", command.out.string());
  const StoredData data = open_with_notes(command.input, console);
  const StoredImages& images = split_to_pack(data, command);
  PackOptions options = command.options;
  options.skip_broken = command.on_broken.value_or(data.on_broken.value_or(OnBroken::stop)) == OnBroken::skip;
  Progress progress(console.err, console.terminal);
  const Packed packed = pack_images(images, command.out, options, [&](std::int64_t done) {
    progress.show(fmt::format("packed {} of {} images", done, images.size()));
  });
  progress.clear();
  constexpr std::size_t max_named = 10;
  for (std::size_t i = 0; i < std::min(packed.broken.size(), max_named); ++i)
    console.err << "left out: " << packed.broken[i].text() << "\n";
  console.out << fmt::format("{}: {} of {}, {:.1f} MiB", command.out.string(),
                             counted(packed.images, "image", "images"), counted(packed.people, "person", "people"),
                             static_cast<double>(packed.bytes) / (1 << 20));
  if (packed.encoded > 0) console.out << fmt::format("; {} encoded as JPEG", packed.encoded);
  if (!packed.broken.empty())
    console.out << fmt::format(
        "; {} left out", counted(static_cast<std::int64_t>(packed.broken.size()), "broken image", "broken images"));
  console.out << "\n" << std::flush;
}

void run_show(const DataCommand& command, const Console& console) {
  check_ending("--sheet", command.sheet, {".png"});
  check_writable(command.sheet);
  const StoredData data = open_with_notes(command.input, console);
  Progress progress(console.err, console.terminal);
  std::vector<SplitOverview> splits;
  for (const StoredSplit& split : data.splits)
    splits.push_back(overview_of(*split.images, [&](std::int64_t done) {
      progress.show(fmt::format("read {} of {} headers", done, split.images->size()));
    }));
  progress.clear();
  if (!command.sheet.empty()) {
    const std::vector<std::uint8_t> png = encode_png(contact_sheet(*data.splits.front().images));
    write_file_atomically(command.sheet, {reinterpret_cast<const char*>(png.data()), png.size()});
  }
  console.out << (command.json ? overview_json(data, splits) : overview_text(data, splits)) << std::flush;
}

/// The exit code.
int run_check(const DataCommand& command, const Console& console) {
  const StoredData data = open_with_notes(command.input, console);
  std::int64_t images = 0;
  for (const StoredSplit& split : data.splits) images += split.images->size();
  Progress progress(console.err, console.terminal);
  const DataCheck check = check_images(
      data, [&](std::int64_t done) { progress.show(fmt::format("checked {} of {} images", done, images)); });
  progress.clear();
  console.out << (command.json ? check_json(data, check) : check_text(data, check)) << std::flush;
  return check.broken == 0 ? 0 : 2;
}

void add_input(CLI::App& app, StoredInput& input) {
  app.add_option(
         "IN", input.path,
         "a folder with one folder for each person, a list of images, a .rec, a .bin, or an experiment (.json), "
         "whose first variant gives the data")
      ->required();
  add_set_option(app, input.sets).description("override one key of the experiment, as in data.min_images=5");
  app.add_option("--people", input.people,
                 "with a folder: a file with the people to use, in the format of LFW's people*.txt")
      ->type_name("FILE");
}

void add_pack(CLI::App& app, CommandCall& call) {
  const auto command = std::make_shared<PackCommand>();
  add_input(app, command->input);
  app.add_option("OUT", command->out, "the .rec to write; its .idx and the file `property` are written beside it")
      ->required();
  app.add_flag("--shuffle", command->options.shuffle,
               "write the images in random order, without the records of identities, for readers that read the file "
               "sequentially");
  app.add_option("--seed", command->options.seed, "the seed of --shuffle (default: 0)");
  app.add_option_function<std::string>(
         "--split",
         [command](const std::string& name) { command->split = name == "test" ? Split::test : Split::train; },
         "with an experiment: the images for training (the default) or those for testing")
      ->check(CLI::IsMember({"train", "test"}));
  app.add_option_function<std::string>(
         "--on-broken",
         [command](const std::string& name) { command->on_broken = name == "skip" ? OnBroken::skip : OnBroken::stop; },
         "what happens to a broken image: it ends the command (stop), or is left out (skip); default: data.on_broken "
         "of the experiment, or stop")
      ->check(CLI::IsMember({"stop", "skip"}));
  app.add_flag("--force", command->options.replace, "replace existing files");
  app.footer("Bytes of JPEG files are copied. Other formats are encoded as JPEG with quality 95.");
  app.callback([&call, command] { run_pack(*command, call.console); });
}

}  // namespace

void add_data(CLI::App& app, CommandCall& call) {
  app.require_subcommand(1);
  add_pack(*app.add_subcommand("pack", "write images into a .rec, as InsightFace packs training sets"), call);
  const auto show = std::make_shared<DataCommand>();
  CLI::App& show_app = *app.add_subcommand("show", "count images, people, sizes and formats, and draw some images");
  add_input(show_app, show->input);
  show_app.add_option("--sheet", show->sheet, "also draw up to 64 of the images into this PNG")->type_name("FILE");
  show_app.add_flag("--json", show->json, "print JSON instead of the tables");
  show_app.callback([&call, show] { run_show(*show, call.console); });
  const auto check = std::make_shared<DataCommand>();
  CLI::App& check_app = *app.add_subcommand(
      "check", "decode every image and list those that are broken, with exit code 2 if there are any");
  add_input(check_app, check->input);
  check_app.add_flag("--json", check->json, "print JSON instead of the table");
  check_app.callback([&call, check] { call.code = run_check(*check, call.console); });
}

}  // namespace heddle
