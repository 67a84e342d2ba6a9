#include "model/backend/cuda/stream_order.h"

namespace isobar::cuda {

StreamOrder::StreamOrder(const plan::Program& program) {
  std::vector<int32_t> event_of(program.instrs.size(), -1);
  list.reserve(program.instrs.size());
  for (size_t i = 0; i < program.instrs.size(); ++i) {
    const plan::Instr& instr = program.instrs[i];
    Enqueue e{static_cast<int32_t>(i), instr.lane, {}};
    for (const int32_t other : instr.waits) {
      int32_t& event = event_of[static_cast<size_t>(other)];
      if (event < 0) {
        event = events++;
        list[static_cast<size_t>(other)].event = event;
      }
      e.waits.push_back(event);
    }
    used[static_cast<size_t>(instr.lane)] = true;
    list.push_back(std::move(e));
  }
}

}  // namespace isobar::cuda
