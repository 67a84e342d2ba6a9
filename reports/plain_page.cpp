#include "reports/plain_page.h"

#include "model/base/system/files.h"
#include "model/base/text/json.h"
#include "reports/page.h"
#include "reports/report.h"

namespace isobar::report {

std::string write_plain_page(const std::filesystem::path& out, const PageText& text,
                             const std::vector<Figure>& figures, const std::vector<Table>& tables) {
  clear_old(out);
  for (const Figure& f : figures)
    write_atomically(out / "figures" / (f.id + ".vl.json"), json_text(f.spec) + "\n");
  for (const Table& t : tables) write_atomically(out / "tables" / (t.id + ".csv"), to_csv(t));
  write_atomically(out / "index.html", page_html(text, figures, tables));
  return draw_figures(out, {}, true);
}

}  // namespace isobar::report
