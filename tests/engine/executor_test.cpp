// The executor: with the null backend every op of a step runs once, in order, in planned memory; errors are
// thrown to the caller.
#include "model/engine/executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <thread>

#include "model/backend/cpu/cpu_backend.h"
#include "model/base/system/team.h"
#include "model/data/loader.h"
#include "model/engine/liveness/watchdog.h"
#include "model/inference/arena.h"
#include "model/nets/build.h"
#include "tests/base/denormals.h"
#include "tests/engine/null_backend.h"
#include "tests/paths.h"
#include "tests/trace/analyse.h"

namespace isobar::engine {
namespace {

RunSpec spec_of(const std::vector<std::string>& set = {}) {
  return load_run_spec(source_dir() + "/configs/models/vit-tiny.yaml", set);
}

class Noting : public NullBackend {  // records which ops ran, in order
 public:
  using NullBackend::NullBackend;
  void launch(const plan::Op& op, int32_t micro, int32_t slot) override {
    ran.push_back(&op);
    NullBackend::launch(op, micro, slot);
  }
  std::vector<const plan::Op*> ran;
};

TEST(Executor, TheNullBackendRunsTheWholePlanDry) {
  for (const char* micro : {"8", "2"}) {
    const RunSpec spec = spec_of({std::string("policy.micro_batch=") + micro});
    const plan::Plan plan = nets::build_plan(spec, 0, cpu_workspace(1));
    inference::Arena arena(plan.memory.arena);
    EXPECT_EQ(arena.bytes(), plan.memory.arena);
    Noting backend(plan, arena.data());
    Executor execute(plan, backend, nullptr);
    int64_t fetched = 0;
    backend.on_fetch([&](int32_t m, const BatchPlaces& to) {
      float *input = to.floats("input"), *target = to.floats("target");
      EXPECT_EQ(m, fetched++);
      const int64_t n = spec.micro_batch() * spec.net.vit().in_channels * spec.net.vit().img_height *
                        spec.net.vit().img_width;
      std::fill(input, input + n, 1.0f);  // must be inside the arena; sanitizers check it
      std::fill(target, target + n, 1.0f);
    });
    const plan::Program program = plan::link(plan, plan.train);
    execute(program, 0);
    EXPECT_EQ(fetched, spec.micro_batches());
    ASSERT_EQ(backend.ran.size(), program.instrs.size());
    for (size_t i = 0; i < backend.ran.size(); ++i)
      EXPECT_EQ(backend.ran[i], &plan.ops[program.instrs[i].op]);
    EXPECT_EQ(backend.launched(), static_cast<int64_t>(program.instrs.size()));
    int64_t counted = 0;
    for (const OpTime& t : execute.op_times()) counted += t.count;
    EXPECT_EQ(counted, backend.launched());
    fetched = 0;
    execute(plan::link(plan, plan.init), 0);
    execute(plan::link(plan, plan.eval), 0);
    EXPECT_EQ(fetched, 1);
    EXPECT_EQ(execute.now_running(), "idle");
    execute.reset_op_times();
    for (const OpTime& t : execute.op_times()) EXPECT_EQ(t.count, 0);
  }
}

TEST(Executor, AnErrorOfTheDataSourceComesOutAndTheNextStepRuns) {
  const RunSpec spec = spec_of();
  const plan::Plan plan = nets::build_plan(spec, 0, cpu_workspace(1));
  inference::Arena arena(plan.memory.arena);
  NullBackend backend(plan, arena.data());
  Executor execute(plan, backend, nullptr);
  const plan::Program program = plan::link(plan, plan.train);
  backend.on_fetch([](int32_t, const BatchPlaces&) { throw std::domain_error("no such sample"); });
  EXPECT_THROW(execute(program, 0), std::domain_error);
  backend.on_fetch([](int32_t, const BatchPlaces&) {});
  EXPECT_NO_THROW(execute(program, 1));
}

// MPI reduces on the calling thread: the communication thread, or the only one.
TEST(Executor, FlushesDenormalsOnEveryThreadThatRunsOps) {
  class Watching : public NullBackend {
   public:
    using NullBackend::NullBackend;
    void launch(const plan::Op& op, int32_t micro, int32_t slot) override {
      if (!test::flushes_denormals()) keeping.push_back(op.path);  // safe: ops run one at a time
      on_compute.push_back(std::this_thread::get_id() == home);
      NullBackend::launch(op, micro, slot);
    }
    const std::thread::id home = std::this_thread::get_id();
    std::vector<std::string> keeping;
    std::vector<bool> on_compute;
  };
  const RunSpec spec = spec_of({"policy.offload_optimizer=true"});  // copies have lanes of their own
  const plan::Plan plan = nets::build_plan(spec, 0, cpu_workspace(1));
  inference::Arena arena(plan.memory.arena + plan.memory.host);
  for (const bool comm_thread : {true, false})
    std::thread([&] {  // a thread with denormals enabled starts the executor's
      test::keep_denormals();
      Watching backend(plan, arena.data());
      Executor execute(plan, backend, nullptr, {.comm_thread = comm_thread});
      plan::Program program = plan::link(plan, plan.train);
      const plan::Instr* before = nullptr;
      for (plan::Instr& i : program.instrs) {  // serialise, so that no two ops record at once
        if (before != nullptr) i.waits.push_back(static_cast<int32_t>(before - program.instrs.data()));
        before = &i;
      }
      backend.on_fetch([](int32_t, const BatchPlaces&) {});
      execute(program, 0);
      EXPECT_EQ(backend.keeping, std::vector<std::string>{});
      EXPECT_EQ(std::count(backend.on_compute.begin(), backend.on_compute.end(), false) > 0, comm_thread);
    })
        .join();
}

TEST(Executor, SpansAreThoseOfTheProgram) {
  const RunSpec spec = spec_of({"policy.micro_batch=2"});
  const plan::Plan plan = nets::build_plan(spec, 0, cpu_workspace(1));
  inference::Arena arena(plan.memory.arena);
  NullBackend backend(plan, arena.data());
  Executor execute(plan, backend, nullptr);
  const plan::Program program = plan::link(plan, plan.train);
  trace::SpanRecorder recorder(0, program.instrs.size() * 2);
  execute.record_to(&recorder);
  execute(program, 5);
  execute(program, 6);
  const trace::Timeline t = recorder.take();
  ASSERT_EQ(t.spans.size(), 2 * program.instrs.size());
  for (size_t i = 0; i < t.spans.size(); ++i) {
    const auto n = static_cast<int32_t>(i % program.instrs.size());
    EXPECT_EQ(t.spans[i].instr, n);
    EXPECT_EQ(t.spans[i].op, program.instrs[n].op);
    EXPECT_EQ(t.spans[i].micro, program.instrs[n].micro);
    EXPECT_EQ(t.spans[i].step, i < program.instrs.size() ? 5 : 6);
    EXPECT_LE(t.spans[i].begin_ns, t.spans[i].end_ns);
    if (i > 0) {
      EXPECT_LE(t.spans[i - 1].end_ns, t.spans[i].begin_ns);
    }
  }
}

TEST(Executor, TheWatchdogBarksOnlyWhenNothingMoves) {
  const RunSpec spec = spec_of();
  const plan::Plan plan = nets::build_plan(spec, 0, cpu_workspace(1));
  inference::Arena arena(plan.memory.arena);
  NullBackend backend(plan, arena.data());
  backend.on_fetch([](int32_t, const BatchPlaces&) {});
  Executor execute(plan, backend, nullptr);
  const plan::Program program = plan::link(plan, plan.train);
  std::atomic<int> barks{0};
  {
    SlowWork slow;
    BackgroundWriter background;
    const auto bark = [&](const std::string& op) {
      EXPECT_EQ(op, "idle");
      ++barks;
    };
    Watchdog dog(nullptr, slow, background, 3, {.hang = bark});
    dog.follow(&execute);
    for (int i = 0; i < 160; ++i) {  // longer than the watchdog's timeout
      execute(program, i);
      std::this_thread::sleep_for(std::chrono::milliseconds(25));
    }
    {
      const auto part = slow.begin("waiting for a disk");
      std::this_thread::sleep_for(std::chrono::milliseconds(4500));
    }
    EXPECT_EQ(barks, 0);
    for (int i = 0; i < 4800 && barks == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(25));
  }
  EXPECT_EQ(barks, 1);
}

TEST(Arena, IsZeroAlignedAndRefusesWhatTheHostLacks) {
  const int64_t n = 1 << 20;
  inference::Arena arena(n);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(arena.data()) % 4096, 0u);
  for (int64_t i = 0; i < n; ++i) ASSERT_EQ(arena.data()[i], std::byte{0});
  EXPECT_THROW(inference::Arena(int64_t{1} << 50), inference::OutOfMemory);
}

// The plan may not include the data module, so this test keeps the two in agreement.
TEST(Memory, ThePlannedLoaderIsWhatTheLoaderKeeps) {
  for (const char* workers : {"0", "1", "3"})
    for (const char* prefetch : {"1", "4"})
      for (const bool valid : {false, true}) {
        const RunSpec s =
            spec_of({std::string("data.workers=") + workers, std::string("data.prefetch=") + prefetch,
                     valid ? "data.valid=somewhere" : "data.dt=1", "policy.micro_batch=2"});
        const int64_t size =
            data::FieldShape{s.net.vit().in_channels, s.net.vit().img_height, s.net.vit().img_width}.size();
        const std::vector<data::SampleTensor> given{{"input", size}, {"target", size}};
        const data::LoaderOptions train{2, 4, 1, 0, 0, s.data.workers, s.data.prefetch, true};
        const data::LoaderOptions validation{2, 1, 1, 0, 0, 0, 1, false};
        EXPECT_EQ(nets::build_plan(s, 0, cpu_workspace(1)).memory.loader,
                  data::Loader::bytes(train, given) + (valid ? data::Loader::bytes(validation, given) : 0));
      }
}

// Ranks with their own cores poll for long; ranks that share cores sleep soon.
TEST(Executor, WaitsByWhoElseWantsTheCores) {
  EXPECT_EQ(waiting_among(1, 2, 2, 2).patience, comm::kOwnCores);
  EXPECT_FALSE(waiting_among(1, 2, 2, 2).comm_thread);
  EXPECT_EQ(waiting_among(2, 1, 1, 2).patience, comm::kOwnCores);
  EXPECT_EQ(waiting_among(2, 2, 2, 2).patience, comm::on_shared_cores(2));
  EXPECT_EQ(waiting_among(1, 3, 3, 2).patience, comm::on_shared_cores(2));
  EXPECT_EQ(waiting_among(1, 8, 8, 2).patience, comm::on_shared_cores(4));
  EXPECT_LT(comm::on_shared_cores(2).asleep, comm::on_shared_cores(4).asleep);
  EXPECT_EQ(waiting_among(1, 2, 1, 1).patience, comm::Patience{});  // the other rank is on another host
  EXPECT_TRUE(waiting_among(1, 2, 2, 4).comm_thread);
  EXPECT_EQ(waiting_among(1, 2, 2, 4).patience, comm::kOwnCores);  // the communication thread has a core too
}

// Waiting is limited by time, whatever the number of polls.
TEST(Executor, SleepsAfterATimeNotAfterSoManyAsks) {
  comm::Pause pause(comm::Patience{.awake = std::chrono::milliseconds(20)});
  const auto begin = comm::Pause::Clock::now();
  int64_t asks = 0;
  for (; !pause.asleep(); pause()) ++asks;
  EXPECT_GE(comm::Pause::Clock::now() - begin, std::chrono::milliseconds(20));
  EXPECT_GT(asks, 10);
  pause.again();
  EXPECT_FALSE(pause.asleep());
}

// Teams of intermediate sizes make GCC's OpenMP end and restart threads.
TEST(Team, IsOfOneThreadOrOfAll) {
  for (const int64_t threads : {1, 2, 3, 4, 7, 64, 288}) {
    int64_t last = 1;
    for (int64_t elements = 1; elements < (int64_t{1} << 24); elements = elements * 5 / 4 + 1) {
      const int64_t worth = threads_worth(elements, threads);
      EXPECT_TRUE(worth == 1 || worth == threads) << elements << " elements, " << threads << " threads";
      EXPECT_GE(worth, last) << elements;
      last = worth;
    }
    EXPECT_EQ(last, threads);
  }
}

}  // namespace
}  // namespace isobar::engine
