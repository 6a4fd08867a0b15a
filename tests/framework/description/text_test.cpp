#include "framework/description/text.h"

#include <doctest/doctest.h>

namespace heddle::test {

TEST_CASE("a word of a shell command is in quotes where the shell would read its characters otherwise") {
  CHECK(shell_word("experiments/quickstart.json") == "experiments/quickstart.json");
  CHECK(shell_word("train.steps=5") == "train.steps=5");
  CHECK(shell_word("my faces.json") == "'my faces.json'");
  CHECK(shell_word(R"(data.folder="a")") == R"('data.folder="a"')");
  CHECK(shell_word("it's $HOME") == R"('it'\''s $HOME')");
  CHECK(shell_word("~/faces") == "'~/faces'");
  CHECK(shell_word("").size() == 2);
}

TEST_CASE("a field of a .csv is in quotes where its characters would end the field") {
  CHECK(csv_field("faces/p 1.jpg").find('"') == std::string::npos);
  CHECK(csv_field("a, b") == "\"a, b\"");
  CHECK(csv_field("a\nb") == "\"a\nb\"");
  CHECK(csv_field("a \"b\"") == "\"a \"\"b\"\"\"");
  CHECK(csv_field("").empty());
}

}  // namespace heddle::test
