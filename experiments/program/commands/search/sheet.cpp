#include <map>

#include "experiments/data/codecs/image_codecs.h"
#include "experiments/data/image.h"
#include "experiments/data/resize.h"
#include "experiments/program/commands/search/found_people.h"
#include "framework/description/text.h"
#include "notebooks_export/embedded_files.h"
#include "notebooks_export/page.h"

namespace heddle {

namespace {

constexpr int thumbnail_side = 112;  // pixels of an image's longer side

/// A small copy of an image as a URL that contains it; empty if there is no image to read.
std::string thumbnail(const std::string& path) {
  constexpr int quality = 80;
  try {
    return data_url("image/jpeg", encode_jpeg(fit_into_square(load_image(path), thumbnail_side), quality));
  } catch (const InputError&) {
    return "";
  }
}

std::string html_figure(std::string_view kind, const std::string& picture, const std::string& name,
                        const std::string& caption) {
  const std::string shown =
      picture.empty() ? std::string("no image") : fmt::format("<img alt=\"{}\" src=\"{}\">", html_text(name), picture);
  return fmt::format("<figure class=\"{}\"><div>{}</div><figcaption>{}</figcaption></figure>\n", kind, shown, caption);
}

}  // namespace

void write_search_sheet(AtomicFile& file, const FoundPeople& found) {
  const std::string title = "Search in " + found.gallery_path;
  file.write(
      html_begin(title, fmt::format("{}{}", embedded_file("pages/report.css"), embedded_file("pages/search.css"))));
  file.write("<h1>" + html_text(title) + "</h1>\n");
  for (const std::string& line : lines_of(search_header(found))) file.write("<p>" + html_text(line) + "</p>\n");
  std::map<std::string, std::string> thumbnails;  // of the gallery's images that were found
  for (std::size_t i = 0; i < found.probes.size(); ++i) {
    const std::string& probe = found.probes[i];
    file.write("<div class=\"row\">\n" + html_figure("probe", thumbnail(probe), probe, html_text(probe)));
    for (const Neighbour& neighbour : found.nearest[i]) {
      const std::string image = found.image(neighbour);
      const auto [picture, is_new] = thumbnails.try_emplace(image);
      if (is_new) picture->second = thumbnail(image);
      const std::optional<bool> matches = found.matches(neighbour);
      const std::string person = found.person(neighbour);
      file.write(html_figure(!matches   ? ""
                             : *matches ? "match"
                                        : "other",
                             picture->second, person,
                             fmt::format("{}<br>{:.4f}{}", html_text(person), neighbour.cosine,
                                         !matches   ? ""
                                         : *matches ? ", match"
                                                    : ", no match")));
    }
    file.write("</div>\n");
  }
  file.write(html_end());
}

}  // namespace heddle
