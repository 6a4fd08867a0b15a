# Writes the C++ file OUTPUT, which defines cell_files() (cell_files.h) with the names and bytes of the files in FOLDER:
#   cmake -DFOLDER=... -DOUTPUT=... -P embed.cmake
# The bytes are written as numbers: quotes, backslashes and the length of a string literal need no care.
file(GLOB paths ${FOLDER}/*)
list(SORT paths)
set(arrays "")
set(rows "")
set(index 0)
foreach(path IN LISTS paths)
  get_filename_component(name ${path} NAME)
  file(READ ${path} bytes HEX)
  string(LENGTH "${bytes}" digits)
  math(EXPR size "${digits} / 2")
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
  string(APPEND arrays "constexpr unsigned char file_${index}[] = {${bytes}0};  // ${name}\n")
  string(APPEND rows "    CellFile{\"${name}\", {reinterpret_cast<const char*>(file_${index}), ${size}}},\n")
  math(EXPR index "${index} + 1")
endforeach()
file(WRITE ${OUTPUT} "#include \"notebooks_export/cell_files.h\"

#include <array>

namespace heddle {

namespace {

${arrays}
}  // namespace

std::span<const CellFile> cell_files() {
  static const std::array files{
${rows}  };
  return files;
}

}  // namespace heddle
")
