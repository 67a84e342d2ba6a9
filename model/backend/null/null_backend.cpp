#include "model/backend/null/null_backend.h"

namespace isobar {

void NullBackend::launch(const plan::Op& op, int32_t micro, int32_t slot) {
  ++launched_;
  if (op.kind != plan::OpKind::fetch || !fetches()) return;
  fetch(op, micro, places(op, slot));
}

}  // namespace isobar
