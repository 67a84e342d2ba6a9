// Runs a plan without computing, to measure the engine's own cost and to check that a plan can run.
#pragma once
#include "model/backend/backend.h"

namespace isobar {

class NullBackend : public Backend {
 public:
  NullBackend(const plan::Plan& plan, std::byte* arena) : Backend(plan, arena, arena + plan.memory.arena) {}
  void launch(const plan::Op& op, int32_t micro, int32_t slot) override {
    ++launched_;
    if (op.kind != plan::OpKind::fetch || !fetches()) return;
    fetch(op, micro, places(op, slot));
  }
  const char* name() const override { return "null"; }
  int64_t launched() const { return launched_; }

 private:
  int64_t launched_ = 0;
};

}  // namespace isobar
