#include "experiments/results/pictures/svg_parts.h"

#include <fmt/format.h>

#include "framework/description/html_text.h"

namespace heddle {

std::string svg_text(double x, double y, std::string_view text, std::string_view attributes) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\"{}>{}</text>\n", x, y, attributes, html_text(text));
}

std::string begin_svg_file(double width, double height, std::string_view title, double left) {
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
             "{1:.0f}\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n<title>{2}</title>\n"
             "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
             width, height, html_text(title)) +
         svg_text(left, 20, title, " font-size=\"15\" font-weight=\"bold\"");
}

}  // namespace heddle
