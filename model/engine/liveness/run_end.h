// How the record of a run ends that did not come to its last step: by a signal, or because it hangs.
//
//   Watchdog watch(&mpi, slow, writer, spec.run.hang_timeout, watchdog_reports(spec, mpi));
//   log.end(interrupted(SIGTERM, "stopped by SIGTERM after step 7"));
#pragma once
#include <string>

#include "model/base/spec/spec.h"
#include "model/comm/comm.h"
#include "model/engine/liveness/result_log.h"
#include "model/engine/liveness/watchdog.h"

namespace isobar::engine {

records::EndRecord interrupted(int signal, const std::string& message);

/// The log in run.out; one that writes nothing where the run keeps nothing.
ResultLog log_of(const RunSpec& spec);

/// Actions of the watchdog while the run proceeds or hangs. Writing is limited to a few seconds, so that a
/// hanging disk cannot keep the watchdog from ending the run. `spec` and `mpi` must outlive it.
WatchdogReports watchdog_reports(const RunSpec& spec, const comm::Mpi& mpi);

}  // namespace isobar::engine
