#include "perfmodel/layouts/layout_units.h"

#include <cmath>

#include "perfmodel/step/cost.h"

namespace isobar::perf {
namespace {

// Equal units of one section of a chunk that begin in one run, `stride` parts apart
struct Units {
  double count, elements;
  int32_t run;
  double part, stride;  // of the run: part where the first one begins
};

// Closes units as Parameters::part() does: when full and another part follows; at stage 3 with every part.
class Cutter {
 public:
  Cutter(double bucket, bool apart, std::vector<Units>& out) : bucket_(bucket), apart_(apart), out_(out) {}

  void add(int32_t run, double count, double each) {
    if (apart_) {
      emit({count, each, run, 0, 1});
      return;
    }
    if (run == 0 || open_ >= bucket_) close(run, 0);
    if (each == 0) return;
    // The open unit, then all equal full ones
    const double fills = std::min(count, std::max(1.0, std::ceil((bucket_ - open_) / each)));
    open_ += fills * each;
    double left = count - fills;
    if (left == 0) return;
    close(run, fills);
    const double full_parts = std::max(1.0, std::ceil(bucket_ / each));
    const double full = std::max(0.0, std::floor((left - 1) / full_parts));  // the last one stays open
    emit({full, full_parts * each, run, count - left, full_parts});
    left -= full * full_parts;
    close(run, count - left);
    open_ = left * each;
  }
  void end() { close(0, 0); }

 private:
  void close(int32_t run, double part) {  // and begins the next one
    emit({1, open_, begun_run_, begun_part_, 0});
    open_ = 0, begun_run_ = run, begun_part_ = part;
  }
  void emit(const Units& u) {
    if (u.elements > 0 && u.count > 0) out_.push_back(u);
  }
  const double bucket_;
  const bool apart_;
  std::vector<Units>& out_;
  double open_ = 0;  // elements
  int32_t begun_run_ = 0;
  double begun_part_ = 0;
};

struct Timed {
  Units units;
  double seconds;  // of one unit's reduction
};

// Number of these units that begin at this part or earlier
double begun(const Units& u, int32_t run, double part) {
  if (run != u.run) return run < u.run ? 0 : u.count;
  if (part < u.part) return 0;
  return u.stride > 0 ? std::min(u.count, std::floor((part - u.part) / u.stride) + 1) : u.count;
}

// Remaining reductions at each unit's turn. They change linearly between equal units, so the ends of a run
// suffice; where units of another section begin between them, one unit's may be missed.
void add_rests(const std::vector<Timed>& timed, int32_t chunk, std::vector<UnitTimes::Rest>& rests) {
  const auto first = static_cast<std::ptrdiff_t>(rests.size());
  for (const auto& [u, each] : timed)
    for (const double part : {u.part, u.part + (u.count - 1) * u.stride}) {
      const bool known = std::any_of(rests.begin() + first, rests.end(), [&](const UnitTimes::Rest& r) {
        return r.run == u.run && r.parts == part;
      });
      if (known) continue;
      double seconds = 0;
      for (const auto& [other, its] : timed) seconds += begun(other, u.run, part) * its;
      rests.push_back({chunk, u.run, part, seconds});
    }
  std::sort(rests.begin() + first, rests.end(),
            [](const UnitTimes::Rest& a, const UnitTimes::Rest& b) { return a.run < b.run; });
}

// Parameters with equal treatment: tensor parallelism's cut, reader (products or f32 ops), trained or frozen
struct Fate {
  enum Cut { kCut, kExpert, kPartial, kWhole } cut;
  bool matrix;
  bool frozen = false;
  double of(const ParameterCounts& p, bool by_reader) const {
    if (cut == kExpert) return frozen ? p.frozen_expert : p.expert;
    if (cut == kPartial) return matrix && !frozen ? p.partial : 0;
    const bool c = cut == kCut;
    const double all = frozen ? (c ? p.frozen_cut : p.frozen_whole) : (c ? p.cut : p.whole);
    const double read =
        frozen ? (c ? p.frozen_cut_matrix : p.frozen_whole_matrix) : (c ? p.cut_matrix : p.whole_matrix);
    return !by_reader ? all : matrix ? read : all - read;
  }
};

constexpr Fate kFates[] = {
    {Fate::kCut, true},         {Fate::kCut, false},        {Fate::kExpert, true},
    {Fate::kPartial, true},     {Fate::kWhole, true},       {Fate::kWhole, false},
    {Fate::kCut, true, true},   {Fate::kCut, false, true},  {Fate::kExpert, true, true},
    {Fate::kWhole, true, true}, {Fate::kWhole, false, true}};

}  // namespace

UnitTimes unit_times(const NetSections& n, std::span<const StageChunk> chunks, const UnitPolicy& policy,
                     const Counts& rates, const Conditions& where) {
  constexpr double kF32 = 4;
  const bool apart = policy.zero == 3;
  const plan::OpKind kind = policy.zero > 0 ? plan::OpKind::reduce_scatter : plan::OpKind::all_reduce;
  const auto collective = [&](plan::OpKind what, double bytes, double element, const Placement& group) {
    return group.ranks > 1 ? seconds(count_collective(what, bytes, element, group, rates, where), rates) : 0;
  };
  UnitTimes out;
  if (apart) out.parts.resize(n.parts.size());
  std::vector<const PartRun*> timed_by(out.parts.size());  // one run of each part is enough
  thread_local std::vector<Units> units;
  thread_local std::vector<Timed> timed;
  double elements = 0, all = 0;
  for (size_t c = 0; c < chunks.size(); ++c) {
    const StageChunk& chunk = chunks[c];
    timed.clear();
    for (const Fate& fate : kFates) {
      if (fate.frozen && !apart) continue;
      const bool by_reader = policy.by_reader || (fate.frozen && policy.halves);
      if (!fate.matrix && !by_reader) continue;
      const Placement& group = fate.cut == Fate::kCut       ? policy.cut
                               : fate.cut == Fate::kExpert  ? policy.expert
                               : fate.cut == Fate::kPartial ? policy.partial
                                                            : policy.whole;
      if (fate.cut == Fate::kExpert && group.ranks <= 1 && policy.host == 0)
        continue;  // they are on one rank
      const double bytes = fate.matrix ? policy.matrix : kF32;
      units.clear();
      Cutter cutter(policy.bucket, apart, units);
      for (size_t r = 0; r < chunk.runs.size(); ++r)
        cutter.add(static_cast<int32_t>(r), chunk.runs[r].count,
                   fate.of(n.parts[chunk.runs[r].part].parameters, by_reader));
      cutter.end();
      for (const Units& u : units) {
        const double reduce =
            fate.frozen ? 0 : collective(kind, policy.gradient * u.elements, policy.gradient, group);
        const double gather = policy.zero > 0
                                  ? collective(plan::OpKind::all_gather, bytes * u.elements, bytes, group) +
                                        policy.host * bytes * u.elements / group.ranks
                                  : 0;
        const double times = chunk.times * u.count;
        if (!fate.frozen) {
          if (elements == 0) elements = u.elements;
          all += times * u.elements;
          out.units += times;
          out.last_gather = gather;
        }
        out.reduce += times * reduce;
        out.gather += times * gather;
        if (!apart) {
          timed.push_back({u, reduce});
          continue;
        }
        const bool again = fate.of(n.parts[chunk.runs[u.run].part].read_again, by_reader) > 0;
        out.gathers += times * (again ? 2 : 1);
        const PartRun& run = chunk.runs[u.run];
        const int32_t part = run.part;
        if (!timed_by[part]) timed_by[part] = &run;
        if (timed_by[part] != &run) continue;
        out.parts[part].reduce += reduce;
        out.parts[part].gather += gather;
        if (again) out.parts[part].gather_again += gather;
      }
    }
    if (!apart) add_rests(timed, static_cast<int32_t>(c), out.rests);
  }
  out.first_share = all > 0 ? elements / all : 0;
  return out;
}

}  // namespace isobar::perf
