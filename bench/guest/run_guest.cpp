#include "bench/guest/run_guest.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/guest/command.h"
#include "bench/guest/guest_log.h"
#include "bench/guest/other_host.h"
#include "bench/logs/followed_files.h"
#include "bench/logs/output_reader.h"
#include "bench/sweep/run/classify.h"
#include "bench/sweep/run/process.h"
#include "model/base/spec/spec.h"
#include "model/base/system/signal_name.h"
#include "model/engine/host/host.h"
#include "model/records/advice.h"
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

/// The output of a run's program as it comes: both streams in the run's folder, the files that run.reads
/// names, and the records in them.
class GuestOutput {
 public:
  /// `most`: bytes of both streams; `print`: of each line, none: nothing. Throws ConfigError for run.reads.
  GuestOutput(const RunSpec& spec, int64_t most, std::function<void(const std::string&)> print)
      : most_(most),
        folder_(spec.run.out),
        print_(std::move(print)),
        begun_(since_1970()),
        reader_(options_of_all(spec, begun_)),
        out_(fs::path(spec.run.out) / "output.txt", bytes_of(fs::path(spec.run.out) / "output.txt")),
        err_(fs::path(spec.run.out) / "errors.txt", bytes_of(fs::path(spec.run.out) / "errors.txt")),
        files_(spec.run.reads, spec.run.out, begun_) {}
  const std::filesystem::path& out() const { return out_.file(); }
  const std::filesystem::path& err() const { return err_.file(); }
  using Take = std::function<void(const records::Record&)>;
  /// True if the program wrote.
  bool read(const Take& take) {
    const bool wrote = out_.read(line_), complained = err_.read(line_);
    files_.read(reader_, since_1970());
    pass(take);
    return wrote || complained;
  }
  void end(const Take& take) {
    out_.end(line_);
    err_.end(line_);
    files_.end(reader_);
    reader_.end();
    pass(take);
  }
  /// True once it is longer than is kept. Cuts the files to that, as often as it is called.
  bool too_much() const {
    if (out_.size() + err_.size() <= most_) return false;
    for (const auto* stream : {&out_, &err_})
      if (std::error_code error; stream->size() > most_) fs::resize_file(stream->file(), most_, error);
    return true;
  }
  /// The steps as the end of a run, with its notes. Without a step time in them, or with two numbers that
  /// contradict each other, a failure.
  records::EndRecord result(const GuestLog& log) const {
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
  int64_t last_step() const { return reader_.summary().last_step; }
  bool has_steps() const { return !reader_.summary().seconds.empty(); }
  /// The ends of both streams.
  const std::string& last_out() const { return out_.last(); }
  const std::string& last_err() const { return err_.last(); }
  /// True if the last loss is no number.
  bool lost() const {
    const logs::OutputSummary s = reader_.summary();
    return s.loss && !std::isfinite(*s.loss);
  }

 private:
  void pass(const Take& take) {
    for (const records::Record& r : reader_.take(since_1970())) take(r);
  }
  const logs::FollowedText::Use line_ = [this](const std::string& text, double written) {
    if (print_) print_(text);
    reader_.line(text, written);
  };
  int64_t most_;
  std::string folder_;
  std::function<void(const std::string&)> print_;
  double begun_;
  logs::OutputReader reader_;
  logs::FollowedText out_, err_;
  logs::FollowedFiles files_;
};

// Tells at once when one of some files is written to, so that a line is timed when it comes and not when
// somebody looks. Where the system has no events to give (inotify(7)), it tells nothing: look now and then.

class WriteEvents {
 public:
  /// Files that there are not yet are made, empty.
  explicit WriteEvents(const std::vector<std::filesystem::path>& files)
      : descriptor_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
    for (const auto& file : files) {
      std::ofstream(file, std::ios::app);
      if (descriptor_ >= 0) ::inotify_add_watch(descriptor_, file.c_str(), IN_MODIFY);
    }
  }
  ~WriteEvents() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  WriteEvents(const WriteEvents&) = delete;
  WriteEvents& operator=(const WriteEvents&) = delete;

  /// Can be read once a file was written to; -1: there are no events.
  int descriptor() const { return descriptor_; }
  /// Empties the descriptor: what was written until now is known.
  void forget() const {
    std::array<char, 4096> some;
    while (descriptor_ >= 0 && ::read(descriptor_, some.data(), some.size()) > 0) {
    }
  }

 private:
  int descriptor_;
};

constexpr double kLook_s = 0.05;   // between looks, if nothing is written
constexpr double kRest_s = 0.001;  // after a look, for programs that write all the time
constexpr double kOthers_s = 3;    // within which another node reports its failure

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class GuestRun {
 public:
  GuestRun(const RunSpec& spec, const GuestHosts& hosts, const GuestOptions& options)
      : spec_(spec),
        options_(options),
        hosts_(hosts),
        from_(from_last(spec, options)),
        command_(guest_command(spec, hosts, from_)),
        output_(spec, options.most_output, options.print),
        log_(spec, options.resume),
        advisor_({.expected = options.expected, .workers = spec.data.workers}) {
    write_flags(spec);
  }

  records::EndRecord operator()() {
    begin();
    const double began = now_s();
    const WriteEvents writes({output_.out(), output_.err()});
    sweep::WatchedProcess process(
        {.argv = {"/bin/sh", "-c", command_},
         .env = {{"PYTHONUNBUFFERED", "1"}},  // else Python keeps its lines until there are many
         .out = output_.out(),
         .err = output_.err(),
         .progress_files = {output_.out(), output_.err()},
         .limits = {.hang_s = spec_.run.hang_timeout, .grace_s = grace_of(spec_)}});
    int signal = 0;
    bool too_long = false;
    std::optional<sweep::Verdict> other;  // of another node's
    const auto take = [&](const records::Record& r) { write(r); };
    while (!process.wait(kRest_s) && !process.wait(kLook_s, writes.descriptor())) {
      writes.forget();
      if (output_.read(take)) log_.heartbeat();
      if (!other && (other = failure_of_others())) process.cancel();
      if (output_.too_much() && !std::exchange(too_long, true)) process.cancel();
      if (signal == 0 && options_.stop && *options_.stop != 0) signal = *options_.stop, process.cancel();
    }
    output_.end(take);
    records::EndRecord end =
        signal != 0 ? log_.failed(records::RunClass::interrupted, "stopped by " + signal_name(signal))
        : too_long  ? log_.failed(records::RunClass::crash, "printed more than " +
                                                                std::to_string(options_.most_output >> 20) +
                                                                " MiB, and was ended")
                    : verdict(process.outcome());
    // Another node's failure comes first: this one's may be its consequence.
    if (!other && signal == 0 && !too_long && end.failure == records::name_of(records::RunClass::crash))
      other = failure_of_others(kOthers_s);
    if (other && signal == 0 && !end.ok()) end = log_.failed(other->run_class, other->message);
    if (signal != 0) end.signal = signal_name(signal);
    end.seconds = now_s() - began;
    log_.end(end);
    return end;
  }

 private:
  static std::string from_last(const RunSpec& spec, const GuestOptions& options) {
    const auto last = options.resume ? sweep::checkpoint_of_command(spec, spec.run.out) : std::nullopt;
    return last ? last->string() : "";
  }

  /// The failure that another node has reported; waits for one up to `seconds`.
  std::optional<sweep::Verdict> failure_of_others(double seconds = 0) const {
    if (!hosts_.started_on_each || hosts_.count() < 2) return std::nullopt;
    const double until = now_s() + seconds;
    do {
      for (int64_t k = 1; k < hosts_.count(); ++k)
        if (auto v = told_failure(spec_.run.out, hosts_, k)) return v;
      if (seconds > 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    } while (now_s() < until);
    return std::nullopt;
  }

  void begin() {
    nlohmann::json about = {{"command", command_}};
    if (options_.expected) about["expected"] = records::to_json(*options_.expected);
    if (!options_.about.is_null()) about["about"] = options_.about;
    log_.begin(about, hosts_.ranks_here(spec_.layout.world()), !from_.empty());
  }

  void write(const records::Record& r) {
    const auto* step = std::get_if<records::StepRecord>(&r);
    if (!step) return log_.write(r);
    // The step of its checkpoint shows in the first one after it.
    if (!log_.timed() && !from_.empty())
      log_.write(records::ResumeRecord{.step = std::max<int64_t>(0, step->step - 1), .path = from_});
    log_.step(*step);
    advisor_.swapped(records::swapped_in_bytes() - swapped_);
    if (const auto advice = advisor_.step(*step); advice && options_.print)
      options_.print("advice: " + *advice);
  }

  records::EndRecord verdict(const sweep::ProcessOutcome& outcome) const {
    if (output_.lost())
      return log_.failed(records::RunClass::numeric,
                         "the loss is not a number after step " + std::to_string(output_.last_step()));
    if (outcome.end == sweep::ProcessEnd::exited && outcome.code == 0) return output_.result(log_);
    const sweep::Verdict v = verdict_of_guest(outcome, output_.last_out(), output_.last_err(),
                                              output_.has_steps() ? output_.last_step() : -1);
    return log_.failed(v.run_class, v.message);
  }

  const RunSpec& spec_;
  const GuestOptions& options_;
  const GuestHosts& hosts_;
  const std::string from_;  // the checkpoint that it is taken up from; "": none
  const std::string command_;
  GuestOutput output_;
  GuestLog log_;
  records::Advisor advisor_;
  const int64_t swapped_ = records::swapped_in_bytes();
};

}  // namespace

sweep::Verdict verdict_of_guest(const sweep::ProcessOutcome& outcome, const std::string& out,
                                const std::string& err, int64_t last_step) {
  const records::ResultTail tail{.started = true,
                                 .starts = 1,
                                 .last_event = last_step < 0 ? "run_start" : "step",
                                 .last_step = last_step};
  if (outcome.end == sweep::ProcessEnd::exited || outcome.end == sweep::ProcessEnd::signalled)
    if (const auto said = sweep::verdict_of_words(out + "\n" + err, tail)) return *said;
  return sweep::classify(outcome, tail, err.empty() ? out : err);
}

records::EndRecord run_guest(const RunSpec& spec, const GuestHosts& hosts, const GuestOptions& options) {
  return GuestRun(spec, hosts, options)();
}

}  // namespace isobar::guest
