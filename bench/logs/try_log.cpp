#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <variant>

#include "bench/logs/followed_files.h"
#include "bench/logs/forms/forms.h"
#include "bench/logs/log_text.h"
#include "bench/logs/output_reader.h"
#include "model/base/error.h"
#include "model/base/step_stats.h"

namespace isobar::logs {
namespace {

constexpr size_t kFirstSteps = 10, kMissedShown = 5, kLongestShown = 120;

std::string cell(const std::optional<double>& v, int width, const char* format = "%.5g") {
  char number[32] = "-", out[48];
  if (v) std::snprintf(number, sizeof number, format, *v);
  std::snprintf(out, sizeof out, "%*s", width, number);
  return out;
}

std::string shown(std::string_view line) {
  std::string out;
  for (const char c : line.substr(0, kLongestShown))
    out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  return out;
}

/// When a line was written: a date behind the step is of the data, but in an object.
std::optional<double> written_at(const std::string& line) {
  return clock_in(line.find('{') == std::string::npos ? line.substr(0, step_word_in(line)) : line);
}

class TriedLog {
 public:
  TriedLog(const std::string& file, const OutputOptions& options) : file_(file), reader_(options) {}

  void read_text() {
    const std::string text = log_text(file_);
    double now = 0;
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find_first_of("\n\r", at), text.size());
      const std::string line = text.substr(at, std::min(end - at, kLongestLogLine));
      at = end + 1;
      ++lines_;
      // Dates of other lines, as of a heading, are not when a step was written.
      const double at_line = std::max(now, written_at(line).value_or(now));
      const bool read = reader_.line(line, at_line);
      if (read) now = at_line;
      if (read || !looks_like_a_step(line)) continue;
      if (missed_++ < kMissedShown)
        examples_ += "               line " + std::to_string(lines_) + ": " + shown(plain_line(line)) + "\n";
    }
    finish();
  }

  void read_files(const std::string& reads) {
    FollowedFiles files(reads, "", 0);
    files.end(reader_);
    notes_ = files.notes();
    finish();
  }

  bool recognised() const { return !records_.empty() || reader_.summary().valid || reader_.summary().loss; }

  std::string text(const std::string& reads) const {
    const OutputSummary s = reader_.summary();
    std::string out = file_ + "\nread by        ";
    for (const auto& [name, n] : reader_.read_by()) out += name + " (" + std::to_string(n) + " lines)  ";
    if (reader_.read_by().empty()) out += reads;
    out += "\n" + table();
    if (!s.seconds.empty()) {
      const auto begin = s.seconds.begin() + static_cast<std::ptrdiff_t>(warm_up(s.seconds).steps);
      out += "step time      " + cell(1e3 * step_stats({begin, s.seconds.end()}).of(kStatistic), 0) +
             " ms, " + title_of(kStatistic) + "\n";
    } else {
      out += "step time      none is printed: a run takes it from the clock between the steps\n";
    }
    if (s.peak_bytes)
      out += "memory         " + cell(static_cast<double>(*s.peak_bytes) / kGiB, 0) + " GiB\n";
    for (const std::string& note : s.notes) out += "note           " + note + "\n";
    for (const std::string& note : notes_) out += "note           " + note + "\n";
    if (s.contradiction) out += "contradiction  " + *s.contradiction + "\n";
    if (missed_ > 0)
      out += "not read       " + std::to_string(missed_) + " lines that look like steps\n" + examples_;
    return out;
  }

 private:
  void finish() {
    reader_.end();
    records_ = reader_.take(0);
  }

  std::string table() const {
    size_t steps = 0, valid = 0;
    std::string rows;
    for (const records::Record& r : records_) {
      if (const auto* v = std::get_if<records::ValidRecord>(&r)) {
        if (++valid <= 3 && steps < kFirstSteps)
          rows += cell(static_cast<double>(v->step), 15, "%.0f") + "  validation: loss " +
                  cell(v->loss ? v->loss : v->accuracy, 0) + "\n";
        continue;
      }
      const auto& s = std::get<records::StepRecord>(r);
      if (++steps > kFirstSteps) continue;
      const auto epoch = s.epoch ? std::optional(static_cast<double>(*s.epoch)) : std::nullopt;
      rows += cell(static_cast<double>(s.step), 15, "%.0f") + cell(epoch, 7) + cell(s.loss, 12) +
              cell(s.seconds > 0 ? std::optional(1e3 * s.seconds) : std::nullopt, 12) + cell(s.lr, 12) +
              cell(s.grad_norm, 12) + "\n";
    }
    return "steps          " + std::to_string(steps) + ", and " + std::to_string(valid) + " validations\n" +
           "           step  epoch        loss          ms          lr   grad norm\n" + rows;
  }

  std::string file_, examples_;
  OutputReader reader_;
  std::vector<records::Record> records_;
  std::vector<std::string> notes_;
  size_t lines_ = 0, missed_ = 0;
};

}  // namespace

std::string tried_log(const std::string& file, OutputOptions options) {
  namespace fs = std::filesystem;
  options.untimed = true;
  const fs::path path(file);
  const bool folder = fs::is_directory(path);
  const bool events = path.filename().string().find("tfevents") != std::string::npos;
  const bool table = path.extension() == ".csv";
  const std::string reads = table ? "csv:" + file : "tensorboard:" + file;
  TriedLog log(file, options);
  if (folder || events || table)
    log.read_files(reads);
  else
    log.read_text();
  if (!log.recognised() && table)
    throw ConfigError(file, "line 1",
                      "names no column that is read as a step, with commas between the columns",
                      "call one 'step', beside 'loss' and 'step_time' or 'step_time_ms'");
  if (!log.recognised())
    throw ConfigError(file, "", "has nothing in it that a reader of run.reads knows as a training's",
                      "name a line of it: --reads 'step {step} loss {loss} * {ms} ms'");
  return log.text(reads);
}

}  // namespace isobar::logs
