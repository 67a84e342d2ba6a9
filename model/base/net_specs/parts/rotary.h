// Rotary position embedding (Su 2021) and its stretching for longer contexts: position t turns the i-th pair
// of a head of d columns by t theta^(-2 i / d).
#pragma once
#include <cstdint>

#include "model/base/net_specs/net_answers.h"

namespace isobar {

struct RotarySpec {
  double theta = 10000;
  RopeScaling scaling = RopeScaling::llama3;
  double factor = 1;               // of the contexts' length; 1: angles are as above
  int64_t original_length = 8192;  // tokens of the contexts before
  double beta_fast = 32,
         beta_slow = 1;  // yarn: turns in those, from which pairs stay, and below which all stretch
  double mscale = 0, mscale_all_dim = 0;  // yarn, as DeepSeek's: of angles and of scores; 0: not said
  void add_rows(KeyRows& to);
  void check(const SpecCheck& check) const;
};

}  // namespace isobar
