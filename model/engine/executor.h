// Runs linked programs: compute ops on the calling thread; all other lanes on a communication thread or,
// without a spare core, on the calling thread between compute ops and while it waits. Each lane posts its
// transfers in order, one at a time, and lanes are independent (offload copies are made synchronously); only
// each op's waits synchronise them.
//
//   Executor run(plan, backend, comm, waiting_among(threads, ranks, on_host, cores_of(mpi)));
//   run(step_program, step);  // returns when every lane is done
//
// Records seconds per op (always) and spans (while a recorder is set). A failure on either thread stops both
// and is thrown to the caller.
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

namespace isobar::engine {

/// Waiting strategy of a rank, which depends on the ranks that share its host's cores.
struct Waiting {
  bool comm_thread = true;
  comm::Patience patience;
};
Waiting waiting_among(int64_t threads, int64_t ranks, int64_t ranks_on_host, int64_t cores);

class Executor : public Runner {
 public:
  Executor(const plan::Plan& plan, Backend& backend, comm::Comm* comm,  // comm is null in a world of one
           Waiting waiting = {});
  ~Executor() override;
  void operator()(const plan::Program& program, int32_t step) override;

  void record_to(trace::SpanRecorder* recorder) override { recorder_ = recorder; }
  bool times_ops() const override { return true; }
  void reset_op_times() override;
  const std::vector<OpTime>& op_times() const override { return times_; }
  void set_op_times(std::vector<OpTime> times) override { times_ = std::move(times); }
  /// Paths of current ops, transfers in flight with their lane, or "idle"
  std::string now_running() const override;
  int64_t progress() const override { return progress_.load(std::memory_order_relaxed); }
  bool waits_for_others() const override;

 private:
  struct Head {  // position of a lane
    int32_t index = -1;
    bool posted = false;
    comm::Requests requests;
    int64_t t0 = 0;
  };

  void run_compute();
  void comm_loop();
  void open_lanes();     // positions all lanes except compute at their first op
  bool advance_lanes();  // posts and completes what is possible; true: progress was made
  bool lanes_done() const;
  void next(int lane);
  bool ready(const plan::Instr& instr) const;
  void begin(const plan::Instr& instr);
  void launch(const plan::Instr& instr);
  comm::Requests post(const plan::Instr& instr);
  void finish(plan::Lane lane, int32_t index);
  void measure(const plan::Instr& instr, int32_t index, int64_t t0);

  const plan::Plan& plan_;
  Backend& backend_;
  comm::Comm* comm_;
  comm::Patience patience_;
  trace::SpanRecorder* recorder_ = nullptr;
  std::vector<OpTime> times_;
  std::array<std::atomic<int32_t>, plan::kLanes> done_;  // highest finished instr of each lane
  std::atomic<bool> failed_{false};
  std::array<std::atomic<int32_t>, plan::kLanes> current_;  // current op of each lane, -1: none
  std::atomic<int64_t> progress_{0};
  // Number of threads inside a kernel or inside the call that starts a transfer
  std::atomic<int> own_work_{0};

  // current program
  const plan::Program* program_ = nullptr;
  int32_t step_ = 0;
  std::array<Head, plan::kLanes> heads_;

  // hand-over to the communication thread
  std::atomic<int32_t> ticket_{0};         // programs submitted
  std::atomic<int32_t> comm_finished_{0};  // programs completed
  std::exception_ptr comm_error_;
  std::atomic<bool> stop_{false};
  std::thread comm_thread_;
};

int64_t now_ns();  // steady clock

}  // namespace isobar::engine
