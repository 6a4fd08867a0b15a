// Natural order of names, in which digits compare as numbers: "2.pgm" before "10.pgm".
#pragma once

#include <string_view>

namespace heddle {

bool natural_less(std::string_view a, std::string_view b);

}  // namespace heddle
