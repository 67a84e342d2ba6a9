#include "bench/guest/run_guest.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <thread>
#include <utility>
#include <vector>

#include "bench/guest/command.h"
#include "bench/guest/flags.h"
#include "bench/guest/guest_log.h"
#include "bench/guest/other_host.h"
#include "bench/guest/output.h"
#include "bench/sweep/classify.h"
#include "bench/sweep/process.h"
#include "model/base/error.h"
#include "model/base/signal_name.h"
#include "model/engine/host/host.h"
#include "model/records/advice.h"

namespace isobar {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostOutput = int64_t{1} << 30;  // bytes; a program that prints more is ended
constexpr size_t kMostOfALine = 1 << 16;           // bytes; the rest of a line is left out
constexpr size_t kLastWords = 1 << 14;             // bytes kept for the verdict
constexpr double kOthers_s = 3;                    // within which another node reports its failure

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// A stream of the program's, which the kernel writes to a file: its new whole lines. Progress bars end lines
/// by \r.
class Stream {
 public:
  explicit Stream(fs::path file) : file_(std::move(file)) {}
  template <class F>
  void read(F&& line) {
    std::ifstream in(file_, std::ios::binary);
    in.seekg(read_);
    std::array<char, 1 << 16> some;
    while (in.read(some.data(), some.size()), in.gcount() > 0) {
      read_ += in.gcount();
      for (const char c : std::string_view(some.data(), static_cast<size_t>(in.gcount()))) add(c, line);
    }
  }
  template <class F>
  void end(F&& line) {
    read(line);
    if (!part_.empty()) line(std::exchange(part_, ""));
  }
  const fs::path& file() const { return file_; }
  int64_t bytes() const { return read_; }
  const std::string& last() const { return last_; }

 private:
  template <class F>
  void add(char c, F&& line) {
    last_ += c;
    if (last_.size() > 2 * kLastWords) last_.erase(0, last_.size() - kLastWords);
    if (c != '\n' && c != '\r') {
      if (part_.size() < kMostOfALine) part_ += c;
    } else if (!part_.empty()) {
      line(std::exchange(part_, ""));
    }
  }
  fs::path file_;
  int64_t read_ = 0;
  std::string part_, last_;
};

class GuestRun {
 public:
  GuestRun(const RunSpec& spec, const GuestHosts& hosts, const GuestOptions& options)
      : spec_(spec),
        options_(options),
        hosts_(hosts),
        from_(from_last(spec, options)),
        command_(guest_command(spec, hosts, from_)),
        reader_(spec.run.reads, spec.train.global_batch, spec.net.words() ? spec.net.words()->seq_length : 0,
                spec.file),
        log_(spec, options.resume),
        out_(fs::path(spec.run.out) / "output.txt"),
        err_(fs::path(spec.run.out) / "errors.txt"),
        advisor_({.expected = options.expected, .workers = spec.data.workers}) {
    write_flags(spec);
  }

  EndRecord operator()() {
    begin();
    const double began = now_s();
    WatchedProcess process({.argv = {"/bin/sh", "-c", command_},
                            .out = out_.file(),
                            .err = err_.file(),
                            .progress_files = {out_.file(), err_.file()},
                            .limits = {.hang_s = spec_.run.hang_timeout, .grace_s = grace_of(spec_)}});
    int signal = 0;
    bool too_long = false;
    std::optional<Verdict> other;  // of another node's
    while (!process.wait(0.05)) {
      read();
      if (!other && (other = failure_of_others())) process.cancel();
      if (!too_long && out_.bytes() + err_.bytes() > kMostOutput) too_long = true, process.cancel();
      if (signal == 0 && options_.stop && *options_.stop != 0) signal = *options_.stop, process.cancel();
    }
    out_.end([&](const std::string& text) { line(text); });
    err_.end([&](const std::string& text) { line(text); });
    EndRecord end = signal != 0 ? log_.failed(RunClass::interrupted, "stopped by " + signal_name(signal))
                    : too_long  ? log_.failed(RunClass::crash, "printed more than 1 GiB, and was ended")
                                : verdict(process.outcome());
    // Another node's failure comes first: this one's may be its consequence.
    if (!other && signal == 0 && !too_long && end.failure == name_of(RunClass::crash))
      other = failure_of_others(kOthers_s);
    if (other && signal == 0 && !end.ok()) end = log_.failed(other->run_class, other->message);
    if (signal != 0) end.signal = signal_name(signal);
    end.seconds = now_s() - began;
    log_.end(end);
    return end;
  }

 private:
  static TakenUp from_last(const RunSpec& spec, const GuestOptions& options) {
    const auto last = options.resume ? checkpoint_of_command(spec, spec.run.out) : std::nullopt;
    return {last ? last->string() : ""};
  }

  /// The failure that another node has reported; waits for one up to `seconds`.
  std::optional<Verdict> failure_of_others(double seconds = 0) const {
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
    if (options_.expected) about["expected"] = to_json(*options_.expected);
    if (!options_.about.is_null()) about["about"] = options_.about;
    log_.begin(about, hosts_.ranks_here(spec_.layout.world()), !from_.checkpoint.empty());
  }

  void read() {
    const int64_t before = out_.bytes() + err_.bytes();
    out_.read([&](const std::string& text) { line(text); });
    err_.read([&](const std::string& text) { line(text); });
    if (out_.bytes() + err_.bytes() > before) log_.heartbeat();
  }

  void line(const std::string& text) {
    if (options_.print) options_.print(text);
    const std::optional<OutputStep> s = reader_.line(text, now_s());
    if (!s) return;
    if (s->loss) log_.loss(*s->loss);
    if (!s->seconds) return;  // the first line of a program that prints no times
    // The step of its checkpoint shows in the first one after it.
    if (!log_.timed() && !from_.checkpoint.empty())
      log_.write(ResumeRecord{.step = std::max<int64_t>(0, s->step - 1), .path = from_.checkpoint});
    const StepRecord record{.step = s->step,
                            .seconds = *s->seconds,
                            .samples_per_s = static_cast<double>(spec_.train.global_batch) / *s->seconds,
                            .loss = s->loss};
    log_.step(record);
    advisor_.swapped(swapped_in_bytes() - swapped_);
    if (const auto advice = advisor_.step(record); advice && options_.print)
      options_.print("advice: " + *advice);
  }

  EndRecord verdict(const ProcessOutcome& outcome) const {
    if (log_.numeric()) return log_.complete(reader_.last_step());
    const bool whole = outcome.end == ProcessEnd::exited && outcome.code == 0;
    if (whole && !log_.timed())
      return log_.failed(RunClass::bad_config,
                         "the program ended well, and run.reads found no step's time in what it printed (" +
                             spec_.run.out + "/output.txt): name the form, or write a line with {step}");
    if (whole) return log_.complete(reader_.last_step());
    const Verdict v = verdict_of_guest(outcome, {.out = out_.last(), .err = err_.last()},
                                       log_.timed() ? reader_.last_step() : -1);
    return log_.failed(v.run_class, v.message);
  }

  const RunSpec& spec_;
  const GuestOptions& options_;
  const GuestHosts& hosts_;
  const TakenUp from_;
  const std::string command_;
  OutputReader reader_;
  GuestLog log_;
  Stream out_, err_;
  Advisor advisor_;
  const int64_t swapped_ = swapped_in_bytes();
};

}  // namespace

Verdict verdict_of_guest(const ProcessOutcome& outcome, const LastWords& last, int64_t last_step) {
  const ResultTail tail{.started = true,
                        .starts = 1,
                        .last_event = last_step < 0 ? "run_start" : "step",
                        .last_step = last_step};
  Verdict v = classify(outcome, tail, last.err.empty() ? last.out : last.err);
  if (outcome.end == ProcessEnd::exited)
    if (const auto said = class_of_words(last.out + "\n" + last.err)) v.run_class = *said;
  return v;
}

std::optional<RunClass> class_of_words(const std::string& text) {
  const auto says = [&](std::initializer_list<const char*> words) {
    return std::any_of(words.begin(), words.end(),
                       [&](const char* w) { return text.find(w) != std::string::npos; });
  };
  if (says({"CUDA out of memory", "torch.OutOfMemoryError", "torch.cuda.OutOfMemoryError",
            "HIP out of memory", "RESOURCE_EXHAUSTED: Out of memory"}))
    return RunClass::oom_device;
  if (says({"DefaultCPUAllocator: can't allocate memory", "DefaultCPUAllocator: not enough memory",
            "MemoryError", "Unable to allocate"}))
    return RunClass::oom_host;
  if (says({"collective operation timeout", "Timed out waiting"})) return RunClass::hang;
  if (says({"unrecognized arguments:", "the following arguments are required:", "error: argument "}))
    return RunClass::bad_config;
  return std::nullopt;
}

EndRecord run_guest(const RunSpec& spec, const GuestHosts& hosts, const GuestOptions& options) {
  return GuestRun(spec, hosts, options)();
}

}  // namespace isobar
