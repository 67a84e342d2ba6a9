#include "bench/guest/run_guest.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>
#include <vector>

#include "bench/guest/command.h"
#include "bench/guest/flags.h"
#include "bench/guest/guest_log.h"
#include "bench/guest/guest_output.h"
#include "bench/guest/other_host.h"
#include "bench/sweep/run/classify.h"
#include "bench/sweep/run/process.h"
#include "model/base/system/signal_name.h"
#include "model/engine/host/host.h"
#include "model/records/advice.h"

namespace isobar::guest {
namespace {

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
  static TakenUp from_last(const RunSpec& spec, const GuestOptions& options) {
    const auto last = options.resume ? sweep::checkpoint_of_command(spec, spec.run.out) : std::nullopt;
    return {last ? last->string() : ""};
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
    log_.begin(about, hosts_.ranks_here(spec_.layout.world()), !from_.checkpoint.empty());
  }

  void write(const records::Record& r) {
    const auto* step = std::get_if<records::StepRecord>(&r);
    if (!step) return log_.write(r);
    // The step of its checkpoint shows in the first one after it.
    if (!log_.timed() && !from_.checkpoint.empty())
      log_.write(
          records::ResumeRecord{.step = std::max<int64_t>(0, step->step - 1), .path = from_.checkpoint});
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
    const sweep::Verdict v = verdict_of_guest(outcome, {.out = output_.last_out(), .err = output_.last_err()},
                                              output_.has_steps() ? output_.last_step() : -1);
    return log_.failed(v.run_class, v.message);
  }

  const RunSpec& spec_;
  const GuestOptions& options_;
  const GuestHosts& hosts_;
  const TakenUp from_;
  const std::string command_;
  GuestOutput output_;
  GuestLog log_;
  records::Advisor advisor_;
  const int64_t swapped_ = records::swapped_in_bytes();
};

}  // namespace

sweep::Verdict verdict_of_guest(const sweep::ProcessOutcome& outcome, const LastWords& last,
                                int64_t last_step) {
  const records::ResultTail tail{.started = true,
                                 .starts = 1,
                                 .last_event = last_step < 0 ? "run_start" : "step",
                                 .last_step = last_step};
  if (outcome.end == sweep::ProcessEnd::exited || outcome.end == sweep::ProcessEnd::signalled)
    if (const auto said = sweep::verdict_of_words(last.out + "\n" + last.err, tail)) return *said;
  return sweep::classify(outcome, tail, last.err.empty() ? last.out : last.err);
}

records::EndRecord run_guest(const RunSpec& spec, const GuestHosts& hosts, const GuestOptions& options) {
  return GuestRun(spec, hosts, options)();
}

}  // namespace isobar::guest
