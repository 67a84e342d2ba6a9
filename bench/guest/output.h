// Steps of a training in the lines of its program's output, as they come. `run.reads` says what they look
// like:
//
//   auto      any of the forms below, by line
//   json      objects with step (iteration, iter, global_step) and any of loss, seconds, step_time, ms,
//             samples_per_s, tokens_per_s
//   megatron  " iteration 10/ 100 | … elapsed time per iteration (ms): 123.4 | … lm loss: 9.1E+00 |"
//   torchtitan "step: 10  loss:  8.1  …  tps: 1,234"
//   tqdm      progress bars: Lightning's and Hugging Face's "… 10/100 [00:05<00:45, 1.98it/s, loss=0.1]", and
//             the Trainer's "{'loss': 2.31, 'grad_norm': 1.2, …}", whose loss is that of the bar's next step
//   a line with {step}, {loss}, {seconds}, {ms}, {samples_per_s}, {tokens_per_s} for its numbers and * for
//             anything between: "epoch * step {step} loss {loss} * {ms} ms"
//
//   OutputReader read("auto", 32);                       // samples of a batch
//   if (auto s = read.line(text, now_s)) use(s->step, s->seconds);
//
// A step's seconds are what the line says, else the time since the line before over the steps between.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace isobar {

struct OutputStep {
  int64_t step = 0;
  std::optional<double> seconds, loss;
};

class OutputReader {
 public:
  /// `tokens`: of a sample, 0: not a net of tokens. Throws ConfigError(file, "run.reads", …) for words that
  /// are no form and have no {step}.
  OutputReader(const std::string& reads, int64_t batch, int64_t tokens, const std::string& file);
  /// The step that a line reports; none: it reports no new one. `now`: seconds of any clock.
  std::optional<OutputStep> line(const std::string& text, double now);
  int64_t last_step() const { return last_step_; }  // -1: none yet

 private:
  using Numbers = std::map<std::string, double>;
  using Form = std::function<std::optional<Numbers>(const std::string&)>;
  std::vector<Form> forms_;
  double batch_, tokens_;
  int64_t last_step_ = -1;
  double last_at_ = -1;
  std::optional<double> loss_;  // of a line without a step
};

}  // namespace isobar
