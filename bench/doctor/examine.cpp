#include <filesystem>

#include "bench/doctor/check.h"

namespace isobar {

std::vector<Check> examine(const Examination& e) {
  std::vector<Check> out;
  const auto add = [&out](std::vector<Check> more) { out.insert(out.end(), more.begin(), more.end()); };
  add(examine_processor());
  add(examine_cores());
  add(examine_clocks());
  add(examine_limits());
  add(examine_ranks(e));
  add(examine_files(e));
  add(examine_scheduler());
  const bool charts = std::filesystem::exists(".venv-reports/bin/python");
  add({{"charts (vl-convert)", charts ? ".venv-reports" : "no .venv-reports here",
        charts ? Health::ok : Health::absent,
        "run bench/setup.sh; without it reports have tables and data but no figures"}});
  add(examine_gpus());
  return out;
}

}  // namespace isobar
