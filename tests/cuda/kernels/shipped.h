// Every shipped configuration, in every precision and cut along every axis that changes the shape of
// attention or products: all must work on the first GPU.
#pragma once
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "model/base/spec/spec.h"
#include "model/nets/layout/legal_layout.h"
#include "tests/paths.h"

namespace isobar::cuda::testing {

struct ShippedRun {
  std::string name;  // "vit-1536.yaml policy.amp=bf16 layout.tp=2"
  RunSpec spec;
};

inline std::vector<ShippedRun> shipped_runs() {
  std::vector<std::string> files;
  for (const auto& f : std::filesystem::directory_iterator(source_dir() + "/configs/models"))
    if (f.path().extension() == ".yaml") files.push_back(f.path().filename().string());
  std::sort(files.begin(), files.end());
  std::vector<ShippedRun> runs;
  for (const std::string& file : files) {
    const auto add = [&](std::vector<std::string> overrides) {
      std::string name = file;
      for (const std::string& o : overrides) name += " " + o;
      runs.push_back({name, load_run_spec(source_dir() + "/configs/models/" + file, overrides)});
    };
    add({});  // its own layout and precision
    const bool language = runs.back().spec.net.words(), whole = runs.back().spec.layout.world() == 1;
    const bool fp32_ends =
        runs.back().spec.net.kind() == AuroraSpec::kKind && runs.back().spec.net.aurora().fp32_ends;
    for (const char* amp : {"none", "tf32", "bf16", "fp16"}) {
      std::vector<std::string> overrides = {std::string("policy.amp=") + amp};
      if (fp32_ends && amp == std::string("fp16"))
        overrides.emplace_back("net.fp32_ends=false");  // it has no fp16
      add(overrides);
    }
    if (language || !whole) continue;
    if (runs.back().spec.net.kind() == MlpSpec::kKind) {
      for (const char* amp : {"bf16", "fp16"})
        add({std::string("policy.amp=") + amp, "net.activation=gelu_tanh"});
      continue;
    }
    const bool has_gelu = runs.back().spec.net.visit([](const auto& n) {
      return requires {
        n.gelu;
      };
    });
    if (has_gelu) {
      add({"policy.amp=bf16", "net.gelu=tanh"});
      add({"policy.amp=fp16", "net.gelu=tanh"});
    }
    const nets::NetLimits limits = nets::limits_of(runs.back().spec.net);
    if (limits.no_tp.empty()) add({"policy.amp=bf16", "layout.tp=2"});
    for (const char* kind : {"allgather", "ring", "ulysses"})
      if (limits.no_cp.empty() && (limits.attends || std::string(kind) == "allgather"))
        add({"policy.amp=bf16", "layout.cp=2", std::string("policy.cp_kind=") + kind});
    add({"policy.amp=bf16", "layout.pp=2"});
    add({"policy.amp=bf16", "policy.micro_batch=4"});
  }
  return runs;
}

}  // namespace isobar::cuda::testing
