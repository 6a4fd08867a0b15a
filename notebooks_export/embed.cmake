# Writes the C++ file OUTPUT, which defines embedded_file() (embedded_files.h) for the files of two folders below FOLDER:
#   cmake -DFOLDER=... -DOUTPUT=... -P embed.cmake
# The bytes are written as numbers: quotes, backslashes and the length of a string literal need no care.
file(GLOB paths RELATIVE ${FOLDER} ${FOLDER}/cells/* ${FOLDER}/pages/*)
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
file(WRITE ${OUTPUT} "#include \"notebooks_export/embedded_files.h\"

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

std::string_view embedded_file(std::string_view name) {
  static const std::array files{
${rows}  };
  for (const File& file : files)
    if (file.name == name) return file.text;
  fail(\"notebooks_export: there is no file {}\", name);
}

}  // namespace heddle
")
