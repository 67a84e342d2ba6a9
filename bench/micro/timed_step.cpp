#include "bench/micro/timed_step.h"

#include <omp.h>

#include <chrono>
#include <set>

#include "bench/micro/inputs.h"
#include "model/base/step_stats.h"
#include "model/base/system/denormals.h"
#include "model/nets/build.h"
#include "perfmodel/step/shapes.h"

namespace isobar::micro {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kWarmSteps = 3;  // at most: create primitives, touch pages
constexpr std::chrono::milliseconds kWarmTime{200};
constexpr int kLeastSteps = 2;  // in each repetition
constexpr std::chrono::milliseconds kRepetitionTime{400};

}  // namespace

TimedStep::TimedStep(const RunSpec& spec, int threads)
    : plan(nets::build_plan(spec, 0, cpu_workspace(threads))),
      dtype_(spec.policy.amp == Amp::bf16 ? "bf16" : "f32"),
      threads_(threads),
      program_(plan::link(plan, plan.train, /*serial=*/true)),
      arena_(plan.memory.arena),
      backend_(plan, arena_.data()) {
  backend_.load_constants();
  for (const plan::Op& op : plan.ops) fill(op);
}

double TimedStep::seconds(const std::string& name, int repetition) {
  while (medians_.size() <= static_cast<size_t>(repetition)) measure();
  return medians_[static_cast<size_t>(repetition)].at(name);
}

std::vector<const plan::Op*> TimedStep::distinct() const {
  std::vector<const plan::Op*> ops;
  std::set<std::string> seen;
  for (const plan::Instr& i : program_.instrs) {
    const plan::Op& op = plan.ops[i.op];
    if (op.kind != plan::OpKind::fetch && !plan::is_collective(op.kind) && seen.insert(name(op)).second)
      ops.push_back(&op);
  }
  return ops;
}

std::string TimedStep::name(const plan::Op& op) const {
  return perf::case_name(op, dtype_, threads_);
}

void TimedStep::measure() {
  const auto warm = Clock::now() + kWarmTime;
  for (int i = 0; i == 0 || (i < kWarmSteps && Clock::now() < warm); ++i) run([](const plan::Op&, double) {});
  std::vector<std::vector<double>> of_op(plan.ops.size());  // by index: no name look-ups between timed ops
  const auto end = Clock::now() + kRepetitionTime;
  for (int i = 0; i < kLeastSteps || Clock::now() < end; ++i)
    run([&](const plan::Op& op, double s) {
      of_op[static_cast<size_t>(&op - plan.ops.data())].push_back(s);
    });
  std::map<std::string, std::vector<double>> times;
  for (size_t i = 0; i < of_op.size(); ++i)
    if (!of_op[i].empty()) {
      std::vector<double>& all = times[name(plan.ops[i])];
      all.insert(all.end(), of_op[i].begin(), of_op[i].end());
    }
  auto& medians = medians_.emplace_back();
  for (const auto& [op, all] : times) medians[op] = quantile(all, 0.5);
}

void TimedStep::run(const std::function<void(const plan::Op&, double)>& took) {
  flush_denormals();
  omp_set_num_threads(threads_);
  for (const plan::Instr& i : program_.instrs) {
    const plan::Op& op = plan.ops[i.op];
    if (plan::is_collective(op.kind)) continue;  // there is one rank
    if (op.kind == plan::OpKind::fetch) {        // load a batch
      fill(op);
      continue;
    }
    const auto start = Clock::now();
    backend_.launch(op, i.micro, i.slot);
    took(op, std::chrono::duration<double>(Clock::now() - start).count());
  }
}

void TimedStep::fill(const plan::Op& op) {
  fill_inputs(op, plan, [this](const plan::View& v) { return backend_.at(v); });
}

}  // namespace isobar::micro
