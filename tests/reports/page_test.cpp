// The written report: complete without Python, and with drawings if Python has vl-convert.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "model/base/system/files.h"
#include "model/base/system/program.h"
#include "perfmodel/ask/predict.h"
#include "perfmodel/machine/coefficient.h"
#include "perfmodel/machine/shipped.h"
#include "reports/figures/chart_data.h"
#include "reports/figures/figures.h"
#include "reports/report.h"
#include "reports/style/palette.h"
#include "reports/tables/report_tables.h"
#include "reports/tables/run_rows.h"
#include "tests/pattern.h"
#include "tests/reports/fixture.h"

namespace isobar::report {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const char* const kEvil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"' --><!--";

// All tags that a browser would parse, in the order of the page.
std::vector<std::string> tags(const std::string& html) {
  std::vector<std::string> out;
  for (size_t i = 0; (i = html.find('<', i)) != std::string::npos; ++i) {
    const size_t end = html.find('>', i);
    out.push_back(html.substr(i, end - i + 1));
  }
  return out;
}

TEST(Page, HoldsEveryRunEveryTableAndEveryFigure) {
  TempDir dir, out;
  MadeUpResults made(dir.path);
  made.write_sweep();
  made.write_run("long", MadeUpResults::spec(1, "none", 0), {{"gpus", 1}}, 4, 24);
  const Report r = write_report({dir.path}, out.path, {.draw = false});
  const std::string page = read_file(out.path / "index.html");
  EXPECT_FALSE(r.drawn);
  for (const ReportRun& run : r.data.runs) {
    EXPECT_NE(page.find(run.run.id), std::string::npos) << run.run.id;
    EXPECT_NE(page.find(html_escape(run.label)), std::string::npos) << run.label;
  }
  EXPECT_NE(page.find("the trial&#39;s memory limit of 100 MB was exceeded"), std::string::npos);
  for (const Table& t : r.tables) {
    EXPECT_TRUE(fs::exists(out.path / "tables" / (t.id + ".csv"))) << t.id;
    EXPECT_NE(page.find("id=\"table-" + t.id + "\""), std::string::npos);
  }
  const std::vector<std::string> expected = {"throughput-by-layout",
                                             "pareto-front",
                                             "scaling",
                                             "step-by-run",
                                             "loader-workers",
                                             "precision",
                                             "predicted-measured",
                                             "residuals",
                                             "step-by-term",
                                             "ops",
                                             "memory",
                                             "training-loss",
                                             "skill",
                                             "failures"};
  EXPECT_EQ(r.figure_ids, expected);
  for (const std::string& id : r.figure_ids) {
    const json spec = json::parse(read_file(out.path / "figures" / (id + ".vl.json")));
    const json& rows = spec["data"].contains("name") ? spec["datasets"]["runs"] : spec["data"]["values"];
    EXPECT_FALSE(rows.empty()) << id;
    EXPECT_NE(page.find("data-figure=\"" + id + "\""), std::string::npos);
  }
}

// Every colour scale of a specification: key -> colour. Fields without a fixed scale are collected in
// `loose`.
void colours_of(const json& spec, std::map<std::string, std::string>& out, std::vector<std::string>& loose) {
  if (spec.is_array())
    for (const json& part : spec) colours_of(part, out, loose);
  if (!spec.is_object()) return;
  for (const auto& [key, value] : spec.items()) {
    if (key == "values" || key == "datasets" || key == "config") continue;
    if (key == "color" && value.is_object() && value.contains("field")) {
      const json scale = value.value("scale", json::object());
      if (!scale.contains("domain") || !scale.contains("range")) {
        loose.push_back(value.dump());
      } else {
        ASSERT_EQ(scale["domain"].size(), scale["range"].size());
        std::set<std::string> used;
        for (size_t i = 0; i < scale["domain"].size(); ++i) {
          const std::string name = scale["domain"][i], colour = scale["range"][i];
          EXPECT_EQ(out.emplace(name, colour).first->second, colour) << name << " has two colours";
          EXPECT_TRUE(used.insert(colour).second) << name << " looks like another of its figure";
        }
      }
    }
    colours_of(value, out, loose);
  }
}

TEST(Page, AKeyHasTheSameColourInAllFigures) {
  TempDir dir, other;
  MadeUpResults made(dir.path);
  made.write_sweep();
  for (int64_t tp : {1, 2, 4}) {
    RunSpec s = MadeUpResults::spec(2, "bf16", 0);
    s.layout.tp = tp;
    s.policy.zero = tp == 1 ? 1 : 0;
    made.write_run("tp" + std::to_string(tp), s,
                   {{"gpus", 2 * tp}, {"policy.amp", "bf16"}, {"data.workers", 0}, {"layout.tp", tp}}, 4, 24);
  }
  MadeUpResults(other.path).write_sweep();
  for (const auto& dirs : {std::vector<fs::path>{dir.path}, {dir.path, other.path}}) {
    const ReportData d = collect(dirs, {});
    std::vector<std::string> problems, loose;
    std::map<std::string, std::string> colours;
    const std::vector<Figure> all = figures(d, chart_data(d), problems);
    EXPECT_GT(all.size(), 10u);
    for (const Figure& f : all) {
      SCOPED_TRACE(f.id);
      colours_of(f.spec, colours, loose);
    }
    EXPECT_TRUE(loose.empty()) << loose[0];
    for (const std::string& layout : palette::layouts(d)) EXPECT_EQ(colours.count(layout), 1u) << layout;
    EXPECT_EQ(colours.at("held out"), palette::kPredicted);
    // Only predictions have the colour of predictions
    for (const auto& [name, colour] : colours) {
      if (name != "held out" && name != "predicted") {
        EXPECT_NE(colour, palette::kPredicted) << name;
      }
    }
    // Every recorded category has its own colour rather than that of "other"
    for (const ReportRun& r : d.runs)
      for (const auto& [kind, bytes] : r.run.memory_by_category)
        EXPECT_NE(palette::colour_of(kind), palette::colour_of("other")) << kind;
  }
}

// Relative luminance by WCAG 2, of "#rrggbb".
double luminance(const std::string& colour) {
  double out = 0;
  for (size_t i = 0; i < 3; ++i) {
    const double v = std::stoi(colour.substr(1 + 2 * i, 2), nullptr, 16) / 255.0;
    out += (i == 0   ? 0.2126
            : i == 1 ? 0.7152
                     : 0.0722) *
           (v <= 0.03928 ? v / 12.92 : std::pow((v + 0.055) / 1.055, 2.4));
  }
  return out;
}

double contrast(const std::string& a, const std::string& b) {
  const auto [low, high] = std::minmax(luminance(a), luminance(b));
  return (high + 0.05) / (low + 0.05);
}

TEST(Page, EveryColourStandsOutFromThePaperLightAndDark) {
  const json dark = palette::on_dark();
  std::set<std::string> colours = {palette::kInk, palette::kMuted, palette::kPredicted, palette::kFitted};
  for (const std::string& name : palette::names()) colours.insert(palette::colour_of(name));
  for (const json& scale :
       {palette::run_scale(std::vector<std::string>(16)), palette::set_scale(std::vector<std::string>(6))})
    for (const json& colour : scale["range"]) colours.insert(colour.get<std::string>());
  EXPECT_GT(colours.size(), 40u);
  const std::string paper = dark.at(palette::kPaper);
  for (const std::string& colour : colours) {
    EXPECT_GE(contrast(colour, palette::kPaper), 3) << colour;
    EXPECT_GE(contrast(dark.value(colour, colour), paper), 3) << colour << " in the dark";
  }
}

// Every term that a coefficient names has its own colour.
TEST(Page, EveryTermOfAPredictionHasAColour) {
  for (size_t i = 0; i < perf::kCoefs; ++i)
    if (const std::string name = perf::info_of(i).term; !name.empty()) {
      EXPECT_NE(palette::colour_of(name), palette::colour_of("other")) << name;
    }
  for (const char* name :
       {perf::term::kExposed, perf::term::kSlowdown, perf::term::kBubble, perf::term::kImbalance,
        perf::term::kReading, perf::term::kStolen, perf::term::kDataWait, perf::term::kBoundaries,
        perf::term::kTensor, perf::term::kContext, perf::term::kTransfers, perf::term::kData})
    EXPECT_NE(palette::colour_of(name), palette::colour_of("other")) << name;
}

TEST(Page, RunsAreWrittenWithEverySettingAndStatistic) {
  TempDir dir, out;
  MadeUpResults(dir.path).write_sweep();
  const Report r = write_report({dir.path}, out.path, {.draw = false});
  ASSERT_EQ(r.rows.size(), 13u);  // including failed runs
  std::istringstream lines(read_file(out.path / "tables" / "runs.jsonl"));
  const std::string csv = read_file(out.path / "tables" / "runs.csv");
  std::string line;
  size_t n = 0;
  for (; std::getline(lines, line); ++n) {
    const json row = json::parse(line);
    const ReportRun& run = r.data.runs[n];
    EXPECT_EQ(row["id"], run.run.id);
    EXPECT_EQ(row["name"], run.name);
    EXPECT_EQ(row["policy_amp"], name_of(run.run.spec.policy.amp));
    EXPECT_EQ(row["layout_dp"], run.run.spec.layout.dp);
    EXPECT_EQ(row["data_workers"], run.run.spec.data.workers);
    EXPECT_EQ(row["class"], records::name_of(run.run.run_class));
    if (run.run.run_class == records::RunClass::ok) {
      EXPECT_DOUBLE_EQ(row["step_s_p10"].get<double>(), run.run.step_s.p10);
      EXPECT_DOUBLE_EQ(row["predicted_s"].get<double>(), run.prediction->step_s);
    } else {
      EXPECT_TRUE(row["measured_s"].is_null());
    }
    const auto spec = to_json(run.run.spec);  // named, because items() refers to it
    for (const auto& [section, keys] : spec.items())
      for (const auto& [key, value] : keys.items())
        EXPECT_TRUE(row.contains(std::string(section) + "_" + key)) << section << "." << key;
    for (const auto& [key, value] : row.items()) EXPECT_NE(csv.find(key), std::string::npos) << key;
  }
  EXPECT_EQ(n, r.rows.size());
  EXPECT_EQ(static_cast<size_t>(std::count(csv.begin(), csv.end(), '\n')), n + 1);
}

// MFU is that of the fixture's 1e9 FLOPs in the forward pass of a sample.
TEST(Page, RunsHaveTheirMeasuredMfuWhereAMachineGivesThePeak) {
  TempDir dir;
  MadeUpResults(dir.path).write_sweep();
  ReportData d = collect({dir.path}, {});
  const json without = run_rows(d);
  d.predictor = perf::load_machine(source_dir() + "/configs/machines/example-2core.yaml");
  const json with = run_rows(d);
  int timed = 0;
  for (size_t i = 0; i < d.runs.size(); ++i) {
    const ReportRun& run = d.runs[i];
    EXPECT_TRUE(without[i]["measured_mfu"].is_null());
    if (run.run.run_class != records::RunClass::ok) continue;
    const double flops = 3e9 * run.rate() / run.run.ranks;
    EXPECT_DOUBLE_EQ(without[i]["measured_model_flops_per_s_rank"].get<double>(), flops);
    EXPECT_DOUBLE_EQ(with[i]["measured_mfu"].get<double>(), flops / roof_of(run, *d.predictor).flops);
    ++timed;
  }
  EXPECT_GT(timed, 3);
  const std::vector<Column>& columns = runs_table(d).columns;
  EXPECT_TRUE(std::any_of(columns.begin(), columns.end(), [](const Column& c) { return c.name == "MFU"; }));
}

TEST(Page, SharedRowsHoldWhatWasMeasuredAndPredicted) {
  TempDir dir;
  MadeUpResults(dir.path).write_sweep();
  const ReportData d = collect({dir.path}, {});
  const json rows = chart_data(d).rows;
  ASSERT_EQ(rows.size(), d.ok().size());
  const auto near = [](const json& value, double expected) {
    EXPECT_NEAR(value.get<double>(), expected, 1e-5 * expected);
  };
  size_t matched = 0;
  for (const json& row : rows)
    for (const ReportRun* r : d.predicted())
      if (r->run.id == row["id"]) {
        ++matched;
        near(row["measured"], r->run.step_s.median * 1e3);
        near(row["predicted"], r->prediction->step_s * 1e3);
        near(row["low"], r->prediction->lower * 1e3);
        near(row["rate"], static_cast<double>(r->run.spec.train.global_batch) / r->run.step_s.median);
        EXPECT_EQ(row["was"] == "in the fit", r->prediction->in_fit);
        double terms = 0;
        for (size_t t = 0; t < 4; ++t) terms += row["t" + std::to_string(t)].get<double>();
        near(terms, r->prediction->step_s * 1e3);
      }
  EXPECT_EQ(matched, d.predicted().size());
}

TEST(Page, TextOfConfigurationsAndMessagesStaysText) {
  TempDir dir, harmless, out, out_harmless;
  const auto write = [](const fs::path& to, const std::string& s) {
    MadeUpResults made(to, 1);
    RunSpec spec = MadeUpResults::spec(1, "none", 0);
    made.provenance[s] = s;
    made.write_run("run1", spec, {{"data.train", s}, {s, 1}});
    made.write_run("run2", spec, {{"data.train", "x"}, {s, 2}});
    made.write_failure("run3", spec, {{"data.train", s}, {s, 3}}, "crash", s);
  };
  write(dir.path, kEvil);
  write(harmless.path, "harmless");
  write_report({dir.path}, out.path, {.draw = false});
  write_report({harmless.path}, out_harmless.path, {.draw = false});
  std::string page = read_file(out.path / "index.html"), plain = read_file(out_harmless.path / "index.html");
  EXPECT_NE(page.find(html_escape(kEvil)), std::string::npos);
  EXPECT_EQ(page.find("<script>alert"), std::string::npos);
  EXPECT_EQ(page.find("<img"), std::string::npos);
  // Markup does not depend on texts, except that long cells wrap.
  const std::string wraps = " class=\"long\"";
  EXPECT_EQ(tags(replaced(page, wraps, "")), tags(replaced(plain, wraps, "")));
}

TEST(Page, WithoutVlConvertTheReportIsThereAndSaysHowToGetIt) {
  TempDir dir, out;
  MadeUpResults(dir.path).write_sweep();
  for (const char* python : {"/nonexistent/python", "/usr/bin/false"}) {
    const Report r = write_report({dir.path}, out.path, {.python = python});
    EXPECT_FALSE(r.drawn);
    EXPECT_FALSE(r.not_drawn.empty());
    EXPECT_TRUE(fs::exists(out.path / "index.html"));
    EXPECT_TRUE(fs::exists(out.path / "tables" / "runs.csv"));
    EXPECT_TRUE(fs::exists(out.path / "figures" / "step-by-run.vl.json"));
    if (std::string(python) == "/nonexistent/python") {
      EXPECT_NE(r.not_drawn.find("pip install vl-convert-python"), std::string::npos) << r.not_drawn;
    }
  }
}

TEST(Page, ABrokenTraceIsNamedAndTheRestIsDrawn) {
  const std::vector<std::string> broken = {
      "",
      "not JSON",
      "{\"traceEvents\": [{\"ph\": \"X\", \"cat\":",
      "[]",
      R"({"traceEvents": [1]})",
      R"({"traceEvents": [{"ph": "X", "cat": "step", "ts": "soon", "args": {"step": 1}}]})",
      R"({"traceEvents": [{"ph": 3}]})",
      R"({"traceEvents": []})"};
  TempDir dir, out;
  MadeUpResults(dir.path).write_sweep();
  for (const std::string& text : broken) {
    SCOPED_TRACE(text);
    write_atomically(dir.path / "trials" / "run100" / "trace.json", text);
    const Report r = write_report({dir.path}, out.path, {.draw = false});
    ASSERT_EQ(r.data.problems.size(), 1u);
    EXPECT_NE(r.data.problems[0].find("run100/trace.json"), std::string::npos) << r.data.problems[0];
    EXPECT_NE(r.data.problems[0].find(" -> "), std::string::npos) << r.data.problems[0];
    EXPECT_NE(read_file(r.page).find("run100/trace.json"), std::string::npos);
    EXPECT_NE(std::find(r.figure_ids.begin(), r.figure_ids.end(), "step-by-run"), r.figure_ids.end());
  }
}

TEST(Page, NothingOfAnEarlierReportIsLeft) {
  TempDir dir, out;
  MadeUpResults(dir.path).write_sweep();
  write_atomically(out.path / "figures" / "old.svg", "old");
  write_atomically(out.path / "tables" / "old.csv", "old");
  write_atomically(out.path / "tables" / "mine.txt", "not ours");
  write_report({dir.path}, out.path, {.draw = false});
  EXPECT_FALSE(fs::exists(out.path / "figures" / "old.svg"));
  EXPECT_FALSE(fs::exists(out.path / "tables" / "old.csv"));
  EXPECT_TRUE(fs::exists(out.path / "tables" / "mine.txt"));
}

// Needs vl-convert, which bench/setup.sh installs.
TEST(Page, DrawnPageNeedsNothingFromOutside) {
  std::string refused;
  const std::string probe = "'" + drawing_python(&refused).string() + "' -c 'import vl_convert' 2>/dev/null";
  if (std::system(probe.c_str()) != 0) GTEST_SKIP() << "vl-convert is not installed (bench/setup.sh does)";
  TempDir dir, out;
  MadeUpResults made(dir.path);
  made.write_run("run1", MadeUpResults::spec(1, "none", 0), {{"data.train", kEvil}});
  made.write_run("run2", MadeUpResults::spec(1, "none", 2), {{"data.train", "x"}});
  const Report r = write_report({dir.path}, out.path, {});
  ASSERT_TRUE(r.drawn) << r.not_drawn;
  const std::string page = read_file(out.path / "index.html");
  EXPECT_EQ(page.find("<!--isobar:"), std::string::npos);
  EXPECT_EQ(page.find("Not drawn"), std::string::npos);
  EXPECT_NE(page.find("Content-Security-Policy"), std::string::npos);
  EXPECT_EQ(page.find("<script>alert"), std::string::npos);
  EXPECT_EQ(page.find("<img src=x"), std::string::npos);
  std::string markup;  // the page without script contents
  for (size_t i = 0; i < page.size();) {
    const size_t script = page.find("<script", i);
    markup += page.substr(i, script == std::string::npos ? script : page.find('>', script) + 1 - i);
    i = script == std::string::npos ? page.size() : page.find("</script>", script);
  }
  for (const std::string& tag : tags(markup)) {
    EXPECT_FALSE(tag.starts_with("<link") || tag.starts_with("<img") || tag.starts_with("<iframe")) << tag;
    const std::string names = replaced(tag, "\"[^\"]*\"", "");  // attribute values are quoted
    EXPECT_EQ(names.find(" src="), std::string::npos) << tag;
    EXPECT_FALSE(found(tag, "\\bhref=\"[^#]")) << tag;
    EXPECT_FALSE(found(names, "\\son\\w+=")) << tag;
  }
  EXPECT_NE(page.find("vegaEmbed(place"), std::string::npos);  // page.js is embedded
  for (const std::string& id : r.figure_ids)
    EXPECT_GT(fs::file_size(out.path / "figures" / (id + ".svg")), 500u);
}

}  // namespace
}  // namespace isobar::report
