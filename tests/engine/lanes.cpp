// Run by mpiexec: the executor with real transfers on several lanes, overlapped and serial.
#include <algorithm>
#include <stdexcept>

#include "model/engine/executor.h"
#include "model/plan/builder.h"
#include "tests/comm/ranks.h"
#include "tests/engine/null_backend.h"

namespace isobar::engine {
namespace {

class Adding : public NullBackend {  // writes[0] = reads[0] + 1 + micro-batch
 public:
  using NullBackend::NullBackend;
  void launch(const plan::Op& op, int32_t micro, int32_t slot) override {
    if (op.path == fails_at) throw std::domain_error(op.path);
    const auto* x = reinterpret_cast<const float*>(at(op.reads[0], slot));
    auto* y = reinterpret_cast<float*>(at(op.writes[0], slot));
    for (int64_t i = 0; i < op.writes[0].count; ++i) y[i] = x[i] + 1.0f + static_cast<float>(micro);
    NullBackend::launch(op, micro, slot);
  }
  std::string fails_at;
};

std::vector<float> floats(const Backend& backend, const plan::View& v) {
  const auto* x = reinterpret_cast<const float*>(backend.at(v));
  return {x, x + v.count};
}

class Lanes : public testing::Test {
 protected:
  Lanes() : b(comm::rank, comm::world, {}) { b.persistent("w", plan::BufferKind::params, DType::f32, 16); }
  void open() { routine = b.begin("step", plan::Pass::forward); }
  void close(int micro_batches = 1, bool serial = false) {
    b.end();
    for (int m = 0; m < micro_batches; ++m) b.plan.train.push_back({routine, m, 0});
    plan::place(b.plan);
    memory.resize(b.plan.memory.arena / sizeof(float) + 1);
    data = reinterpret_cast<std::byte*>(memory.data());
    program = plan::link(b.plan, b.plan.train, serial);
  }
  void transfer(plan::OpKind kind, const std::string& path, plan::Lane lane, int group, const plan::View& x) {
    const bool reads = kind != plan::OpKind::recv, writes = kind != plan::OpKind::send;
    b.emit(kind, path, plan::TransferAttrs{.group = group},
           reads ? std::vector<plan::View>{x} : std::vector<plan::View>{},
           writes ? std::vector<plan::View>{x} : std::vector<plan::View>{}, lane);
  }
  void compute(const std::string& path, const plan::View& x, const plan::View& y) {
    b.emit<plan::OpKind::cast>(path, {}, {x}, {y}, plan::Lane::compute);
  }
  plan::Builder b;
  plan::Program program;
  std::vector<float> memory;
  std::byte* data = nullptr;
  int routine = -1;
};

class Programs : public Lanes, public testing::WithParamInterface<bool> {};  // serial

// Activations travel through the ranks and back, each rank adding to them, while sums over all ranks run in
// parallel.
TEST_P(Programs, ValuesAreThoseOfOneRankAfterTheOther) {
  std::vector<int> all;
  for (int r = 0; r < comm::world; ++r) all.push_back(r);
  const bool first = comm::rank == 0, last = comm::rank == comm::world - 1;
  const int n = 3000, micro_batches = 20;
  const int dp = b.group("dp", all), tp = b.group("tp", all);
  const int from = first ? -1 : b.group("forward", {comm::rank - 1, comm::rank});
  const int to = last ? -1 : b.group("forward", {comm::rank, comm::rank + 1});
  const int back_from = last ? -1 : b.group("backward", {comm::rank + 1, comm::rank});
  const int back_to = first ? -1 : b.group("backward", {comm::rank, comm::rank - 1});
  const plan::View in = b.io("in", DType::f32, n), out = b.io("out", DType::f32, n);
  const plan::View grad = b.io("grad", DType::f32, n), grad_out = b.io("grad_out", DType::f32, n);
  const plan::View zero = b.io("zero", DType::f32, n), x = b.io("x", DType::f32, n),
                   y = b.io("y", DType::f32, n);
  open();
  compute("x/set", zero, x);
  transfer(plan::OpKind::all_reduce, "x/all_reduce", plan::Lane::tp, tp, x);
  compute("y/set", x, y);
  transfer(plan::OpKind::all_reduce, "y/all_reduce", plan::Lane::dp, dp, y);
  if (!first) transfer(plan::OpKind::recv, "act/recv", plan::Lane::recv_forward, from, in);
  compute("forward", first ? zero : in, out);
  if (!last) transfer(plan::OpKind::send, "act/send", plan::Lane::send_forward, to, out);
  if (!last) transfer(plan::OpKind::recv, "grad/recv", plan::Lane::recv_backward, back_from, grad);
  compute("backward", last ? out : grad, grad_out);
  if (!first) transfer(plan::OpKind::send, "grad/send", plan::Lane::send_backward, back_to, grad_out);
  close(micro_batches, GetParam());
  comm::Comm comm(b.plan.groups);
  Adding backend(b.plan, data);
  Executor run(b.plan, backend, &comm);
  trace::SpanRecorder recorder(comm::rank, program.instrs.size() * 3);
  run.record_to(&recorder);
  for (int step = 0; step < 3; ++step) {
    std::fill(memory.begin(), memory.end(), 0.0f);
    run(program, step);
    const int each = micro_batches;  // 1 + index of the last micro-batch
    EXPECT_EQ(floats(backend, out), std::vector<float>(n, each * (comm::rank + 1)));
    EXPECT_EQ(floats(backend, grad_out),
              std::vector<float>(n, each * (comm::world + comm::world - comm::rank)));
    EXPECT_EQ(floats(backend, x), std::vector<float>(n, each * comm::world));
    EXPECT_EQ(floats(backend, y), std::vector<float>(n, each * (comm::world + 1) * comm::world));
  }
  for (const OpTime& t : run.op_times()) EXPECT_EQ(t.count, 3 * micro_batches);
  EXPECT_EQ(run.progress(), static_cast<int64_t>(3 * program.instrs.size()));
  EXPECT_EQ(run.now_running(), "idle");
  // Spans: every lane's ops are in order, and none starts before the op that it waits for has ended.
  const trace::Timeline timeline = recorder.take();
  ASSERT_EQ(timeline.spans.size(), 3 * program.instrs.size());
  std::vector<int64_t> ended(program.instrs.size());
  for (const trace::Span& s : timeline.spans)
    if (s.step == 2) ended[s.instr] = s.end_ns;
  for (const trace::Span& s : timeline.spans) {
    EXPECT_EQ(s.lane, program.instrs[s.instr].lane);
    if (s.step != 2) continue;
    for (const int32_t w : program.instrs[s.instr].waits) EXPECT_GE(s.begin_ns, ended[w]);
    for (int32_t before = s.instr - 1; before >= 0; --before)
      if (program.instrs[before].lane == s.lane) {
        EXPECT_GE(s.begin_ns, ended[before]);
        break;
      }
  }
}

// Rank 0 posts a receive before a sum that its peer needs in order to send. (Overlapped only: check() rejects
// such a plan, because it has no serial order.)
TEST_F(Lanes, AReceiveHoldsUpNoOtherLane) {
  std::vector<int> all;
  for (int r = 0; r < comm::world; ++r) all.push_back(r);
  const int dp = b.group("dp", all);
  const int pair = comm::rank < 2 ? b.group("forward", {1, 0}) : -1;
  const plan::View x = b.io("x", DType::f32, 100), y = b.io("y", DType::f32, 100);
  open();
  if (comm::rank == 0) transfer(plan::OpKind::recv, "y/recv", plan::Lane::recv_forward, pair, y);
  transfer(plan::OpKind::all_reduce, "x/all_reduce", plan::Lane::dp, dp, x);
  if (comm::rank == 1) compute("y/set", x, y);
  if (comm::rank == 1) transfer(plan::OpKind::send, "y/send", plan::Lane::send_forward, pair, y);
  close();
  comm::Comm comm(b.plan.groups);
  Adding backend(b.plan, data);
  Executor run(b.plan, backend, &comm);
  auto* values = reinterpret_cast<float*>(backend.at(x));
  std::fill_n(values, 100, 1.0f);
  run(program, 0);
  if (comm::rank == 0) {
    EXPECT_EQ(floats(backend, y), std::vector<float>(100, static_cast<float>(comm::world + 1)));
  }
}

// Rank 1 fails while its receive is pending; the message arrives later and must find valid memory.
TEST_F(Lanes, AnErrorEndsWhatIsInFlight) {
  const int pair = comm::rank < 2 ? b.group("forward", {0, 1}) : -1;
  const plan::View x = b.io("x", DType::f32, 100), y = b.io("y", DType::f32, 100),
                   z = b.io("z", DType::f32, 100);
  open();
  if (comm::rank == 0) transfer(plan::OpKind::send, "x/send", plan::Lane::send_forward, pair, x);
  if (comm::rank == 1) transfer(plan::OpKind::recv, "x/recv", plan::Lane::recv_forward, pair, x);
  compute("z/set", y, z);
  close();
  comm::Comm comm(b.plan.groups);
  Adding backend(b.plan, data);
  Executor run(b.plan, backend, &comm);
  if (comm::rank == 1) {
    backend.fails_at = "z/set";
    EXPECT_THROW(run(program, 0), std::domain_error);
    EXPECT_EQ(run.now_running(), "idle");
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (comm::rank == 0) {
    EXPECT_NO_THROW(run(program, 0));
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

INSTANTIATE_TEST_SUITE_P(Executor, Programs, testing::Values(false, true),
                         [](const auto& info) { return info.param ? "serial" : "overlapped"; });

}  // namespace
}  // namespace isobar::engine
