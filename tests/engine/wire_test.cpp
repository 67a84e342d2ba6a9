// What the ranks of a run say to one another is what their plans say, call for call and byte for byte.
//
// The real command runs with a counting layer between it and MPI (mpi_counter.cpp). Every communicator must
// carry exactly the calls of its group in the plan, in the plan's order; a call that no plan knows fails,
// start-up and the few named here apart. Below that, Open MPI's own monitoring of point-to-point traffic says
// what its algorithms really sent; and per-block counts and volumes are held to closed forms that know no
// plan.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <numeric>
#include <set>

#include "model/backend/cpu/cpu_backend.h"
#include "model/base/spec.h"
#include "model/nets/build.h"
#include "model/plan/layout.h"
#include "model/plan/link.h"
#include "model/plan/work.h"
#include "tests/engine/command.h"

namespace isobar {
namespace {

using Calls = std::vector<std::string>;              // "MPI_Iallreduce 32768": as mpi_counter.cpp writes them
using Channel = std::pair<std::vector<int>, Calls>;  // what one communicator of these world ranks carried

struct Seen {                     // by one rank
  std::vector<Channel> channels;  // those that were used, sorted
  Calls world;                    // calls on MPI_COMM_WORLD
  Calls unknown;                  // … on communicators that nobody was seen to make
};

// An odd number of blocks, and tokens (35) that do not divide by 2, 3 or 4.
Words net_words(int64_t steps) {
  return {"net.depth=5",           "net.img_height=40", "net.img_width=56",
          "train.global_batch=12", "run.threads=1",     "train.steps=" + std::to_string(steps)};
}

Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::string joined(const std::vector<int64_t>& elements, DType t) {
  std::string out;
  for (const int64_t n : elements) out += " " + std::to_string(n * size_of(t));
  return out;
}

// ---- what was seen
// -------------------------------------------------------------------------------------------------

Seen read_seen(const std::string& path) {
  Seen seen;
  std::map<std::string, Channel> channels;
  std::ifstream in(path);
  EXPECT_TRUE(in) << path << " was not written";
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string what, id, call;
    words >> what >> id;
    if (what == "comm") {
      for (int r = 0; words >> r;) channels[id].first.push_back(r);
      continue;
    }
    std::getline(words >> std::ws, call);
    (id == "0" ? seen.world : id == "unknown" ? seen.unknown : channels[id].second).push_back(call);
  }
  for (const auto& [id, channel] : channels)
    if (!channel.second.empty()) seen.channels.push_back(channel);
  std::sort(seen.channels.begin(), seen.channels.end());
  return seen;
}

struct Run {
  std::vector<Seen> ranks;
  RunRecord record;
  int64_t sent = 0;  // bytes that all ranks' point-to-point layer sent, start-up among them
};

Run run(const RunSpec& spec, const Words& set) {
  const Folder dir;
  fs::create_directories(dir / "calls");
  const Words environment = {"env",
                             "LD_PRELOAD=" ISOBAR_MPI_COUNTER,
                             "ISOBAR_MPI_CALLS=" + dir / "calls",
                             "OMPI_MCA_pml_monitoring_enable=2",
                             "OMPI_MCA_pml_monitoring_enable_output=3",
                             "OMPI_MCA_pml_monitoring_filename=" + dir / "traffic"};
  const Words command = train_words(tiny(), set + Words{"run.out=" + dir / "run"},
                                    {"--ranks", std::to_string(spec.layout.world())});
  const Ended e = Child(environment + command).wait();
  EXPECT_EQ(e.code, 0) << e.text;
  Run out;
  if (e.code != 0) return out;
  out.record = read_run(dir / "run");
  for (int r = 0; r < spec.layout.world(); ++r) {
    out.ranks.push_back(read_seen(dir / ("calls/rank" + std::to_string(r))));
    // E (or I, for what a collective sends itself), from, to, "N bytes", "N msgs sent"
    std::ifstream in(dir / ("traffic." + std::to_string(r) + ".prof"));
    EXPECT_TRUE(in) << "Open MPI has no monitoring component";
    for (std::string line; std::getline(in, line);) {
      std::istringstream words(line);
      std::string kind;
      int64_t from = 0, to = 0, bytes = 0;
      if (words >> kind >> from >> to >> bytes && (kind == "E" || kind == "I")) out.sent += bytes;
    }
  }
  return out;
}

// ---- what the plan says
// --------------------------------------------------------------------------------------------

void add_calls(Calls& calls, const Op& op, const Plan& plan) {
  const auto& ranks = plan.groups[op.a.group].ranks;
  const int members = static_cast<int>(ranks.size());
  const auto place = std::find(ranks.begin(), ranks.end(), plan.rank) - ranks.begin();
  const View in = op.reads.empty() ? View{} : op.reads[0], out = op.writes.empty() ? View{} : op.writes[0];
  const DType t = plan.buffers[in ? in.buffer : out.buffer].dtype;
  const std::string n_in = joined({in.count}, t), n_out = joined({out.count}, t);
  const auto peer = [&](int64_t r) { return std::to_string((r + members) % members); };
  switch (op.kind) {
    case OpKind::all_reduce:
      return calls.push_back("MPI_Iallreduce" + n_out);
    case OpKind::broadcast:
      return calls.push_back("MPI_Ibcast root 0" + n_out);
    case OpKind::all_gather:
      return calls.push_back("MPI_Iallgatherv" + joined(parts_of(op, out.count, members), t));
    case OpKind::reduce_scatter: {  // one reduction a part, to its owner
      const auto parts = parts_of(op, in.count, members);
      for (int r = 0; r < members; ++r)
        if (parts[r] > 0) calls.push_back("MPI_Ireduce root " + std::to_string(r) + joined({parts[r]}, t));
      return;
    }
    case OpKind::all_to_all:
      return calls.push_back("MPI_Ialltoallv" + joined(send_parts(op, in.count, members), t) + " from" +
                             joined(receive_parts(op, out.count, members), t));
    case OpKind::exchange:
      calls.push_back("MPI_Irecv from " + peer(place - 1) + n_out);
      return calls.push_back("MPI_Isend to " + peer(place + 1) + n_in);
    case OpKind::send:
      return calls.push_back("MPI_Isend to 1" + n_in);
    case OpKind::recv:
      return calls.push_back("MPI_Irecv from 0" + n_out);
    default:
      FAIL() << op.path << " has no call";
  }
}

struct Said {  // by one rank's plan in `times` runs of some invocations
  std::vector<Channel> channels;
  double wire_bytes = 0;  // of one run, by model/plan/work.h
};

Said said(const Plan& plan, const std::vector<std::pair<const std::vector<Invocation>*, int64_t>>& programs) {
  Said out;
  std::vector<Channel> channels;
  for (const Group& g : plan.groups) channels.push_back({g.ranks, {}});
  for (const auto& [invocations, times] : programs)
    for (int64_t t = 0; t < times; ++t)
      for (const Invocation& i : *invocations) {
        const Routine& routine = plan.routines[i.routine];
        for (int o = routine.first; o < routine.first + routine.count; ++o) {
          const Op& op = plan.ops[o];
          if (!is_collective(op.kind)) continue;
          add_calls(channels[op.a.group].second, op, plan);
          out.wire_bytes += work(op, plan).wire_bytes;
        }
      }
  for (Channel& c : channels)
    if (!c.second.empty()) out.channels.push_back(std::move(c));
  std::sort(out.channels.begin(), out.channels.end());
  return out;
}

// ---- bytes of a call
// -----------------------------------------------------------------------------------------------

struct Call {
  std::string name;
  int64_t root = -1;            // or peer
  std::vector<double> bytes;    // of the whole, or of each member's part
  std::vector<double> receive;  // all to all
};

Call parse(const std::string& text) {
  Call call;
  std::istringstream words(text);
  words >> call.name;
  std::vector<double>* to = &call.bytes;
  for (std::string w; words >> w;) {
    if ((w == "root" || w == "to" || w == "from") && call.bytes.empty())
      words >> call.root;
    else if (w == "from")
      to = &call.receive;
    else
      to->push_back(std::stod(w));
  }
  return call;
}

double sum(const std::vector<double>& x) {
  return std::accumulate(x.begin(), x.end(), 0.0);
}

/// What a rank sends in its share of a call when the algorithm wastes nothing: the published ring volumes.
double wire_bytes(const Channel& channel, int rank) {
  const auto& ranks = channel.first;
  const auto n = static_cast<double>(ranks.size());
  const auto place = std::find(ranks.begin(), ranks.end(), rank) - ranks.begin();
  double out = 0;
  for (const std::string& text : channel.second) {
    const Call c = parse(text);
    if (c.name == "MPI_Iallreduce") out += 2 * (n - 1) / n * sum(c.bytes);
    if (c.name == "MPI_Iallgatherv" || c.name == "MPI_Ireduce") out += (n - 1) / n * sum(c.bytes);
    if (c.name == "MPI_Ialltoallv") out += sum(c.bytes) - c.bytes.at(place);
    if (c.name == "MPI_Isend" || c.name == "MPI_Ibcast") out += sum(c.bytes);
  }
  return out;
}

// ---- the tests
// -----------------------------------------------------------------------------------------------------

class Wire : public testing::Test {
 protected:
  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "a preloaded layer would come before the sanitizer's runtime";
  }
};

Plan plan_of(const RunSpec& spec, int rank) {
  return build_plan(spec, rank, cpu_workspace(1));
}

void expect_what_the_plans_say(const Words& layout, bool traffic = false) {
  SCOPED_TRACE(testing::PrintToString(layout));
  const Words set = net_words(1) + layout;
  const RunSpec spec = load_run_spec(tiny(), set);
  const Run one = run(spec, set);
  ASSERT_EQ(one.ranks.size(), static_cast<size_t>(spec.layout.world()));
  double step = 0;  // wire bytes of all ranks' plans
  size_t calls = 0;
  for (int r = 0; r < spec.layout.world(); ++r) {
    SCOPED_TRACE("rank " + std::to_string(r));
    const Seen& seen = one.ranks[r];
    const Plan plan = plan_of(spec, r);
    const Said plan_says = said(plan, {{&plan.init, 1}, {&plan.train, 1}});
    EXPECT_EQ(seen.channels, plan_says.channels);
    EXPECT_EQ(seen.unknown, Calls{});
    Calls start_up = {"MPI_Comm_split_type"};  // which ranks share this host
    start_up.resize(1 + plan.groups.size(), "MPI_Comm_create_group");
    EXPECT_EQ(seen.world, start_up);
    double wire = 0;
    for (const Channel& c : seen.channels) wire += wire_bytes(c, r), calls += c.second.size();
    EXPECT_NEAR(wire, plan_says.wire_bytes, 1e-9 * wire);
    step += said(plan, {{&plan.train, 1}}).wire_bytes;
  }
  ASSERT_GT(calls, 0u) << "nothing was said: nothing is tested";
  std::string title;
  for (const std::string& w : layout) title += w.substr(w.find('.') + 1) + " ";
  std::printf("%-100s %5zu calls, %11.0f bytes", title.c_str(), calls, step);
  if (traffic) {  // of two steps, what start-up sends taken off
    const Run three = run(spec, net_words(3) + layout);
    EXPECT_EQ(static_cast<double>(three.sent - one.sent), 2 * step);
    std::printf(", sent %11.0f", static_cast<double>(three.sent - one.sent) / 2);
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

TEST_F(Wire, Combined) {
  expect_what_the_plans_say({"layout.dp=2", "layout.tp=2", "layout.pp=2", "policy.sequence_parallel=true",
                             "policy.micro_batch=3", "policy.schedule=zb-h1", "train.grad_clip=0.02"},
                            true);
  expect_what_the_plans_say({"layout.dp=2", "layout.tp=2", "layout.cp=2", "policy.cp_kind=ring",
                             "policy.sequence_parallel=true", "policy.micro_batch=3", "policy.amp=bf16"});
  expect_what_the_plans_say(
      {"layout.tp=2", "layout.cp=2", "layout.pp=2", "policy.micro_batch=6", "layout.order=pp-cp-tp"});
}

}  // namespace
}  // namespace isobar
