// A JSON object that is to be read into a described struct. It records where each value came from: the file, a
// variant's patch or the command line's --set.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "framework/description/describe.h"

namespace heddle {

class Document {
 public:
  struct Contents;
  explicit Document(std::shared_ptr<const Contents> contents);

  /// Where the value at a JSON pointer came from, for errors that the description cannot find: `fail<InputError>("{}:
  /// expected a multiple of 4, got 30", document.where("/train/batch"))` says `experiment.json:
  /// /variants/2/patch/train/batch: expected ...`. A value that is absent counts as its object's.
  std::string where(std::string_view pointer) const;
  const Contents& contents() const { return *contents_; }

 private:
  std::shared_ptr<const Contents> contents_;
};

/// Throws InputError if the text is not one JSON object; `name` begins the messages.
Document parse_document(std::string_view text, std::string name);
/// The same for a file of at most 16 MiB.
Document read_document(const std::filesystem::path& path);
/// A file's text. Throws InputError if it cannot be read or is larger than 16 MiB.
std::string read_config_text(const std::filesystem::path& path);

/// Reads the document into the structs that `body` describes. What the document leaves out keeps its value. Throws one
/// InputError with a line for every wrong, missing or unknown key (up to twenty).
void read(const Document& document, const Describer::Body& body);

}  // namespace heddle
