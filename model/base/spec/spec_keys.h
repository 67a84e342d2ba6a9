// The keys of a run configuration, documented: meaning, allowed values and default. All of it
// comes from the rows of spec_rows.h, those of kinds of nets that say the same as one.
//
//   for (const SpecKey& k : spec_keys()) std::puts((k.key + ": " + k.help).c_str());
//   std::fputs(spec_keys_markdown(spec_keys()).c_str(), stdout);   // configs/keys.md
#pragma once
#include <string>
#include <vector>

namespace isobar {

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

/// A table for each section, as configs/keys.md holds it.
std::string spec_keys_markdown(const std::vector<SpecKey>& keys);

}  // namespace isobar
