# Writes the C++ file OUTPUT, which defines the function that HEADER declares: FUNCTION(name) is the text of a file, named
# relative to FOLDER. PATTERNS says which files, separated by commas:
#   cmake -DFOLDER=... -DPATTERNS=cells/*,pages/* -DHEADER=... -DFUNCTION=... -DOUTPUT=... -P embed.cmake
# The bytes are written as numbers: quotes, backslashes and the length of a string literal need no care.
string(REPLACE "," ";" patterns "${PATTERNS}")
list(TRANSFORM patterns PREPEND "${FOLDER}/")
file(GLOB paths RELATIVE ${FOLDER} ${patterns})
list(SORT paths)
set(arrays "")
set(rows "")
set(index 0)
foreach(path IN LISTS paths)
  file(READ ${FOLDER}/${path} bytes HEX)
  string(LENGTH "${bytes}" digits)
  math(EXPR size "${digits} / 2")
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
  string(APPEND arrays "constexpr unsigned char file_${index}[] = {${bytes}0};  // ${path}\n")
  string(APPEND rows "    File{\"${path}\", {reinterpret_cast<const char*>(file_${index}), ${size}}},\n")
  math(EXPR index "${index} + 1")
endforeach()
file(WRITE ${OUTPUT} "#include \"${HEADER}\"

#include <array>

#include \"framework/error.h\"

namespace heddle {

namespace {

${arrays}
struct File {
  std::string_view name;
  std::string_view text;
};

}  // namespace

std::string_view ${FUNCTION}(std::string_view name) {
  static const std::array files{
${rows}  };
  for (const File& file : files)
    if (file.name == name) return file.text;
  fail(\"${FUNCTION}: there is no file {}\", name);
}

}  // namespace heddle
")
