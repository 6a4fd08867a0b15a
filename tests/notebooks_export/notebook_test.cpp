#include "notebooks_export/notebook.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "framework/files/atomic_file.h"
#include "notebooks_export/embedded_files.h"
#include "notebooks_export/page.h"
#include "notebooks_export/process.h"
#include "tests/support/files/deep_json.h"
#include "tests/support/message.h"
#include "tests/support/scratch.h"

namespace heddle::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* packages = "jupyter-nbconvert python3-ipykernel python3-pandas python3-matplotlib";

/// PATH is this folder only, for as long as this lives.
class OnlyPath {
 public:
  explicit OnlyPath(const fs::path& folder) : old_(std::getenv("PATH")) { ::setenv("PATH", folder.c_str(), 1); }
  ~OnlyPath() { ::setenv("PATH", old_.c_str(), 1); }
  OnlyPath(const OnlyPath&) = delete;
  OnlyPath& operator=(const OnlyPath&) = delete;

 private:
  std::string old_;
};

void write_program(const fs::path& path, const std::string& script) {
  std::ofstream(path) << "#!/bin/sh\n" << script;
  REQUIRE(::chmod(path.c_str(), 0755) == 0);
}

TEST_CASE("the notebook has the structure of nbformat 4.5: a kernel, and cells with unique ids") {
  const auto notebook = nlohmann::json::parse(notebook_json("a_name <b>$x$", {.pipelines = true, .head_sizes = true}));
  CHECK(notebook.at("nbformat") == 4);
  CHECK(notebook.at("nbformat_minor") == 5);
  CHECK(notebook.at("metadata").at("kernelspec").at("name") == "python3");
  std::set<std::string> ids;
  std::string code;
  for (const auto& cell : notebook.at("cells")) {
    const auto id = cell.at("id").get<std::string>();
    CHECK(std::regex_match(id, std::regex("[a-zA-Z0-9_-]{1,64}")));
    CHECK(ids.insert(id).second);
    CHECK(cell.at("metadata").is_object());
    CHECK(cell.at("source").is_string());
    const bool is_code = cell.at("cell_type") == "code";
    CHECK((is_code || cell.at("cell_type") == "markdown"));
    CHECK(cell.contains("outputs") == is_code);
    CHECK(cell.contains("execution_count") == is_code);
    if (is_code) code += cell.at("source").get<std::string>();
  }
  CHECK(notebook.at("cells").at(0).at("source") == "# a_name &#60;b&#62;&#36;x&#36;");
  for (const char* file : {"summary.json", "memory.csv", "metrics.jsonl"}) CHECK(code.find(file) != std::string::npos);
}

TEST_CASE(
    "a study of pipelines, of heads' sizes or with evaluation sets has figures of its own, and so does a notebook "
    "written for its folder") {
  const std::string without = notebook_json("a", {});
  const std::string with = notebook_json("a", {.pipelines = true});
  CHECK(without.find("\"timeline\"") != std::string::npos);
  for (const char* id : {"\"gain\"", "\"prediction\"", "\"schedules\""}) {
    CHECK(without.find(id) == std::string::npos);
    CHECK(with.find(id) != std::string::npos);
  }
  const std::string of_heads = notebook_json("a", {.head_sizes = true});
  for (const char* id : {"\"heads\"", "\"heads-pay\""}) {
    CHECK(without.find(id) == std::string::npos);
    CHECK(of_heads.find(id) != std::string::npos);
  }
  const std::string of_sets = notebook_json("a", {.sets = true});
  CHECK(without.find("\"sets\"") == std::string::npos);
  CHECK(of_sets.find("roc.csv") != std::string::npos);
  CHECK(of_sets.find("accuracy during the training") != std::string::npos);
  const Scratch scratch;
  const OnlyPath path(scratch / "nothing");
  const auto written = [&](const char* summary) {
    write_file_atomically(scratch / "summary.json", summary);
    fs::remove(scratch / "notebook.ipynb");
    CHECK_THROWS(write_notebook(scratch / "."));  // without Jupyter
    return read_file(scratch / "notebook.ipynb", 1 << 20);
  };
  CHECK(written(R"({"name": "a", "variants": [{"stages": 1}, {"stages": 2}]})") == with);
  CHECK(written(R"({"name": "a", "variants": [{"stages": 1}, {}]})") == without);
  // Three numbers of classes make a curve.
  CHECK(written(R"({"name": "a", "variants": [{"head": {"classes": 9}}, {"head": {"classes": 8}}]})") == without);
  CHECK(written(R"({"name": "a", "variants": [{"head": {"classes": 9}}, {"head": {"classes": 8}},
                                              {"head": {"classes": 7}}]})") == of_heads);
  CHECK(written(R"({"name": "a", "variants": [{"evaluation": {"sets": [{"name": "pairs"}]}}]})") == of_sets);
  CHECK(written(R"({"name": "a", "variants": [{"evaluation": {"sets": []}}, {"evaluation": null}]})") == without);
}

TEST_CASE("a program gets its arguments unchanged and runs in the folder; its output and exit code are returned") {
  const Scratch scratch;
  const auto finished = heddle::run_program(
      "sh", {"-c", "echo \"$1\"; pwd; echo oops >&2; exit 3", "sh", "a b; $(x) '\""}, scratch / ".");
  REQUIRE(finished);
  CHECK(finished->exit_code == 3);
  CHECK(finished->output == "a b; $(x) '\"\n" + fs::canonical(scratch / ".").string() + "\noops\n");
  CHECK(heddle::run_program("sh", {"-c", "kill -9 $$"}, scratch / ".")->exit_code == 128 + 9);
  CHECK_FALSE(heddle::run_program("no-such-program-here", {}, scratch / "."));
}

TEST_CASE("without Jupyter the notebook is written, and the error names the packages") {
  const Scratch scratch;
  write_file_atomically(scratch / "summary.json", R"({"name": "study", "variants": []})");
  const OnlyPath path(scratch / "nothing");
  CHECK(message_of<InputError>([&] { write_notebook(scratch / "."); }) ==
        (scratch / "./notebook.ipynb").string() +
            ": written, but not executed: there is no jupyter-nbconvert. On Debian: apt-get install "
            "--no-install-recommends " +
            packages);
  CHECK(read_file(scratch / "notebook.ipynb", 1 << 20) == notebook_json("study", {}));
}

TEST_CASE("a missing part of Jupyter is named with the packages; any other failure shows the last lines, uncoloured") {
  const Scratch scratch;
  write_file_atomically(scratch / "summary.json", R"({"name": "study", "variants": []})");
  const OnlyPath path(scratch / ".");
  const std::string notebook = (scratch / "./notebook.ipynb").string();
  write_program(scratch / "jupyter-nbconvert", "echo \"ModuleNotFoundError: No module named 'pandas'\"\nexit 1\n");
  CHECK(message_of<InputError>([&] { write_notebook(scratch / "."); }) ==
        notebook +
            ": written, but not executed: parts of Jupyter or of what the notebook uses are missing. On Debian: "
            "apt-get install "
            "--no-install-recommends " +
            packages + "\nModuleNotFoundError: No module named 'pandas'");
  write_program(scratch / "jupyter-nbconvert",
                "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13; do printf '\\033[1;31mline\\033[0m %s\\n' $i; done\nexit 1\n");
  CHECK_THROWS_WITH_AS(
      write_notebook(scratch / "."),
      (notebook + ": jupyter-nbconvert ended with code 1:\nline 2\nline 3\nline 4\nline 5\nline 6\nline 7\n"
                  "line 8\nline 9\nline 10\nline 11\nline 12\nline 13")
          .c_str(),
      Error);
}

TEST_CASE("a damaged file of the results is named, without Python's traceback") {
  const Scratch scratch;
  write_file_atomically(scratch / "summary.json", R"({"name": "study", "variants": []})");
  const OnlyPath path(scratch / ".");
  const auto error_of = [&](const std::string& last) {
    write_program(
        scratch / "jupyter-nbconvert",
        "echo 'nbclient.exceptions.CellExecutionError: An error occurred'\necho 'Traceback (most recent call'\n"
        "printf '%b\\n' \"" +
            last + "\"\necho\nexit 1\n");
    return message_of([&] { write_notebook(scratch / "."); });
  };
  CHECK(error_of("\033[0;31mDamagedResults\033[0m: memory.csv: is missing") ==
        (scratch / "./memory.csv").string() + ": is missing");
  CHECK(error_of("KeyError: 'total'") == (scratch / ".").string() +
                                             ": its results are damaged, or not of this version of Heddle: KeyError: "
                                             "'total'");
}

TEST_CASE("the notebook is executed in its folder and rendered, by names that the user did not choose") {
  const Scratch scratch;
  fs::create_directory(scratch / "--to=pdf; x");
  const fs::path results = scratch / "--to=pdf; x";
  write_file_atomically(results / "summary.json", R"({"name": "a <study>", "variants": []})");
  write_program(scratch / "jupyter-nbconvert",
                "for a in \"$@\"; do printf '%s|' \"$a\"; done >>arguments\n"
                "echo '<p>the body</p>' >notebook.body.html\n");
  const OnlyPath path(scratch / ".");
  const NotebookFiles files = write_notebook(results);
  CHECK(files.notebook == results / "notebook.ipynb");
  CHECK(files.html == results / "notebook.html");
  const std::string page = read_file(results / "notebook.html", 1 << 20);
  CHECK(page.starts_with("<!DOCTYPE html>"));
  CHECK(page.find("<title>a &lt;study&gt;</title>") != std::string::npos);
  CHECK(page.find("<main>\n<p>the body</p>\n\n</main>") != std::string::npos);
  CHECK(page.find("drawTimeline") != std::string::npos);
  CHECK_FALSE(fs::exists(results / "notebook.body.html"));
  CHECK(read_file(results / "arguments", 1000) ==
        "--to|notebook|--execute|--inplace|notebook_draft.ipynb|"
        "--to|html|--template|basic|--no-input|--output|notebook.body|notebook_draft.ipynb|");
  CHECK(read_file(files.notebook, 1 << 20) == notebook_json("a <study>", {}));
  CHECK_FALSE(fs::exists(results / "notebook_draft.ipynb"));
}

TEST_CASE("a notebook that is not executed leaves an earlier one and its page as they were") {
  const Scratch scratch;
  write_file_atomically(scratch / "summary.json", R"({"name": "study", "variants": []})");
  write_file_atomically(scratch / "notebook.ipynb", "earlier");
  write_file_atomically(scratch / "notebook.html", "earlier page");
  const OnlyPath path(scratch / ".");
  const auto check_kept = [&](const std::string& error) {
    CHECK(message_of([&] { write_notebook(scratch / "."); }) == (scratch / "./notebook.ipynb").string() + error);
    CHECK(read_file(scratch / "notebook.ipynb", 100) == "earlier");
    CHECK(read_file(scratch / "notebook.html", 100) == "earlier page");
    CHECK_FALSE(fs::exists(scratch / "notebook_draft.ipynb"));
  };
  check_kept(std::string(": left as it was: there is no jupyter-nbconvert. On Debian: apt-get install "
                         "--no-install-recommends ") +
             packages);
  write_program(scratch / "jupyter-nbconvert", "echo no kernel\nexit 1\n");
  check_kept(": jupyter-nbconvert ended with code 1:\nno kernel");
}

TEST_CASE("a page forbids the browser to load anything, has both schemes of colours, and shows its title as text") {
  const std::string page =
      html_page("\"a\" & <b>", embedded_file("pages/page.css"), "<p>body</p>", {"draw();\n", "name();\n"});
  CHECK(page.find(
            "content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'\"") !=
        std::string::npos);
  CHECK(page.find("<title>&quot;a&quot; &amp; &lt;b&gt;</title>") != std::string::npos);
  CHECK(page.find("@media (prefers-color-scheme: dark)") != std::string::npos);
  CHECK(page.ends_with(
      "<main>\n<p>body</p>\n</main>\n<script>\ndraw();\n</script>\n<script>\nname();\n</script>\n</body>\n</html>\n"));
  CHECK(message_of([] { embedded_file("pages/none.js"); }) == "embedded_file: there is no file pages/none.js");
}

TEST_CASE("a folder without a run's summary is an error that names the file") {
  const Scratch scratch;
  const std::string summary = (scratch / "./summary.json").string();
  CHECK(message_of<InputError>([&] { write_notebook(scratch / "."); }) ==
        summary + ": does not exist: expected the results folder of a run that has ended");
  const std::string deep = R"({"name": "x", "variants": [{"stages": )" + deep_json() + "}]}";
  for (const std::string_view text : {"", "[]", "{\"name\": 3, \"variants\": []}", "{\"name\": \"x\"}", deep.c_str()}) {
    write_file_atomically(summary, text);
    CHECK(message_of<InputError>([&] { write_notebook(scratch / "."); }) == summary + ": is not the summary of a run");
  }
}

}  // namespace
}  // namespace heddle::test
