#include "model/nets/layout/memory_ladder.h"

#include <functional>

#include "model/base/error.h"
#include "model/base/spec/validate.h"
#include "model/base/text/joined.h"
#include "model/base/text/printed.h"
#include "model/nets/layout/device_memory.h"

namespace isobar::nets {
namespace {

constexpr int64_t kEdgeChunks = 4;

struct Change {
  std::string set;
  std::function<void(RunSpec&)> make;
};

std::vector<Change> changes_of(const RunSpec& s) {
  std::vector<Change> out;
  const int64_t batch = s.train.global_batch / s.layout.dp;
  for (int64_t b = s.micro_batch() - 1; b >= 1; --b)
    if (batch % b == 0) {  // the next smaller divisor
      out.push_back(
          {"policy.micro_batch=" + std::to_string(b), [b](RunSpec& x) { x.policy.micro_batch = b; }});
      break;
    }
  if (s.net.has_edges()) {
    const int64_t n = s.policy.edge_chunks * kEdgeChunks;
    out.push_back({"policy.edge_chunks=" + std::to_string(n), [n](RunSpec& x) { x.policy.edge_chunks = n; }});
  }
  if (s.policy.recompute == Recompute::none && !s.net.recorded())
    out.push_back(
        {"policy.recompute=selective", [](RunSpec& x) { x.policy.recompute = Recompute::selective; }});
  if (s.policy.recompute != Recompute::full)
    out.push_back({"policy.recompute=full", [](RunSpec& x) { x.policy.recompute = Recompute::full; }});
  s.net.visit([&](const auto& n) {
    if constexpr (requires { n.latent_size; }) {
      const int64_t half = n.latent_size / 2;
      out.push_back({"net.latent_size=" + std::to_string(half), [half](RunSpec& x) {
                       x.net.visit([half](auto& net) {
                         if constexpr (requires { net.latent_size; }) net.latent_size = half;
                       });
                     }});
    }
  });
  return out;
}

}  // namespace

std::vector<MemoryRung> memory_ladder(const RunSpec& spec, const plan::Workspace& workspace) {
  const int64_t now = fullest(spec, workspace).total();
  std::vector<MemoryRung> out;
  for (const Change& c : changes_of(spec)) try {
      RunSpec changed = spec;
      c.make(changed);
      if (const int64_t saves = now - fullest(changed, workspace).total(); saves > 0)
        out.push_back({c.set, saves});
    } catch (const ConfigError&) {  // the net or its layout cannot take it
    }
  return out;
}

std::string to_text(const std::vector<MemoryRung>& ladder) {
  return joined(ladder, ", ", [](const MemoryRung& r) {
    return r.set + printed(" saves %.3g GB", 1e-9 * static_cast<double>(r.saves));
  });
}

}  // namespace isobar::nets
