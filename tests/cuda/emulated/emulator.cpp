#include "tests/cuda/emulated/emulator.h"

#include <ucontext.h>
#include <csetjmp>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

namespace isobar::emulator {

Index thread, block;
dim3 block_size, grid_size;

namespace {

constexpr size_t kStack = 96 << 10;
enum class State : uint8_t {
  unstarted,
  ready,
  waiting,
  at_named_barrier,
  at_block_barrier,
  at_warp_barrier,
  done
};

// A stack on which threads of a block run in turn until one waits. A waiting thread keeps it and the
// following ones use another: most kernels have no barrier and need one stack a block.
struct Fiber {
  ucontext_t context;
  jmp_buf place;
  bool begun = false;
  std::unique_ptr<std::byte[]> stack{new std::byte[kStack]};
};
struct Thread {
  State state = State::done;
  Fiber* fiber = nullptr;
  Index index{};
  int turn = 0;            // which of the warp's two sets of slots its next exchange uses
  uint64_t slots[2] = {};  // values it offers
  uint32_t registers[2][6] = {};
  int barrier = 0, threads = 0;  // the named one where it waits
  bool vote = false;             // its own there, then that of all
  std::vector<std::vector<std::function<void()>>> products;
};

std::vector<std::unique_ptr<Fiber>> fibers;
std::vector<Fiber*> idle;
std::vector<Thread> team;
size_t current = 0, count = 0;
const std::function<void()>* body = nullptr;
std::vector<double> shared;
std::deque<std::function<void()>> copies;
std::exception_ptr error;
WarpOrder warp_order = WarpOrder::in_turn;

// The target and origin of a stack switch, for address sanitizer.
#ifdef __SANITIZE_ADDRESS__
ucontext_t scheduler;
const void* scheduler_stack = nullptr;
size_t scheduler_stack_size = 0;
void to_fiber(Fiber& f) {
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, f.stack.get(), kStack);
  swapcontext(&scheduler, &f.context);
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
}
void to_scheduler(Fiber& f) {
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, scheduler_stack, scheduler_stack_size);
  swapcontext(&f.context, &scheduler);
  __sanitizer_finish_switch_fiber(fake_stack, &scheduler_stack, &scheduler_stack_size);
}
void first_arrived() {
  __sanitizer_finish_switch_fiber(nullptr, &scheduler_stack, &scheduler_stack_size);
}
#else
// swapcontext makes a system call for the signal mask: used only for the first switch to a stack
jmp_buf scheduler_place;
[[noreturn]] void go_on(Fiber& f) {
  if (std::exchange(f.begun, true)) _longjmp(f.place, 1);
  setcontext(&f.context);
  std::abort();  // not reached
}
[[gnu::noinline]] void to_fiber(Fiber& f) {
  if (_setjmp(scheduler_place) == 0) go_on(f);
}
[[gnu::noinline]] void to_scheduler(Fiber& f) {
  if (_setjmp(f.place) == 0) _longjmp(scheduler_place, 1);
}
void first_arrived() {}
#endif

void entry();

[[gnu::noinline]] void prepare(ucontext_t& fresh, std::byte* stack) {
  getcontext(&fresh);
  fresh.uc_stack.ss_sp = stack;
  fresh.uc_stack.ss_size = kStack;
  fresh.uc_link = nullptr;
  makecontext(&fresh, entry, 0);
}

Fiber& idle_fiber() {
  if (idle.empty()) {
    idle.push_back(fibers.emplace_back(std::make_unique<Fiber>()).get());
    prepare(idle.back()->context, idle.back()->stack.get());
  }
  Fiber& f = *idle.back();
  idle.pop_back();
  return f;
}

void begin_on(Fiber& f) {
  Thread& t = team[current];
  t.fiber = &f;
  t.state = State::ready;
  thread = t.index;
}

void entry() {
  first_arrived();
  for (;;) {
    Fiber& f = *team[current].fiber;
    try {
      (*body)();
    } catch (...) {
      error = std::current_exception();
    }
    team[current].state = State::done;
    if (!error && current + 1 < count && team[current + 1].state == State::unstarted) {
      ++current;
      begin_on(f);
    } else {
      to_scheduler(f);  // returns with a new thread to begin
    }
  }
}

void yield(State state) {
  Thread& t = team[current];
  t.state = state;
  to_scheduler(*t.fiber);
}

// Releases threads whose whole group waits; returns whether it released any.
bool release(size_t first, size_t last, State waiting) {
  bool any = false;
  for (size_t i = first; i < last; ++i) {
    if (team[i].state == State::done) continue;
    if (team[i].state != waiting) return false;
    any = true;
  }
  for (size_t i = first; i < last; ++i)
    if (team[i].state == waiting) team[i].state = State::ready;
  return any;
}

bool release_named() {
  bool any = false;
  for (size_t i = 0; i < count; ++i) {
    if (team[i].state != State::at_named_barrier) continue;
    const auto same = [&](const Thread& t) {
      return t.state == State::at_named_barrier && t.barrier == team[i].barrier;
    };
    const auto end = team.begin() + static_cast<std::ptrdiff_t>(count);
    if (const auto n = std::count_if(team.begin(), end, same); n < team[i].threads) continue;
    const int id = team[i].barrier, threads = team[i].threads;
    int left = threads;
    bool any_vote = false;
    std::vector<size_t> released;
    for (size_t j = 0; j < count && left > 0; ++j)
      if (team[j].state == State::at_named_barrier && team[j].barrier == id) {
        if (team[j].threads != threads) throw std::logic_error("a named barrier of two numbers of threads");
        team[j].state = State::ready;
        any_vote = any_vote || team[j].vote;
        released.push_back(j);
        --left;
      }
    for (const size_t j : released) team[j].vote = any_vote;
    any = true;
  }
  return any;
}

// Runs the threads [first, last) that can run, each until it waits; returns whether any got on
bool run_some(size_t first, size_t last) {
  bool moved = false;
  for (current = first; current < last; ++current) {
    if (team[current].state == State::unstarted)
      begin_on(idle_fiber());
    else if (team[current].state == State::ready || team[current].state == State::waiting)
      thread = team[current].index;
    else
      continue;
    to_fiber(*team[current].fiber);
    if (error) std::rethrow_exception(std::exchange(error, nullptr));
    if (team[current].state == State::done) idle.push_back(team[current].fiber);
    moved = moved || team[current].state != State::waiting;
  }
  return moved;
}

// By warps: all in turn, or the first or last as far ahead as barriers allow
bool run_warps() {
  const size_t warps = (count + 31) / 32;
  bool moved = false;
  for (size_t i = 0; i < warps; ++i) {
    const size_t first = (warp_order == WarpOrder::last_ahead ? warps - 1 - i : i) * 32;
    const size_t last = std::min(count, first + 32);
    bool got_on = run_some(first, last);
    got_on = release(first, last, State::at_warp_barrier) || got_on;
    moved = moved || got_on;
    if (got_on && warp_order != WarpOrder::in_turn) return true;
  }
  return moved;
}

void run_threads() {
  const auto ended = [](const Thread& t) { return t.state == State::done; };
  for (;;) {
    bool moved = run_warps();
    if (std::all_of(team.begin(), team.begin() + static_cast<std::ptrdiff_t>(count), ended)) return;
    if (!moved || warp_order == WarpOrder::in_turn) {
      moved = release(0, count, State::at_block_barrier) || moved;
      moved = release_named() || moved;
    }
    // At once for those ahead, else as late as possible
    while (!copies.empty() && (!moved || warp_order == WarpOrder::first_ahead)) {
      copies.front()();
      copies.pop_front();
      moved = true;
    }
    if (!moved)
      throw std::logic_error("threads of block " + std::to_string(block.x) + "," + std::to_string(block.y) +
                             " wait at different barriers");
  }
}

void run_block() {
  for (size_t i = 0; i < count; ++i) {
    team[i].state = State::unstarted;
    team[i].turn = 0;
    team[i].products.clear();
    team[i].index = {static_cast<unsigned>(i % block_size.x),
                     static_cast<unsigned>(i / block_size.x % block_size.y),
                     static_cast<unsigned>(i / block_size.x / block_size.y)};
  }
  std::fill(shared.begin(), shared.end(), std::nan(""));
  copies.clear();
  try {
    run_threads();
  } catch (...) {  // some wait for ever: drop their stacks
    idle.clear();
    fibers.clear();
    throw;
  }
  if (!copies.empty()) throw std::logic_error("a block ended before its copies");
  for (size_t i = 0; i < count; ++i)
    for (const auto& group : team[i].products)
      if (!group.empty()) throw std::logic_error("a block ended before its products");
}

}  // namespace

void set_warp_order(WarpOrder order) {
  warp_order = order;
}

void* dynamic_shared() {
  return shared.data();
}

void block_barrier() {
  yield(State::at_block_barrier);
  thread = team[current].index;
}

void warp_barrier() {
  yield(State::at_warp_barrier);
  thread = team[current].index;
}

uint64_t exchange(uint64_t bits, int lane_mask) {
  Thread& t = team[current];
  const int turn = t.turn;
  t.turn = 1 - turn;
  t.slots[turn] = bits;
  warp_barrier();
  return team[current ^ static_cast<size_t>(lane_mask)].slots[turn];
}

void wait_until(const std::function<bool()>& true_now) {
  while (!true_now()) {
    yield(State::waiting);
    thread = team[current].index;
  }
}

bool any_in_barrier(int id, int threads, bool x) {
  if (id < 1 || id > 15 || threads % 32 != 0) throw std::logic_error("no such named barrier");
  team[current].barrier = id;
  team[current].threads = threads;
  team[current].vote = x;
  yield(State::at_named_barrier);
  thread = team[current].index;
  return team[current].vote;
}
void named_barrier(int id, int threads) {
  any_in_barrier(id, threads, false);
}

void copy_late(std::function<void()> copy) {
  copies.push_back(std::move(copy));
}

std::vector<std::vector<std::function<void()>>>& unfinished_products() {
  return team[current].products;
}

Gathered gather(const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  Thread& t = team[current];
  const int turn = t.turn;
  t.turn = 1 - turn;
  std::copy_n(a, 4, t.registers[turn]);
  std::copy_n(b, 2, t.registers[turn] + 4);
  warp_barrier();
  Gathered all;
  for (size_t lane = 0; lane < 32; ++lane) all.lane[lane] = team[current / 32 * 32 + lane].registers[turn];
  return all;
}

void run(dim3 blocks, dim3 threads, size_t shared_bytes, const std::function<void()>& kernel) {
  if (threads.x * threads.y * threads.z > 1024) throw std::logic_error("more than 1024 threads a block");
  if (blocks.y > 65535 || blocks.z > 65535) throw std::logic_error("more than 65535 blocks along y or z");
  if (shared_bytes > 227 << 10) throw std::logic_error("more than 227 KB of shared memory");
  body = &kernel;
  block_size = threads;
  grid_size = blocks;
  count = size_t{threads.x} * threads.y * threads.z;
  if (team.size() < count) team.resize(count);
  shared = std::vector<double>((shared_bytes + 7) / 8);  // exact size, so that address sanitizer sees
                                                         // overruns
  for (unsigned z = 0; z < blocks.z; ++z)
    for (unsigned y = 0; y < blocks.y; ++y)
      for (unsigned x = 0; x < blocks.x; ++x) {
        block = {x, y, z};
        run_block();
      }
}

}  // namespace isobar::emulator
