#include "perfmodel/ask/fits.h"

#include <algorithm>
#include <cmath>

#include "perfmodel/fitting/statistics.h"

namespace isobar::perf {
namespace {

// NCCL's channels are an unmeasured estimate (model/base/nccl_resources.h): within a factor of two in 80 % of
// cases.
constexpr double kNccl = 0.54;
// Closed forms against placed plans: 90 % within 3 %, or 15 % with ZeRO units.
constexpr double kClosedForm = 0.018, kClosedFormUnits = 0.09;

}  // namespace

double memory_sigma(const LayoutCost& c, const Machine& m, int zero, bool placed) {
  const double plan = placed ? 0
                             : (zero >= 2 ? kClosedFormUnits * c.scratch + kClosedForm * c.saved
                                          : kClosedForm * (c.scratch + c.saved));
  return std::hypot(plan, c.process * m[Coef::process].log_sigma(), c.nccl * kNccl);
}

double chance_to_fit(double bytes, double sigma, double there) {
  return normal_cdf((there - bytes) / std::max(sigma, 1.0));
}

double chance_to_fit(double bytes, double lower, double upper, double there) {
  const double side = there >= bytes ? std::log(upper / bytes) : std::log(bytes / lower);
  return normal_cdf(kNormal80 * std::log(there / bytes) / std::max(side, 1e-9));
}

}  // namespace isobar::perf
