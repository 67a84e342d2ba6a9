#include "perfmodel/ask/choose/failures.h"

#include <cmath>
#include <stdexcept>

namespace isobar::perf {

double useful_share(double mtbf_s, double checkpoint_s, double restart_s, double every_s) {
  return every_s / (mtbf_s * std::exp(restart_s / mtbf_s) * std::expm1((every_s + checkpoint_s) / mtbf_s));
}

Failures failures(double mtbf_s, double checkpoint_s, double restart_s) {
  if (!(mtbf_s > 0) || !(checkpoint_s > 0) || !(restart_s >= 0))
    throw std::invalid_argument("failures: times above 0 are wanted");
  Failures f{.every_s = mtbf_s};
  if (const double x = checkpoint_s / (2 * mtbf_s); x < 1)
    f.every_s = std::sqrt(2 * checkpoint_s * mtbf_s) * (1 + std::sqrt(x) / 3 + x / 9) - checkpoint_s;
  f.useful = useful_share(mtbf_s, checkpoint_s, restart_s, f.every_s);
  return f;
}

}  // namespace isobar::perf
