// A scheduler that answers: its commands may be installed while its controller is down.
#include "bench/cluster/command.h"
#include "bench/doctor/check.h"
#include "model/base/system/program.h"

namespace isobar::doctor {

std::vector<Check> examine_scheduler() {
  struct Scheduler {
    const char *name, *submit;
    std::vector<std::string> ask;
  };
  for (const Scheduler& s : {Scheduler{"Slurm", "sbatch", {"sinfo", "--noheader", "-o", "%P %D %a"}},
                             Scheduler{"PBS", "qsub", {"qstat", "-Q"}}}) {
    const std::string submit = program_in_path(s.submit);
    if (submit.empty()) continue;
    const cluster::Said said = cluster::say(s.ask, {.timeout_s = 15});
    if (said.code == 0)
      return {{"scheduler", std::string(s.name) + " answers: " + cluster::first_line(said.out)}};
    const std::string why = cluster::first_line(said.err.empty() ? said.out : said.err);
    return {{"scheduler",
             submit + " is there, and " + s.ask[0] + (said.code < 0 ? " does not answer" : " fails") +
                 (why.empty() ? "" : " (" + why + ")"),
             Health::look,
             "sweeps run on this machine; --launcher needs the controller: ask its administrator"}};
  }
  return {{"scheduler", "none", Health::absent, "not needed: sweeps run on this machine"}};
}

}  // namespace isobar::doctor
