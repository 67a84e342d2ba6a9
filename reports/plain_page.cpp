#include "reports/plain_page.h"

#include "model/base/system/files.h"
#include "model/base/text/json.h"
#include "reports/page.h"
#include "reports/report.h"

namespace isobar {

std::string write_plain_page(const std::filesystem::path& out, const std::string& title,
                             const std::vector<Figure>& figures, const std::vector<Table>& tables,
                             const std::vector<std::string>& sentences) {
  clear_old(out);
  for (const Figure& f : figures)
    write_atomically(out / "figures" / (f.id + ".vl.json"), json_text(f.spec) + "\n");
  for (const Table& t : tables) write_atomically(out / "tables" / (t.id + ".csv"), to_csv(t));
  write_atomically(out / "index.html", page_html(title, figures, tables, sentences));
  return draw_figures(out, {}, true);
}

}  // namespace isobar
