#include "model/engine/liveness/run_end.h"

#include <cstdio>

#include "model/base/system/signal_name.h"

namespace isobar::engine {

records::EndRecord interrupted(int signal, const std::string& message) {
  return {.status = "failed", .failure = "interrupted", .message = message, .signal = signal_name(signal)};
}

ResultLog log_of(const RunSpec& spec) {
  return spec.run.out.empty() ? ResultLog() : ResultLog(spec.run.out);
}

WatchdogReports watchdog_reports(const RunSpec& spec, const comm::Mpi& mpi) {
  constexpr double kGrace_s = 3;
  const auto hang = [&](const std::string& op) {
    const std::string message = "rank " + std::to_string(mpi.rank()) + " made no progress for " +
                                std::to_string(static_cast<int64_t>(spec.run.hang_timeout)) + " s in " + op;
    std::fprintf(stderr, "isobar: %s\n", message.c_str());
    BackgroundWriter::within(kGrace_s, [&] {
      log_of(spec).end(
          {.status = "failed", .failure = "hang", .message = message, .op = op, .rank = mpi.rank()});
    });
    mpi.abort(1);
  };
  const auto at_once = [&](int signal) {
    BackgroundWriter::within(kGrace_s, [&] {
      log_of(spec).end(interrupted(signal, "stopped at once by a second " + signal_name(signal)), false);
    });
    mpi.abort(128 + signal);
  };
  const auto pressing = [&spec](int signal) {
    log_of(spec).end(interrupted(signal, signal_name(signal) + " came within a step"), false);
  };
  WatchdogReports reports{.hang = hang, .at_once = at_once, .pressing = pressing};
  if (mpi.rank() == 0) reports.alive = [&spec] { log_of(spec).heartbeat(); };
  return reports;
}

}  // namespace isobar::engine
