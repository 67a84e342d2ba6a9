#include "reports/report.h"

#include "model/base/error.h"
#include "model/base/system/files.h"
#include "model/base/system/program.h"
#include "reports/comparison/side_by_side.h"
#include "reports/figures/figures.h"
#include "reports/page.h"
#include "reports/tables/report_tables.h"
#include "reports/tables/run_rows.h"

namespace isobar::report {
namespace {

namespace fs = std::filesystem;

constexpr size_t kStill = 2000;  // runs
constexpr int kNoVlConvert = 3;  // exit code of render.py
constexpr const char* kMend =
    "figures need the Python package vl-convert-python: run bench/setup.sh, or make one by hand with "
    "`python3 -m venv venv && venv/bin/pip install vl-convert-python` and name it: "
    "export ISOBAR_REPORT_PYTHON=$PWD/venv/bin/python";

// The output of render.py; "" with the reason in `why` where it could not do its work.
std::string render(const fs::path& python, std::vector<std::string> words, std::string* why,
                   const std::atomic<bool>* unwanted = nullptr) {
  const fs::path renderer = file_of_program("reports/render.py", why);
  if (renderer.empty()) {
    if (why->empty()) *why = "reports/render.py is not beside the program: install it whole";
    return "";
  }
  const fs::path drawing = python.empty() ? drawing_python(why) : python;
  if (!why->empty()) return "";
  words.insert(words.begin(), {drawing.string(), renderer.string()});
  ProgramRun run = run_program(words, unwanted);
  if (run.code == 0) return std::move(run.out);
  *why = run.code == 127 || run.code == kNoVlConvert
             ? kMend
             : "render.py failed with code " + std::to_string(run.code) + ": " + run.err;
  return "";
}

}  // namespace

void clear_old(const fs::path& out) {
  for (const char* folder : {"figures", "tables"}) {
    if (!fs::is_directory(out / folder)) continue;
    for (const auto& entry : fs::directory_iterator(out / folder)) {
      const std::string name = entry.path().filename().string();
      for (const char* end : {".vl.json", ".svg", ".png", ".pdf", ".csv", ".jsonl"})
        if (entry.is_regular_file() && name.ends_with(end)) fs::remove(entry.path());
    }
  }
}

std::string draw_figures(const fs::path& out, const ReportOptions& options, bool stills) {
  std::vector<std::string> words = {out.string()};
  if (!stills) words.emplace_back("--no-stills");
  if (options.png) words.emplace_back("--png");
  if (options.pdf) words.emplace_back("--pdf");
  std::string why;
  render(options.python, std::move(words), &why);
  return why;
}

std::string vega_bundle(const fs::path& python, std::string* missing, const std::atomic<bool>* unwanted) {
  return render(python, {"--bundle"}, missing, unwanted);
}

std::string script_of_page(const std::string& name) {
  const fs::path file = file_of_program("reports/scripts/" + name);
  if (file.empty())
    throw ConfigError("reports/scripts/" + name, "", "is not beside the program", "install isobar whole");
  return read_file(file);
}

Report write_report(const std::vector<fs::path>& dirs, const fs::path& out, const ReportOptions& options) {
  Report r;
  r.data = collect(
      dirs, {.machine = options.machine, .workspace = options.workspace, .statistic = options.statistic});
  const ReportData& d = r.data;
  std::optional<SideBySide> beside;  // its errors are raised before anything is written
  if (options.perfetto) beside = side_by_side(d, options.workspace);
  const ChartData s = chart_data(d);
  const std::vector<Comparison> comparisons = compare(d);
  const std::vector<Figure> drawings = figures(d, s, r.data.problems);
  const auto keep = [&](Table t) {
    if (!t.rows.empty()) r.tables.push_back(std::move(t));
  };
  for (size_t i = 0; i < comparisons.size(); ++i) keep(comparison_table(comparisons[i], i));
  keep(score_table(d));
  keep(runs_table(d));
  if (s.rows.size() > 2) keep(pareto_table(d, s));
  if (const ReportRun* run = ops_run(d)) {
    keep(kinds_table(d, *run));
    keep(ops_table(d, *run, true));
  }
  keep(failed_table(d));
  if (std::optional<Table> ranks = ranks_table(d)) keep(std::move(*ranks));
  keep(memory_table(d));
  keep(training_table(d));
  keep(provenance_table(d));

  clear_old(out);
  fs::remove(out / "perfetto.json");
  if (beside) {
    r.perfetto = out / "perfetto.json";
    beside->write(r.perfetto);
  }
  for (const Table& t : r.tables) write_atomically(out / "tables" / (t.id + ".csv"), to_csv(t));
  r.rows = run_rows(d);
  write_atomically(out / "tables" / "runs.csv", csv_of(r.rows));
  write_atomically(out / "tables" / "runs.jsonl", json_lines_of(r.rows));
  if (const Table t = terms_table(d); !t.rows.empty())
    write_atomically(out / "tables" / "terms.csv", to_csv(t));
  if (const ReportRun* run = ops_run(d))
    write_atomically(out / "tables" / "ops_all.csv", to_csv(ops_table(d, *run, false)));
  for (const Figure& f : drawings) {
    r.figure_ids.push_back(f.id);
    write_atomically(
        out / "figures" / (f.id + ".vl.json"),
        self_contained(f, s).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  }
  r.page = out / "index.html";
  write_atomically(r.page, page_html(text_of_page(d, comparisons), drawings, r.tables, s.rows, facets_of(d)));
  // With this many runs the browser draws alone: still pictures would double the page's size.
  r.not_drawn = options.draw ? draw_figures(out, options, d.runs.size() <= kStill) : "not asked to";
  r.drawn = r.not_drawn.empty();
  return r;
}

}  // namespace isobar::report
