// Runs linked programs: compute ops on the calling thread, all other lanes on one communication thread, which
// posts each lane's transfers in order, one at a time, and lets no lane wait for another (copies of what is
// offloaded it makes itself). Nothing holds the lanes together but each op's waits.
//
//   Executor run(plan, backend, comm, serial);
//   run(step_program, step);        // returns when every lane is done
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

namespace isobar {

class Executor : public Runner {
 public:
  Executor(const Plan& plan, Backend& backend, Comm* comm);  // comm is null in a world of one
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

 private:
  void run_compute(const Program& program, int32_t step);
  void run_comm(const Program& program, int32_t step);
  void comm_loop();
  bool ready(const Program& program, const Instr& instr) const;
  void begin(const Instr& instr);
  Requests post(const Instr& instr);
  void finish(Lane lane, int32_t index);
  void measure(const Instr& instr, int32_t index, int32_t step, int64_t t0);

  const Plan& plan_;
  Backend& backend_;
  Comm* comm_;
  SpanRecorder* recorder_ = nullptr;
  std::vector<OpTime> times_;
  std::array<std::atomic<int32_t>, kLanes> done_;  // highest finished instr of each lane
  std::atomic<bool> failed_{false};
  std::array<std::atomic<int32_t>, kLanes> current_;  // op that each lane is in, -1: none
  std::atomic<int64_t> progress_{0};

  // hand-over to the communication thread
  std::atomic<int32_t> ticket_{0};         // programs handed over
  std::atomic<int32_t> comm_finished_{0};  // programs that it is done with
  const Program* program_ = nullptr;
  int32_t step_ = 0;
  std::exception_ptr comm_error_;
  std::atomic<bool> stop_{false};
  std::thread comm_thread_;
};

int64_t now_ns();  // steady clock

}  // namespace isobar
