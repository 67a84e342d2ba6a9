// Ranks make exactly the MPI calls that their plans imply, call for call and byte for byte.
//
// The real command runs with a counting layer above MPI (mpi_counter.cpp). Every communicator must carry
// exactly its group's calls in plan order; any other call fails, except start-up and those listed here.
// Below, Open MPI's monitoring of point-to-point traffic gives the bytes that its algorithms sent; per-block
// counts and volumes are compared with closed forms in wire_forms_test.cpp.
#include <sched.h>

#include <cstdio>
#include <set>

#include "tests/engine/wire/wire.h"
#include "tests/paths.h"

namespace isobar::engine {
namespace {

plan::Plan plan_of(const RunSpec& spec, int rank) {
  return nets::build_plan(spec, rank, cpu_workspace(1));
}

// Ranks of a host exchange their CPU sets.
Calls core_exchange() {
  return {"MPI_Allgather " + std::to_string(sizeof(cpu_set_t))};
}

// Bytes of the only additional calls of the longer run on MPI_COMM_WORLD: ranks send their measurements,
// length and content, to rank 0 once more than two steps were timed.
double final_report_bytes(const Counted& one, const Counted& three) {
  double sent = 0;
  for (size_t r = 0; r < three.ranks.size(); ++r) {
    const size_t before = one.ranks[r].world.size();
    const Calls& world = three.ranks[r].world;
    const Calls added(world.begin() + static_cast<ptrdiff_t>(std::min(before, world.size())), world.end());
    if (added.size() != 2) {
      ADD_FAILURE() << "rank " << r << ": " << testing::PrintToString(added);
      continue;
    }
    EXPECT_EQ(added.front(), "MPI_Igather root 0 4");
    EXPECT_EQ(parse(added.back()).name, "MPI_Igatherv");
    for (const std::string& call : added)
      if (r > 0) sent += sum(parse(call).bytes);
  }
  return sent;
}

// `traffic`: also compares the bytes of the point-to-point layer, where Open MPI's algorithms are
// bandwidth-optimal. libnbc (4.1) implements large reductions over three or more ranks as reduce-scatter plus
// gather, which sends more than a ring (tp of 4 with sequence parallelism, cp of 3 with all-gather).
void expect_what_the_plans_say(const Words& layout, bool traffic = false,
                               const std::string& config = tiny()) {
  SCOPED_TRACE(config + testing::PrintToString(layout));
  const auto words = [&](int64_t steps) {
    return (config == tiny() ? net_words(steps) : run_words(steps)) + layout;
  };
  const Words set = words(1);
  const RunSpec spec = load_run_spec(config, set);
  const Counted one = count(spec, set);
  ASSERT_EQ(one.ranks.size(), static_cast<size_t>(spec.layout.world()));
  double step = 0;  // wire bytes in all ranks' plans
  size_t calls = 0;
  for (int r = 0; r < spec.layout.world(); ++r) {
    SCOPED_TRACE("rank " + std::to_string(r));
    Seen seen = one.ranks[r];
    const plan::Plan plan = plan_of(spec, r);
    const PlannedCalls plan_says = said(plan, {{&plan.init, 1}, {&plan.train, 1}});
    keep_determined(seen.channels, plan_says.channels);
    EXPECT_EQ(seen.channels, plan_says.channels);
    EXPECT_EQ(seen.unknown, Calls{});
    EXPECT_EQ(seen.beats, Calls{"MPI_Iallreduce 56"});
    EXPECT_EQ(seen.host, core_exchange());
    Calls start_up;
    for (const std::string& call : seen.world) start_up.push_back(parse(call).name);
    // Ranks on this host; data files were checked; start point, length and content; the watchdog's
    // communicator; data statistics, length and content; memory of the fullest rank.
    Calls expected = {"MPI_Comm_split_type", "MPI_Ibarrier", "MPI_Ibcast", "MPI_Ibcast",
                      "MPI_Comm_dup",        "MPI_Ibcast",   "MPI_Ibcast", "MPI_Iallreduce"};
    expected.resize(8 + plan.groups.size(), "MPI_Comm_create_group");
    EXPECT_EQ(start_up, expected);
    double wire = 0;
    for (const Channel& c : seen.channels) wire += wire_bytes(c, r), calls += c.second.size();
    EXPECT_NEAR(wire, plan_says.wire_bytes, 1e-9 * wire);
    step += said(plan, {{&plan.train, 1}}).wire_bytes;
  }
  ASSERT_GT(calls, 0u) << "nothing was said: nothing is tested";
  std::string title;
  for (const std::string& w : layout) title += w.substr(w.find('.') + 1) + " ";
  std::printf("%-100s %5zu calls, %11.0f bytes", title.c_str(), calls, step);
#ifndef ISOBAR_OPEN_MPI
  traffic = false;
#endif
  if (traffic) {  // two steps: subtract start-up and the final report
    const Counted three = count(spec, words(3));
    const double report = final_report_bytes(one, three);
    EXPECT_GT(report, 0);
    EXPECT_EQ(static_cast<double>(three.sent - one.sent), 2 * step + report);
    std::printf(", sent %11.0f", (static_cast<double>(three.sent - one.sent) - report) / 2);
  }
  std::printf("\n");
}

TEST_F(Wire, TensorParallel) {
  expect_what_the_plans_say({"layout.tp=2"}, true);
  expect_what_the_plans_say({"layout.tp=4", "policy.micro_batch=4", "policy.sequence_parallel=true"});
  expect_what_the_plans_say({"layout.tp=2", "policy.amp=bf16", "policy.recompute=full"}, true);
}

TEST_F(Wire, ContextParallel) {
  for (const char* kind : {"allgather", "ring"})
    expect_what_the_plans_say({"layout.cp=3", std::string("policy.cp_kind=") + kind, "policy.micro_batch=4"});
  expect_what_the_plans_say({"layout.cp=4", "policy.cp_kind=ulysses", "policy.recompute=selective"}, true);
  expect_what_the_plans_say({"layout.cp=2", "policy.cp_kind=ring", "policy.amp=bf16"}, true);
}

TEST_F(Wire, PipelineParallel) {
  expect_what_the_plans_say({"layout.pp=3", "policy.micro_batch=2", "policy.schedule=gpipe"}, true);
  expect_what_the_plans_say({"layout.pp=4", "policy.micro_batch=1"});
  expect_what_the_plans_say(
      {"layout.pp=2", "layout.vpp=2", "policy.micro_batch=3", "policy.schedule=interleaved"});
  expect_what_the_plans_say(
      {"layout.pp=2", "policy.micro_batch=3", "policy.schedule=zb-h1", "policy.amp=bf16"});
}

TEST_F(Wire, DataParallelAndClipping) {
  expect_what_the_plans_say(
      {"layout.dp=3", "policy.micro_batch=2", "policy.bucket_mb=0.05", "train.grad_clip=0.02"}, true);
  expect_what_the_plans_say({"layout.dp=2", "policy.overlap=false", "policy.amp=bf16"}, true);
}

TEST_F(Wire, ShardedDataParallel) {
  for (const char* stage : {"1", "2", "3"})
    expect_what_the_plans_say({"layout.dp=2", std::string("policy.zero=") + stage, "policy.micro_batch=3",
                               "policy.bucket_mb=0.05", "train.grad_clip=0.02"},
                              true);
  expect_what_the_plans_say({"layout.dp=2", "layout.tp=2", "layout.pp=2", "policy.zero=3",
                             "policy.micro_batch=3", "policy.amp=bf16"});
  expect_what_the_plans_say({"layout.dp=3", "layout.tp=2", "policy.zero=2", "policy.sequence_parallel=true"});
}

TEST_F(Wire, Combined) {
  expect_what_the_plans_say({"layout.dp=2", "layout.tp=2", "layout.pp=2", "policy.sequence_parallel=true",
                             "policy.micro_batch=3", "policy.schedule=zb-h1", "train.grad_clip=0.02"},
                            true);
  expect_what_the_plans_say({"layout.dp=2", "layout.tp=2", "layout.cp=2", "policy.cp_kind=ring",
                             "policy.sequence_parallel=true", "policy.micro_batch=3", "policy.amp=bf16"});
  expect_what_the_plans_say(
      {"layout.tp=2", "layout.cp=2", "layout.pp=2", "policy.micro_batch=6", "layout.order=pp-cp-tp"});
}

// Rows of windows shared by two bands, skip connections over stages, ends on stages of their own.
TEST_F(Wire, Aurora) {
  const std::string config = source_dir() + "/configs/models/aurora-tiny.yaml";
  expect_what_the_plans_say({"layout.cp=2", "net.img_height=28", "policy.micro_batch=12"}, true, config);
  expect_what_the_plans_say({"layout.cp=3", "layout.dp=2", "net.img_height=28", "policy.micro_batch=2",
                             "policy.zero=3", "policy.recompute=full"},
                            false, config);
  expect_what_the_plans_say({"layout.pp=4", "layout.stages=[0,7,7,0]", "policy.micro_batch=3"}, true, config);
  expect_what_the_plans_say({"layout.tp=2", "layout.pp=2", "layout.dp=2", "policy.sequence_parallel=false",
                             "policy.zero=1", "policy.micro_batch=3", "policy.schedule=zb-h1"},
                            false, config);
}

// Copies go to the ranks of their experts and back; experts' gradients are summed among fewer ranks.
TEST_F(Wire, Experts) {
  const std::string config = source_dir() + "/configs/models/moe-tiny.yaml";
  expect_what_the_plans_say({"layout.dp=4", "layout.ep=2", "policy.micro_batch=3"}, false, config);
  expect_what_the_plans_say(
      {"layout.dp=2", "layout.tp=2", "layout.cp=2", "layout.ep=4", "policy.micro_batch=3", "policy.zero=3",
       "policy.recompute=full", "train.grad_clip=0.02"},
      false, config);
}

// Halos before each step and their gradients, also in chunks overlapped with the interior's edges.
TEST_F(Wire, CutGraphs) {
  for (const char* name : {"regional-gnn-tiny", "graphcast-tiny"}) {
    const std::string config = source_dir() + "/configs/models/" + name + ".yaml";
    expect_what_the_plans_say({"layout.cp=2", "policy.micro_batch=6"}, true, config);
    expect_what_the_plans_say({"layout.cp=2", "policy.micro_batch=4", "policy.edge_chunks=3"}, true, config);
    expect_what_the_plans_say(
        {"layout.cp=3", "layout.dp=2", "policy.micro_batch=3", "policy.zero=2", "policy.recompute=full"},
        false, config);
    expect_what_the_plans_say({"layout.tp=2", "layout.cp=2", "layout.pp=2", "policy.micro_batch=3"}, false,
                              config);
  }
}

// Phases other than steps: initial values, validation, checkpoints and traces use the world communicator, or
// their own plan.
TEST_F(Wire, AllThatIsNotAStepIsNamed) {
  const Folder data;
  const Words make = {command(), "data", "make", data / "d", "--samples-per-year", "12", "--channels", "4"};
  const Ended made = Child(make).wait();
  ASSERT_EQ(made.code, 0) << made.text;
  const Words set = {"net.depth=2",
                     "layout.tp=2",
                     "layout.pp=2",
                     "train.global_batch=4",
                     "train.steps=2",
                     "train.checkpoint_every=2",
                     "run.threads=1",
                     "data.train=" + data / "d/train",
                     "data.valid=" + data / "d/valid"};
  const RunSpec spec = load_run_spec(tiny(), set);
  const Counted all = count(spec, set);
  ASSERT_EQ(all.ranks.size(), 4u);
  for (int r = 0; r < 4; ++r) {
    const plan::Plan plan = plan_of(spec, r);
    // 12 samples of the validation year, 4 at a time
    EXPECT_EQ(all.ranks[r].channels,
              said(plan, {{&plan.init, 1}, {&plan.train, 2}, {&plan.eval, 3}}).channels);
    EXPECT_EQ(all.ranks[r].unknown, Calls{});
    EXPECT_EQ(all.ranks[r].host, core_exchange());
    std::map<std::string, int> world;
    for (const std::string& call : all.ranks[r].world) ++world[parse(call).name];
    EXPECT_EQ(world["MPI_Comm_split_type"], 1);
    EXPECT_EQ(world["MPI_Comm_dup"], 1);
    EXPECT_EQ(world["MPI_Comm_create_group"], static_cast<int>(plan.groups.size()));
    EXPECT_EQ(world["MPI_Iallreduce"], 2);  // memory of the fullest rank; persistence scores
    EXPECT_EQ(world["MPI_Ibcast"], 4);      // start point and data statistics: length and content
    // Data files were checked; checkpoint files exist, are written, are renamed
    EXPECT_EQ(world["MPI_Ibarrier"], 4);
    EXPECT_EQ(world["MPI_Igather"], 2);   // digests of both files: lengths ...
    EXPECT_EQ(world["MPI_Igatherv"], 2);  // ... and content
    EXPECT_EQ(world.size(), 8u) << testing::PrintToString(all.ranks[r].world);
  }
}

Words symbols(const std::string& file, const std::string& which) {
  const std::string words = "nm -D --" + which + "-only '" + file + "'";
  std::FILE* pipe = ::popen(words.c_str(), "r");
  if (!pipe) return {};
  Words out;
  char line[512];
  while (std::fgets(line, sizeof line, pipe)) {
    const std::string text(line);
    const size_t at = text.find(" MPI_");
    if (at != std::string::npos) out.push_back(text.substr(at + 1, text.find_first_of("\n@", at) - at - 1));
  }
  ::pclose(pipe);
  return out;
}

TEST_F(Wire, NoCallOfTheCommandGetsByUncounted) {
  // These move no data between ranks.
  const std::set<std::string> silent = {"MPI_Abort",
                                        "MPI_Comm_group",
                                        "MPI_Comm_rank",
                                        "MPI_Comm_size",
                                        "MPI_Error_class",
                                        "MPI_Error_string",
                                        "MPI_Finalize",
                                        "MPI_Get_library_version",
                                        "MPI_Get_processor_name",
                                        "MPI_Group_free",
                                        "MPI_Group_incl",
                                        "MPI_Init_thread",
                                        "MPI_Op_create",
                                        "MPI_Op_free",
                                        "MPI_Test",
                                        "MPI_Testall",
                                        "MPI_Type_commit",
                                        "MPI_Type_create_hindexed",
                                        "MPI_Type_free"};
  const Words used = symbols(command(), "undefined"), counted = symbols(preload("mpi_counter"), "defined");
  ASSERT_GT(used.size(), 10u) << "nm shows no calls of the command";
  ASSERT_GT(counted.size(), 5u);
  for (const std::string& name : used)
    EXPECT_TRUE(silent.count(name) || std::count(counted.begin(), counted.end(), name))
        << name << " is neither counted in mpi_counter.cpp nor known to be silent";
}

}  // namespace
}  // namespace isobar::engine
