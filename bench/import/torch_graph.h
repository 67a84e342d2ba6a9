// A net written in PyTorch, recorded by torch_graph.py in the user's Python as a file for net.kind traced.
//
//   if (is_torch_target("net.py:build"))
//     std::fputs(import_torch_net("net.py:build", {.inputs = {"3x224x224"}, .out = "net.json"}).c_str(),
//     stdout);
#pragma once
#include <string>
#include <vector>

namespace isobar::foreign {

/// True for net.py:build and package.module:build: what builds a model, not a file.
bool is_torch_target(const std::string& text);

struct TorchNetImport {
  std::vector<std::string> inputs;  // of one sample: "3x224x224", "tokens=1024:int64"
  std::string loss;                 // mse | cross_entropy; "": the model's own, else mse
  std::string python;               // "": $ISOBAR_PYTHON, else python3 of PATH
  std::string out;
};
/// Returns what was recorded and assumed, in lines. Throws ConfigError for what cannot be recorded.
std::string import_torch_net(const std::string& target, const TorchNetImport& options);

}  // namespace isobar::foreign
