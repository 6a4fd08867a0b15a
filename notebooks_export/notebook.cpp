#include "notebooks_export/notebook.h"

#include <cctype>
#include <regex>
#include <set>
#include <string_view>
#include <system_error>
#include <vector>

#include <nlohmann/json.hpp>

#include "framework/error.h"
#include "framework/files/atomic_file.h"
#include "framework/files/untrusted_json.h"
#include "notebooks_export/cells.h"
#include "notebooks_export/embedded_files.h"
#include "notebooks_export/page.h"
#include "notebooks_export/process.h"

namespace heddle {

namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr const char* packages = "jupyter-nbconvert python3-ipykernel python3-pandas python3-matplotlib";
constexpr const char* draft_name = "notebook_draft.ipynb";  // until it is executed
constexpr std::uint64_t max_summary = std::uint64_t{1} << 30;
constexpr std::uint64_t max_page = std::uint64_t{1} << 30;

/// Text that Markdown shows as it is, formulas and HTML included. Of escapes with a backslash, renderers know different
/// ones.
std::string plain_markdown(std::string_view text) {
  constexpr std::string_view harmless = "_-.,:()/";
  std::string plain;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::iscntrl(byte) != 0) {
      plain += ' ';
    } else if (std::ispunct(byte) != 0 && harmless.find(c) == std::string_view::npos) {
      plain += fmt::format("&#{};", byte);
    } else {
      plain += c;
    }
  }
  return plain;
}

OrderedJson cell_json(const NotebookCell& cell) {
  OrderedJson json = {
      {"cell_type", cell.is_code ? "code" : "markdown"}, {"id", cell.id}, {"metadata", OrderedJson::object()}};
  if (cell.is_code) {
    json["execution_count"] = nullptr;
    json["outputs"] = OrderedJson::array();
  }
  json["source"] = cell.source;
  return json;
}

struct Summary {
  std::string name;
  StudyFigures figures{};
};

Summary read_summary(const std::filesystem::path& path) {
  std::error_code unknown;
  if (std::filesystem::status(path, unknown).type() == std::filesystem::file_type::not_found)
    fail<InputError>("{}: does not exist: expected the results folder of a run that has ended", path.string());
  const auto json = parse_untrusted_json<OrderedJson>(read_file(path, max_summary));
  if (!json.is_object() || !json.contains("name") || !json["name"].is_string() || !json.contains("variants"))
    fail<InputError>("{}: is not the summary of a run", path.string());
  Summary summary{.name = json["name"].get<std::string>()};
  std::set<std::int64_t> classes;
  for (const OrderedJson& variant : json["variants"]) {
    if (!variant.is_object()) continue;
    summary.figures.pipelines |= variant.value("stages", OrderedJson()) > 1;
    const OrderedJson evaluation = variant.value("evaluation", OrderedJson());
    summary.figures.sets |= evaluation.is_object() && !evaluation.value("sets", OrderedJson()).empty();
    const OrderedJson head = variant.value("head", OrderedJson());
    if (head.is_object() && head.value("classes", OrderedJson()).is_number_integer())
      classes.insert(head["classes"].get<std::int64_t>());
  }
  constexpr std::size_t min_points_of_a_curve = 3;
  summary.figures.head_sizes = classes.size() >= min_points_of_a_curve;
  return summary;
}

/// The end of a program's output, where Python says what went wrong, without colours.
std::string last_lines(const std::string& output) {
  constexpr int max_lines = 12;
  static const std::regex colour("\x1b\\[[0-9;]*m");
  const std::string plain = std::regex_replace(output.substr(0, output.find_last_not_of('\n') + 1), colour, "");
  std::size_t begin = plain.size();
  for (int lines = 0; lines < max_lines && begin != std::string::npos && begin > 0; ++lines)
    begin = plain.rfind('\n', begin - 1);
  return begin == std::string::npos || begin == 0 ? plain : plain.substr(begin + 1);
}

/// Where the notebook's own code has found out which file it cannot read, that is the error, not Python's traceback.
/// Another exception of its code comes from values that no run writes: the last line says which.
void check_for_damage(const std::filesystem::path& folder, const std::string& output) {
  constexpr std::string_view damaged = "DamagedResults: ";
  const std::string plain = last_lines(output);
  const std::size_t last = plain.rfind(damaged);
  if (last != std::string::npos) {
    const std::string text = plain.substr(last + damaged.size());
    fail<InputError>("{}", (folder / text.substr(0, text.find('\n'))).string());
  }
  if (output.find("CellExecutionError") == std::string::npos) return;
  const std::size_t newline = plain.rfind('\n');
  fail<InputError>("{}: its results are damaged, or not of this version of Heddle: {}", folder.string(),
                   newline == std::string::npos ? plain : plain.substr(newline + 1));
}

void convert(const std::filesystem::path& folder, const std::vector<std::string>& arguments) {
  const std::filesystem::path notebook = folder / "notebook.ipynb";
  std::error_code ignored;
  const char* const outcome =
      std::filesystem::exists(notebook, ignored) ? "left as it was" : "written, but not executed";
  const auto finished = run_program("jupyter-nbconvert", arguments, folder);
  if (!finished)
    fail<InputError>("{}: {}: there is no jupyter-nbconvert. On Debian: apt-get install --no-install-recommends {}",
                     notebook.string(), outcome, packages);
  if (finished->exit_code == 0) return;
  const std::string& output = finished->output;
  const auto says = [&](const char* words) { return output.find(words) != std::string::npos; };
  if (says("No module named") || says("NoSuchKernel") || says("No such kernel"))
    fail<InputError>(
        "{}: {}: parts of Jupyter or of what the notebook uses are missing. On Debian: apt-get install "
        "--no-install-recommends {}\n{}",
        notebook.string(), outcome, packages, last_lines(output));
  check_for_damage(folder, output);
  fail("{}: jupyter-nbconvert ended with code {}:\n{}", notebook.string(), finished->exit_code, last_lines(output));
}

void replace(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::error_code error;
  std::filesystem::rename(from, to, error);
  if (error) fail_to_write(to, error);
}

/// What is left of a notebook that was not executed: an earlier one stays; without one, it is better than none.
void discard(const std::filesystem::path& draft, const std::filesystem::path& notebook) {
  std::error_code ignored;
  if (std::filesystem::exists(notebook, ignored))
    std::filesystem::remove(draft, ignored);
  else
    std::filesystem::rename(draft, notebook, ignored);
}

}  // namespace

std::string notebook_json(const std::string& title, const StudyFigures& figures) {
  OrderedJson cells = OrderedJson::array();
  cells.push_back(cell_json({.id = "title", .is_code = false, .source = "# " + plain_markdown(title)}));
  for (const NotebookCell& cell : results_cells(figures)) cells.push_back(cell_json(cell));
  const OrderedJson kernel = {{"display_name", "Python 3"}, {"language", "python"}, {"name", "python3"}};
  const OrderedJson notebook = {{"cells", cells},
                                {"metadata", {{"kernelspec", kernel}, {"language_info", {{"name", "python"}}}}},
                                {"nbformat", 4},
                                {"nbformat_minor", 5}};
  return notebook.dump(1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

NotebookFiles write_notebook(const std::filesystem::path& results) {
  const NotebookFiles files{.notebook = results / "notebook.ipynb", .html = results / "notebook.html"};
  const Summary summary = read_summary(results / "summary.json");
  const std::filesystem::path draft = results / draft_name;
  write_file_atomically(draft, notebook_json(summary.name, summary.figures));
  const std::filesystem::path body = results / "notebook.body.html";
  try {
    // Run in the folder itself: no argument is a path that the user chose.
    convert(results, {"--to", "notebook", "--execute", "--inplace", draft_name});
    // Jupyter's own page has one scheme of colours, and loads libraries from the network: ours takes only its body.
    convert(results, {"--to", "html", "--template", "basic", "--no-input", "--output", "notebook.body", draft_name});
    const std::string text = read_file(body, max_page);
    std::error_code ignored;
    std::filesystem::remove(body, ignored);
    write_file_atomically(files.html,
                          html_page(summary.name, embedded_file("pages/page.css"), text,
                                    {embedded_file("pages/timeline.js"), embedded_file("pages/notebook.js")}));
  } catch (...) {
    discard(draft, files.notebook);
    throw;
  }
  replace(draft, files.notebook);
  return files;
}

}  // namespace heddle
