// CUDA's runtime for the emulator: memory is the host's, streams are queues, a graph is a list of captured
// tasks. The first thread (the one that enqueues) runs tasks when it queries or waits; other threads, like a
// watchdog, may query progress. A transfer between ranks (poll) stays at the head of its queue until the
// others have done their part, and everything that waits for it, cudaFree included, waits as long.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>
#include <thread>

#include "tests/cuda/emulated/emulator.h"

namespace {

using isobar::emulator::Poll;
using isobar::emulator::Profiler;
using Call = Profiler::Call;

struct Task {
  std::function<void()> run;  // empty: event record or wait, or begin
  cudaEvent_t record = nullptr, wait = nullptr;
  uint64_t version = 0;         // of the event
  std::function<Poll()> begin;  // for work with other ranks
  Poll poll;                    // from begin(): polled until complete
  Call what = Call::event;      // for a profiler: launch, copy or fill, with its call, or node of a graph
  uint32_t call = 0;
  uint64_t node = 0;
  int64_t begin_ns = 0;
  bool works() const { return run || begin; }
};
using Queues = std::map<cudaStream_t, std::deque<Task>>;

std::recursive_mutex mutex;
std::map<void*, size_t> taken;  // device memory, by cudaMalloc
size_t memory_there() {         // of the device
  const char* bytes = std::getenv("ISOBAR_EMULATED_GPU_BYTES");
  return bytes ? std::strtoull(bytes, nullptr, 10) : 80000000000;
}
using Hold = std::unique_lock<std::recursive_mutex>;
const std::thread::id runs_queues = std::this_thread::get_id();

Queues queues;
std::map<cudaEvent_t, uint64_t> recorded, done;  // number of times
std::map<cudaEvent_t, double> happened;          // last time
double clock_ms = 0;
Profiler* profiler = nullptr;
isobar::emulator::Schedule schedule = isobar::emulator::Schedule::random;
std::minstd_rand random_engine{std::random_device()()};

// The captured tasks, and for each stream and event the tasks before it. As in CUDA, a stream joins the
// capture by waiting for one that is in it, and all must join the first in the end.
struct Captured {
  using Behind = std::map<cudaStream_t, size_t>;  // number of tasks
  cudaStream_t first;
  std::vector<std::pair<cudaStream_t, Task>> tasks;
  std::map<cudaStream_t, Behind> streams;
  std::map<cudaEvent_t, Behind> events;

  void add(cudaStream_t stream, Task task) {
    if (task.wait && !events.count(task.wait))
      throw std::logic_error("a captured stream waits for an event from outside");
    if (!streams.count(stream) && !task.wait)
      throw std::logic_error("a stream works during a capture that it takes no part in");
    Behind& behind = streams[stream];
    if (task.works()) ++behind[stream];
    if (task.record) events[task.record] = behind;
    if (task.wait)
      for (const auto& [other, count] : events.at(task.wait)) behind[other] = std::max(behind[other], count);
    tasks.emplace_back(stream, std::move(task));
  }
  bool joined() const {
    return std::all_of(streams.begin(), streams.end(), [this](const auto& s) {
      const auto own = s.second.find(s.first), joined = streams.at(first).find(s.first);
      return own == s.second.end() || (joined != streams.at(first).end() && joined->second == own->second);
    });
  }
};
Captured* capturing = nullptr;

size_t choose(size_t ready) {
  using isobar::emulator::Schedule;
  if (schedule == Schedule::oldest_first) return 0;
  if (schedule == Schedule::newest_first) return ready - 1;
  return std::uniform_int_distribution<size_t>(0, ready - 1)(random_engine);
}

int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

enum class Step : uint8_t { moved, pending, stuck };  // pending: all runnable tasks wait for another rank

// Runs one task of a ready stream.
Step step(Queues& q, std::map<cudaEvent_t, uint64_t>& finished) {
  std::vector<cudaStream_t> ready;
  for (const auto& [stream, tasks] : q) {
    if (tasks.empty()) continue;
    const Task& t = tasks.front();
    if (!t.wait || finished[t.wait] >= t.version) ready.push_back(stream);
  }
  bool pending = false;
  while (!ready.empty()) {
    const auto chosen = ready.begin() + static_cast<std::ptrdiff_t>(choose(ready.size()));
    auto& tasks = q[*chosen];
    ready.erase(chosen);
    Task& front = tasks.front();
    if (front.begin_ns == 0) front.begin_ns = now_ns();
    if (front.begin) {
      if (!front.poll) front.poll = front.begin();
      if (!front.poll()) {
        pending = true;
        continue;
      }
    }
    const Task t = std::move(front);
    tasks.pop_front();
    clock_ms += 0.001;
    if (t.run) t.run();
    if (profiler && t.call != 0 && t.what < Call::launch_graph)
      profiler->ran(t.what, t.call, t.node, t.begin_ns, now_ns());
    if (t.record) {
      finished[t.record] = t.version;
      happened[t.record] = clock_ms;
    }
    return Step::moved;
  }
  return pending ? Step::pending : Step::stuck;
}

[[noreturn]] void never_comes() {
  throw std::logic_error("a stream waits for an event that never comes");
}

// Steps until `over()` and no further: other work stays queued.
template <class Over>
void run_until(const Over& over, Hold& hold) {
  while (!over()) {
    const Step s = step(queues, done);
    if (s == Step::stuck) never_comes();
    if (s == Step::moved) continue;
    hold.unlock();  // for watching threads
    ::usleep(100);
    hold.lock();
  }
}

bool all_empty(const Queues& q) {
  return std::all_of(q.begin(), q.end(), [](const auto& queue) { return queue.second.empty(); });
}

void drain(Hold& hold) {
  run_until([] { return all_empty(queues); }, hold);
}

void add(cudaStream_t stream, Task task) {
  if (profiler && capturing && task.works()) task.node = profiler->captured();
  if (profiler && !capturing) task.call = profiler->called(task.what);
  if (capturing)
    capturing->add(stream, std::move(task));
  else
    queues[stream].push_back(std::move(task));
}

void work(cudaStream_t stream, Call what, std::function<void()> run) {
  Task task;
  task.run = std::move(run);
  task.what = what;
  add(stream, std::move(task));
}

Poll replay(const Captured& graph, uint32_t call) {  // its events are its own
  struct State {
    Queues q;
    std::map<cudaEvent_t, uint64_t> finished;
  };
  auto state = std::make_shared<State>();
  std::map<cudaEvent_t, uint64_t> versions;
  for (auto [stream, task] : graph.tasks) {
    task.call = call;
    if (task.record) task.version = ++versions[task.record];
    if (task.wait) task.version = versions.at(task.wait);
    state->q[stream].push_back(std::move(task));
  }
  return [state] {
    while (!all_empty(state->q)) {
      const Step s = step(state->q, state->finished);
      if (s == Step::stuck) never_comes();
      if (s == Step::pending) return false;
    }
    return true;
  };
}

template <class Handle>
Handle fresh() {
  static uintptr_t next = 0x1000;
  return reinterpret_cast<Handle>(next += 16);
}

}  // namespace

void isobar::emulator::enqueue(cudaStream_t stream, std::function<void()> run) {
  const Hold hold(mutex);
  work(stream, Call::launch, std::move(run));
}

void isobar::emulator::enqueue_poll(cudaStream_t stream, std::function<Poll()> begin) {
  const Hold hold(mutex);
  add(stream, {.begin = std::move(begin), .what = Call::launch});
}

// For libraries opened at run time (emulated_nccl.cpp).
extern "C" void isobar_emulator_enqueue(cudaStream_t stream, std::function<Poll()> begin) {
  isobar::emulator::enqueue_poll(stream, std::move(begin));
}

extern "C" void isobar_emulator_profile(Profiler* p) {
  const Hold hold(mutex);
  profiler = p;
}

void isobar::emulator::set_schedule(Schedule s, uint64_t seed) {
  schedule = s;
  random_engine.seed(static_cast<std::minstd_rand::result_type>(seed));
}

extern "C" {

const char* cudaGetErrorName(cudaError_t e) {
  return e == cudaSuccess                      ? "cudaSuccess"
         : e == cudaErrorStreamCaptureUnjoined ? "cudaErrorStreamCaptureUnjoined"
                                               : "cudaErrorEmulated";
}
const char* cudaGetErrorString(cudaError_t) {
  return "emulated";
}
cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* v) {
  *v = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* v) {
  *v = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* n) {
  *n = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int) {
  *p = {};
  p->major = 9;
  p->multiProcessorCount = 132;  // an H100's
  p->totalGlobalMem = memory_there();
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = 1;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int) {
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int) {
  const char* rank =
      std::getenv("ISOBAR_EMULATED_GPU_SHARED") ? nullptr : std::getenv("OMPI_COMM_WORLD_RANK");
  std::snprintf(id, static_cast<size_t>(length), "0000:%02x:00.0", rank ? std::atoi(rank) & 0xff : 0);
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** p, size_t bytes) {
  size_t free = 0, total = 0;
  cudaMemGetInfo(&free, &total);
  if (bytes > free) return cudaErrorMemoryAllocation;
  cudaHostAlloc(p, bytes, 0);
  const Hold hold(mutex);
  taken[*p] = bytes;
  return cudaSuccess;
}
cudaError_t cudaFree(void* p) {
  Hold hold(mutex);
  drain(hold);
  taken.erase(p);
  std::free(p);
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** p, size_t bytes, unsigned) {
  *p = std::aligned_alloc(256, (bytes + 256) / 256 * 256);
  std::memset(*p, 0xff, (bytes + 256) / 256 * 256);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* p) {
  return cudaFree(p);
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const Hold hold(mutex);
  size_t used = 0;
  for (const auto& [p, bytes] : taken) used += bytes;
  *total = memory_there();
  *free = *total - std::min(*total, used);
  return cudaSuccess;
}
// On the null stream, which streams made as cudaStreamNonBlocking (all of this program's) neither wait for
// nor block. A memset returns at once, a copy to the device once the host's memory has been read, so other
// streams' work may precede either. A copy to the host returns when complete.
cudaError_t cudaMemset(void* p, int value, size_t bytes) {
  return cudaMemsetAsync(p, value, bytes, nullptr);
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  if (kind == cudaMemcpyHostToDevice) {
    const Hold hold(mutex);
    const auto* bytes_of = static_cast<const std::byte*>(from);
    work(nullptr, Call::copy, [to, image = std::vector<std::byte>(bytes_of, bytes_of + bytes)] {
      std::memcpy(to, image.data(), image.size());
    });
    return cudaSuccess;
  }
  cudaMemcpyAsync(to, from, bytes, kind, nullptr);
  return kind == cudaMemcpyDeviceToHost ? cudaStreamSynchronize(nullptr) : cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* p, int value, size_t bytes, cudaStream_t stream) {
  const Hold hold(mutex);
  work(stream, Call::fill, [=] { std::memset(p, value, bytes); });
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  const Hold hold(mutex);
  work(stream, Call::copy, [=] { std::memcpy(to, from, bytes); });
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* low, int* high) {
  *low = 0;
  *high = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* s, unsigned flags, int) {
  if (flags != cudaStreamNonBlocking)
    throw std::logic_error("the emulator knows no streams that wait for the null stream");
  const Hold hold(mutex);
  *s = fresh<cudaStream_t>();
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t) {
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t s) {
  const Hold hold(mutex);
  if (profiler) profiler->called(Call::query);
  if (std::this_thread::get_id() == runs_queues && step(queues, done) == Step::stuck && !queues[s].empty())
    never_comes();
  return queues[s].empty() ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaStreamSynchronize(cudaStream_t s) {
  Hold hold(mutex);
  run_until([=] { return queues[s].empty(); }, hold);
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  Hold hold(mutex);
  drain(hold);
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned) {
  const Hold hold(mutex);
  *e = fresh<cudaEvent_t>();
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t) {
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
  const Hold hold(mutex);
  add(s, {{}, e, nullptr, capturing ? 0 : ++recorded[e]});
  return cudaSuccess;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t e, cudaStream_t s, unsigned) {
  return cudaEventRecord(e, s);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned) {
  const Hold hold(mutex);
  add(s, {{}, nullptr, e, capturing ? 0 : recorded[e]});
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t e) {
  Hold hold(mutex);
  run_until([e, version = recorded[e]] { return done[e] >= version; }, hold);
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t from, cudaEvent_t to) {
  const Hold hold(mutex);
  if (!happened.contains(from) || !happened.contains(to)) return cudaErrorNotReady;
  *ms = static_cast<float>(happened.at(to) - happened.at(from));
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode) {
  capturing = new Captured{s, {}, {{s, {}}}, {}};
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t* graph) {
  const cudaError_t result = capturing->joined() ? cudaSuccess : cudaErrorStreamCaptureUnjoined;
  *graph = reinterpret_cast<cudaGraph_t>(capturing);
  capturing = nullptr;
  return result;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  *exec = reinterpret_cast<cudaGraphExec_t>(graph);
  for (auto& [stream, task] : reinterpret_cast<Captured*>(graph)->tasks)
    if (profiler && task.node != 0) task.node = profiler->copied(task.node);
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t s) {
  const Hold hold(mutex);
  const uint32_t call = profiler ? profiler->called(Call::launch_graph) : 0;
  queues[s].push_back(
      {.begin = [graph = reinterpret_cast<Captured*>(exec), call] { return replay(*graph, call); }});
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t) {
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete reinterpret_cast<Captured*>(graph);
  return cudaSuccess;
}

}  // extern "C"
