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

  /// Sample i, normalised as in training. `mask`: where the target counts, of a net that was trained with one
  void read(int64_t i, float* input, float* target, float* mask = nullptr) const;
  /// [channels, points] of a sample in physical units, as training has them: what is left out is the mean.
  void normalised(const std::vector<NetChannel>& channels, int64_t points, const float* x, float* out) const;
};

/// `from`: a run or a checkpoint. `data`: as data.valid, "": what the run was validated on, of which the
/// first `samples` (0: all) are taken. A sample has the targets of `steps` steps (0: as many as the net was
/// trained to roll out). Throws ConfigError.
NetAndData open_net_and_data(const std::string& from, const std::string& data, int64_t samples,
                             int64_t steps = 1);

/// Throws ConfigError where the file is there already.
void refuse_to_replace(const std::string& out, bool force);

}  // namespace isobar
