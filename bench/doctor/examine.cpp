#include "bench/doctor/check.h"
#include "model/base/system/program.h"

namespace isobar::doctor {
namespace {

Check examine_charts() {
  Check c{.part = "charts (vl-convert)",
          .health = Health::absent,
          .mend = "bench/setup.sh; without it reports have tables and data but no pictures"};
  const std::string python = drawing_python(&c.found).string();
  if (!c.found.empty()) {
    c.health = Health::look;
    return c;
  }
  const ProgramRun run = run_program({python, "-c", "import vl_convert; print(vl_convert.__version__)"});
  c.found = run.code == 0 ? run.out.substr(0, run.out.find('\n')) + ", of " + python
                          : (python.empty() ? "no python3 in PATH" : "not of " + python);
  if (run.code == 0) c.health = Health::ok;
  return c;
}

}  // namespace

std::vector<Check> examine(const Examination& e) {
  std::vector<Check> out;
  const auto add = [&out](std::vector<Check> more) { out.insert(out.end(), more.begin(), more.end()); };
  add(examine_processor());
  add(examine_cores());
  add(examine_clocks());
  add(examine_limits());
  out.push_back(examine_search_paths());
  add(examine_ranks(e));
  add(examine_files(e));
  add(examine_scheduler());
  add({examine_charts()});
  add(examine_gpus());
  return out;
}

}  // namespace isobar::doctor
