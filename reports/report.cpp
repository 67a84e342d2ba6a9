#include "reports/report.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "model/base/error.h"
#include "model/base/files.h"
#include "reports/figures.h"
#include "reports/page.h"
#include "reports/report_tables.h"
#include "reports/run_rows.h"

namespace isobar {
namespace {

namespace fs = std::filesystem;

constexpr size_t kStill = 2000;  // runs
constexpr int kNoVlConvert = 3;  // exit code of render.py
constexpr const char* kMend =
    "figures need the Python package vl-convert-python: run bench/setup.sh, or make one by hand with "
    "`python3 -m venv .venv-reports && .venv-reports/bin/pip install vl-convert-python`";

// Runs a program without a shell. Returns its exit code, 127 when it does not start; what it printed goes to
// `output`.
int run_program(const std::vector<std::string>& argv, std::string* output) {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, fds[1], 1);
  posix_spawn_file_actions_adddup2(&actions, fds[1], 2);
  std::vector<char*> args;
  args.reserve(argv.size() + 1);
  for (const std::string& a : argv) args.push_back(const_cast<char*>(a.c_str()));
  args.push_back(nullptr);
  pid_t pid = 0;
  const int error = ::posix_spawnp(&pid, args[0], &actions, nullptr, args.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(fds[1]);
  if (error != 0) {
    ::close(fds[0]);
    *output = std::string(args[0]) + ": " + std::strerror(error);
    return 127;
  }
  char buffer[4096];
  for (ssize_t n; (n = ::read(fds[0], buffer, sizeof buffer)) != 0;) {
    if (n > 0) output->append(buffer, static_cast<size_t>(n));
    if (n < 0 && errno != EINTR) break;
  }
  ::close(fds[0]);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
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

fs::path find_renderer() {
  std::error_code ignored;
  // Beside the program's build directory, for a tree that was moved after the build, or where it was
  // installed; else where this file was.
  for (fs::path p = fs::read_symlink("/proc/self/exe", ignored).parent_path(); p.has_relative_path();
       p = p.parent_path())
    for (const fs::path& beside : {p / "reports/render.py", p / "share/isobar/reports/render.py"})
      if (fs::exists(beside)) return beside;
  const fs::path source = fs::path(__FILE__).parent_path() / "render.py";
  return fs::exists(source) ? fs::absolute(source) : fs::path();
}

fs::path find_python() {
  if (const char* own = std::getenv("ISOBAR_REPORT_PYTHON"); own && *own) return own;
  const fs::path python = fs::path(".venv-reports") / "bin" / "python";
  if (const fs::path r = find_renderer(); !r.empty())
    if (fs::path p = r.parent_path().parent_path() / python; fs::exists(p)) return p;
  if (fs::exists(python)) return fs::absolute(python);
  return "python3";
}

std::string draw_figures(const fs::path& out, const ReportOptions& options, bool stills) {
  const fs::path renderer = find_renderer();
  if (renderer.empty())
    return "reports/render.py is not where the program was built from; run isobar in its source tree";
  const fs::path python = options.python.empty() ? find_python() : options.python;
  std::vector<std::string> argv = {python.string(), renderer.string(), out.string()};
  if (!stills) argv.emplace_back("--no-stills");
  if (options.png) argv.emplace_back("--png");
  if (options.pdf) argv.emplace_back("--pdf");
  std::string output;
  const int code = run_program(argv, &output);
  if (code == 0) return "";
  if (code == 127 || code == kNoVlConvert) return kMend;
  return "render.py failed with code " + std::to_string(code) + ": " + output;
}

std::string vega_bundle(const fs::path& python, std::string* missing) {
  const fs::path renderer = find_renderer();
  char name[] = "/tmp/isobar-vega-XXXXXX";
  const int file = ::mkstemp(name);
  if (file < 0) throw std::system_error(errno, std::generic_category(), name);
  ::close(file);
  std::string output;
  const int code = run_program(
      {(python.empty() ? find_python() : python).string(), renderer.string(), "--bundle", name}, &output);
  std::string text = code == 0 ? read_file(name) : "";
  fs::remove(name);
  if (code != 0) *missing = code == 127 || code == kNoVlConvert ? kMend : "render.py failed: " + output;
  return text;
}

Report write_report(const std::vector<fs::path>& dirs, const fs::path& out, const ReportOptions& options) {
  Report r;
  r.data = collect(
      dirs, {.machine = options.machine, .workspace = options.workspace, .statistic = options.statistic});
  const ReportData& d = r.data;
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
  if (const ReportRun* run = ops_run(d)) keep(ops_table(d, *run, true));
  keep(failed_table(d));
  keep(memory_table(d));
  keep(training_table(d));
  keep(provenance_table(d));

  clear_old(out);
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
  write_atomically(r.page, page_html(d, s, story(d, comparisons), drawings, r.tables));
  // Marks of so many runs are drawn by the reader's browser alone: still pictures of them would double the
  // page.
  r.not_drawn = options.draw ? draw_figures(out, options, d.runs.size() <= kStill) : "not asked to";
  r.drawn = r.not_drawn.empty();
  return r;
}

}  // namespace isobar
