#include "reports/plain_page.h"

#include "model/base/files.h"
#include "reports/page.h"
#include "reports/report.h"

namespace isobar {

std::string write_plain_page(const std::filesystem::path& out, const std::string& title,
                             const std::vector<Figure>& figures, const std::vector<Table>& tables) {
  std::string page =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Isobar: " +
      html_escape(title) + "</title>\n<style>" + page_style() + "</style>\n</head>\n<body>\n<main>\n<h1>" +
      html_escape(title) + "</h1>\n";
  clear_old(out);
  for (const Figure& f : figures) {
    page += "<figure id=\"" + f.id + "\"><h3>" + html_escape(f.title) +
            "</h3>\n<div class=\"plot\"><!--isobar:figure " + f.id +
            "-->not drawn<!--/isobar:figure--></div>\n" + "<figcaption>" + html_escape(f.caption) +
            "</figcaption></figure>\n";
    write_atomically(out / "figures" / (f.id + ".vl.json"), f.spec.dump() + "\n");
  }
  for (const Table& t : tables) {
    page += "<h3 id=\"title-" + t.id + "\">" + html_escape(t.title) +
            "</h3>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-labelledby=\"title-" + t.id +
            "\">" + to_html(t) + "</div>\n";
    if (!t.note.empty()) page += "<p class=\"note\">" + html_escape(t.note) + "</p>\n";
    write_atomically(out / "tables" / (t.id + ".csv"), to_csv(t));
  }
  write_atomically(out / "index.html", page + "</main>\n</body>\n</html>\n");
  return draw_figures(out, {}, true);
}

}  // namespace isobar
