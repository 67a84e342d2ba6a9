#include "reports/live/live.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <future>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>

#include "model/base/error.h"
#include "model/base/system/files.h"
#include "reports/figures/chart_data.h"
#include "reports/figures/figures.h"
#include "reports/live/loopback.h"
#include "reports/live/watch.h"
#include "reports/live/watch_run.h"
#include "reports/page.h"
#include "reports/report.h"
#include "reports/style/palette.h"
#include "reports/style/terminal.h"
#include "reports/tables/tables.h"

namespace isobar::report {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr const char* kScript = "text/javascript; charset=utf-8";
// Vega compiles the expressions of its charts.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self' 'unsafe-eval'; connect-src 'self'; style-src 'unsafe-inline'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

std::string token_in_query(const HttpRequest& request) {
  const auto shown = request.query.find("token");
  return shown == request.query.end() ? "" : shown->second;
}

std::string text_of(const json& j) {
  return j.dump(-1, ' ', false, json::error_handler_t::replace);
}

json trial_json(const WatchedTrial& t) {
  std::string progress, note = t.message;
  if (!t.final && t.step > 0)
    progress = std::to_string(t.step) + (t.steps > 0 ? "/" + std::to_string(t.steps) : "");
  if (t.final && t.wall_s > 0) progress = duration_words(t.wall_s);
  if (!t.final && !t.advice.empty()) note = t.advice;
  if (!t.final && t.age_s > 20) note = "silent for " + duration_words(t.age_s);
  if (t.contention.marked()) note = "contended";
  return {{"id", t.id},
          {"name", t.label},
          {"state", t.state},
          {"progress", progress},
          {"rate", t.samples_per_s > 0 ? significant(t.samples_per_s, 4).text : ""},
          {"note", note}};
}

json state_json(const WatchState& s) {
  std::string summary = std::to_string(s.done) + " of " + std::to_string(s.trials.size()) + " trials";
  for (const auto& [state, n] : s.counts) summary += ", " + std::to_string(n) + " " + state;
  if (s.done == s.trials.size())
    summary += "; all done";
  else if (s.seconds_a_trial > 0)
    summary += "; about " + duration_words(s.left_s()) + " left";
  const WatchedTrial* best = s.fastest();
  json j = {{"name", s.dir.lexically_normal().string()},
            {"done", s.done},
            {"total", s.trials.size()},
            {"drawable", s.done},
            {"summary", summary},
            {"notes", json::array()},
            {"trials", json::array()}};
  if (best)
    j["notes"].push_back("Fastest so far: " + best->label + ", " + significant(best->samples_per_s, 4).text +
                         " samples/s (" + title_of(kStatistic) + ")");
  for (const WatchedTrial& t : s.trials) j["trials"].push_back(trial_json(t));
  return j;
}

json run_json(const RunState& s) {
  const int64_t step = s.steps.empty() ? 0 : s.steps.back().step;
  // Figures are drawn again after each twentieth more of the steps.
  const auto grown = static_cast<int64_t>(20 * std::log2(1.0 + static_cast<double>(s.steps.size())));
  std::vector<std::string> lines = lines_of(s);
  json j = {{"name", s.dir.lexically_normal().string()},
            {"done", step},
            {"total", std::max(step, s.wanted())},
            {"drawable", s.steps.size() > 1 ? grown + (s.end ? 1 : 0) : 0},
            {"summary", lines.front()},
            {"notes", json(std::vector<std::string>(lines.begin() + 1, lines.end()))},
            {"trials", json::array()}};
  return j;
}

json figure_json(const Figure& f, const json& spec) {
  return {{"id", f.id}, {"title", f.title}, {"caption", f.caption}, {"spec", spec}};
}

json figures_of_sweep(const fs::path& dir) {
  json out = json::array();
  ReportData d;
  try {
    d = collect({dir}, {});
  } catch (const ConfigError&) {  // no run has finished yet
    return out;
  }
  if (d.ok().empty()) return out;
  const ChartData s = chart_data(d);
  std::vector<std::string> problems;
  for (const Figure& f : figures(d, s, problems))
    if (f.section == kSpeedSection) out.push_back(figure_json(f, self_contained(f, s)));
  return out;
}

json figures_of_run(const RunState& s) {
  ReportData d;
  d.runs.emplace_back();
  d.runs[0].label = s.dir.filename().string();
  d.runs[0].run.steps = s.steps;
  d.runs[0].run.valid = s.valid;
  json out = json::array();
  for (const Figure& f : training_figures(d)) out.push_back(figure_json(f, f.spec));
  return out;
}

/// A sweep or a run, read from its directory.
struct Followed {
  std::function<json()> state, figures;
};

/// A watch that several threads ask.
template <class Watch>
class SharedWatch {
 public:
  explicit SharedWatch(const fs::path& dir) : watch_(dir) {}
  auto state_now() {
    const std::lock_guard<std::mutex> lock(mutex_);
    watch_.refresh();
    return watch_.state();
  }

 private:
  Watch watch_;
  std::mutex mutex_;
};

Followed followed(const fs::path& dir) {
  if (fs::exists(dir / "sweep.json")) {
    const auto watch = std::make_shared<SharedWatch<SweepWatch>>(dir);
    return {[watch] { return state_json(watch->state_now()); }, [dir] { return figures_of_sweep(dir); }};
  }
  const auto watch = std::make_shared<SharedWatch<RunWatch>>(dir);
  return {[watch] { return run_json(watch->state_now()); },
          [watch] { return figures_of_run(watch->state_now()); }};
}

/// The libraries that draw figures, which take a second or more to come.
struct Drawing {
  std::string vega, without;  // without: why there are none
};

class LiveServer {
 public:
  LiveServer(const fs::path& dir, int port, const std::function<void(const std::string&)>& without_figures)
      : dir_(dir),
        followed_(followed(dir)),
        loopback_("isobar watch --serve", port, token_in_query),
        script_(script_of_page("live.js")),
        drawing_(std::async(std::launch::async, [this, without_figures] {
          Drawing d;
          d.vega = vega_bundle({}, &d.without, &over_);
          if (!d.without.empty() && !over_) without_figures(d.without);
          return d;
        })) {}
  ~LiveServer() { over_ = true; }  // then waits for drawing_
  LiveServer(const LiveServer&) = delete;
  LiveServer& operator=(const LiveServer&) = delete;

  std::string url() const { return loopback_.origin() + "/?token=" + loopback_.token(); }

  void run(const std::function<bool()>& stop) {
    loopback_.run([this](const HttpRequest& request) { return answer(request); }, stop);
  }

 private:
  HttpAnswer answer(const HttpRequest& request) {
    const std::string& path = request.path;
    if (path == "/") return {.type = "text/html; charset=utf-8", .body = page(), .policy = kPolicy};
    if (path == "/live.js") return {.type = kScript, .body = script_};
    if (path == "/vega.js") return {.type = kScript, .body = drawing_.get().vega};
    if (path == "/figures") {
      const std::lock_guard<std::mutex> one(figures_);
      return {.type = "application/json", .body = text_of(followed_.figures())};
    }
    if (path != "/state") return {.status = 404, .body = "There is no such part of this page.\n"};
    json state = followed_.state();
    const bool known = drawing_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    state["without_figures"] = known ? json(drawing_.get().without) : json(nullptr);
    return {.type = "application/json", .body = text_of(state)};
  }

  std::string page() const {
    const std::string query = "?token=" + loopback_.token();
    return "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
           "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
           "<link rel=\"icon\" href=\"data:,\">\n<title>Isobar</title>\n<style>" +
           std::string(page_style()) +
           "progress { width: min(30rem, 100%); }</style>\n</head>\n<body>\n<main>\n"
           "<h1 id=\"name\">" +
           html_escape(dir_.string()) +
           "</h1>\n<p id=\"lost\" class=\"warn\" hidden></p>\n"
           "<progress id=\"progress\" aria-label=\"what is done\"></progress>\n"
           "<p id=\"summary\" role=\"status\">Reading the results …</p>\n<div id=\"notes\"></div>\n"
           "<p id=\"waiting\" class=\"note\">Figures are being prepared …</p>\n"
           "<div id=\"figures\"></div>\n<section id=\"list\" hidden><h2 id=\"title-trials\">Trials</h2>\n"
           "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-labelledby=\"title-trials\">\n"
           "<table><thead><tr><th>trial</th><th>state</th><th class=\"n\">step or time</th><th class=\"n\">"
           "samples/s</th><th>note</th><th>id</th></tr></thead><tbody "
           "id=\"trials\"></tbody></table></div></section>\n"
           "<script type=\"application/json\" id=\"theme\">" +
           script_json(palette::on_dark()) + "</script>\n</main>\n" + "<script src=\"live.js" + query +
           "\"></script>\n<script async src=\"vega.js" + query + "\"></script>\n</body>\n</html>\n";
  }

  fs::path dir_;
  Followed followed_;
  Loopback loopback_;
  std::string script_;
  std::mutex figures_;  // made for one request at a time
  std::atomic<bool> over_{false};
  std::shared_future<Drawing> drawing_;
};

}  // namespace

Served serve_live(const fs::path& dir, int port,
                  const std::function<void(const std::string&)>& without_figures) {
  const auto server = std::make_shared<LiveServer>(dir, port, without_figures);
  return {{{"sweep", server->url()}}, [server](const std::function<bool()>& stop) { server->run(stop); }};
}

}  // namespace isobar::report
