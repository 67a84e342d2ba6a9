// Short unique names for trials and runs, built from the settings that vary among them, for axes, tables and
// tooltips. The layout comes first: "dp2 tp1 bf16 w2 mb4" is two replicas of one tensor-parallel rank, 2
// loader workers, 4 samples a micro-batch.
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

#include "model/base/spec/spec.h"

namespace isobar::records {

struct Nameable {
  const RunSpec* spec = nullptr;         // resolved
  const nlohmann::json* axes = nullptr;  // axes of its sweep; an empty object: not part of a sweep
  int64_t repetition = 0;
  bool again = false;  // repeat of a contended trial
  std::string set;     // name of its set of results; "": there is one set
};

struct Names {
  std::vector<std::string> varied;  // varying keys, in the order of the words
  // One entry a run, in order:
  std::vector<std::map<std::string, std::string>> settings;  // by varied key
  std::vector<std::string> layouts;                          // sizes that vary; else those above 1
  std::vector<std::string> names;                            // repetitions of one specification share it
  std::vector<std::string> labels;                           // unique
};

Names name_by_difference(const std::vector<Nameable>& all);

/// A label as the name of a folder.
std::string folder_name(std::string label);

/// The full layout of one run: "dp2 tp2 sp", "1 rank".
std::string layout_words(const RunSpec& spec);
/// True for keys that are part of a layout's name.
bool is_layout_key(const std::string& key);
/// "policy.amp" -> "amp": the part after the last dot.
std::string last_word(const std::string& key);

}  // namespace isobar::records
