#include "bench/guest/run_guest.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <utility>
#include <vector>

#include "bench/guest/command.h"
#include "bench/guest/guest_log.h"
#include "bench/guest/output.h"
#include "bench/sweep/classify.h"
#include "bench/sweep/process.h"
#include "model/base/error.h"
#include "model/base/signal_name.h"

namespace isobar {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostOutput = int64_t{1} << 30;  // bytes; a program that prints more is ended
constexpr size_t kMostOfALine = 1 << 16;           // bytes; the rest of a line is left out
constexpr size_t kLastWords = 1 << 14;             // bytes kept for the verdict

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
  GuestRun(const RunSpec& spec, const GuestOptions& options)
      : spec_(spec),
        options_(options),
        hosts_(hosts_of_job()),
        command_(guest_command(spec, hosts_)),
        reader_(spec.run.reads, spec.train.global_batch, spec.net.words() ? spec.net.words()->seq_length : 0,
                spec.file),
        log_(spec),
        out_(fs::path(spec.run.out) / "output.txt"),
        err_(fs::path(spec.run.out) / "errors.txt") {}

  EndRecord operator()() {
    begin();
    const double began = now_s();
    WatchedProcess process(
        {.argv = {"/bin/sh", "-c", command_},
         .out = fs::path(spec_.run.out) / "output.txt",
         .err = fs::path(spec_.run.out) / "errors.txt",
         .progress_files = {fs::path(spec_.run.out) / "output.txt", fs::path(spec_.run.out) / "errors.txt"},
         .limits = {.hang_s = spec_.run.hang_timeout}});
    int signal = 0;
    bool too_long = false;
    while (!process.wait(0.05)) {
      read();
      if (!too_long && out_.bytes() + err_.bytes() > kMostOutput) too_long = true, process.cancel();
      if (signal == 0 && options_.stop && *options_.stop != 0) signal = *options_.stop, process.cancel();
    }
    out_.end([&](const std::string& text) { line(text); });
    err_.end([&](const std::string& text) { line(text); });
    EndRecord end = signal != 0 ? log_.failed(RunClass::interrupted, "stopped by " + signal_name(signal))
                    : too_long  ? log_.failed(RunClass::crash, "printed more than 1 GiB, and was ended")
                                : verdict(process.outcome());
    if (signal != 0) end.signal = signal_name(signal);
    end.seconds = now_s() - began;
    log_.end(end);
    return end;
  }

 private:
  void begin() {
    nlohmann::json about = {{"command", command_}};
    if (!options_.about.is_null()) about["about"] = options_.about;
    log_.begin(about, hosts_);
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
    log_.step({.step = s->step,
               .seconds = *s->seconds,
               .samples_per_s = static_cast<double>(spec_.train.global_batch) / *s->seconds,
               .loss = s->loss});
  }

  EndRecord verdict(const ProcessOutcome& outcome) const {
    if (log_.numeric()) return log_.complete(reader_.last_step());
    const bool whole = outcome.end == ProcessEnd::exited && outcome.code == 0;
    if (whole && !log_.timed())
      return log_.failed(RunClass::bad_config,
                         "the program ended well, and run.reads found no step's time in what it printed (" +
                             spec_.run.out + "/output.txt): name the form, or write a line with {step}");
    if (whole) return log_.complete(reader_.last_step());
    const ResultTail tail{.started = true,
                          .starts = 1,
                          .last_event = !log_.timed() ? "run_start" : "step",
                          .last_step = reader_.last_step()};
    const std::string words = out_.last() + "\n" + err_.last();
    Verdict v = classify(outcome, tail, err_.last().empty() ? out_.last() : err_.last());
    if (outcome.end == ProcessEnd::exited)
      if (const auto said = class_of_words(words)) v.run_class = *said;
    return log_.failed(v.run_class, v.message);
  }

  const RunSpec& spec_;
  const GuestOptions& options_;
  const int64_t hosts_;
  const std::string command_;
  OutputReader reader_;
  GuestLog log_;
  Stream out_, err_;
};

}  // namespace

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

EndRecord run_guest(const RunSpec& spec, const GuestOptions& options) {
  return GuestRun(spec, options)();
}

}  // namespace isobar
