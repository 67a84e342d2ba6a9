#include "model/engine/executor.h"

#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

#include <algorithm>

namespace isobar {
namespace {

struct Stopped : std::exception {};  // the other lane failed; its error is the one to report

// Waiting that leaves the core to compute threads: yields for a moment, because most waits are short, then
// sleeps in short turns, because MPI moves data only inside its calls and a failure elsewhere must be seen.
class Pause {
 public:
  void operator()() {
    if (turns_++ < 64) {
      sched_yield();
      return;
    }
    const timespec turn{0, 20000};
    nanosleep(&turn, nullptr);
  }

 private:
  int turns_ = 0;
};

bool has_collectives(const Program& program) {
  return std::any_of(program.instrs.begin(), program.instrs.end(),
                     [](const Instr& i) { return i.lane != Lane::compute; });
}

}  // namespace

int64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * int64_t{1000000000} + t.tv_nsec;
}

Executor::Executor(const Plan& plan, Backend& backend, Comm* comm)
    : plan_(plan), backend_(backend), comm_(comm), times_(plan.ops.size()) {
  if (comm_) comm_thread_ = std::thread([this] { comm_loop(); });
}

Executor::~Executor() {
  if (!comm_thread_.joinable()) return;
  stop_ = true;
  ticket_.fetch_add(1);
  ticket_.notify_all();
  comm_thread_.join();
}

void Executor::reset_op_times() {
  std::fill(times_.begin(), times_.end(), OpTime{});
}

std::string Executor::now_running() const {
  const int32_t op = current_.load(std::memory_order_relaxed);
  return op < 0 ? "idle" : plan_.ops[op].path;
}

void Executor::operator()(const Program& program, int32_t step) {
  for (auto& d : done_) d.store(-1);
  failed_ = false;
  const bool comm = has_collectives(program);
  if (comm) {
    program_ = &program;
    step_ = step;
    comm_error_ = nullptr;
    ticket_.fetch_add(1);
    ticket_.notify_all();
  }
  std::exception_ptr error;
  try {
    run_compute(program, step);
  } catch (...) {
    error = std::current_exception();
    failed_ = true;
  }
  current_ = -1;
  if (comm) {
    const int32_t ticket = ticket_.load();
    for (int32_t seen = comm_finished_.load(); seen != ticket; seen = comm_finished_.load())
      comm_finished_.wait(seen);
    if (comm_error_) error = comm_error_;  // the compute lane only stopped because of it
  }
  if (error) std::rethrow_exception(error);
}

void Executor::run_compute(const Program& program, int32_t step) {
  for (size_t i = 0; i < program.instrs.size(); ++i) {
    const Instr& instr = program.instrs[i];
    if (instr.lane != Lane::compute) continue;
    const Op& op = plan_.ops[instr.op];
    wait_for(program, instr);
    current_.store(instr.op, std::memory_order_relaxed);
    progress_.fetch_add(1, std::memory_order_relaxed);
    const int64_t t0 = now_ns();
    if (is_collective(op.kind))
      run_collective(op, instr);  // --serial: every op is on this lane
    else
      backend_.launch(op, instr.micro, instr.slot);
    measure(instr, static_cast<int32_t>(i), step, t0);
    finish(Lane::compute, static_cast<int32_t>(i));
  }
  backend_.sync();
}

void Executor::run_comm(const Program& program, int32_t step) {
  for (size_t i = 0; i < program.instrs.size(); ++i) {
    const Instr& instr = program.instrs[i];
    if (instr.lane == Lane::compute) continue;
    wait_for(program, instr);
    progress_.fetch_add(1, std::memory_order_relaxed);
    const int64_t t0 = now_ns();
    run_collective(plan_.ops[instr.op], instr);
    measure(instr, static_cast<int32_t>(i), step, t0);
    finish(instr.lane, static_cast<int32_t>(i));
  }
}

void Executor::comm_loop() {
  prctl(PR_SET_TIMERSLACK, 1000);  // nanoseconds: sleep as short as asked, not 50 us longer
  for (int32_t seen = 0;;) {
    ticket_.wait(seen);
    seen = ticket_.load();
    if (stop_) return;
    try {
      run_comm(*program_, step_);
    } catch (const Stopped&) {
      // the compute lane reports its own error
    } catch (...) {
      comm_error_ = std::current_exception();
      failed_ = true;
    }
    comm_finished_.store(seen);
    comm_finished_.notify_all();
  }
}

void Executor::wait_for(const Program& program, const Instr& instr) {
  for (const int32_t index : instr.waits) {
    auto& done = done_[static_cast<int>(program.instrs[index].lane)];
    for (Pause pause; done.load(std::memory_order_acquire) < index; pause())
      if (failed_) throw Stopped();
  }
}

void Executor::run_collective(const Op& op, const Instr& instr) {
  const View& v = op.writes[0];
  MPI_Request request = comm_->post(op, backend_.at(v, instr.slot), v.count, plan_.buffers[v.buffer].dtype);
  for (Pause pause; !Comm::test(request); pause())
    if (failed_) throw Stopped();
}

void Executor::finish(Lane lane, int32_t index) {
  done_[static_cast<int>(lane)].store(index, std::memory_order_release);
}

void Executor::measure(const Instr& instr, int32_t index, int32_t step, int64_t t0) {
  const int64_t t1 = now_ns();
  OpTime& t = times_[instr.op];
  ++t.count;
  t.seconds += static_cast<double>(t1 - t0) * 1e-9;
  if (!recorder_) return;
  const int64_t origin = recorder_->origin_ns();
  recorder_->record(instr.lane, step, index, instr.op, instr.micro, t0 - origin, t1 - origin);
}

}  // namespace isobar
