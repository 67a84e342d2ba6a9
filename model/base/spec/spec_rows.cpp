#include "model/base/spec/spec_rows.h"

namespace isobar {

KeyRows key_rows(RunSpec& s) {
  KeyRows rows;
  rows.reserve(160);
  s.net.visit([&](auto& net) { net.add_rows(rows); });
  add_data_rows(rows, s);
  add_train_rows(rows, s);
  add_policy_rows(rows, s);
  return rows;
}

}  // namespace isobar
