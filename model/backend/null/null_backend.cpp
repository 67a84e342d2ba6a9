#include "model/backend/null/null_backend.h"

namespace isobar {

void NullBackend::launch(const Op& op, int32_t micro, int32_t slot) {
  ++launched_;
  if (op.kind != OpKind::fetch || !fetches()) return;
  fetch(op, micro, places(op, slot));
}

}  // namespace isobar
