// Names for trials and runs: what varies among them, and nothing else, as short as it can be while it still
// tells them apart, because names stand on axes, in tables and in tooltips. Layout first: "dp2 tp1 bf16 w2
// mb4" is two replicas of one tensor-parallel rank, 2 loader workers, 4 samples a micro-batch.
//
//   const Names n = name_by_difference({{&a.spec, &a.axes}, {&b.spec, &b.axes}});
//   n.names[0], n.layouts[0]             // "dp2 tp1 bf16", "dp2 tp1"
//   n.labels[0]                          // "dp2 tp1 bf16 #2" where it is one of several repetitions
#pragma once
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/base/spec.h"

namespace isobar {

struct Nameable {
  const RunSpec* spec = nullptr;         // resolved
  const nlohmann::json* axes = nullptr;  // what its sweep varies; an empty object: it is of none
  int64_t repetition = 0;
  bool again = false;  // the repeat of a contended trial
  std::string set;     // of several sets of results the one it is of; "": there is one
};

struct Names {
  std::vector<std::string> varied;  // keys, in order of the words
  // One for each, in their order:
  std::vector<std::map<std::string, std::string>> settings;  // by varied key
  std::vector<std::string> layouts;                          // sizes that vary; else those above 1
  std::vector<std::string> names;                            // repetitions of one specification share it
  std::vector<std::string> labels;                           // all different
};

Names name_by_difference(const std::vector<Nameable>& all);

/// The whole layout of one run: "dp2 tp2 sp", "1 rank".
std::string layout_words(const RunSpec& spec);
/// Whether layouts are named by it.
bool is_layout_key(const std::string& key);
/// "policy.amp" -> "amp": what stands behind the last point.
std::string last_word(const std::string& key);

}  // namespace isobar
