// Templates: several images of one person that are compared as one, as in the IJB benchmarks (Whitelam et al. 2017).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace heddle {

/// An image in a template. Images of one medium, such as the frames of a video, together count as one.
struct TemplateImage {
  std::int64_t image = 0;  // a row of the embeddings
  std::int64_t group = 0;  // the template's number, from 0 on
  std::int64_t medium = 0;
};

/// Row-major [templates, dimension]: for each template the mean over its media of the mean over the medium's images,
/// scaled to length 1. As in InsightFace, the embeddings of the images are not scaled before. Sums are in f64, in the
/// order of the list. Error if a template between 0 and `templates` - 1 has no image.
std::vector<float> template_embeddings(std::span<const float> embeddings, std::int64_t dimension,
                                       const std::vector<TemplateImage>& images, std::int64_t templates);

}  // namespace heddle
