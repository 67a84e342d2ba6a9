// Runs linked programs: compute ops on the calling thread, all other lanes on a communication thread or,
// where no core is left for one, on the calling thread too, between compute ops and while it waits. Each
// lane's transfers are posted in order, one at a time, and no lane waits for another (copies of what is
// offloaded are made on the spot). Nothing holds the lanes together but each op's waits.
//
//   Executor run(plan, backend, comm, waiting_among(threads, ranks, on_host, cores_of(mpi)));
//   run(step_program, step);  // returns when every lane is done
//
// Keeps seconds per op (always) and spans (while a recorder is set). A failure on either thread ends the run
// of the program on both and is thrown here.
#pragma once
#include <array>
#include <atomic>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include "model/backend/backend.h"
#include "model/backend/runner.h"
#include "model/comm/comm.h"
#include "model/comm/pause.h"

namespace isobar {

/// How a rank waits, by who else wants its host's cores.
struct Waiting {
  bool comm_thread = true;
  Patience patience;
};
Waiting waiting_among(int64_t threads, int64_t ranks, int64_t ranks_on_host, int64_t cores);

class Executor : public Runner {
 public:
  Executor(const Plan& plan, Backend& backend, Comm* comm,  // comm is null in a world of one
           Waiting waiting = {});
  ~Executor() override;
  void operator()(const Program& program, int32_t step) override;

  void record_to(SpanRecorder* recorder) override { recorder_ = recorder; }
  bool times_ops() const override { return true; }
  void reset_op_times() override;
  const std::vector<OpTime>& op_times() const override { return times_; }
  void set_op_times(std::vector<OpTime> times) override { times_ = std::move(times); }
  /// Op paths, transfers in flight with their lane, or "idle"
  std::string now_running() const override;
  int64_t progress() const override { return progress_.load(std::memory_order_relaxed); }
  bool waits_for_others() const override;

 private:
  struct Head {  // where a lane stands
    int32_t index = -1;
    bool posted = false;
    Requests requests;
    int64_t t0 = 0;
  };

  void run_compute();
  void comm_loop();
  void open_lanes();     // all but compute stand at their first op
  bool advance_lanes();  // posts and completes what can be now; whether anything could
  bool lanes_done() const;
  void next(int lane);
  bool ready(const Instr& instr) const;
  void begin(const Instr& instr);
  void launch(const Instr& instr);
  Requests post(const Instr& instr);
  void finish(Lane lane, int32_t index);
  void measure(const Instr& instr, int32_t index, int64_t t0);

  const Plan& plan_;
  Backend& backend_;
  Comm* comm_;
  Patience patience_;
  SpanRecorder* recorder_ = nullptr;
  std::vector<OpTime> times_;
  std::array<std::atomic<int32_t>, kLanes> done_;  // highest finished instr of each lane
  std::atomic<bool> failed_{false};
  std::array<std::atomic<int32_t>, kLanes> current_;  // op that each lane is in, -1: none
  std::atomic<int64_t> progress_{0};
  // Threads that are within a kernel, or within the call that begins a transfer
  std::atomic<int> own_work_{0};

  // the program that is running
  const Program* program_ = nullptr;
  int32_t step_ = 0;
  std::array<Head, kLanes> heads_;

  // hand-over to the communication thread
  std::atomic<int32_t> ticket_{0};         // programs handed over
  std::atomic<int32_t> comm_finished_{0};  // programs that it is done with
  std::exception_ptr comm_error_;
  std::atomic<bool> stop_{false};
  std::thread comm_thread_;
};

int64_t now_ns();  // steady clock

}  // namespace isobar
