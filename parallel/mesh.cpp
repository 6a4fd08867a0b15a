#include "parallel/mesh.h"

#include "framework/error.h"

namespace heddle {

Mesh::Mesh(int dp, int pp, int tp) : sizes_{dp, pp, tp} {
  for (std::size_t i = 0; i < axis_names.size(); ++i)
    if (size(static_cast<Axis>(i)) < 1)
      fail<InputError>("mesh: expected at least one rank along {}, got {}", axis_names[i], size(static_cast<Axis>(i)));
}

Mesh::Coordinates Mesh::coordinates(int rank) const {
  return {rank / (sizes_.pp * sizes_.tp), rank / sizes_.tp % sizes_.pp, rank % sizes_.tp};
}

int Mesh::first_along(Axis axis, int rank) const {
  Coordinates at = coordinates(rank);
  switch (axis) {
    case Axis::dp:
      at.dp = 0;
      break;
    case Axis::pp:
      at.pp = 0;
      break;
    case Axis::tp:
      at.tp = 0;
      break;
  }
  return this->rank(at);
}

std::string to_string(const Mesh& mesh) {
  std::string text;
  for (std::size_t i = 0; i < axis_names.size(); ++i) {
    const int size = mesh.size(static_cast<Axis>(i));
    if (size > 1) text += fmt::format("{}{} {}", text.empty() ? "" : " x ", axis_names[i], size);
  }
  return text.empty() ? "1 rank" : text;
}

}  // namespace heddle
