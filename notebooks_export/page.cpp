#include "notebooks_export/page.h"

#include <fmt/core.h>

#include "notebooks_export/embedded_files.h"

namespace heddle {

std::string html_page(std::string_view title, std::string_view body, std::initializer_list<std::string_view> scripts) {
  std::string page = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; "
      "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n"
      "<link rel=\"icon\" href=\"data:,\">\n<title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n<main>\n{}\n"
      "</main>\n",
      html_text(title), embedded_file("pages/page.css"), body);
  for (const std::string_view script : scripts) page += fmt::format("<script>\n{}</script>\n", embedded_file(script));
  return page + "</body>\n</html>\n";
}

}  // namespace heddle
