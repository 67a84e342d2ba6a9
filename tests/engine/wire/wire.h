// MPI calls that the ranks of a real run make, and those that their plans imply.
//
//   const Counted one = count(spec, set);       // runs the command under mpi_counter.cpp
//   one.ranks[0].channels == said(plan, {{&plan.init, 1}, {&plan.train, steps}}).channels
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "model/backend/cpu/cpu_backend.h"
#include "model/base/spec/spec.h"
#include "model/nets/build.h"
#include "model/plan/link.h"
#include "model/plan/ops/work.h"
#include "tests/engine/command.h"
#include "tests/paths.h"

namespace isobar::engine {

using Calls = std::vector<std::string>;              // "MPI_Iallreduce 32768", as mpi_counter.cpp writes them
using Channel = std::pair<std::vector<int>, Calls>;  // calls on the communicator of these world ranks

struct Seen {                     // calls of one rank
  std::vector<Channel> channels;  // communicators that were used, sorted
  Calls world;                    // calls on MPI_COMM_WORLD
  Calls unknown;                  // … on communicators of unknown origin
  Calls beats;                    // … on the watchdog's
  Calls host;                     // … among the ranks of one host
};

// An odd number of blocks, and tokens (35) that do not divide by 2, 3 or 4.
inline Words net_words(int64_t steps) {
  // Ten heartbeats in this time: except for the last one, none occurs during a test.
  return {"net.depth=5",
          "net.img_height=40",
          "net.img_width=56",
          "train.global_batch=12",
          "run.threads=1",
          "run.hang_timeout=100000",
          "train.steps=" + std::to_string(steps)};
}

// Any other net at its configured size
inline Words run_words(int64_t steps) {
  return {"train.global_batch=12", "run.threads=1", "run.hang_timeout=100000",
          "train.steps=" + std::to_string(steps)};
}

inline std::string joined(const std::vector<int64_t>& elements, DType t) {
  std::string out;
  for (const int64_t n : elements) out += " " + std::to_string(n * size_of(t));
  return out;
}

// ---- observed calls
// ----------------------------------------------------------------------------------------

inline Seen read_seen(const std::string& path) {
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
    (id == "0"         ? seen.world
     : id == "unknown" ? seen.unknown
     : id == "beats"   ? seen.beats
     : id == "host"    ? seen.host
                       : channels[id].second)
        .push_back(call);
  }
  for (const auto& [id, channel] : channels)
    if (!channel.second.empty()) seen.channels.push_back(channel);
  std::sort(seen.channels.begin(), seen.channels.end());
  return seen;
}

struct Counted {
  std::vector<Seen> ranks;
  WrittenRun record;
  int64_t sent = 0;  // bytes of all ranks' point-to-point layer, with start-up
};

inline Counted count(const RunSpec& spec, const Words& set) {
  const Folder dir;
  fs::create_directories(dir / "calls");
  const Words environment = {"env",
                             "LD_PRELOAD=" + preload("mpi_counter"),
                             "ISOBAR_MPI_CALLS=" + dir / "calls",
                             "OMPI_MCA_pml_monitoring_enable=2",
                             "OMPI_MCA_pml_monitoring_enable_output=3",
                             "OMPI_MCA_pml_monitoring_filename=" + dir / "traffic"};
  const Words command = train_words(spec.file, set + Words{"run.out=" + dir / "run"},
                                    {"--ranks", std::to_string(spec.layout.world())});
  const Ended e = Child(environment + command).wait();
  EXPECT_EQ(e.code, 0) << e.text;
  Counted out;
  if (e.code != 0) return out;
  out.record = read_run(dir / "run");
  for (int r = 0; r < spec.layout.world(); ++r) {
    out.ranks.push_back(read_seen(dir / ("calls/rank" + std::to_string(r))));
#ifdef ISOBAR_OPEN_MPI  // only Open MPI can monitor
    // E (or I, for what a collective sends itself), from, to, "N bytes", "N msgs sent"
    std::ifstream in(dir / ("traffic." + std::to_string(r) + ".prof"));
    EXPECT_TRUE(in) << "Open MPI has no monitoring component";
    for (std::string line; std::getline(in, line);) {
      std::istringstream words(line);
      std::string kind;
      int64_t from = 0, to = 0, bytes = 0;
      if (words >> kind >> from >> to >> bytes && (kind == "E" || kind == "I")) out.sent += bytes;
    }
#endif
  }
  return out;
}

// ---- calls implied by the plan
// -----------------------------------------------------------------------------

inline void add_calls(Calls& calls, const plan::Op& op, const plan::Plan& plan) {
  const auto& ranks = plan.groups[op.as<plan::TransferAttrs>().group].ranks;
  const int members = static_cast<int>(ranks.size());
  const auto place = std::find(ranks.begin(), ranks.end(), plan.rank) - ranks.begin();
  const plan::View in = op.reads.empty() ? plan::View{} : op.reads[0],
                   out = op.writes.empty() ? plan::View{} : op.writes[0];
  const DType t = plan.buffers[in ? in.buffer : out.buffer].dtype;
  const std::string n_in = joined({in.count}, t), n_out = joined({out.count}, t);
  const auto peer = [&](int64_t r) { return std::to_string((r + members) % members); };
  switch (op.kind) {
    case plan::OpKind::all_reduce:
      return calls.push_back("MPI_Iallreduce" + n_out);
    case plan::OpKind::broadcast:
      return calls.push_back("MPI_Ibcast root 0" + n_out);
    case plan::OpKind::all_gather:
      return calls.push_back("MPI_Iallgatherv" + joined(plan::parts_of(op, out.count, members), t));
    case plan::OpKind::reduce_scatter: {  // one reduction a part, to its owner
      const auto parts = plan::parts_of(op, in.count, members);
      for (int r = 0; r < members; ++r)
        if (parts[r] > 0) calls.push_back("MPI_Ireduce root " + std::to_string(r) + joined({parts[r]}, t));
      return;
    }
    case plan::OpKind::all_to_all:
      if (op.reads.size() > 1) {  // all copies of this rank's tokens leave, and come back
        const bool back = op.as<plan::TransferAttrs>().back;
        return calls.push_back(std::string("MPI_Ialltoallw ") + (back ? "takes" : "sends") +
                               (back ? n_out : n_in));
      }
      return calls.push_back("MPI_Ialltoallv" + joined(plan::send_parts(op, in.count, members), t) + " from" +
                             joined(plan::receive_parts(op, out.count, members), t));
    case plan::OpKind::exchange:
      calls.push_back("MPI_Irecv from " + peer(place - 1) + n_out);
      return calls.push_back("MPI_Isend to " + peer(place + 1) + n_in);
    case plan::OpKind::send:
      return calls.push_back("MPI_Isend to 1" + n_in);
    case plan::OpKind::recv:
      return calls.push_back("MPI_Irecv from 0" + n_out);
    default:
      FAIL() << op.path << " has no call";
  }
}

struct PlannedCalls {  // of one rank's plan, with invocations run `times` times
  std::vector<Channel> channels;
  double wire_bytes = 0;  // of one run, by model/plan/ops/work.h
};

inline PlannedCalls said(
    const plan::Plan& plan,
    const std::vector<std::pair<const std::vector<plan::Invocation>*, int64_t>>& programs) {
  PlannedCalls out;
  std::vector<Channel> channels;
  for (const plan::Group& g : plan.groups) channels.push_back({g.ranks, {}});
  for (const auto& [invocations, times] : programs)
    for (int64_t t = 0; t < times; ++t)
      for (const plan::Invocation& i : *invocations) {
        const plan::Routine& routine = plan.routines[i.routine];
        for (int o = routine.first; o < routine.first + routine.count; ++o) {
          const plan::Op& op = plan.ops[o];
          if (!plan::is_collective(op.kind)) continue;
          add_calls(channels[op.as<plan::TransferAttrs>().group].second, op, plan);
          out.wire_bytes += plan::work(op, plan).wire_bytes;
        }
      }
  for (Channel& c : channels)
    if (!c.second.empty()) out.channels.push_back(std::move(c));
  std::sort(out.channels.begin(), out.channels.end());
  return out;
}

// ---- bytes of a call
// ---------------------------------------------------------------------------------------

struct Call {
  std::string name;
  int64_t root = -1;            // or peer
  std::vector<double> bytes;    // of the whole, or of each member's part
  std::vector<double> receive;  // all to all
};

inline Call parse(const std::string& text) {
  Call call;
  std::istringstream words(text);
  words >> call.name;
  std::vector<double>* to = &call.bytes;
  for (std::string w; words >> w;) {
    if ((w == "root" || w == "to" || w == "from") && call.bytes.empty())
      words >> call.root;
    else if (w == "from")
      to = &call.receive;
    else if (w != "sends" && w != "takes")
      to->push_back(std::stod(w));
  }
  return call;
}

inline double sum(const std::vector<double>& x) {
  return std::accumulate(x.begin(), x.end(), 0.0);
}

/// Keeps what plans determine of parts that are data: how much this rank sends, or takes.
inline void keep_determined(std::vector<Channel>& seen, const std::vector<Channel>& planned) {
  for (size_t c = 0; c < std::min(seen.size(), planned.size()); ++c)
    for (size_t i = 0; i < std::min(seen[c].second.size(), planned[c].second.size()); ++i) {
      const std::string& plan = planned[c].second[i];
      std::string& call = seen[c].second[i];
      if (!plan.starts_with("MPI_Ialltoallw ") || !call.starts_with("MPI_Ialltoallw ")) continue;
      const Call parsed = parse(call);
      const bool sends = plan.find("sends") != std::string::npos;
      call = std::string("MPI_Ialltoallw ") + (sends ? "sends " : "takes ") +
             std::to_string(static_cast<int64_t>(sum(sends ? parsed.bytes : parsed.receive)));
    }
}

/// Bytes that a rank sends for a call under the published bandwidth-optimal (ring) algorithms.
inline double wire_bytes(const Channel& channel, int rank) {
  const auto& ranks = channel.first;
  const auto n = static_cast<double>(ranks.size());
  const auto place = std::find(ranks.begin(), ranks.end(), rank) - ranks.begin();
  double out = 0;
  for (const std::string& text : channel.second) {
    const Call c = parse(text);
    if (c.name == "MPI_Iallreduce") out += 2 * (n - 1) / n * sum(c.bytes);
    if (c.name == "MPI_Ialltoallw") out += (n - 1) / n * sum(c.bytes);  // with as many copies for each rank
    if (c.name == "MPI_Iallgatherv" || c.name == "MPI_Ireduce") out += (n - 1) / n * sum(c.bytes);
    if (c.name == "MPI_Ialltoallv") out += sum(c.bytes) - c.bytes.at(place);
    if (c.name == "MPI_Isend" || c.name == "MPI_Ibcast") out += sum(c.bytes);
  }
  return out;
}

class Wire : public testing::Test {
 protected:
  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "a preloaded layer would come before the sanitizer's runtime";
  }
};

}  // namespace isobar::engine
