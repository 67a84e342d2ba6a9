#include <algorithm>
#include <stdexcept>

#include "model/plan/plan.h"

namespace isobar::plan {
namespace {

int64_t aligned(const Plan& plan, int64_t bytes) {
  return (bytes + plan.align - 1) / plan.align * plan.align;
}

struct Life {
  int32_t buffer, first, last;  // ops
};

// First and last op of each scratch buffer of a routine. A routine may read only its own, since others'
// scratch is gone.
std::vector<Life> lifetimes(const Plan& plan, int32_t routine) {
  std::vector<Life> lives;
  std::vector<int32_t> at(plan.buffers.size(), -1);  // index into `lives`, by buffer
  const Routine& r = plan.routines[routine];
  for (int32_t i = r.first; i < r.first + r.count; ++i) {
    for (const auto* operands : {&plan.ops[i].reads, &plan.ops[i].writes}) {
      for (const View& v : *operands) {
        if (!v || plan.buffers[v.buffer].kind != BufferKind::scratch) continue;
        if (plan.buffers[v.buffer].routine != routine)
          throw std::logic_error(plan.ops[i].path + " uses " + plan.buffers[v.buffer].name +
                                 ", scratch of another routine: it should be saved");
        if (at[v.buffer] < 0) {
          at[v.buffer] = static_cast<int32_t>(lives.size());
          lives.push_back({v.buffer, i, i});
        }
        lives[at[v.buffer]].last = i;
      }
    }
  }
  return lives;
}

// Places the scratch of one routine from offset 0 and returns its bytes. Buffers come in order of first use;
// each takes the smallest hole that is free over its whole life, or goes on top.
int64_t place_scratch(Plan& plan, int32_t routine) {
  std::vector<Life> lives = lifetimes(plan, routine);
  std::sort(lives.begin(), lives.end(), [](const Life& a, const Life& b) {
    return a.first != b.first ? a.first < b.first : a.buffer < b.buffer;
  });
  int64_t top = 0;
  std::vector<Life> placed;
  for (const Life& life : lives) {
    const int64_t need = aligned(plan, plan.buffers[life.buffer].bytes());
    std::vector<std::pair<int64_t, int64_t>> busy;
    // Lives are sorted by their beginning: dead buffers stay dead, and the rest overlap this one.
    std::erase_if(placed, [&](const Life& other) { return other.last < life.first; });
    for (const Life& other : placed) {
      const Buffer& b = plan.buffers[other.buffer];
      busy.emplace_back(b.offset, b.offset + aligned(plan, b.bytes()));
    }
    std::sort(busy.begin(), busy.end());
    int64_t best = -1, best_size = INT64_MAX, end = 0;
    for (const auto& [from, to] : busy) {
      if (from - end >= need && from - end < best_size) {
        best = end;
        best_size = from - end;
      }
      end = std::max(end, to);
    }
    plan.buffers[life.buffer].offset = best >= 0 ? best : end;
    top = std::max(top, plan.buffers[life.buffer].offset + need);
    placed.push_back(life);
  }
  return top;
}

}  // namespace

void place(Plan& plan) {
  int64_t end = 0;
  plan.memory = {
      .arena = 0, .host = 0, .by_kind = {}, .loader = plan.memory.loader, .replay = plan.memory.replay};
  for (BufferKind kind : {BufferKind::params, BufferKind::params16, BufferKind::grads, BufferKind::adam,
                          BufferKind::io, BufferKind::constants}) {
    const int64_t start = end;
    for (Buffer& b : plan.buffers) {
      if (b.kind != kind) continue;
      b.offset = end;
      end += aligned(plan, b.bytes());
    }
    plan.memory.by_kind[static_cast<int>(kind)] = end - start;
  }

  // Saved buffers live from a micro-batch's forward to its backward: one slot for each micro-batch in flight.
  const int64_t saved_start = end;
  for (size_t chunk = 0; chunk < plan.slots.size(); ++chunk) {
    const int64_t start = end;
    for (Buffer& b : plan.buffers) {
      if (b.kind != BufferKind::saved || b.chunk != static_cast<int32_t>(chunk)) continue;
      b.offset = end;
      end += aligned(plan, b.bytes());
    }
    const int64_t stride = end - start;
    for (Buffer& b : plan.buffers)
      if (b.kind == BufferKind::saved && b.chunk == static_cast<int32_t>(chunk)) b.slot_stride = stride;
    end = start + stride * plan.slots[chunk];
  }
  plan.memory.by_kind[static_cast<int>(BufferKind::saved)] = end - saved_start;

  // Scratch of one routine is dead when the next begins, so all routines share one region.
  int64_t region = 0;
  for (size_t r = 0; r < plan.routines.size(); ++r)
    region = std::max(region, place_scratch(plan, static_cast<int32_t>(r)));
  for (Buffer& b : plan.buffers)
    if (b.kind == BufferKind::scratch && b.offset >= 0) b.offset += end;
  plan.memory.by_kind[static_cast<int>(BufferKind::scratch)] = region;
  plan.memory.arena = end + region;
  for (Buffer& b : plan.buffers) {
    if (b.kind != BufferKind::host) continue;
    b.offset = plan.memory.arena + plan.memory.host;
    plan.memory.host += aligned(plan, b.bytes());
  }
  plan.memory.by_kind[static_cast<int>(BufferKind::host)] = plan.memory.host;
}

}  // namespace isobar::plan
