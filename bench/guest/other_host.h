// A command that is started on every node, on another node than the first (run_guest.h), which learns of its
// failure by a file in the run's folder.
#pragma once
#include <csignal>
#include <filesystem>
#include <optional>

#include "bench/guest/hosts.h"
#include "bench/sweep/run/classify.h"
#include "model/base/spec/spec.h"

namespace isobar::guest {

/// Seconds that a command gets to end itself when it is asked to: one that is taken up writes a checkpoint.
double grace_of(const RunSpec& spec);

/// Runs the command here to its end; nothing: it ended well.
std::optional<sweep::Verdict> run_on_other_host(const RunSpec& spec, const GuestHosts& hosts, bool resume,
                                                const volatile std::sig_atomic_t* stop);
/// The failure that node `k` of this start has reported in the run's folder.
std::optional<sweep::Verdict> told_failure(const std::filesystem::path& run_dir, const GuestHosts& hosts,
                                           int64_t k);
/// The file that the options of run.engine name, if any.
void write_flags(const RunSpec& spec);

}  // namespace isobar::guest
