// The keys of a run configuration, documented: meaning, allowed values and default. Types and defaults come
// from the specification itself, meanings and allowed values from the rows of spec_keys_*.cpp.
//
//   for (const SpecKey& k : spec_keys()) std::puts((k.key + ": " + k.help).c_str());
//   std::fputs(spec_keys_markdown(spec_keys()).c_str(), stdout);   // configs/keys.md
#pragma once
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace isobar {

/// One row of the tables in spec_keys_*.cpp.
struct KeyRow {
  const char* key;     // "train.lr"
  const char* nets;    // kinds of nets that the row is for, separated by blanks; "": every kind with this key
  const char* values;  // names ("adam | adamw | sgd"), a range (">= 1", "> 0", "[0, 1)"), or ""
  const char* help;    // at most 25 words
};
std::span<const KeyRow> net_key_rows();
std::span<const KeyRow> data_key_rows();
std::span<const KeyRow> train_key_rows();
std::span<const KeyRow> policy_key_rows();  // layout, policy, run

struct SpecKey {
  std::string key;
  std::vector<std::string> nets;  // kinds with this key that the row is for
  bool every_net = false;         // nets holds all kinds that there are
  std::string type;               // "int", "float", "bool", "text", "list of text" …
  std::string values;             // as in KeyRow
  std::string preset;             // default; where kinds differ "384; unet 96"
  std::string help;
};
/// All rows in the order in which they are documented. A row is left out if no kind of net has its key.
std::vector<SpecKey> spec_keys();

/// Keys of a net of this kind with their types, in the specification's order (spec.cpp).
std::vector<std::pair<std::string, std::string>> key_types(const std::string& kind);

/// A table for each section, as configs/keys.md holds it.
std::string spec_keys_markdown(const std::vector<SpecKey>& keys);

}  // namespace isobar
