#include "framework/files/untrusted_json.h"

namespace heddle {

bool nests_too_deeply(std::string_view json) {
  std::size_t levels = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++levels > max_json_levels) return true;
    } else if ((c == ']' || c == '}') && levels > 0) {
      --levels;
    }
  }
  return false;
}

}  // namespace heddle
