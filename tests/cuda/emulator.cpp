#include "tests/cuda/emulator.h"

#include <ucontext.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

namespace isobar::emulator {

Index thread, block;
dim3 block_size, grid_size;

namespace {

constexpr size_t kStack = 96 << 10;
enum class State : uint8_t { ready, at_block_barrier, at_warp_barrier, done };

struct Fiber {
  ucontext_t context;
  std::unique_ptr<std::byte[]> stack{new std::byte[kStack]};
  State state = State::done;
  Index index{};
  int turn = 0;            // which of the warp's two sets of slots its next exchange uses
  uint64_t slots[2] = {};  // what it gives
  uint32_t registers[2][6] = {};
};

ucontext_t scheduler;
std::vector<std::unique_ptr<Fiber>> fibers;
size_t current = 0, count = 0;
const std::function<void()>* body = nullptr;
std::vector<double> shared;
std::exception_ptr error;

// Which stack a switch leaves for and where it came from, for address sanitizer.
#ifdef __SANITIZE_ADDRESS__
const void* scheduler_stack = nullptr;
size_t scheduler_stack_size = 0;
void to_fiber(Fiber& f) {
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, f.stack.get(), kStack);
  swapcontext(&scheduler, &f.context);
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
}
void to_scheduler(Fiber& f) {  // a fiber that is done gives its own fake stack back
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(f.state == State::done ? nullptr : &fake_stack, scheduler_stack,
                                 scheduler_stack_size);
  swapcontext(&f.context, &scheduler);
  __sanitizer_finish_switch_fiber(fake_stack, &scheduler_stack, &scheduler_stack_size);
}
void first_arrived() {
  __sanitizer_finish_switch_fiber(nullptr, &scheduler_stack, &scheduler_stack_size);
}
#else
void to_fiber(Fiber& f) {
  swapcontext(&scheduler, &f.context);
}
void to_scheduler(Fiber& f) {
  swapcontext(&f.context, &scheduler);
}
void first_arrived() {}
#endif

void entry() {
  first_arrived();
  try {
    (*body)();
  } catch (...) {
    error = std::current_exception();
  }
  fibers[current]->state = State::done;
  to_scheduler(*fibers[current]);
}

void yield(State state) {
  Fiber& f = *fibers[current];
  f.state = state;
  to_scheduler(f);
}

// Threads whose whole group waits go on. Returns whether any does.
bool release(size_t first, size_t last, State waiting) {
  bool any = false;
  for (size_t i = first; i < last; ++i) {
    if (fibers[i]->state == State::done) continue;
    if (fibers[i]->state != waiting) return false;
    any = true;
  }
  for (size_t i = first; i < last; ++i)
    if (fibers[i]->state == waiting) fibers[i]->state = State::ready;
  return any;
}

void run_block() {
  for (size_t i = 0; i < count; ++i) {
    Fiber& f = *fibers[i];
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = f.stack.get();
    f.context.uc_stack.ss_size = kStack;
    f.context.uc_link = nullptr;
    f.state = State::ready;
    f.turn = 0;
    f.index = {static_cast<unsigned>(i % block_size.x),
               static_cast<unsigned>(i / block_size.x % block_size.y),
               static_cast<unsigned>(i / block_size.x / block_size.y)};
    makecontext(&f.context, entry, 0);
  }
  std::fill(shared.begin(), shared.end(), std::nan(""));
  for (;;) {
    bool left = false, moved = false;
    for (current = 0; current < count; ++current) {
      Fiber& f = *fibers[current];
      left = left || f.state != State::done;
      if (f.state != State::ready) continue;
      thread = f.index;
      to_fiber(f);
      if (error) std::rethrow_exception(std::exchange(error, nullptr));
      moved = true;
    }
    if (!left) return;
    for (size_t w = 0; w < count; w += 32)
      moved = release(w, std::min(count, w + 32), State::at_warp_barrier) || moved;
    moved = release(0, count, State::at_block_barrier) || moved;
    if (!moved)
      throw std::logic_error("threads of block " + std::to_string(block.x) + "," + std::to_string(block.y) +
                             " wait at different barriers");
  }
}

}  // namespace

void* dynamic_shared() {
  return shared.data();
}

void block_barrier() {
  yield(State::at_block_barrier);
  thread = fibers[current]->index;
}

void warp_barrier() {
  yield(State::at_warp_barrier);
  thread = fibers[current]->index;
}

uint64_t exchange(uint64_t bits, int lane_mask) {
  Fiber& f = *fibers[current];
  const int turn = f.turn;
  f.turn = 1 - turn;
  f.slots[turn] = bits;
  warp_barrier();
  return fibers[current ^ static_cast<size_t>(lane_mask)]->slots[turn];
}

Gathered gather(const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  Fiber& f = *fibers[current];
  const int turn = f.turn;
  f.turn = 1 - turn;
  std::copy_n(a, 4, f.registers[turn]);
  std::copy_n(b, 2, f.registers[turn] + 4);
  warp_barrier();
  Gathered all;
  for (size_t lane = 0; lane < 32; ++lane) all.lane[lane] = fibers[current / 32 * 32 + lane]->registers[turn];
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
  while (fibers.size() < count) fibers.push_back(std::make_unique<Fiber>());
  shared = std::vector<double>((shared_bytes + 7) / 8);  // no more: address sanitizer sees what is beyond
  for (unsigned z = 0; z < blocks.z; ++z)
    for (unsigned y = 0; y < blocks.y; ++y)
      for (unsigned x = 0; x < blocks.x; ++x) {
        block = {x, y, z};
        run_block();
      }
}

}  // namespace isobar::emulator
