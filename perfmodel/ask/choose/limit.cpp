#include "perfmodel/ask/choose/limit.h"

#include <algorithm>
#include <cmath>

#include "model/base/error.h"
#include "model/base/text/printed.h"

namespace isobar::perf {
namespace {

void take(Limit& most, Limit one) {
  if (one.gain > kNamedGain && one.gain > most.gain) most = std::move(one);
}

Limit by_data(LayoutModel& model, const Layout& l, const LayoutCost& c) {
  constexpr int32_t kMost = 64;  // threads of a rank
  const Conditions& w = model.where();
  const int64_t most = w.processors > 0 ? kMost : std::max<int64_t>(1, w.cores / w.ranks_on_host);
  std::vector<int32_t> more{std::max(0, l.workers)};
  for (int32_t n = std::max(1, 2 * l.workers); n <= most; n *= 2) more.push_back(n);
  Layout fed = l;
  LayoutCost faster = c;
  model.choose_workers(fed, faster, more);
  if (const double gain = c.seconds / faster.seconds - 1; gain > kNamedGain)
    return {"data", gain, "--set data.workers=" + std::to_string(fed.workers)};
  return {"data", c.seconds / (c.seconds - c.data) - 1, ""};
}

Limit by_network(LayoutModel& model, const Layout& l, double seconds, const char* quantity,
                 const char* what) {
  const Machine machine = model.machine();
  const std::string change = std::string(quantity) + "*2";
  model.set_coefficients(what_if(machine, change).values());
  const double faster = model.time(l).seconds;
  model.set_coefficients(machine.values());
  return {what, seconds / faster - 1, "--what-if '" + change + "'"};
}

}  // namespace

std::string Limit::text() const {
  if (what.empty())
    return "limited by computation: more loader threads, twice the batch, memory or network gain less than 5 "
           "%";
  if (gain == 0) return "limited by " + what;
  const std::string more = printed("%.0f %% more samples/s", 100 * gain);
  if (lift.empty()) return "limited by " + what + ": without waiting for it " + more;
  return "limited by " + what + ": " + lift + " trains " + more;
}

Limit limit_of(LayoutModel& model, const RunSpec& spec, const Lifted& lifted) {
  const Layout l = layout_of(spec);
  const LayoutCost c = model.time(l);
  Limit most;
  take(most, {"the batch", lifted.batch, "--global-batch " + std::to_string(2 * spec.train.global_batch)});
  take(most, {"memory", lifted.memory, "--what-if 'memory_size*2'"});
  if (c.data > 0) take(most, by_data(model, l, c));
  take(most, by_network(model, l, c.seconds, "nvlink_bw", "the network inside hosts"));
  take(most, by_network(model, l, c.seconds, "net_bw", "the network between hosts"));
  return most;
}

}  // namespace isobar::perf
