#include "reports/live/live.h"

#include <mutex>
#include <nlohmann/json.hpp>

#include "model/base/error.h"
#include "model/base/system/files.h"
#include "reports/figures/chart_data.h"
#include "reports/figures/figures.h"
#include "reports/live/loopback.h"
#include "reports/live/watch.h"
#include "reports/page.h"
#include "reports/report.h"
#include "reports/style/palette.h"
#include "reports/style/terminal.h"
#include "reports/tables/tables.h"

namespace isobar {
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
  json j = {
      {"name", s.dir.lexically_normal().string()},
      {"done", s.done},
      {"summary", summary},
      {"fastest", best ? "Fastest so far: " + best->label + ", " + significant(best->samples_per_s, 4).text +
                             " samples/s (" + title_of(kStatistic) + ")"
                       : ""},
      {"trials", json::array()}};
  for (const WatchedTrial& t : s.trials) j["trials"].push_back(trial_json(t));
  return j;
}

json figures_json(const fs::path& dir) {
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
    if (f.section == kSpeedSection)
      out.push_back(
          {{"id", f.id}, {"title", f.title}, {"caption", f.caption}, {"spec", self_contained(f, s)}});
  return out;
}

}  // namespace

class LiveServer::Impl {
 public:
  Impl(const fs::path& dir, const LiveOptions& options)
      : dir_(dir), watch_(dir), loopback_("isobar watch --serve", options.port, token_in_query) {
    vega_ = vega_bundle(options.python, &without_);
    script_ = script_of_page("live.js");
  }

  std::string url() const { return loopback_.origin() + "/?token=" + loopback_.token(); }
  const std::string& without_figures() const { return without_; }

  void run(const std::function<bool()>& stop) {
    loopback_.run([this](const HttpRequest& request) { return answer(request); }, stop);
  }

 private:
  HttpAnswer answer(const HttpRequest& request) {
    const std::lock_guard<std::mutex> one(mutex_);
    const std::string& path = request.path;
    if (path == "/") return {.type = "text/html; charset=utf-8", .body = page(), .policy = kPolicy};
    if (path == "/vega.js") return {.type = kScript, .body = vega_};
    if (path == "/live.js") return {.type = kScript, .body = script_};
    if (path == "/figures") return {.type = "application/json", .body = text_of(figures_json(dir_))};
    if (path != "/state") return {.status = 404, .body = "There is no such part of this page.\n"};
    watch_.refresh();
    return {.type = "application/json", .body = text_of(state_json(watch_.state()))};
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
           "<progress id=\"progress\" aria-label=\"trials that have ended\"></progress>\n"
           "<p id=\"summary\" role=\"status\"></p>\n<p id=\"fastest\"></p>\n" +
           (without_.empty() ? "" : "<p class=\"warn\">No figures: " + html_escape(without_) + "</p>\n") +
           "<div id=\"figures\"></div>\n<h2 id=\"title-trials\">Trials</h2>\n"
           "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-labelledby=\"title-trials\">\n"
           "<table><thead><tr><th>trial</th><th>state</th><th class=\"n\">step or time</th><th class=\"n\">"
           "samples/s</th><th>note</th><th>id</th></tr></thead><tbody id=\"trials\"></tbody></table></div>\n"
           "<script type=\"application/json\" id=\"theme\">" +
           script_json(palette::on_dark()) + "</script>\n</main>\n" +
           (without_.empty() ? "<script src=\"vega.js" + query + "\"></script>\n" : "") +
           "<script src=\"live.js" + query + "\"></script>\n</body>\n</html>\n";
  }

  fs::path dir_;
  SweepWatch watch_;
  Loopback loopback_;
  std::string vega_, script_, without_;
  std::mutex mutex_;  // one request at a time: they share watch_
};

LiveServer::LiveServer(const fs::path& dir, const LiveOptions& options)
    : impl_(std::make_unique<Impl>(dir, options)) {}
LiveServer::~LiveServer() = default;
std::string LiveServer::url() const {
  return impl_->url();
}
std::string LiveServer::without_figures() const {
  return impl_->without_figures();
}
void LiveServer::run(const std::function<bool()>& stop) {
  impl_->run(stop);
}

}  // namespace isobar
