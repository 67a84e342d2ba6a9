#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/cli/commands.h"
#include "bench/cli/words/options.h"
#include "bench/doctor/check.h"
#include "bench/ranks/mpiexec.h"
#include "model/base/error.h"
#include "model/base/text/json.h"
#include "model/comm/launcher.h"

namespace isobar::cli {
namespace {

struct DoctorArguments {
  std::string config, results = ".";
  std::vector<std::string> set;
  bool json = false, ranks_part = false;
};

const char* name_of(doctor::Health h) {
  constexpr const char* kNames[] = {"ok", "absent", "look", "FAILED"};
  return kNames[static_cast<int>(h)];
}

doctor::Examination examination_of(const DoctorArguments& a) {
  doctor::Examination e{.results = a.results};
  if (!a.config.empty()) e.run = load_run_spec(a.config, a.set);
  if (comm::launch_of(::getenv).started()) return e;  // a rank starts no ranks
  try {
    e.two_ranks = ranks::mpiexec_command(2);
    e.two_ranks.insert(e.two_ranks.end(), {"doctor", "--ranks-part"});
  } catch (const ConfigError& refused) {
    e.no_ranks = refused.what();
  }
  return e;
}

void run_doctor(const DoctorArguments& a) {
  if (a.ranks_part) return doctor::two_ranks_part();
  const std::vector<doctor::Check> list = doctor::examine(examination_of(a));
  bool healthy = true, look = false;
  nlohmann::json j = nlohmann::json::array();
  for (const doctor::Check& c : list) {
    const bool ok = c.health == doctor::Health::ok;
    healthy = healthy && (c.health != doctor::Health::failed || !c.required);
    look = look || c.health == doctor::Health::look;
    j.push_back({{"part", c.part},
                 {"ok", ok},
                 {"health", name_of(c.health)},
                 {"required", c.required},
                 {"found", c.found},
                 {"mend", ok ? "" : c.mend}});
    if (a.json) continue;
    std::printf("%-8s %-20s %s\n", name_of(c.health), c.part.c_str(), c.found.c_str());
    if (!ok && !c.mend.empty()) std::printf("         %-20s -> %s\n", "", c.mend.c_str());
  }
  if (a.json)
    std::cout << json_text(nlohmann::json{{"healthy", healthy}, {"checks", j}}, 1) << "\n";
  else
    std::printf("%s\n", !healthy ? "A required part does not work."
                        : look   ? "All required parts work; see the parts marked look."
                                 : "All required parts work; absent parts are optional.");
  if (!healthy) throw ExitCode{1};
}

}  // namespace

void add_doctor_command(CLI::App& app) {
  auto a = std::make_shared<DoctorArguments>();
  CLI::App* c =
      app.add_subcommand("doctor", "Check what this machine has, whether it works, and how to fix it");
  add_config_option(*c, a->config, "config", "Run configuration whose data are opened too");
  c->add_option("--set", a->set, "Override a key of it: data.train=FILE (repeatable)")
      ->needs("config")
      ->allow_extra_args(false);
  c->add_option("--results", a->results, "Results directory whose space and locks are checked")
      ->capture_default_str();
  c->add_flag("--json", a->json, "Print JSON on stdout");
  c->add_flag("--ranks-part", a->ranks_part)->group("");
  c->footer(
      "Starts two ranks as runs do and adds up a number; times each core; writes and locks a file on the "
      "results' "
      "disk;\nqueries the scheduler. ok: works; look: works, but slowly or with limits; absent: optional.\n"
      "Exit code 1 if a required part does not work.");
  c->callback([a] { run_doctor(*a); });
}

}  // namespace isobar::cli
