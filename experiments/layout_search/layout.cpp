#include "experiments/layout_search/layout.h"

#include <functional>
#include <numeric>

#include <fmt/format.h>

namespace heddle {

std::string value_of(const Layout& layout, LayoutOption option) {
  switch (option) {
    case LayoutOption::mesh:
      return to_string(mesh_of(layout.mesh));
    case LayoutOption::schedule:
      if (layout.mesh.pp == 1) return "no pipeline";
      return layout.chunks == 1 ? layout.schedule : fmt::format("{}, v = {}", layout.schedule, layout.chunks);
    case LayoutOption::micro_batches:
      return std::to_string(layout.micro_batches);
    case LayoutOption::recompute:
      return std::string(name_of(layout.recompute));
    case LayoutOption::offload:
      return std::string(name_of(layout.offload));
    case LayoutOption::shard:
      return std::string(name_of(layout.shard));
    case LayoutOption::placements:
      return std::string(name_of(layout.placements));
    case LayoutOption::cut:
      return std::string(name_of(layout.cut));
    case LayoutOption::over:
      return layout.over == every_axis ? "all" : to_string(layout.over);
    case LayoutOption::logits:
      return std::string(name_of(layout.logits));
    case LayoutOption::head_work:
      return std::string(name_of(layout.head_work));
  }
  return {};
}

LayoutValues values_of(const Layout& layout) {
  LayoutValues values;
  for (const LayoutOption option : all_of<LayoutOption>)
    values.at(static_cast<std::size_t>(option)) = value_of(layout, option);
  return values;
}

int distance(const LayoutValues& a, const LayoutValues& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0, std::plus<>(), std::not_equal_to<>());
}

int distance(const Layout& a, const Layout& b) {
  return distance(values_of(a), values_of(b));
}

std::string to_string(const Layout& layout) {
  std::string text;
  for (const LayoutOption option : all_of<LayoutOption>) {
    if (!text.empty()) text += ", ";
    if (option != LayoutOption::mesh) text += fmt::format("{} ", name_of(option));
    text += value_of(layout, option);
  }
  return text;
}

}  // namespace heddle
