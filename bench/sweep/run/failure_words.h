// The words by which programs say why they failed: of PyTorch, JAX, TensorFlow, CUDA and ROCm, NCCL and Gloo,
// Python, argparse, Hydra, shells and Slurm.
//
//   if (const auto said = failure_said_in(errors)) use(said->run_class, said->line);
#pragma once
#include <optional>
#include <string>

#include "model/records/run_class.h"

namespace isobar::sweep {

struct SaidFailure {
  records::RunClass run_class = records::RunClass::crash;
  const char* title = "";  // "out of device memory"
  std::string line;        // that says it
};

/// The most telling failure that the text names: memory before the lost connections that follow from it. A
/// program that has trained lacked no module, driver or argument, whatever it warned of.
std::optional<SaidFailure> failure_said_in(const std::string& text, bool trained = false);
/// True if the text names a failure of this class.
bool says_failure(records::RunClass run_class, const std::string& text);

}  // namespace isobar::sweep
