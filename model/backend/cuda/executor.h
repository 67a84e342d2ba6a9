// Runs linked programs on a GPU: one host thread enqueues every op on its lane's stream in program order,
// lanes wait for each other by events only as the program says, and the host waits once, at the end.
//
//   DeviceExecutor run(plan, backend, comm, streams, {.graphs = true});
//   run.keep(step_program);              // for many runs: captured as a graph at its second run
//   run(step_program, step);
//
// A program's first run is enqueued, since kernels are loaded and connections opened then. Graphs exclude
// host work, so programs whose messages' sizes are data have none. For a program kept `ahead`, the next run's
// batches are fetched and copied to the device during this run, into one of two sets of buffers (inputs.h),
// each with its own graph; other programs fetch when they run. With a recorder, ops are enqueued with an
// event before and after each, so spans and op times are of that mode. Kept programs' routines are timed in
// every run by events between them, also in graphs. An event after each transfer identifies the one in which
// a run hangs.
#pragma once
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <vector>

#include "model/backend/cuda/cuda_backend.h"
#include "model/backend/cuda/device_comm.h"
#include "model/backend/cuda/op_observer.h"
#include "model/backend/cuda/stream_order.h"
#include "model/backend/runner.h"

namespace isobar::cuda {

struct ExecutorOptions {
  bool graphs = true;
  int64_t keep_free = 0;  // bytes of the device not to use for prefetched batches, as NCCL will need them
};

class DeviceExecutor : public Runner {
 public:
  /// `comm` is null in a world of one.
  DeviceExecutor(const plan::Plan& plan, CudaBackend& backend, DeviceComm* comm, const Streams& streams,
                 const ExecutorOptions& options);
  ~DeviceExecutor() override;
  void operator()(const plan::Program& program, int32_t step) override;
  void keep(const plan::Program& program, bool ahead = false) override;

  void record_to(trace::SpanRecorder* recorder) override { recorder_ = recorder; }
  bool times_ops() const override { return recorder_ != nullptr; }
  const std::vector<OpTime>& op_times() const override { return times_; }
  void set_op_times(std::vector<OpTime> times) override { times_ = std::move(times); }
  const std::vector<OpTime>& routine_times() const override { return routine_times_; }
  void reset_op_times() override;
  std::string now_running() const override;
  int64_t progress() const override { return progress_.load(std::memory_order_relaxed); }

  /// Tells `observer` of ops, and of the backend's copies to and from the host.
  void observe(OpObserver* observer) {
    observer_ = observer;
    backend_.observe(observer);
  }
  /// Runs that replayed a graph.
  int64_t replays() const { return replays_; }
  /// Time that the capture of graphs took so far.
  double capture_s() const { return capture_s_; }

 private:
  struct Kept {
    StreamOrder order;
    int32_t fetches = 0;
    int64_t runs = 0;
    bool host_waits = false;  // for sizes of messages that are data: it has no graph
    bool ahead = false;       // batches are fetched during the previous run
    int set = 0;              // landing set of the next run
    bool fetched = false;     // its batches are fetched
    struct Stretch {          // of the compute lane, in one routine
      int32_t instr;          // its first
      int32_t routine;
    };
    std::vector<Stretch> stretches;
    std::vector<Event> marks;  // before each stretch and after the last
    struct Transfer {          // in program order
      int32_t op;
      plan::Lane lane;
      Event over;  // recorded after it in every run: identifies the transfer in which a run hangs
    };
    std::vector<Transfer> transfers;
    std::array<cudaGraph_t, 2> graph{};  // by landing set
    std::array<cudaGraphExec_t, 2> exec{};
    Kept(const CudaBackend& backend, const plan::Program& program);
    ~Kept();
    Kept(const Kept&) = delete;
    Kept& operator=(const Kept&) = delete;
  };
  enum class Mode : uint8_t { enqueue, timed, capture };
  void enqueue(const plan::Program& program, const Kept& kept, int32_t step, Mode mode);
  void launch(const plan::Instr& instr, const Kept& kept, cudaStream_t stream, Mode mode, int& fetched);
  void capture(const plan::Program& program, Kept& kept, int32_t step);
  void replay(const plan::Program& program, const Kept& kept, int32_t step);
  template <class F>
  void each_fetch(const plan::Program& program,
                  const F& f);  // f(op, index into the program, index of the fetch)
  void fetch_ahead(const plan::Program& program, Kept& kept, int32_t step, bool hidden);
  void send(const plan::Program& program, int32_t instr, int index, int set, int32_t step, bool hidden);
  void wait(const StreamOrder& order);
  void check_transfers() const;
  int32_t routine_of(int32_t op) const;
  void mark(const Event& event, cudaStream_t stream, Mode mode);
  std::string transfers_under_way() const;
  void read_marks(const Kept& kept);
  void read_times(const plan::Program& program, const StreamOrder& order, int32_t step, int64_t began_ns);
  void fork(const StreamOrder& order);
  void join(const StreamOrder& order);

  const plan::Plan& plan_;
  CudaBackend& backend_;
  DeviceComm* comm_;
  const Streams& streams_;
  const ExecutorOptions options_;
  trace::SpanRecorder* recorder_ = nullptr;
  OpObserver* observer_ = nullptr;
  std::vector<OpTime> times_, routine_times_;
  std::vector<Event> events_;                 // between lanes
  std::vector<Event> timed_;                  // before and after each op
  std::array<Event, plan::kLanes> lane_end_;  // of a capture
  Event begin_, timed_begin_;
  std::map<const plan::Program*, std::unique_ptr<Kept>> kept_;
  int64_t replays_ = 0;
  double capture_s_ = 0;

  std::atomic<int32_t> current_{-1};  // op being enqueued
  std::atomic<bool> waiting_{false};  // for the device
  std::atomic<const Kept*> running_{nullptr};
  std::atomic<int64_t> progress_{0};
};

}  // namespace isobar::cuda
