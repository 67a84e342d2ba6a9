// The state of a search (search.h) while it runs, for its own files: search.cpp goes through the layouts,
// search_advice.cpp advises where none of them will do.
#pragma once
#include <array>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "model/nets/layout/legal_layout.h"
#include "perfmodel/ask/search.h"

namespace isobar::perf {

/// Threads share the axes by tensor, context and expert parallelism, whose sections are then counted by one
/// of them.
class LayoutSearch {
 public:
  using Axes = std::array<int32_t, 5>;  // dp, tp, cp, pp, ep

  LayoutSearch(const RunSpec& spec, const Machine& machine, const SearchOptions& options, int thread = 0);
  SearchResult run();

 private:
  using Visit = std::function<void(const Axes&)>;
  struct Place {
    int8_t order;
    Placements at;
  };

  void spread();
  void in_threads(const std::function<void(LayoutSearch&)>& work);
  void each_own(const Visit& visit) const;
  void join();

  // The search space's values, or the fixed one.
  std::vector<Recompute> recomputes() const;
  std::vector<int> zero_stages() const;
  std::vector<PipelineSchedule> schedule_kinds() const;
  std::vector<int32_t> worker_counts() const;
  template <class T>
  std::vector<T> values(LayoutAxis axis, std::vector<T> out) const;
  // Calls `visit` for every (dp, tp, cp, ep, pp) that the number of accelerators, the net and the batch (0:
  // any) allow
  void each_axes(int64_t gpus, const Visit& visit) const;
  void each_axes(int64_t gpus, int64_t batch, const Visit& visit) const;

  void axes(const Axes& a);
  bool even_chunks(int64_t chunks) const;
  void places(Layout l);
  bool too_slow(Layout l);
  void policies(Layout l);
  bool leanest(const Layout& l) const;

  void keep(const LayoutCandidate& c);
  double far() const;
  void keep_on_front(const LayoutCandidate& c);
  void keep_variant(const LayoutCandidate& c);
  int64_t placed(const Layout& l) const;
  void finish();
  void lift();

  // ---- advice ----

  [[noreturn]] void refuse_numbers() const;
  [[noreturn]] void refuse_memory() const;
  bool shareable(int64_t gpus, int64_t batch) const;
  std::string mend(bool that_fits) const;
  LayoutSearch with(const RunSpec& spec, const Constraints& keep) const;
  bool any_fits();
  bool any_considered();
  std::string what_would_fit() const;
  std::string nearest_batches(const std::set<int64_t>& dps) const;
  std::string nearest_numbers() const;

  RunSpec spec_;
  const nets::NetLimits net_;
  SearchOptions options_;
  const SearchSpace& space_;
  const Constraints& keep_;
  const std::vector<int> zero_;
  const std::vector<PipelineSchedule> kinds_;
  bool counting_ = false;  // counts layouts without pricing them
  // The state that a rank keeps between steps is too much alone, with any policy. It does not depend on
  // recomputation, and grows with the micro-batch.
  bool hopeless_ = false;
  LayoutModel model_;
  double capacity_;
  size_t kept_;  // (dp, tp, cp, ep, pp) that a search keeps
  const std::vector<int32_t> workers_;
  const int thread_;
  int threads_ = 1;
  std::vector<std::unique_ptr<LayoutSearch>> others_;
  SearchResult result_;
  double bound_ = std::numeric_limits<double>::infinity();
  double least_memory_ = std::numeric_limits<double>::infinity();
  std::map<Axes, LayoutCandidate> best_;
  std::map<double, LayoutCandidate> front_;
  std::vector<Place> places_;
  std::vector<std::pair<PipelineSchedule, int64_t>> schedules_;
  std::vector<LayoutCandidate> fitting_;
};

}  // namespace isobar::perf
