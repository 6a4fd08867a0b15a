// Lists of the IJB benchmarks: the images of each template, and the pairs of templates that are compared.
//
//   img/1.jpg  1  69544       an image, its template and its medium: both are numbers
//
//   1  18283  0               two templates, and 1 for one person or 0 for two
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "experiments/training/evaluation/protocol/pairs.h"
#include "experiments/training/evaluation/protocol/templates.h"

namespace heddle {

struct TemplateSet {
  std::vector<std::string> files;     // each image once
  std::vector<TemplateImage> images;  // templates are numbered in the order in which the list names them
  std::int64_t templates = 0;
  std::vector<Pair> pairs;  // pairs of templates
};

/// InputError names the list, the line and what is wrong: a column that is not a number, an image that is not in the
/// folder, or a template without images.
TemplateSet read_template_set(const std::filesystem::path& templates, const std::filesystem::path& pairs,
                              const std::filesystem::path& folder);

}  // namespace heddle
