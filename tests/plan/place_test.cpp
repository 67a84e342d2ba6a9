// Memory: live buffers share no byte, the arena ends at the last buffer, and no value is overwritten between
// its write and its reads.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "model/plan/builder.h"
#include "tests/plan/plans.h"

namespace isobar::plan {
namespace {

struct Held {  // bytes of a buffer over an interval of ops
  std::string name;
  int64_t begin, end;
  int first, last;
};

bool overlap(const Held& a, const Held& b) {
  return a.begin < b.end && b.begin < a.end && a.first <= b.last && b.first <= a.last;
}

/// All buffers, once per slot, with their lives: persistent ones always, scratch from its first to its last
/// use in its routine (numbered anew in each, so routines never overlap).
std::vector<std::vector<Held>> lives(const Plan& plan) {
  std::vector<Held> always;
  for (const Buffer& b : plan.buffers) {
    if (b.kind == BufferKind::scratch) continue;
    const int64_t slots = b.kind == BufferKind::saved ? plan.slots[b.chunk] : 1;
    for (int64_t s = 0; s < slots; ++s)
      always.push_back(
          {b.name, b.offset + s * b.slot_stride, b.offset + s * b.slot_stride + b.bytes(), 0, INT32_MAX});
  }
  std::vector<std::vector<Held>> out;
  for (const Routine& r : plan.routines) {
    std::map<int32_t, Held> scratch;
    for (int i = r.first; i < r.first + r.count; ++i)
      for (const auto* views : {&plan.ops[i].reads, &plan.ops[i].writes})
        for (const View& v : *views) {
          if (!v) continue;
          const Buffer& b = plan.buffers[v.buffer];
          if (b.kind != BufferKind::scratch) continue;
          scratch.try_emplace(v.buffer, Held{b.name, b.offset, b.offset + b.bytes(), i, i});
          scratch[v.buffer].last = i;
        }
    std::vector<Held> held = always;
    for (const auto& [buffer, h] : scratch) held.push_back(h);
    out.push_back(held);
  }
  return out;
}

void expect_sound(const Plan& plan) {
  int64_t top = 0;
  for (const auto& held : lives(plan)) {
    for (size_t i = 0; i < held.size(); ++i) {
      ASSERT_GE(held[i].begin, 0) << held[i].name;
      ASSERT_EQ(held[i].begin % 64, 0) << held[i].name;
      top = std::max(top, held[i].end);
      for (size_t j = 0; j < i; ++j)
        ASSERT_FALSE(overlap(held[i], held[j])) << held[i].name << " and " << held[j].name;
    }
  }
  EXPECT_EQ(plan.memory.arena, (top + 63) / 64 * 64);
  int64_t sum = 0;
  for (const int64_t bytes : plan.memory.by_kind) sum += bytes;
  EXPECT_EQ(sum, plan.memory.arena);
}

/// Most bytes of scratch that any op needs at once: a lower bound for any placement.
int64_t least_scratch(const Plan& plan) {
  int64_t least = 0;
  for (const auto& held : lives(plan))
    for (const Held& at : held) {
      if (at.last == INT32_MAX) continue;
      int64_t bytes = 0;
      for (const Held& h : held)
        if (h.last != INT32_MAX && h.first <= at.first && at.first <= h.last)
          bytes += (h.end - h.begin + 63) / 64 * 64;
      least = std::max(least, bytes);
    }
  return least;
}

const std::vector<std::vector<std::string>> kVariants = {
    {},
    {"policy.amp=bf16"},
    {"policy.micro_batch=2"},
    {"policy.micro_batch=2", "policy.schedule=gpipe"},
    {"policy.micro_batch=1", "layout.dp=2", "policy.bucket_mb=0.05"},
    {"policy.micro_batch=2", "layout.dp=2", "policy.amp=bf16", "policy.overlap=false"},
    {"net.depth=5", "net.embed_dim=72", "net.num_heads=3"},
};

TEST(Place, LiveBuffersNeverShareAByte) {
  for (const auto& variant : kVariants) {
    SCOPED_TRACE(testing::PrintToString(variant));
    const Plan plan = plan_of("vit-tiny", variant);
    ASSERT_NO_FATAL_FAILURE(expect_sound(plan));
    const int64_t scratch = plan.memory.by_kind[static_cast<int>(BufferKind::scratch)],
                  least = least_scratch(plan);
    EXPECT_GE(scratch, least);
    EXPECT_LE(static_cast<double>(scratch), 1.25 * static_cast<double>(least)) << "a wasteful placement";
  }
  const uint32_t seed = std::random_device{}();
  for (uint32_t i = 0; i < 200; ++i) {
    SCOPED_TRACE("random plan " + std::to_string(seed + i));
    ASSERT_NO_FATAL_FAILURE(expect_sound(random_plan(seed + i)));
  }
}

TEST(Place, WhatAnOpReadsIsWhatItsWriterLeft) {
  for (const auto& variant : kVariants) {
    SCOPED_TRACE(testing::PrintToString(variant));
    const Plan plan = plan_of("vit-tiny", variant);
    struct Owner {
      int32_t buffer = -1;
      int32_t instance = -1;  // micro-batch of a saved buffer, invocation of a scratch buffer
    };
    std::vector<Owner> lines(plan.memory.arena / 64);  // last writer of each 64 bytes
    int checked = 0;
    for (size_t n = 0; n < plan.train.size(); ++n) {
      const Invocation& inv = plan.train[n];
      const Routine& r = plan.routines[inv.routine];
      for (int o = r.first; o < r.first + r.count; ++o) {
        const Op& op = plan.ops[o];
        const auto visit = [&](const View& v, bool write) {
          if (!v) return;
          const Buffer& b = plan.buffers[v.buffer];
          if (b.kind != BufferKind::scratch && b.kind != BufferKind::saved) return;
          const int32_t instance = b.kind == BufferKind::saved ? inv.micro : static_cast<int32_t>(n);
          const int64_t slot = b.kind == BufferKind::saved ? inv.slot : 0;
          const int64_t begin = b.offset + slot * b.slot_stride + v.offset * size_of(b.dtype);
          const int64_t end = begin + v.count * size_of(b.dtype);
          for (int64_t line = begin / 64; line < (end + 63) / 64; ++line) {
            if (write) {
              lines[line] = {v.buffer, instance};
              continue;
            }
            ASSERT_TRUE(lines[line].buffer == v.buffer && lines[line].instance == instance)
                << op.path << " reads " << b.name << ", which "
                << (lines[line].buffer < 0 ? "nobody wrote"
                                           : plan.buffers[lines[line].buffer].name + " overwrote");
            ++checked;
          }
        };
        for (const View& v : op.reads) ASSERT_NO_FATAL_FAILURE(visit(v, false));
        for (const View& v : op.writes) ASSERT_NO_FATAL_FAILURE(visit(v, true));
      }
    }
    EXPECT_GT(checked, 1000);
  }
}

TEST(Place, IsPure) {
  for (const auto& variant : kVariants)
    EXPECT_EQ(to_text(plan_of("vit-tiny", variant)), to_text(plan_of("vit-tiny", variant)));
}

TEST(Place, RefusesToReadScratchOfAnotherRoutine) {
  Builder b(0, 1, {});
  b.begin("forward", Pass::forward);
  const View x = b.scratch("x", DType::f32, 64);
  b.emit<OpKind::zero>("x/zero", {.count = 64}, {}, {x});
  b.end();
  b.begin("backward", Pass::backward);
  const View y = b.scratch("y", DType::f32, 64);
  b.emit<OpKind::copy>("y/copy", {.run = 64}, {x}, {y});
  b.end();
  EXPECT_THROW(place(b.plan), std::logic_error);
}

}  // namespace
}  // namespace isobar::plan
