// A trained net and the data that it is asked about: what `forecast` and `jacobian` begin with.
//
//   const NetAndData opened = open_net_and_data("runs/first", "", 0);
//   Forecaster net(opened.checkpoint, opened.state, batch, threads);
//   opened.read(i, input, target);                                    // normalised
#pragma once
#include <filesystem>
#include <memory>
#include <string>

#include "model/data/dataset.h"
#include "model/inference/checkpoint_state.h"

namespace isobar {

struct NetAndData {
  std::filesystem::path checkpoint;
  CheckpointState state;  // its channels are known, and its spec is that of the data
  std::unique_ptr<Dataset> set;

  /// Sample i, normalised as in training
  void read(int64_t i, float* input, float* target) const;
};

/// `from`: a run or a checkpoint. `data`: as data.valid, "": what the run was validated on, of which the
/// first `samples` (0: all) are taken. Throws ConfigError.
NetAndData open_net_and_data(const std::string& from, const std::string& data, int64_t samples);

/// Throws ConfigError where the file is there already.
void refuse_to_replace(const std::string& out, bool force);

}  // namespace isobar
