// The rows of all keys that a run has with its kind of net, in the order of configs/keys.md; `net.kind`,
// which selects the kind, is none of them.
//
//   for (const KeyRow& row : key_rows(spec)) row.check(spec.file);
#pragma once
#include "model/base/spec/key_row.h"
#include "model/base/spec/spec.h"

namespace isobar {

KeyRows key_rows(RunSpec& spec);

// Its parts: net_specs/*.cpp, spec_rows_data.cpp, spec_rows_train.cpp, spec_rows_policy.cpp
void add_data_rows(KeyRows& to, RunSpec& s);
void add_train_rows(KeyRows& to, RunSpec& s);
void add_policy_rows(KeyRows& to, RunSpec& s);  // layout, policy, run

}  // namespace isobar
