// Deadlocks between ranks: hand-made pairs of plans, small enough to see why.
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "model/plan/builder.h"
#include "model/plan/link.h"
#include "model/plan/ops/work.h"

namespace isobar::plan {
namespace {

// One rank's plan: a list of ops on buffers of one routine, invoked once for each micro-batch.
class Rank {
 public:
  Rank(int rank, int world) : b_(rank, world, {}) { b_.persistent("w", BufferKind::params, DType::f32, 16); }
  View buffer(const std::string& name, int64_t count, DType t = DType::f32) { return b_.io(name, t, count); }
  int group(const std::string& name, std::vector<int> ranks) { return b_.group(name, std::move(ranks)); }
  Rank& op(OpKind kind, const std::string& path, Lane lane, int group, std::vector<View> reads,
           std::vector<View> writes) {
    if (routine_ < 0) routine_ = b_.begin("step", Pass::forward);
    const Attrs a = kind == OpKind::cast   ? Attrs(ElementsAttrs{})
                    : kind == OpKind::copy ? Attrs(CopyAttrs{})
                                           : Attrs(TransferAttrs{.group = group});
    b_.emit(kind, path, a, std::move(reads), std::move(writes), lane);
    return *this;
  }
  Rank& all_reduce(const std::string& path, Lane lane, int group, View x) {
    return op(OpKind::all_reduce, path, lane, group, {x}, {x});
  }
  Rank& send(const std::string& path, Lane lane, int group, View x) {
    return op(OpKind::send, path, lane, group, {x}, {});
  }
  Rank& recv(const std::string& path, Lane lane, int group, View x) {
    return op(OpKind::recv, path, lane, group, {}, {x});
  }
  Rank& compute(const std::string& path, View in, View out) {
    return op(OpKind::cast, path, Lane::compute, -1, {in}, {out});
  }
  Plan plan(int times = 1) {
    b_.end();
    for (int m = 0; m < times; ++m) b_.plan.train.push_back({routine_, m, 0});
    place(b_.plan);
    return b_.plan;
  }

 private:
  Builder b_;
  int routine_ = -1;
};

std::string refusal(const std::vector<Plan>& plans) {
  try {
    check(plans);
  } catch (const std::logic_error& e) {
    return e.what();
  }
  return "";
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// One of two ranks: reduces x and y over two groups, or over the swapped ones.
Plan two_reductions(int rank, Lane lane_x, Lane lane_y, bool swapped) {
  Rank r(rank, 2);
  const int first = r.group("first", {0, 1}), second = r.group("second", {0, 1});
  const View x = r.buffer("x", 8), y = r.buffer("y", 8);
  if (swapped)
    r.all_reduce("y/all_reduce", lane_y, second, y).all_reduce("x/all_reduce", lane_x, first, x);
  else
    r.all_reduce("x/all_reduce", lane_x, first, x).all_reduce("y/all_reduce", lane_y, second, y);
  return r.plan();
}

TEST(Deadlock, TwoGroupsInOppositeOrderOnOneLane) {
  const auto make = [](int rank, bool swapped) { return two_reductions(rank, Lane::dp, Lane::dp, swapped); };
  EXPECT_EQ(refusal({make(0, false), make(1, false)}), "");
  const std::string why = refusal({make(0, false), make(1, true)});
  EXPECT_TRUE(has(why, "deadlock in train")) << why;
  EXPECT_TRUE(has(why, "rank 0 at x/all_reduce")) << why;
  EXPECT_TRUE(has(why, "rank 1 at y/all_reduce")) << why;
}

TEST(Deadlock, LanesOfTheirOwnMayComeInAnyOrderUntilTheyAreSerial) {
  const auto make = [](int rank, bool swapped) { return two_reductions(rank, Lane::dp, Lane::tp, swapped); };
  EXPECT_EQ(refusal({make(0, false), make(1, false)}), "");
  const std::string why = refusal({make(0, false), make(1, true)});
  EXPECT_TRUE(has(why, "deadlock in train, serial")) << why;
}

// Both ranks send a result of what they receive: it ends only if one sends first.
std::vector<Plan> exchange(bool rank0_sends_first, int micro_batches) {
  std::vector<Plan> plans;
  for (const int rank : {0, 1}) {
    Rank r(rank, 2);
    const int forward = r.group("forward", {0, 1}), backward = r.group("backward", {1, 0});
    const View in = r.buffer("in", 8), out = r.buffer("out", 8);
    if (rank == 0 && rank0_sends_first)
      r.compute("block/forward", in, out)
          .send("act/send", Lane::send_forward, forward, out)
          .recv("grad/recv", Lane::recv_backward, backward, in)
          .compute("block/backward", in, out);
    else if (rank == 0)
      r.recv("grad/recv", Lane::recv_backward, backward, in)
          .compute("block/forward", in, out)
          .send("act/send", Lane::send_forward, forward, out);
    else
      r.recv("act/recv", Lane::recv_forward, forward, in)
          .compute("head/forward", in, out)
          .send("grad/send", Lane::send_backward, backward, out);
    plans.push_back(r.plan(micro_batches));
  }
  return plans;
}

TEST(Deadlock, StagesThatWaitForOneAnother) {
  EXPECT_EQ(refusal(exchange(true, 4)), "");
  const std::string why = refusal(exchange(false, 4));
  EXPECT_TRUE(has(why, "rank 0 at grad/recv")) << why;
  EXPECT_TRUE(has(why, "rank 1 at act/recv")) << why;
  EXPECT_FALSE(has(why, "send")) << "sends have not begun: " << why;
}

TEST(Deadlock, SerialStagesMaySendPastOneAnother) {  // because sends keep their lanes
  std::vector<Plan> plans;
  for (const int rank : {0, 1}) {
    Rank r(rank, 2);
    const int forward = r.group("forward", {0, 1}), backward = r.group("backward", {1, 0});
    const View in = r.buffer("in", 8), out = r.buffer("out", 8);
    r.send("x/send", rank == 0 ? Lane::send_forward : Lane::send_backward, rank == 0 ? forward : backward,
           out);
    r.recv("x/recv", rank == 0 ? Lane::recv_backward : Lane::recv_forward, rank == 0 ? backward : forward,
           in);
    plans.push_back(r.plan(3));
  }
  EXPECT_EQ(refusal(plans), "");
  const Program serial = link(plans[0], plans[0].train, true);
  for (const Instr& i : serial.instrs)
    EXPECT_EQ(i.lane, plans[0].ops[i.op].kind == OpKind::send ? Lane::send_forward : Lane::compute);
}

TEST(Deadlock, ASerialProgramStillWaitsForItsSends) {
  Rank r(0, 2);
  const int forward = r.group("forward", {0, 1});
  const View in = r.buffer("in", 8), out = r.buffer("out", 8);
  r.compute("block/forward", in, out).send("act/send", Lane::send_forward, forward, out);
  const Plan plan = r.plan(2);
  const Program serial = link(plan, plan.train, true);
  ASSERT_EQ(serial.instrs.size(), 4u);
  EXPECT_EQ(serial.instrs[1].waits, (std::vector<int32_t>{0}));
  EXPECT_EQ(serial.instrs[2].waits, (std::vector<int32_t>{1})) << "it would overwrite what is being sent";
}

TEST(Deadlock, ALongPipelineComesToItsEnd) {
  const int world = 8;
  std::vector<Plan> plans;
  for (int rank = 0; rank < world; ++rank) {
    Rank r(rank, world);
    const View in = r.buffer("in", 64), out = r.buffer("out", 64);
    if (rank > 0) r.recv("act/recv", Lane::recv_forward, r.group("forward", {rank - 1, rank}), in);
    for (int i = 0; i < 5; ++i) r.compute("block/forward", in, out).compute("block/more", out, in);
    if (rank < world - 1) r.send("act/send", Lane::send_forward, r.group("forward", {rank, rank + 1}), in);
    plans.push_back(r.plan(400));
  }
  EXPECT_EQ(refusal(plans), "");
}

// ---- agreement of ranks ----

std::vector<Plan> pair(int64_t sent, int64_t received, DType sent_type = DType::f32,
                       Lane second_lane = Lane::send_forward) {
  Rank a(0, 2), b(1, 2);
  const int from = a.group("forward", {0, 1}), to = b.group("forward", {0, 1});
  const View x = a.buffer("x", sent, sent_type), y = b.buffer("y", received);
  a.send("first/send", Lane::send_forward, from, x).send("second/send", second_lane, from, x);
  b.recv("first/recv", Lane::recv_forward, to, y).recv("second/recv", Lane::recv_forward, to, y);
  return {a.plan(), b.plan()};
}

TEST(Agreement, SendsMatchReceivesInSizeAndType) {
  EXPECT_EQ(refusal(pair(8, 8)), "");
  const std::string why = refusal(pair(8, 7));
  EXPECT_TRUE(has(why, "first/send") && has(why, "first/recv")) << why;
  EXPECT_NE(refusal(pair(8, 8, DType::bf16)), "");
}

TEST(Agreement, AGroupIsUsedOnOneLane) {
  const std::string why = refusal(pair(8, 8, DType::f32, Lane::send_backward));
  EXPECT_TRUE(has(why, "rank 0: second/send on lane send_backward")) << why;
}

TEST(Agreement, SendersAndReceiversStandOnTheirSide) {
  auto plans = pair(8, 8);
  for (Op& op : plans[1].ops)
    if (op.kind == OpKind::recv) {
      op.kind = OpKind::send;
      std::swap(op.reads, op.writes);
    }
  EXPECT_TRUE(has(refusal(plans), "rank 1: first/recv stands on the other side")) << refusal(plans);
}

TEST(Agreement, AMissingReceiveIsNoticed) {
  auto plans = pair(8, 8);
  plans[1].routines[0].count -= 1;
  EXPECT_TRUE(has(refusal(plans), "number of calls")) << refusal(plans);
}

std::vector<Plan> gather(const std::vector<int64_t>& parts0, const std::vector<int64_t>& parts1, OpKind kind,
                         int64_t shift = 0) {
  std::vector<Plan> plans;
  for (const int rank : {0, 1}) {
    const auto& parts = rank == 0 ? parts0 : parts1;
    Rank r(rank, 2);
    const int group = r.group("tp", {0, 1});
    const View x = r.buffer("x", 10);
    const View part = x.slice(rank == 0 ? shift : parts[0], parts[rank]);
    const bool gathers = kind == OpKind::all_gather;
    r.op(kind, "x/parts", Lane::tp, group, {gathers ? part : x}, {gathers ? x : part});
    plans.push_back(r.plan());
    auto& sizes = plans.back().ops[0].as<TransferAttrs>();
    (gathers ? sizes.receive : sizes.send) = parts;
  }
  return plans;
}

TEST(Agreement, PartsAreTheSameOnAllRanks) {
  for (const OpKind kind : {OpKind::all_gather, OpKind::reduce_scatter}) {
    EXPECT_EQ(refusal(gather({3, 7}, {3, 7}, kind)), "");
    EXPECT_EQ(refusal(gather({5, 5}, {5, 5}, kind)), "");
    EXPECT_TRUE(has(refusal(gather({3, 7}, {4, 6}, kind)), "differs"));
    EXPECT_TRUE(has(refusal(gather({3, 6}, {3, 6}, kind)), "are not parts for 2 ranks"));
    EXPECT_TRUE(has(refusal(gather({3, 7}, {3, 7}, kind, 1)), "overlaps itself"));
    auto equal = gather({5, 5}, {5, 5}, kind);
    for (Plan& p : equal) p.ops[0].attrs = TransferAttrs{.group = p.ops[0].as<TransferAttrs>().group};
    EXPECT_EQ(refusal(equal), "");
    auto uneven = gather({3, 7}, {3, 7}, kind);
    for (Plan& p : uneven) p.ops[0].attrs = TransferAttrs{.group = p.ops[0].as<TransferAttrs>().group};
    EXPECT_TRUE(has(refusal(uneven), "part of another size"));
  }
}

// ---- work of transfers ----

TEST(Work, OfTransfersIsWhatARankSends) {
  Rank r(0, 4);
  const int four = r.group("tp", {0, 1, 2, 3}), two = r.group("forward", {0, 1});
  const View x = r.buffer("x", 400, DType::bf16), y = r.buffer("y", 100, DType::bf16);
  r.op(OpKind::all_gather, "g", Lane::tp, four, {y}, {x})
      .op(OpKind::reduce_scatter, "s", Lane::tp, four, {x}, {y});
  r.send("a", Lane::send_forward, two, x)
      .recv("b", Lane::recv_forward, two, x)
      .all_reduce("r", Lane::tp, four, x);
  const Plan plan = r.plan();
  const double wire[] = {600, 600, 800, 0, 1200}, messages[] = {3, 3, 1, 1, 6};
  for (int i = 0; i < 5; ++i) {
    const Work w = work(plan.ops[i], plan);
    EXPECT_DOUBLE_EQ(w.wire_bytes, wire[i]) << plan.ops[i].path;
    EXPECT_DOUBLE_EQ(w.messages, messages[i]) << plan.ops[i].path;
  }
}

TEST(Work, OfACopyIsWhatItMovesNotWhatItsViewsSpan) {
  Rank r(0, 1);
  const View x = r.buffer("x", 1000, DType::bf16), y = r.buffer("y", 120, DType::bf16);
  r.op(OpKind::copy, "c", Lane::compute, -1, {x}, {y});
  Plan plan = r.plan();
  auto& a = plan.ops[0].as<CopyAttrs>();
  a.run = 5;
  a.extent[0] = 2, a.extent[1] = 3, a.extent[2] = 4;
  const Work w = work(plan.ops[0], plan);
  EXPECT_DOUBLE_EQ(w.bytes_read, 240);
  EXPECT_DOUBLE_EQ(w.bytes_written, 240);
}

}  // namespace
}  // namespace isobar::plan
