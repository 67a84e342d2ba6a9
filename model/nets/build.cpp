#include "model/nets/build.h"

#include <algorithm>
#include <set>
#include <stdexcept>

#include "model/base/error.h"
#include "model/base/spec/settings_of_others.h"
#include "model/nets/layout/legal_layout.h"
#include "model/nets/layout/plan_size.h"
#include "model/nets/step.h"
#include "model/nets/transformer/adapter.h"
#include "model/plan/layout.h"
#include "model/plan/link.h"
#include "model/plan/ops/operands.h"
#include "model/plan/ops/work.h"

namespace isobar::nets {
namespace {

// The replay buffer's bytes, on ranks that read the input: each entry may hold as many predicted times as the
// net reads.
int64_t replay_bytes(const RunSpec& spec, const plan::Plan& plan) {
  const bool reads = plan.replayed && std::any_of(plan.ops.begin(), plan.ops.end(), [&](const plan::Op& op) {
                       return op.kind == plan::OpKind::fetch && plan::out<plan::OpKind::fetch>(op, "input");
                     });
  return reads ? spec.train.replay_capacity * spec.history() * plan.replayed.count * size_of(DType::f32) : 0;
}

}  // namespace

plan::Plan build_plan(const ValidSpec& valid, int rank, const plan::Workspace& workspace, plan::PlanUse use) {
  const RunSpec& spec = valid;
  const bool input_gradient = use == plan::PlanUse::input_gradient;
  if (input_gradient && (spec.layout.world() != 1 || spec.micro_batches() != 1))
    throw std::logic_error("the gradient of an input is planned for one micro-batch on one rank");
  check_layout(spec);
  check_plan_size(spec);
  if (input_gradient && spec.train.prediction == PredictionKind::increment)
    throw ConfigError(spec.file, "train.prediction",
                      "increment has no Jacobian yet: what the newest state adds by itself is left out",
                      "take a checkpoint of a net that predicts states");
  refuse_settings_of_others(spec);
  plan::Plan plan = emit_step(spec, rank, workspace, use);
  check_names(spec, plan);
  if (input_gradient && !plan.input_gradient)
    throw ConfigError(spec.file, "net.kind",
                      spec.net.kind() + " has no Jacobian yet: its backward pass ends at its parameters",
                      "take a checkpoint of a vit, a unet, a swin or an mlp");
  // The batches that model/data's Loader holds: `prefetch` a worker and the one in use, or one batch if the
  // training thread reads itself, as it always does for validation.
  const DataSpec& d = spec.data;
  int64_t slots = d.workers == 0 ? 1 : std::max<int64_t>(1, d.workers * d.prefetch) + 1;
  if (d.validates()) ++slots;
  int64_t batch = 0;
  for (const plan::BatchTensor& t : plan.batch)
    batch += (spec.micro_batch() * t.sample * size_of(t.dtype) + 63) / 64 * 64;
  const bool reads = std::any_of(plan.ops.begin(), plan.ops.end(),
                                 [](const plan::Op& op) { return op.kind == plan::OpKind::fetch; });
  plan.memory.loader = reads ? slots * batch : 0;
  plan.memory.replay = replay_bytes(spec, plan);
  plan::place(plan);
  return plan;
}

plan::Program link_step(const RunSpec& spec, const plan::Plan& plan, int64_t ranks) {
  check_step_size(spec, plan, ranks);
  return plan::link(plan, plan.train, spec.run.serial);
}

std::vector<StageProgram> stages_of(const RunSpec& spec, const plan::Workspace& workspace, int first) {
  std::vector<StageProgram> out;
  const std::vector<int> ranks =
      spec.layout.pp > 1 ? plan::group_of(spec.layout, "pp", first) : std::vector<int>{first};
  for (const int rank : ranks) {
    StageProgram stage{build_plan(spec, rank, workspace), {}};
    stage.program = link_step(spec, stage.plan, static_cast<int64_t>(ranks.size()));
    out.push_back(std::move(stage));
  }
  return out;
}

void check_world(const RunSpec& spec, const std::vector<plan::Plan>& plans) {
  try {
    plan::check(plans);
  } catch (const std::logic_error& e) {
    const LayoutSpec& l = spec.layout;
    const auto axis = [](const char* name, int64_t n) { return name + std::to_string(n) + " "; };
    throw ConfigError(
        spec.file, "layout",
        axis("dp", l.dp) + axis("tp", l.tp) + axis("cp", l.cp) + axis("pp", l.pp) + axis("vpp", l.vpp) +
            "in order " + l.order + " under " + name_of(spec.policy.schedule) + " cannot run: " + e.what(),
        "no legal layout should come to this, so please report it; another one will do meanwhile");
  }
}

void check_world(const RunSpec& spec, const plan::Workspace& workspace) {
  const ValidSpec part = world_to_check(spec, workspace);
  std::vector<plan::Plan> plans;
  plans.reserve(static_cast<size_t>(part->layout.world()));
  for (int rank = 0; rank < part->layout.world(); ++rank) plans.push_back(build_plan(part, rank, workspace));
  check_world(part, plans);
}

void require_kernels(const RunSpec& spec, const plan::Plan& plan) {
  if (spec.net.recorded())
    throw ConfigError(
        spec.file, "net.kind", "traced is priced, not run",
        "train with your own program: run.command (bench/guest/README.md, \"Your own program\")");
  std::string missing;
  std::set<plan::OpKind> seen;
  for (const plan::Op& op : plan.ops)
    if (plan::kernel_less(op.kind) && seen.insert(op.kind).second)
      missing += (missing.empty() ? "" : ", ") + std::string(plan::name_of(op.kind));
  if (!missing.empty())
    throw ConfigError(spec.file, "policy.attention", "unfused is for predictions: no kernels run " + missing,
                      "plan and predict take it; train with flash");
  if (spec.policy.amp == Amp::fp8)
    throw ConfigError(spec.file, "policy.amp", "fp8 is for predictions: no kernels run such products",
                      "plan and predict take it; train in bf16");
}

RunSpec sample_of(RunSpec one) {
  one = without_settings_of_others(std::move(one));
  one.layout = {};
  one.policy.zero = 0;
  one.policy.offload_parameters = one.policy.sequence_parallel = false;
  one.policy.schedule = PipelineSchedule::gpipe;
  one.policy.set_recompute(Recompute::none);
  one.policy.micro_batch = 1;
  one.train.global_batch = 1;
  return one;
}

double forward_flops_per_sample(const RunSpec& spec) {
  return plan::totals(emit_step(sample_of(spec), 0, {}), 1).forward_flops;
}

double model_flops(const RunSpec& spec) {
  constexpr double kForwardAndBackward = 3;
  return kForwardAndBackward * forward_flops_per_sample(spec) * static_cast<double>(spec.train.global_batch);
}

}  // namespace isobar::nets
