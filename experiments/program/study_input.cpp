#include "experiments/program/study_input.h"

#include "experiments/config/writer.h"
#include "framework/description/printable.h"

namespace heddle {

void print_warnings(const Study<Experiment>& study, const Console& console) {
  for (const std::string& warning : study.warnings)
    console.err << "heddle: warning: " << printable_lines(warning) << "\n";
}

Study<Experiment> read_checked_study(const std::filesystem::path& file, const std::vector<std::string>& sets,
                                     const Console& console) {
  Study<Experiment> study = checked(read_study<Experiment>(file, sets));
  print_warnings(study, console);
  return study;
}

std::string effective_json(Study<Experiment>& study) {
  std::vector<NamedBody> bodies;
  for (StudyVariant& member : study.variants)
    bodies.push_back({member.name, [&root = member.root](Describer& d) { describe(d, root); }});
  return write_experiment(bodies);
}

}  // namespace heddle
