#include "bench/guest/run_guest.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "bench/guest/command.h"
#include "bench/guest/guest_output.h"
#include "bench/sweep/classify.h"
#include "bench/sweep/process.h"
#include "model/base/error.h"
#include "model/base/files.h"
#include "model/base/signal_name.h"
#include "model/engine/host/host.h"
#include "model/engine/liveness/result_log.h"
#include "model/engine/liveness/run_dir.h"

namespace isobar {
namespace {

namespace fs = std::filesystem;

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class GuestRun {
 public:
  GuestRun(const RunSpec& spec, const GuestOptions& options)
      : spec_(spec),
        options_(options),
        hosts_(hosts_of_job()),
        command_(guest_command(spec, hosts_)),
        output_(spec, options.most_output, options.print),
        dir_(spec.run.out) {
    dir_.claim("");
    log_ = ResultLog(spec.run.out);
    write_atomically(fs::path(spec.run.out) / "spec.json", to_json(spec).dump(1) + "\n");
  }

  EndRecord operator()() {
    begin();
    const double began = now_s();
    WatchedProcess process(
        {.argv = {"/bin/sh", "-c", command_},
         .env = {{"PYTHONUNBUFFERED", "1"}},  // else Python keeps its lines until there are many
         .out = output_.out(),
         .err = output_.err(),
         .progress_files = {output_.out(), output_.err()},
         .limits = {.hang_s = spec_.run.hang_timeout}});
    int signal = 0;
    bool too_long = false;
    while (!process.wait(0.05)) {
      output_.read(log_);
      if (output_.too_much() && !std::exchange(too_long, true)) process.cancel();
      if (signal == 0 && options_.stop && *options_.stop != 0) signal = *options_.stop, process.cancel();
    }
    output_.end(log_);
    EndRecord end = signal != 0 ? failed(RunClass::interrupted, "stopped by " + signal_name(signal))
                    : too_long  ? failed(RunClass::crash, "printed more than " +
                                                              std::to_string(options_.most_output >> 20) +
                                                              " MiB, and was ended")
                                : verdict(process.outcome());
    if (signal != 0) end.signal = signal_name(signal);
    end.seconds = now_s() - began;
    log_.end(end);
    return end;
  }

 private:
  void begin() {
    nlohmann::json about = provenance();
    about["command"] = command_;
    if (!options_.about.is_null()) about["about"] = options_.about;
    const int64_t ranks = spec_.layout.world();
    log_.write(StartRecord{.time_utc = utc_now(),
                           .spec = to_json(spec_),
                           .ranks = ranks,
                           .ranks_on_host = (ranks + hosts_ - 1) / hosts_,
                           .threads = std::max<int64_t>(1, spec_.run.threads),
                           .provenance = about});
  }

  EndRecord failed(RunClass c, const std::string& message) const {
    return {.status = "failed", .failure = name_of(c), .message = message};
  }

  EndRecord verdict(const ProcessOutcome& outcome) const {
    if (output_.lost())
      return failed(RunClass::numeric,
                    "the loss is not a number after step " + std::to_string(output_.last_step()));
    if (outcome.end == ProcessEnd::exited && outcome.code == 0) return output_.result();
    const ResultTail tail{.started = true,
                          .starts = 1,
                          .last_event = output_.has_steps() ? "step" : "run_start",
                          .last_step = output_.last_step()};
    const Verdict v = classify(outcome, tail, output_.last_error());
    if (outcome.end == ProcessEnd::exited || outcome.end == ProcessEnd::signalled)
      if (const auto said = verdict_of_words(output_.last(), tail))
        return failed(said->run_class, said->message);
    return failed(v.run_class, v.message);
  }

  const RunSpec& spec_;
  const GuestOptions& options_;
  const int64_t hosts_;
  const std::string command_;
  GuestOutput output_;
  RunDir dir_;
  ResultLog log_;
};

}  // namespace

EndRecord run_guest(const RunSpec& spec, const GuestOptions& options) {
  if (spec.run.out.empty())
    throw ConfigError(spec.file, "run.command",
                      "wants a folder for its output and records, and run.out is empty",
                      "add --set run.out=runs/first");
  return GuestRun(spec, options)();
}

}  // namespace isobar
