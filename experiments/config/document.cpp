#include "experiments/config/document.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include <fmt/format.h>

#include "experiments/config/reader.h"
#include "experiments/config/wording.h"

namespace heddle {

Document::Document(std::shared_ptr<const Contents> contents) : contents_(std::move(contents)) {}

std::string Document::where(std::string_view pointer) const {
  const Value* value = value_at(contents_->root, pointer);
  for (std::size_t end = pointer.rfind('/'); value == nullptr; end = pointer.rfind('/', end - 1))
    value = value_at(contents_->root, pointer.substr(0, end));
  return contents_->source->where(value->origin, pointer);
}

Document parse_document(std::string_view text, std::string name) {
  ParsedJson parsed = parse_json(text, name);
  if (!parsed.root.is<Object>()) fail<InputError>("{}: expected an object, got {}", name, value_words(parsed.root));
  auto source = std::make_shared<const Source>(std::move(name));
  return Document(std::make_shared<const Document::Contents>(
      Document::Contents{std::move(source), std::move(parsed.root), std::move(parsed.duplicates)}));
}

Document read_document(const std::filesystem::path& path) {
  return parse_document(read_config_text(path), path.string());
}

std::string read_config_text(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) fail<InputError>("{}: expected a file, got a folder", path.string());
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) fail<InputError>("{}: cannot be read: {}", path.string(), std::strerror(errno));
  std::string text;
  std::array<char, 1 << 16> piece;  // it may be a pipe, whose size is not known
  do {
    file.read(piece.data(), piece.size());
    text.append(piece.data(), static_cast<std::size_t>(file.gcount()));
  } while (file && text.size() <= max_json_bytes);
  if (file.bad()) fail<InputError>("{}: cannot be read: {}", path.string(), std::strerror(errno));
  if (text.size() > max_json_bytes)
    fail<InputError>("{}: expected at most {} MiB", path.string(), max_json_bytes >> 20);
  return text;
}

void read(const Document& document, const Describer::Body& body) {
  const Document::Contents& contents = document.contents();
  Problems problems;
  report_duplicates(contents.duplicates, *contents.source, contents.root.origin, problems);
  read_value(contents.root, *contents.source, problems, body);
  problems.raise();
}

}  // namespace heddle
