#include "bench/cli/step_text.h"

#include <cstdio>

namespace isobar {

TimeUnit unit_of(double step_s) {
  return step_s >= 10 ? TimeUnit{1, "s"} : TimeUnit{1e3, "ms"};
}

void print_step(const StepText& s) {
  const TimeUnit u = unit_of(s.step_s);
  std::printf("  %-34s %12s %7s\n", "one optimizer step", u.name, "share");
  for (const Term& t : s.terms)
    std::printf("  %-34s %12.3f %6.1f%%\n", t.name.c_str(), u.per_second * t.seconds,
                100 * t.seconds / s.step_s);
  std::printf("  %-34s %12.3f         80 %% interval %.3f - %.3f %s\n", "together", u.per_second * s.step_s,
              u.per_second * s.lower, u.per_second * s.upper, u.name);
  if (s.correction != 1)
    std::printf("  (with %+.1f %% by which measured runs of this kind deviate from the counted terms)\n",
                100 * (s.correction - 1));
  std::printf("\n");
}

nlohmann::json json_of(const StepText& s) {
  nlohmann::json terms = nlohmann::json::array();
  for (const Term& t : s.terms) terms.push_back({{"name", t.name}, {"seconds", t.seconds}});
  return {{"step_s", s.step_s},
          {"lower_s", s.lower},
          {"upper_s", s.upper},
          {"ceiling_s", s.ceiling_s},
          {"samples_per_s", s.samples_per_s},
          {"correction", s.correction},
          {"terms", terms},
          {"checkpoint",
           {{"bytes", s.checkpoint.bytes},
            {"seconds", s.checkpoint.seconds},
            {"lower_s", s.checkpoint.lower},
            {"upper_s", s.checkpoint.upper},
            {"per_step_s", s.checkpoint.per_step}}},
          {"warnings", s.warnings}};
}

}  // namespace isobar
