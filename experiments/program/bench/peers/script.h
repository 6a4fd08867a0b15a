// The scripts of this folder, which the build puts into the program (packaging/embed.cmake).
#pragma once

#include <string_view>

namespace heddle {

/// The text of a script, named as in `bench/peers/torch_peer.py`. An internal error if there is no such file.
std::string_view peer_script(std::string_view name);

}  // namespace heddle
