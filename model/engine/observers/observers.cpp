#include "model/engine/observers/observers.h"

namespace isobar::engine {

void add_observers(RunObservers& all, const Observed& o, std::unique_ptr<RunObserver> curves) {
  all.add(start_times(o));
  all.add(early_stopping(o));
  if (!o.run.options.trace.empty()) all.add(step_trace(o));
  all.add(run_summary(o));
  all.add(result_writer(o));
  all.add(std::move(curves));
  all.add(step_table(o));
  all.add(advice_giver(o));
  all.add(validator(o, all));
  if (o.run.spec.train.counts_epochs()) all.add(epoch_counter(o, all));
  all.add(checkpointer(o, all));
  all.add(rank_reports(o, all));
}

}  // namespace isobar::engine
