#include "experiments/config/schema.h"

#include <CLI/CLI.hpp>

#include "experiments/program/commands/command.h"
#include "experiments/training/experiment.h"

namespace heddle {

namespace {

void print_schema(const Console& console) {
  Experiment experiment;
  console.out << schema_text([&](Describer& d) { describe(d, experiment); }, "A Heddle experiment");
}

}  // namespace

void add_schema(CLI::App& app, CommandCall& call) {
  app.callback([&call] { print_schema(call.console); });
}

}  // namespace heddle
