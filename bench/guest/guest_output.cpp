#include "bench/guest/guest_output.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <set>

#include "model/records/run_class.h"

namespace isobar::guest {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kHead = 1 << 20;  // bytes in which a program has printed its first step

double since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// A run that is taken up appends to the output of the one before.
int64_t bytes_of(const fs::path& file) {
  std::error_code error;
  const auto n = fs::file_size(file, error);
  return error ? 0 : static_cast<int64_t>(n);
}

logs::OutputOptions options_of(const RunSpec& spec, double begun) {
  return {.reads = spec.run.reads,
          .batch = spec.train.global_batch,
          .tokens = spec.net.words() ? spec.net.words()->seq_length : 0,
          .ranks = spec.layout.world(),
          .begun = begun,
          .file = spec.file};
}

/// Sources that counted from 0 at the beginning of what the run printed before it was taken up: what comes
/// now does not begin at 0.
std::set<std::string> from_zero_before(const fs::path& file, const logs::OutputOptions& options) {
  std::string head(static_cast<size_t>(std::min(bytes_of(file), kHead)), '\0');
  if (head.empty()) return {};
  std::ifstream(file, std::ios::binary).read(head.data(), static_cast<std::streamsize>(head.size()));
  logs::OutputReader before(options);
  for (size_t at = 0; at < head.size();) {
    const size_t end = std::min(head.find_first_of("\r\n", at), head.size());
    before.line(head.substr(at, end - at), 0);
    at = end + 1;
  }
  return before.from_zero();
}

logs::OutputOptions options_of_all(const RunSpec& spec, double begun) {
  logs::OutputOptions out = options_of(spec, begun);
  for (const char* name : {"output.txt", "errors.txt"}) {
    const std::set<std::string> before = from_zero_before(fs::path(spec.run.out) / name, out);
    out.from_zero.insert(before.begin(), before.end());
  }
  return out;
}

}  // namespace

GuestOutput::GuestOutput(const RunSpec& spec, int64_t most, std::function<void(const std::string&)> print)
    : most_(most),
      folder_(spec.run.out),
      print_(std::move(print)),
      begun_(since_1970()),
      reader_(options_of_all(spec, begun_)),
      out_(fs::path(spec.run.out) / "output.txt", bytes_of(fs::path(spec.run.out) / "output.txt")),
      err_(fs::path(spec.run.out) / "errors.txt", bytes_of(fs::path(spec.run.out) / "errors.txt")),
      files_(spec.run.reads, spec.run.out, begun_) {}

void GuestOutput::pass(const Take& take) {
  for (const records::Record& r : reader_.take(since_1970())) take(r);
}

bool GuestOutput::read(const Take& take) {
  const auto line = [&](const std::string& text, double written) {
    if (print_) print_(text);
    reader_.line(text, written);
  };
  const bool wrote = out_.read(line), complained = err_.read(line);
  files_.read(reader_, since_1970());
  pass(take);
  return wrote || complained;
}

void GuestOutput::end(const Take& take) {
  const auto line = [&](const std::string& text, double written) {
    if (print_) print_(text);
    reader_.line(text, written);
  };
  out_.end(line);
  err_.end(line);
  files_.end(reader_);
  reader_.end();
  pass(take);
}

bool GuestOutput::too_much() const {
  if (out_.size() + err_.size() <= most_) return false;
  for (const auto* stream : {&out_, &err_})
    if (std::error_code error; stream->size() > most_) fs::resize_file(stream->file(), most_, error);
  return true;
}

bool GuestOutput::lost() const {
  const logs::OutputSummary s = reader_.summary();
  return s.loss && !std::isfinite(*s.loss);
}

records::EndRecord GuestOutput::result(const GuestLog& log) const {
  const logs::OutputSummary s = reader_.summary();
  std::vector<std::string> notes = s.notes;
  for (const std::string& note : files_.notes()) notes.push_back(note);
  if (s.seconds.empty())
    return {.status = "failed",
            .failure = records::name_of(records::RunClass::bad_config),
            .message = "the program ended well, and run.reads found no step's time in what it printed (" +
                       folder_ + "/output.txt): isobar import --try " + folder_ +
                       "/output.txt says what was found, and run.reads=... names a reader or a line",
            .notes = notes};
  if (s.contradiction)
    return {.status = "failed",
            .failure = records::name_of(records::RunClass::implausible),
            .message = *s.contradiction,
            .notes = notes};
  records::EndRecord end = log.complete(s.last_step);
  end.valid = s.valid;
  end.peak_rss_bytes = s.peak_bytes;
  end.notes = notes;
  return end;
}

}  // namespace isobar::guest
