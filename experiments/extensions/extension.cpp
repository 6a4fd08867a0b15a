#include "experiments/extensions/extension.h"

#include <exception>
#include <string_view>

#include <dlfcn.h>

#include "framework/error.h"

namespace heddle {

namespace {

template <class Symbol>
Symbol* symbol_of(void* library, const char* name) {
  void* const symbol = ::dlsym(library, name);
  if (symbol == nullptr)
    fail<InputError>("expected a library that was built with Heddle::extension and defines {}", name);
  return reinterpret_cast<Symbol*>(symbol);
}

/// The rows that the library's function adds.
Extension rows_of(const std::filesystem::path& file) {
  if (!std::filesystem::is_regular_file(file)) fail<InputError>("expected a shared library, found no such file");
  // An absolute path: dlopen looks for a name without a slash elsewhere.
  void* const library = ::dlopen(std::filesystem::absolute(file).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) fail<InputError>("it cannot be opened: {}", ::dlerror());
  // Heddle::extension compiles its version into the library. Structs of another version may have other members.
  const std::string_view built_for = symbol_of<const char>(library, "heddle_extension_version");
  if (built_for != HEDDLE_VERSION)
    fail<InputError>("it was built for Heddle {}, and this is Heddle {}", built_for, HEDDLE_VERSION);
  Extension own;
  symbol_of<void(Extension&)>(library, "heddle_extend")(own);
  return own;
}

std::vector<std::filesystem::path> loaded;

}  // namespace

const std::vector<std::filesystem::path>& loaded_extensions() {
  return loaded;
}

void load_extension(const std::filesystem::path& file) {
  try {
    const Extension own = rows_of(file);
    add_layers(own.layers);
    add_schedules(own.schedules);
    add_margins(own.margins);
    loaded.push_back(file);
  } catch (const std::exception& error) {
    fail<InputError>("extension {}: {}", file.string(), error.what());
  }
}

}  // namespace heddle
