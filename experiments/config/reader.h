// Reads values into described structs and notes every problem. Internal: `document.h` is the way in.
#pragma once

#include "experiments/config/document.h"
#include "experiments/config/json_text.h"
#include "experiments/config/source.h"
#include "experiments/config/value.h"
#include "framework/description/describe.h"

namespace heddle {

struct Document::Contents {
  std::shared_ptr<const Source> source;
  Value root;  ///< an object
  std::vector<ParsedJson::Duplicate> duplicates;
};

/// Reports problems with the place of the value that causes them.
struct ProblemReporter {
  const Source& source;
  Problems& problems;

  /// `pointer` is the place of the culprit in the merged experiment.
  void report(const Value& culprit, std::string_view pointer, std::string_view message) const;
  /// `expected WHAT, got ...`.
  void expected(const Value& culprit, std::string_view pointer, std::string_view what) const;
};

/// Reads the object `root`. `also_known` are keys that others read; they are offered as suggestions.
void read_value(const Value& root, const Source& source, Problems& problems, const Describer::Body& body,
                std::span<const std::string> also_known = {});

/// Notes keys that stand twice in one object.
void report_duplicates(std::span<const ParsedJson::Duplicate> duplicates, const Source& source, std::uint32_t origin,
                       Problems& problems);

}  // namespace heddle
