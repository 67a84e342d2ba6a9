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

bool has_other_lanes(const Program& program) {
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
  for (auto& c : current_) c = -1;
  if (std::any_of(plan.ops.begin(), plan.ops.end(), [](const Op& op) { return op.lane != Lane::compute; }))
    comm_thread_ = std::thread([this] { comm_loop(); });
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
  std::string running;
  for (int lane = 0; lane < kLanes; ++lane) {
    const int32_t op = current_[lane].load(std::memory_order_relaxed);
    if (op < 0) continue;
    running += (running.empty() ? "" : ", ") + plan_.ops[op].path;
    if (lane > 0) running += std::string(" (") + name_of(static_cast<Lane>(lane)) + ")";
  }
  return running.empty() ? "idle" : running;
}

void Executor::operator()(const Program& program, int32_t step) {
  for (auto& d : done_) d.store(-1);
  failed_ = false;
  const bool comm = has_other_lanes(program);
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
  if (comm) {
    const int32_t ticket = ticket_.load();
    for (int32_t seen = comm_finished_.load(); seen != ticket; seen = comm_finished_.load())
      comm_finished_.wait(seen);
    if (comm_error_) error = comm_error_;  // the compute lane only stopped because of it
  }
  for (auto& c : current_) c = -1;
  if (error) std::rethrow_exception(error);
}

void Executor::run_compute(const Program& program, int32_t step) {
  for (size_t i = 0; i < program.instrs.size(); ++i) {
    const Instr& instr = program.instrs[i];
    if (instr.lane != Lane::compute) continue;
    const Op& op = plan_.ops[instr.op];
    for (Pause pause; !ready(program, instr); pause())
      if (failed_) throw Stopped();
    begin(instr);
    const int64_t t0 = now_ns();
    if (is_collective(op.kind)) {  // a serial program
      Requests requests = post(instr);
      for (Pause pause; !comm_->test(requests); pause())
        if (failed_) throw Stopped();
    } else {
      backend_.launch(op, instr.micro, instr.slot);
    }
    measure(instr, static_cast<int32_t>(i), step, t0);
    finish(Lane::compute, static_cast<int32_t>(i));
  }
  backend_.sync();
}

void Executor::run_comm(const Program& program, int32_t step) {
  const auto end = static_cast<int32_t>(program.instrs.size());
  struct Head {  // where a lane stands
    int32_t index = -1;
    bool posted = false;
    Requests requests;
    int64_t t0 = 0;
  };
  std::array<Head, kLanes> heads;
  const auto advance = [&](Head& head, int lane) {
    do ++head.index;
    while (head.index < end && program.instrs[head.index].lane != static_cast<Lane>(lane));
  };
  for (int lane = 1; lane < kLanes; ++lane) advance(heads[lane], lane);
  for (Pause pause;;) {
    bool left = false, moved = false;
    for (int lane = 1; lane < kLanes; ++lane) {
      Head& head = heads[lane];
      if (head.index == end) continue;
      left = true;
      const Instr& instr = program.instrs[head.index];
      if (!head.posted) {
        if (!ready(program, instr)) continue;
        begin(instr);
        head.t0 = now_ns();
        const Op& op = plan_.ops[instr.op];
        if (is_collective(op.kind))
          head.requests = post(instr);
        else
          backend_.launch(op, instr.micro, instr.slot);
        head.posted = moved = true;
      }
      if (is_collective(plan_.ops[instr.op].kind) && !comm_->test(head.requests)) continue;
      measure(instr, head.index, step, head.t0);
      finish(instr.lane, head.index);
      head.posted = false;
      advance(head, lane);
      moved = true;
    }
    if (!left) return;
    if (failed_) throw Stopped();
    if (moved)
      pause = Pause();
    else
      pause();
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

bool Executor::ready(const Program& program, const Instr& instr) const {
  return std::all_of(instr.waits.begin(), instr.waits.end(), [&](int32_t index) {
    const auto& done = done_[static_cast<int>(program.instrs[index].lane)];
    return done.load(std::memory_order_acquire) >= index;
  });
}

void Executor::begin(const Instr& instr) {
  current_[static_cast<int>(instr.lane)].store(instr.op, std::memory_order_relaxed);
  progress_.fetch_add(1, std::memory_order_relaxed);
}

Requests Executor::post(const Instr& instr) {
  const Op& op = plan_.ops[instr.op];
  const View in = op.reads.empty() ? View{} : op.reads[0];
  const View out = op.writes.empty() ? View{} : op.writes[0];
  return comm_->post(op, in ? backend_.at(in, instr.slot) : nullptr, {in.count, out.count},
                     out ? backend_.at(out, instr.slot) : nullptr,
                     plan_.buffers[(in ? in : out).buffer].dtype);
}

void Executor::finish(Lane lane, int32_t index) {
  current_[static_cast<int>(lane)].store(-1, std::memory_order_relaxed);
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
