#include <fstream>
#include <map>
#include <optional>

#include "model/base/error.h"
#include "model/base/system/files.h"
#include "reports/live/live.h"
#include "reports/live/loopback.h"
#include "reports/page.h"
#include "reports/report.h"
#include "reports/tables/tables.h"

namespace isobar::report {
namespace {

namespace fs = std::filesystem;

// A page may be anybody's, and its neighbours are files of the reader: its scripts run as of an origin of
// their own, load nothing and send nothing, so that they see no more than the page itself.
constexpr const char* kPagePolicy =
    "sandbox allow-scripts allow-downloads; default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; "
    "style-src 'unsafe-inline'; img-src data: blob:; font-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'";
constexpr const char* kTracePolicy =
    "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

std::string token_in_path(const HttpRequest& request) {  // /TOKEN/…
  const size_t end = request.path.find('/', 1);
  return end == std::string::npos ? std::string() : request.path.substr(1, end - 1);
}

// Types of a report's own files; other files beside a page are not served.
const std::map<std::string, std::string>& served_types() {
  static const std::map<std::string, std::string> types = {{".html", "text/html; charset=utf-8"},
                                                           {".svg", "image/svg+xml"},
                                                           {".png", "image/png"},
                                                           {".pdf", "application/pdf"},
                                                           {".csv", "text/csv; charset=utf-8"},
                                                           {".json", "application/json"},
                                                           {".jsonl", "application/x-ndjson"}};
  return types;
}

bool is_file(const fs::path& p) {
  std::error_code none;
  return fs::is_regular_file(p, none);
}

// Checks only the first bytes, because traces can be large.
bool begins_like_a_trace(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::string head(4096, '\0');
  in.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<size_t>(in.gcount()));
  return head.find("\"traceEvents\"") != std::string::npos;
}

fs::path trace_or_none(const fs::path& file) {
  return is_file(file) && begins_like_a_trace(file) ? file : fs::path();
}

fs::path page_or_none(const fs::path& file) {
  return is_file(file) ? file : fs::path();
}

// Resolves a requested path; empty unless it is under `root` after following links and of a served type.
std::optional<fs::path> file_under(const fs::path& root, const std::string& name) {
  std::error_code none;
  const fs::path base = fs::canonical(root, none), file = fs::canonical(base / name, none);
  if (none || !is_file(file)) return std::nullopt;
  const fs::path inside = file.lexically_relative(base);
  for (const fs::path& part : inside)
    if (part.string().starts_with(".")) return std::nullopt;  // ".." and hidden files
  if (inside.empty() || !served_types().contains(file.extension().string())) return std::nullopt;
  return file;
}

struct Openable {
  fs::path page;   // an HTML file; files beside and below it are served too; "": none
  fs::path trace;  // a Chrome trace; "": none
};

Openable find_openable(const fs::path& path) {
  std::error_code none;
  if (!fs::exists(path, none))
    throw ConfigError(path.string(), "", "does not exist", "name a run, a sweep, a report or a trace");
  Openable out;
  if (fs::is_directory(path, none)) {
    out.page = page_or_none(path / "index.html");
    if (out.page.empty()) out.page = page_or_none(path / "report/index.html");
    for (const char* name : {"perfetto.json", "trace.json"})
      if (out.trace.empty()) out.trace = trace_or_none(path / name);
    const std::string shown = path.string();
    if (out.page.empty() && out.trace.empty())
      throw ConfigError(shown, "", "holds no page (index.html, report/index.html) and no trace (trace.json)",
                        "make one first: isobar report " + shown + " -o " + shown + "/report");
    return out;
  }
  if (path.extension() == ".html") out.page = path;
  if (path.extension() == ".json") out.trace = trace_or_none(path);
  if (out.page.empty() && out.trace.empty())
    throw ConfigError(path.string(), "", "is no page (.html) and no Chrome trace (.json)",
                      "name a page of `isobar report`, or what `isobar train --trace` wrote");
  return out;
}

class PageServer {
 public:
  PageServer(const Openable& what, int port, const std::string& perfetto_ui)
      : what_(what), ui_(perfetto_ui), loopback_("isobar open", port, token_in_path) {
    if (!ui_.starts_with("https://") && !ui_.starts_with("http://"))
      throw ConfigError("isobar open", "--perfetto-ui", ui_ + " is no address of a page",
                        "e.g. http://localhost:10000");
    if (!what_.trace.empty()) script_ = script_of_page("perfetto.js");
  }

  std::vector<std::pair<std::string, std::string>> addresses() const {
    std::vector<std::pair<std::string, std::string>> out;
    const std::string base = loopback_.origin() + "/" + loopback_.token();
    if (!what_.page.empty())
      out.emplace_back("report", base + "/page/" + percent_encoded(what_.page.filename().string()));
    if (!what_.trace.empty()) out.emplace_back("trace", base + "/trace");
    return out;
  }

  void run(const std::function<bool()>& stop) {
    loopback_.run([this](const HttpRequest& request) { return answer(request); }, stop);
  }

 private:
  HttpAnswer answer(const HttpRequest& request) const {
    constexpr std::string_view below = "/page/";
    const std::string path = request.path.substr(1 + loopback_.token().size());
    if (!what_.page.empty() && path.starts_with(below)) return part_of_page(path.substr(below.size()));
    if (!what_.trace.empty() && path == "/trace")
      return {.type = "text/html; charset=utf-8", .body = trace_page(), .policy = kTracePolicy};
    if (!what_.trace.empty() && path == "/trace.json")
      return {.type = "application/json", .body = read_file(what_.trace)};
    if (!what_.trace.empty() && path == "/perfetto.js")
      return {.type = "text/javascript; charset=utf-8", .body = script_};
    return {.status = 404, .body = "There is no such part of this page.\n"};
  }

  HttpAnswer part_of_page(const std::string& name) const {
    const auto file = file_under(fs::absolute(what_.page).parent_path(), name);
    if (!file) return {.status = 404, .body = "There is no such part of this page.\n"};
    const std::string end = file->extension().string();
    // Browsers show no PDF in a sandbox, and run nothing of it that could see its neighbours.
    return {
        .type = served_types().at(end), .body = read_file(*file), .policy = end == ".pdf" ? "" : kPagePolicy};
  }

  std::string trace_page() const {
    const std::string name = what_.trace.string(), ui = html_escape(ui_);
    return "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
           "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
           "<link rel=\"icon\" href=\"data:,\">\n<title>" +
           html_escape(what_.trace.filename().string()) + " - Isobar</title>\n<style>" +
           std::string(page_style()) + "</style>\n</head>\n<body>\n<main>\n<h1>Trace</h1>\n<p>" +
           html_escape(name) + "</p>\n<p><button id=\"open\" type=\"button\" data-ui=\"" + ui +
           "\" data-name=\"" + html_escape(what_.trace.filename().string()) +
           "\">Open in Perfetto</button> <span id=\"said\" role=\"status\"></span></p>\n"
           "<p>Perfetto's page is loaded from <a href=\"" +
           ui + "\" rel=\"noreferrer\">" + ui +
           "</a>, which needs the network unless this browser has it from before. The trace is handed to it "
           "within the browser and is not uploaded.</p>\n"
           "<p>Without the network: <a href=\"trace.json\" download>save the trace</a> and open it in "
           "chrome://tracing, or name a copy of the Perfetto UI with <code>--perfetto-ui</code>.</p>\n"
           "<script src=\"perfetto.js\"></script>\n</main>\n</body>\n</html>\n";
  }

  Openable what_;
  std::string ui_, script_;
  Loopback loopback_;
};

}  // namespace

Served serve_pages(const fs::path& path, int port, const std::string& perfetto_ui) {
  const auto server = std::make_shared<PageServer>(find_openable(path), port, perfetto_ui);
  return {server->addresses(), [server](const std::function<bool()>& stop) { server->run(stop); }};
}

}  // namespace isobar::report
