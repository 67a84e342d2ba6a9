// What the ranks of a run say to one another is what their plans say, call for call and byte for byte.
//
// The real command runs with a counting layer between it and MPI (mpi_counter.cpp). Every communicator must
// carry exactly the calls of its group in the plan, in the plan's order; a call that no plan knows fails,
// start-up and the few named here apart. Below that, Open MPI's own monitoring of point-to-point traffic says
// what its algorithms really sent; and per-block counts and volumes are held to closed forms that know no
// plan.
#include <sched.h>

#include <cstdio>
#include <set>

#include "tests/engine/wire.h"
#include "tests/paths.h"

namespace isobar {
namespace {

Plan plan_of(const RunSpec& spec, int rank) {
  return build_plan(spec, rank, cpu_workspace(1));
}

// Each rank of a host tells the others which cores are its own.
Calls cores_told() {
  return {"MPI_Allgather " + std::to_string(sizeof(cpu_set_t))};
}

// Bytes of the only calls that the longer run adds on MPI_COMM_WORLD: every rank's measurements, their length
// and they, go to rank 0 once more than two steps were timed.
double told_at_the_end(const Counted& one, const Counted& three) {
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

// `traffic`: what the point-to-point layer sent agrees, too. It does wherever Open MPI's algorithms waste
// nothing; libnbc (4.1) reduces large parts over three and more ranks by a reduce-scatter and a gather, which
// sends some 13 % (tp of 4, sequence parallel) and 14 % (cp of 3, all-gather) more over a step than a ring
// would.
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
  double step = 0;  // wire bytes of all ranks' plans
  size_t calls = 0;
  for (int r = 0; r < spec.layout.world(); ++r) {
    SCOPED_TRACE("rank " + std::to_string(r));
    const Seen& seen = one.ranks[r];
    const Plan plan = plan_of(spec, r);
    const PlannedCalls plan_says = said(plan, {{&plan.init, 1}, {&plan.train, 1}});
    EXPECT_EQ(seen.channels, plan_says.channels);
    EXPECT_EQ(seen.unknown, Calls{});
    EXPECT_EQ(seen.beats, Calls{"MPI_Iallreduce 56"});
    EXPECT_EQ(seen.host, cores_told());
    Calls start_up;
    for (const std::string& call : seen.world) start_up.push_back(parse(call).name);
    // Which ranks share this host; data files have been found harmless; where to start from, its length and
    // it; the watchdog's communicator; the data's statistics, their length and they; the fullest rank's
    // memory.
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
  if (traffic) {  // of two steps, what start-up sends taken off, and what the ranks tell at the end of the
                  // third
    const Counted three = count(spec, words(3));
    const double told = told_at_the_end(one, three);
    EXPECT_GT(told, 0);
    EXPECT_EQ(static_cast<double>(three.sent - one.sent), 2 * step + told);
    std::printf(", sent %11.0f", (static_cast<double>(three.sent - one.sent) - told) / 2);
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

// Rows of windows that two bands share, skip connections that jump stages, ends on stages of their own.
TEST_F(Wire, Aurora) {
  const std::string config = source_dir() + "/configs/models/aurora-tiny.yaml";
  expect_what_the_plans_say({"layout.cp=2", "net.img_height=28", "policy.micro_batch=12"}, true, config);
  expect_what_the_plans_say({"layout.cp=3", "layout.dp=2", "net.img_height=28", "policy.micro_batch=2",
                             "policy.zero=3", "policy.recompute=full"},
                            false, config);
  expect_what_the_plans_say({"layout.pp=4", "net.placement=halves", "policy.micro_batch=3"}, true, config);
  expect_what_the_plans_say({"layout.tp=2", "layout.pp=2", "layout.dp=2", "policy.sequence_parallel=false",
                             "policy.zero=1", "policy.micro_batch=3", "policy.schedule=zb-h1"},
                            false, config);
}

// Halos before each step and what came of them back, also in pieces under the interior's edges.
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

// What is not training: first values, validation, checkpoints and a trace speak over the whole world, or as
// their own plan says.
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
    const Plan plan = plan_of(spec, r);
    // 12 samples of the year that validates, 4 at a time
    EXPECT_EQ(all.ranks[r].channels,
              said(plan, {{&plan.init, 1}, {&plan.train, 2}, {&plan.eval, 3}}).channels);
    EXPECT_EQ(all.ranks[r].unknown, Calls{});
    EXPECT_EQ(all.ranks[r].host, cores_told());
    std::map<std::string, int> world;
    for (const std::string& call : all.ranks[r].world) ++world[parse(call).name];
    EXPECT_EQ(world["MPI_Comm_split_type"], 1);
    EXPECT_EQ(world["MPI_Comm_dup"], 1);
    EXPECT_EQ(world["MPI_Comm_create_group"], static_cast<int>(plan.groups.size()));
    EXPECT_EQ(world["MPI_Iallreduce"], 2);  // the fullest rank's memory; what persistence would score
    EXPECT_EQ(world["MPI_Ibcast"], 4);      // where to start from, the data's statistics: length and text
    // Data files have been found harmless; the checkpoint's files are there, are written, have their name
    EXPECT_EQ(world["MPI_Ibarrier"], 4);
    EXPECT_EQ(world["MPI_Igather"], 2);   // digests of both files: lengths ...
    EXPECT_EQ(world["MPI_Igatherv"], 2);  // ... and they
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
                                        "MPI_Finalize",
                                        "MPI_Error_string",
                                        "MPI_Get_library_version",
                                        "MPI_Get_processor_name",
                                        "MPI_Group_free",
                                        "MPI_Group_incl",
                                        "MPI_Init_thread",
                                        "MPI_Op_create",
                                        "MPI_Op_free",
                                        "MPI_Test",
                                        "MPI_Testall"};
  const Words used = symbols(command(), "undefined"), counted = symbols(preload("mpi_counter"), "defined");
  ASSERT_GT(used.size(), 10u) << "nm shows no calls of the command";
  ASSERT_GT(counted.size(), 5u);
  for (const std::string& name : used)
    EXPECT_TRUE(silent.count(name) || std::count(counted.begin(), counted.end(), name))
        << name << " is neither counted in mpi_counter.cpp nor known to be silent";
}

}  // namespace
}  // namespace isobar
