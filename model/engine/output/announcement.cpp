#include "model/engine/output/announcement.h"

#include <cstdio>

#include "model/backend/cpu/cpu_backend.h"
#include "model/base/system/files.h"
#include "model/base/text/json.h"
#include "model/engine/host/host.h"
#include "model/engine/output/run_text.h"
#include "model/engine/output/summary.h"
#include "model/inference/channel_loss.h"

namespace isobar::engine {

void record_start(const TrainContext& run, const plan::Plan& plan) {
  if (!run.log.on()) return;
  records::StartRecord start = start_of_run(run.spec, plan, run.mpi.size(), run.mpi.ranks_on_host(),
                                            run.threads, run.resume != nullptr);
  if (!run.device.gpu) start.kernels = cpu_kernels(plan);
  if (!run.options.about.empty()) start.provenance["about"] = run.options.about;
  if (run.options.expected) start.provenance["expected"] = records::to_json(*run.options.expected);
  run.log.write(std::move(start));
  write_atomically(std::filesystem::path(run.spec.run.out) / "spec.json",
                   json_text(to_json(run.spec), 1) + "\n");
}

void print_header(const TrainContext& run, const plan::Plan& plan, const RankData& data) {
  RunFacts f{.parameters = plan.parameter_count(),
             .trained = plan.trained_count(),
             .ranks = run.mpi.size(),
             .threads = run.threads};
  f.memory_bytes = static_cast<int64_t>(run.mpi.max_of(static_cast<double>(plan.memory.total())));
  f.ranks_on_host = run.mpi.ranks_on_host();
  f.steps_per_epoch = data.steps_per_epoch();
  f.samples = data.training_samples();
  f.left_out = data.left_out();
  f.flat_channels = data.flat_channels();
  f.validates = data.has_validation();
  f.first_step = run.resume ? run.resume->state.train.step : 0;
  f.micro_batch = run.micro_batch;
  f.device = run.device.gpu ? run.device.name : cpu_name();
  if (run.options.every_rank) run.say(place_text(run.spec.layout, run.mpi.rank(), run.mpi.size()));
  run.say(header_text(run.spec, f));
  if (run.resume) run.say(text_of(*run.resume) + "\n");
  if (run.resume && run.spec.train.replay_capacity > 0)
    run.say("the replay buffer's predictions are not in checkpoints: the data's states stand in for them\n");
}

void print_loss_weights(const TrainContext& run, const TrainSpec& t, const RankData& data) {
  if (!inference::weighs_channels(t) && t.intensity.empty()) return;
  const std::vector<inference::ChannelPlace> places =
      inference::places_of(run.spec, data.net_channels().targets);
  std::string text;
  char one[96];
  for (size_t c = 0; c < places.size(); ++c) {
    std::snprintf(one, sizeof one, "%s%s %.3g", c > 0 ? ", " : "", places[c].name.c_str(),
                  t.loss_weights.empty() ? 1.0 : t.loss_weights[c]);
    text += one;
    if (t.intense_weights.empty() || t.intense_weights[c] == 1) continue;
    std::snprintf(one, sizeof one, " (x %.3g above %.3g normalised)", t.intense_weights[c],
                  t.intense_above[c]);
    text += one;
  }
  run.say("loss weights " + text);
}

}  // namespace isobar::engine
