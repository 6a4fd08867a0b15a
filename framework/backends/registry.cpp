// The table of backends. A backend with devices of its own adds its row here.
#include <array>

#include <fmt/ranges.h>

#include "framework/backends/backend.h"
#include "framework/error.h"

namespace heddle {

namespace {

constexpr std::array<std::string_view, 3> names{"cpu", "cuda", "plan"};
constexpr std::array<std::unique_ptr<Backend> (*)(const BackendOptions&), names.size()> makers{
    make_cpu_backend, make_cuda_backend, make_plan_backend};

}  // namespace

std::unique_ptr<Backend> make_backend(std::string_view name, const BackendOptions& options) {
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == name) return makers[i](options);
  fail<InputError>("unknown device '{}': expected one of {}", name, fmt::join(names, ", "));
}

std::span<const std::string_view> backend_names() {
  return names;
}

std::vector<std::pair<std::string, std::string>> backend_versions() {
  std::vector<std::pair<std::string, std::string>> versions = cpu_versions();
  for (auto& version : cuda_versions()) versions.push_back(std::move(version));
  return versions;
}

}  // namespace heddle
