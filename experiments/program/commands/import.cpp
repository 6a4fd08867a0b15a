#include <array>

#include <CLI/CLI.hpp>
#include <fmt/ranges.h>

#include "experiments/import/import_weights.h"
#include "experiments/program/commands/command.h"
#include "experiments/results/units.h"
#include "framework/description/text.h"
#include "framework/error.h"

namespace heddle {

namespace {

struct ImportCommand {
  std::filesystem::path in;
  std::filesystem::path out;
  ImportOptions options{};
};

void import_command(const ImportCommand& command, const Console& console) {
  if (command.out.extension() != ".safetensors")
    fail<InputError>("--out: expected a .safetensors file, got {}", command.out.string());
  const ImportedWeights imported = import_weights(command.in, command.out, command.options);
  console.out << fmt::format("{}: {}\n", command.in.string(), imported.description);
  if (!imported.prefixes.empty())
    console.out << fmt::format("removed from the names: {}\n", fmt::join(imported.prefixes, ", "));
  if (imported.left_out > 0)
    console.out << fmt::format("left out: {} with other names\n", counted(imported.left_out, "tensor", "tensors"));
  const std::array bytes{static_cast<double>(imported.bytes)};
  const Unit unit = unit_of_bytes(bytes);
  console.out << fmt::format("{}: {}, {} {}\n", command.out.string(), counted(imported.tensors, "tensor", "tensors"),
                             in_unit(bytes[0], unit), unit.name);
}

}  // namespace

void add_import(CLI::App& app, CommandCall& call) {
  const auto command = std::make_shared<ImportCommand>();
  app.add_option("FILE", command->in, "a file that torch.save wrote (.pt, .pth), or a safetensors file")->required();
  app.add_option("--out", command->out, "the .safetensors file to write, for model.weights")->required();
  app.add_option("--key", command->options.key, "the state dict to take, if the file has several");
  app.add_option("--prefix", command->options.prefix,
                 "take only the tensors whose names begin with this prefix, and remove it; after that, as without this "
                 "option, module., _orig_mod., backbone. and model. are removed if all names begin with one of them");
  app.callback([&call, command] { import_command(*command, call.console); });
}

}  // namespace heddle
