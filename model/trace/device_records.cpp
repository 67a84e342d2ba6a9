#include "model/trace/device_records.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>
#include <variant>

namespace isobar::trace {
namespace {

// The owner for which a call was announced. A call leaves a runtime and a driver record with the same id,
// normally for the same op.
struct Announced {
  uint64_t external;
  bool ambiguous = false;
};

std::unordered_map<uint32_t, Announced> announced_by_call(const std::vector<Link>& links) {
  std::unordered_map<uint32_t, Announced> out;
  out.reserve(links.size());
  for (const Link& l : links) {
    const auto [at, fresh] = out.try_emplace(l.correlation, Announced{l.external});
    if (!fresh && at->second.external != l.external) at->second.ambiguous = true;
  }
  return out;
}

bool names_an_instr(int64_t instr, const plan::Program& program) {
  return instr >= 0 && instr < static_cast<int64_t>(program.instrs.size());
}

using Owner = std::variant<std::monostate, OpKey, EngineWork>;  // of an activity

class Joiner {
 public:
  Joiner(const DeviceRecords& records, const plan::Program& program)
      : records_(records), program_(program), announced_(announced_by_call(records.links)) {}

  Owner owner_of(const DeviceActivity& a, DeviceShare& share) const {
    const auto call = announced_.find(a.correlation);
    if (call == announced_.end()) return {};
    if (call->second.ambiguous) {
      ++share.ambiguous;
      return {};
    }
    OpKey key = op_key(call->second.external);
    if ((call->second.external & kEngineBit) != 0 && !key.ahead) {
      if (key.instr >= kEngineWorks) return {};
      return static_cast<EngineWork>(key.instr);
    }
    int64_t instr = key.instr;
    if (a.graph_node != 0) {
      const auto node = records_.node_instr.find(a.graph_node);
      if (node == records_.node_instr.end()) return {};
      instr += node->second;
    }
    if (!names_an_instr(instr, program_)) return {};
    key.instr = static_cast<int32_t>(instr);
    return key;
  }

 private:
  const DeviceRecords& records_;
  const plan::Program& program_;
  const std::unordered_map<uint32_t, Announced> announced_;
};

}  // namespace

ClockMap::ClockMap(const std::vector<ClockPair>& pairs) {
  if (pairs.empty()) return;
  first_ = pairs.front();
  const ClockPair& last = pairs.back();
  if (last.device_ns > first_.device_ns)
    rate_ = static_cast<double>(last.host_ns - first_.host_ns) /
            static_cast<double>(last.device_ns - first_.device_ns);
}

int64_t ClockMap::to_host(int64_t device_ns) const {
  // Only the small drift passes through double, so no nanosecond is lost.
  const int64_t since = device_ns - first_.device_ns;
  return first_.host_ns + since + std::llround(static_cast<double>(since) * (rate_ - 1));
}

DeviceJoin join(const DeviceRecords& records, const plan::Program& program, int rank, int64_t origin_ns) {
  const Joiner joiner(records, program);
  const ClockMap clock(records.clocks);
  DeviceJoin out;
  out.share.lost = records.lost;
  std::map<std::tuple<int32_t, int32_t, bool>, size_t> spans;  // (step, instr, ahead) -> index
  std::map<std::string, int64_t> other;
  for (const DeviceActivity& a : records.activities) {
    ++out.share.activities;
    if (a.end_ns < a.begin_ns || a.end_ns == 0) {
      ++out.share.untimed;
      continue;
    }
    const int64_t ns = a.end_ns - a.begin_ns;
    out.share.device_ns += ns;
    const Owner owner = joiner.owner_of(a, out.share);
    if (const auto* work = std::get_if<EngineWork>(&owner)) {
      out.share.engine_ns[static_cast<size_t>(*work)] += ns;
      continue;
    }
    const auto* key = std::get_if<OpKey>(&owner);
    if (!key) {
      other[a.name] += ns;
      continue;
    }
    ++out.share.joined;
    out.share.joined_ns += ns;
    const int64_t begin = clock.to_host(a.begin_ns) - origin_ns, end = clock.to_host(a.end_ns) - origin_ns;
    const plan::Instr& instr = program.instrs[static_cast<size_t>(key->instr)];
    const auto [at, fresh] = spans.try_emplace({key->step, key->instr, key->ahead}, out.spans.size());
    if (fresh) {
      const plan::Lane lane = key->ahead ? plan::Lane::h2d : instr.lane;
      out.spans.push_back({rank, key->step, key->instr, instr.op, instr.micro, lane, begin, end});
    } else {
      Span& s = out.spans[at->second];
      s.begin_ns = std::min(s.begin_ns, begin);
      s.end_ns = std::max(s.end_ns, end);
    }
  }
  std::stable_sort(out.spans.begin(), out.spans.end(),
                   [](const Span& a, const Span& b) { return a.begin_ns < b.begin_ns; });
  out.share.other.assign(other.begin(), other.end());
  std::stable_sort(out.share.other.begin(), out.share.other.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return out;
}

double DeviceShare::joined_share() const {
  const int64_t ns = std::accumulate(engine_ns.begin(), engine_ns.end(), joined_ns);
  return device_ns > 0 ? static_cast<double>(ns) / static_cast<double>(device_ns) : 1;
}

std::string to_text(const DeviceShare& s) {
  constexpr size_t kNamed = 4;
  const auto percent = [&](int64_t ns) {
    char text[32];
    std::snprintf(text, sizeof text, "%.2f %%",
                  s.device_ns > 0 ? 100.0 * static_cast<double>(ns) / static_cast<double>(s.device_ns) : 0.0);
    return std::string(text);
  };
  char head[96];
  std::snprintf(head, sizeof head,
                "device time %.3f ms in %ld activities: ", static_cast<double>(s.device_ns) * 1e-6,
                s.activities);
  std::string text = head + percent(s.joined_ns) + " joined to ops, ", names;
  int64_t engine_ns = 0;
  for (int i = 0; i < kEngineWorks; ++i) {
    const int64_t ns = s.engine_ns[static_cast<size_t>(i)];
    engine_ns += ns;
    if (ns > 0)
      names +=
          (names.empty() ? "" : ", ") + std::string(name_of(static_cast<EngineWork>(i))) + " " + percent(ns);
  }
  if (engine_ns > 0) text += percent(engine_ns) + " of the engine (" + std::exchange(names, "") + "), ";
  text += "other " + percent(s.device_ns - s.joined_ns - engine_ns);
  for (size_t i = 0; i < std::min(kNamed, s.other.size()); ++i)
    names += (i ? ", " : "") + s.other[i].first + " " + percent(s.other[i].second);
  if (s.other.size() > kNamed) names += ", ...";
  if (!names.empty()) text += " (" + names + ")";
  for (const auto& [count, what] : {std::pair<int64_t, const char*>{s.untimed, "without times"},
                                    {s.ambiguous, "announced for two ops"},
                                    {s.lost, "records lost"}})
    if (count > 0) text += "; " + std::to_string(count) + " " + what;
  return text;
}

}  // namespace isobar::trace
