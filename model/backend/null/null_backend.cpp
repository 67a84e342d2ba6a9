#include "model/backend/null/null_backend.h"

namespace isobar {

void NullBackend::launch(const Op& op, int32_t micro, int32_t slot) {
  ++launched_;
  if (op.kind == OpKind::fetch && fetch_)
    fetch_(micro, reinterpret_cast<float*>(at(op.writes[0], slot)),
           reinterpret_cast<float*>(at(op.writes[1], slot)));
}

}  // namespace isobar
