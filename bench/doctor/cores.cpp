// Speed of each core, measured one after the other, because a rank waits for its slowest core.
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "bench/doctor/check.h"
#include "bench/doctor/rates.h"
#include "model/base/text/printed.h"

namespace isobar::doctor {
namespace {

constexpr double kSlow = 0.7;       // of the median; slower cores are shared or throttled
constexpr double kSeconds = 0.025;  // on each core, several scheduler time slices
constexpr size_t kMost = 64;        // cores: of more every n-th

std::vector<int> allowed_cores(const cpu_set_t& set) {
  std::vector<int> all, out;
  for (int c = 0; c < CPU_SETSIZE; ++c)
    if (CPU_ISSET(c, &set)) all.push_back(c);
  const size_t every = (all.size() + kMost - 1) / kMost;
  for (size_t i = 0; i < all.size(); i += std::max<size_t>(1, every)) out.push_back(all[i]);
  return out;
}

// Rounds a second of a chain of dependent multiplications: measures the clock, not memory.
double rate() {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  int64_t rounds = 0;
  double seconds = 0;
  volatile double kept = 1;
  do {
    double x = kept;
    for (int i = 0; i < 20000; ++i) x = x * 0.999999 + 1e-7;
    kept = x;
    ++rounds;
    seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  } while (seconds < kSeconds);
  return static_cast<double>(rounds) / seconds;
}

Check examine_each() {
  cpu_set_t before;
  if (::sched_getaffinity(0, sizeof before, &before) != 0)
    return {"cores", "the system does not report which cores may be used", Health::look,
            "sched_getaffinity failed"};
  const std::vector<int> cores = allowed_cores(before);
  std::vector<double> rates;
  for (const int c : cores) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(c, &one);
    ::sched_setaffinity(0, sizeof one, &one);
    rates.push_back(std::max({rate(), rate(), rate()}));  // another process may interfere
  }
  ::sched_setaffinity(0, sizeof before, &before);
  std::vector<double> sorted = rates;
  std::sort(sorted.begin(), sorted.end());
  const double usual = sorted.size() < 3 ? sorted.back() : sorted[sorted.size() / 2];
  std::string slow;
  for (size_t i = 0; i < rates.size(); ++i) {
    if (rates[i] >= kSlow * usual) continue;
    const std::string text =
        printed("%score %d at %.0f %%", slow.empty() ? "" : ", ", cores[i], 100 * rates[i] / usual);
    slow += text;
  }
  if (!slow.empty())
    return {"cores", slow + " of the others' speed", Health::look,
            "a rank waits for its slowest core: check for other load there (top) and for throttling"};
  const std::string text = printed("%zu measured, the slowest at %.0f %% of the median", rates.size(),
                                   100 * sorted.front() / usual);
  return {"cores", text};
}

Check examine_together() {
  const std::string text =
      printed("fp32 products %.0f GFLOP/s, copies %.1f GB/s", matrix_rate() / 1e9, copy_rate() / 1e9);
  return {"cores together", text};
}

}  // namespace

std::vector<Check> examine_cores() {
  return {examine_each(), examine_together()};
}

}  // namespace isobar::doctor
