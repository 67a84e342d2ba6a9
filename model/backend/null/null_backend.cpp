#include "model/backend/null/null_backend.h"

namespace isobar {

void NullBackend::launch(const Op& op, int32_t micro, int32_t slot) {
  ++launched_;
  if (op.kind != OpKind::fetch || !fetches()) return;
  const auto place = [&](const View& v) { return v ? reinterpret_cast<float*>(at(v, slot)) : nullptr; };
  fetch(op, micro, place(op.writes[0]), place(op.writes[1]));
}

}  // namespace isobar
