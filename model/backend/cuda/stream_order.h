// A linked program on streams: every op on its lane's stream in program order, an event after each op that
// another lane waits for, and only the program's waits.
//
//   const StreamOrder order(program);
//   for (const Enqueue& e : order.list) { wait for events e.waits; launch; if (e.event >= 0) record it }
//
// Pure, so that it can be tested without a GPU.
#pragma once
#include <array>
#include <vector>

#include "model/plan/link.h"

namespace isobar::cuda {

struct Enqueue {
  int32_t instr;  // index into the program
  plan::Lane lane;
  std::vector<int32_t> waits;  // events of other lanes, all recorded earlier in the list
  int32_t event = -1;          // recorded after it; -1: no lane waits for it
};

struct StreamOrder {
  explicit StreamOrder(const plan::Program& program);
  std::vector<Enqueue> list;  // in program order
  int32_t events = 0;
  std::array<bool, plan::kLanes> used{};
};

}  // namespace isobar::cuda
