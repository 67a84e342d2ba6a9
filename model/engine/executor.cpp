#include "model/engine/executor.h"

#include <time.h>

#include <algorithm>

#include "model/base/spec/spec.h"
#include "model/base/system/denormals.h"
#include "model/plan/ops/operands.h"

namespace isobar::engine {
namespace {

struct Stopped : std::exception {};  // the other lane failed and reports the error

// Counts threads that are inside the rank's own work
class OwnWork {
 public:
  explicit OwnWork(std::atomic<int>& count) : count_(count) {
    count_.fetch_add(1, std::memory_order_relaxed);
  }
  ~OwnWork() { count_.fetch_sub(1, std::memory_order_relaxed); }
  OwnWork(const OwnWork&) = delete;
  OwnWork& operator=(const OwnWork&) = delete;

 private:
  std::atomic<int>& count_;
};

bool has_other_lanes(const plan::Program& program) {
  return std::any_of(program.instrs.begin(), program.instrs.end(),
                     [](const plan::Instr& i) { return i.lane != plan::Lane::compute; });
}

}  // namespace

int64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * int64_t{1000000000} + t.tv_nsec;
}

Waiting waiting_among(int64_t threads, int64_t ranks, int64_t ranks_on_host, int64_t cores) {
  const int64_t per_core = (threads * ranks_on_host + cores - 1) / cores;
  return {.comm_thread = core_for_communication(threads, ranks_on_host, cores),
          .patience = per_core > 1             ? comm::on_shared_cores(per_core)
                      : ranks == ranks_on_host ? comm::kOwnCores
                                               : comm::Patience{}};
}

Executor::Executor(const plan::Plan& plan, Backend& backend, comm::Comm* comm, Waiting waiting)
    : plan_(plan), backend_(backend), comm_(comm), patience_(waiting.patience), times_(plan.ops.size()) {
  for (auto& c : current_) c = -1;
  if (waiting.comm_thread && std::any_of(plan.ops.begin(), plan.ops.end(),
                                         [](const plan::Op& op) { return op.lane != plan::Lane::compute; }))
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
  for (int lane = 0; lane < plan::kLanes; ++lane) {
    const int32_t op = current_[lane].load(std::memory_order_relaxed);
    if (op < 0) continue;
    running += (running.empty() ? "" : ", ") + plan_.ops[op].path;
    if (lane > 0) running += std::string(" (") + plan::name_of(static_cast<plan::Lane>(lane)) + ")";
  }
  return running.empty() ? "idle" : running;
}

bool Executor::waits_for_others() const {
  return own_work_.load(std::memory_order_relaxed) == 0 &&
         std::any_of(current_.begin(), current_.end(), [](const auto& op) { return op.load() >= 0; });
}

void Executor::operator()(const plan::Program& program, int32_t step) {
  flush_denormals();  // MPI reduces on the calling thread
  for (auto& d : done_) d.store(-1);
  failed_ = false;
  program_ = &program;
  step_ = step;
  open_lanes();
  if (!comm_thread_.joinable() || !has_other_lanes(program)) {
    run_compute();
    for (comm::Pause pause(patience_); !lanes_done(); pause()) advance_lanes();
    return;
  }
  comm_error_ = nullptr;
  ticket_.fetch_add(1);
  ticket_.notify_all();
  std::exception_ptr error;
  try {
    run_compute();
  } catch (...) {
    error = std::current_exception();
    failed_ = true;
  }
  const int32_t ticket = ticket_.load();
  for (comm::Pause pause(patience_); comm_finished_.load() != ticket;) pause();
  if (comm_error_) error = comm_error_;  // the compute lane only stopped because of it
  for (auto& c : current_) c = -1;
  if (error) std::rethrow_exception(error);
}

void Executor::run_compute() {
  const bool alone = !comm_thread_.joinable();
  for (size_t i = 0; i < program_->instrs.size(); ++i) {
    const plan::Instr& instr = program_->instrs[i];
    if (instr.lane != plan::Lane::compute) continue;
    const plan::Op& op = plan_.ops[instr.op];
    if (alone) advance_lanes();
    for (comm::Pause pause(patience_); !ready(instr); pause()) {
      if (failed_) throw Stopped();
      if (alone) advance_lanes();
    }
    begin(instr);
    const int64_t t0 = now_ns();
    if (plan::is_collective(op.kind)) {  // serial program
      comm::Requests requests = post(instr);
      for (comm::Pause pause(patience_); !comm_->test(requests); pause()) {
        if (failed_) throw Stopped();
        if (alone) advance_lanes();
      }
    } else {
      launch(instr);
    }
    measure(instr, static_cast<int32_t>(i), t0);
    finish(plan::Lane::compute, static_cast<int32_t>(i));
  }
  backend_.sync();
}

void Executor::open_lanes() {
  for (int lane = 1; lane < plan::kLanes; ++lane) {
    heads_[lane] = Head{};
    next(lane);
  }
}

void Executor::next(int lane) {
  const auto end = static_cast<int32_t>(program_->instrs.size());
  Head& head = heads_[lane];
  head.posted = false;
  do ++head.index;
  while (head.index < end && program_->instrs[head.index].lane != static_cast<plan::Lane>(lane));
}

bool Executor::lanes_done() const {
  const auto end = static_cast<int32_t>(program_->instrs.size());
  return std::all_of(heads_.begin() + 1, heads_.end(), [&](const Head& head) { return head.index >= end; });
}

bool Executor::advance_lanes() {
  const auto end = static_cast<int32_t>(program_->instrs.size());
  bool moved = false;
  for (int lane = 1; lane < plan::kLanes; ++lane) {
    Head& head = heads_[lane];
    if (head.index >= end) continue;
    const plan::Instr& instr = program_->instrs[head.index];
    const plan::Op& op = plan_.ops[instr.op];
    if (!head.posted) {
      if (!ready(instr)) continue;
      begin(instr);
      head.t0 = now_ns();
      if (plan::is_collective(op.kind))
        head.requests = post(instr);
      else
        launch(instr);
      head.posted = moved = true;
    }
    if (plan::is_collective(op.kind) && !comm_->test(head.requests)) continue;
    measure(instr, head.index, head.t0);
    finish(instr.lane, head.index);
    next(lane);
    moved = true;
  }
  return moved;
}

void Executor::comm_loop() {
  flush_denormals();
  for (int32_t seen = 0;;) {
    for (comm::Pause pause(patience_); ticket_.load() == seen && !pause.asleep();)
      pause();  // short wait: the next step is near
    ticket_.wait(seen);
    seen = ticket_.load();
    if (stop_) return;
    try {
      for (comm::Pause pause(patience_); !lanes_done();) {
        if (failed_) throw Stopped();
        if (advance_lanes())
          pause.again();
        else
          pause();
      }
    } catch (const Stopped&) {
      // the compute lane reports its own error
    } catch (...) {
      comm_error_ = std::current_exception();
      failed_ = true;
    }
    comm_finished_.store(seen);
  }
}

bool Executor::ready(const plan::Instr& instr) const {
  return std::all_of(instr.waits.begin(), instr.waits.end(), [&](int32_t index) {
    const auto& done = done_[static_cast<int>(program_->instrs[index].lane)];
    return done.load(std::memory_order_acquire) >= index;
  });
}

void Executor::begin(const plan::Instr& instr) {
  current_[static_cast<int>(instr.lane)].store(instr.op, std::memory_order_relaxed);
  progress_.fetch_add(1, std::memory_order_relaxed);
}

void Executor::launch(const plan::Instr& instr) {
  const OwnWork own(own_work_);
  backend_.launch(plan_.ops[instr.op], instr.micro, instr.slot);
}

comm::Requests Executor::post(const plan::Instr& instr) {
  const OwnWork own(own_work_);
  const plan::Op& op = plan_.ops[instr.op];
  const plan::View& in = plan::transfer_source(op);
  const plan::View& out = plan::transfer_target(op);
  const plan::View offsets = op.kind == plan::OpKind::all_to_all
                                 ? isobar::plan::in<plan::OpKind::all_to_all>(op, "offsets")
                                 : plan::View{};
  const std::byte* const at = offsets ? backend_.at(offsets, instr.slot) : nullptr;
  return comm_->post(op, in ? backend_.at(in, instr.slot) : nullptr,
                     {in.count, out.count, reinterpret_cast<const int32_t*>(at)},
                     out ? backend_.at(out, instr.slot) : nullptr,
                     plan_.buffers[(in ? in : out).buffer].dtype);
}

void Executor::finish(plan::Lane lane, int32_t index) {
  current_[static_cast<int>(lane)].store(-1, std::memory_order_relaxed);
  done_[static_cast<int>(lane)].store(index, std::memory_order_release);
}

void Executor::measure(const plan::Instr& instr, int32_t index, int64_t t0) {
  const int64_t t1 = now_ns();
  OpTime& t = times_[instr.op];
  ++t.count;
  t.seconds += static_cast<double>(t1 - t0) * 1e-9;
  if (!recorder_) return;
  const int64_t origin = recorder_->origin_ns();
  recorder_->record(instr.lane, step_, index, instr.op, instr.micro, t0 - origin, t1 - origin);
}

}  // namespace isobar::engine
