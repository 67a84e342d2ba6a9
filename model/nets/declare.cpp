#include "model/nets/declare.h"

#include <algorithm>
#include <cmath>

#include "model/base/error.h"
#include "model/base/names/named_factor.h"
#include "model/nets/transformer/adapter.h"

namespace isobar::nets {

// ---- called by parts ----

void Declare::tensor(plan::View& v, bool matrix, std::vector<plan::Param> pieces, Held held) {
  tensor(v, matrix, std::move(pieces), held, TensorUse::usual);
}

void Declare::router(Linear& l, const std::string& name, int64_t in, int64_t experts) {
  l.in = in, l.out = experts;
  tensor(l.weight, true, {{name + ".weight", {experts, in}, plan::Init::normal, kSigma}}, Held::once,
         TensorUse::multiplied);
}

void Declare::state(plan::View& v, plan::Param p) {
  tensor(v, false, {std::move(p)}, Held::once, TensorUse::state);
}

void Declare::experts(Linear& l, int64_t in, int64_t out, int64_t experts,
                      const std::vector<plan::Param>& weights, bool first_alone) {
  const int64_t held = list_ ? experts : experts / at_.ep;
  // Another section's: one of them gives the widths.
  const TensorCut cut = at_.ep > 1 ? TensorCut::expert : at_.tp > 1 ? TensorCut::cut : TensorCut::whole;
  const bool here = list_ || (cut == cut_ && (matrix_ || !params_.by_reader(frozen_)));
  const auto of_one = static_cast<std::ptrdiff_t>(weights.size()) / (first_alone ? 1 : experts);
  const auto first = weights.begin() + (list_ || first_alone ? 0 : at_.owner * held * of_one);
  std::vector<plan::Param> own(first, first + (here && !first_alone ? held : 1) * of_one);
  if (here && first_alone)
    for (plan::Param& w : own) w.shape[0] *= held;
  linear(l, in, out, std::move(own), {}, TensorUse::expert);
  if (l.adapter)
    throw ConfigError(spec_.file, "train.lora_targets",
                      "name " + weights[0].name + ", and experts have no adapters",
                      "name linears of attention, as blocks.*.attn");
  l.experts = held;
}

// The pieces of one operand are all frozen or all trained.
bool Declare::frozen(const std::vector<plan::Param>& pieces) const {
  const auto is = [&](const plan::Param& p) {
    return !p.adapter && isobar::nets::frozen(spec_.train, p.name);
  };
  const bool first = is(pieces[0]);
  for (const plan::Param& p : pieces)
    if (is(p) != first)
      throw ConfigError(spec_.file, "train.freeze",
                        "freezes " + (first ? pieces[0] : p).name + " and not " +
                            (first ? p : pieces[0]).name + ", which are one matrix here",
                        "name both, or " + stem_of(pieces));
  return first;
}

void Declare::tensor(plan::View& v, bool matrix, std::vector<plan::Param> pieces, Held held, TensorUse use) {
  const bool state = use == TensorUse::state, freezes = frozen(pieces) || state;
  matrix = matrix && !f32_;
  if (list_) {
    if (held == Held::second_of_two) return;
    for (const plan::Param& p : pieces) b_.plan.tensors.push_back({p.name, p.shape, freezes});
    return;
  }
  if (held != Held::once) params_.alone(part_, held == Held::first_of_two);
  if (at_.tp == 1)
    for (plan::Param& p : pieces) p.axis = -1;
  const bool is_cut = pieces[0].axis >= 0;
  const bool partial = use == TensorUse::multiplied && !is_cut && !freezes && at_.tp > 1 && !at_.sequence;
  const bool expert = use == TensorUse::expert && at_.ep > 1;
  const TensorCut cut = expert    ? TensorCut::expert
                        : is_cut  ? TensorCut::cut
                        : state   ? TensorCut::kept
                        : partial ? TensorCut::partial
                                  : TensorCut::whole;
  if (cut == cut_ && freezes == frozen_ && (!params_.by_reader(freezes) || matrix == matrix_)) {
    const bool owner = is_cut || expert ||
                       (state || (freezes && params_.frozen_whole()) ? at_.at.tp == 0
                        : partial                                    ? at_.counts_partial
                                                                     : at_.counts_whole);
    for (plan::Param& p : pieces) {
      group(p);
      if (p.lr_factor != pieces[0].lr_factor || p.decays != pieces[0].decays)
        throw ConfigError(spec_.file, p.decays != pieces[0].decays ? "train.no_decay" : "train.lr_factors",
                          "tell " + pieces[0].name + " from " + p.name + ", which are one matrix here",
                          "name both, or " + stem_of(pieces));
      p.matrix = matrix;
      p.frozen = freezes;
      p.half = params_.halves(freezes, matrix);
      p.partial = partial;
      if (is_cut) take_part(p);
      p.expert = expert;
      p.writer = held != Held::second_of_two && owner && (expert ? writes_expert(p) : writes(p, state));
    }
    v = b_.params_together(pieces);
  }
  if (held != Held::once) params_.part(part_);
}

// This rank's part. A padded tensor is cut with its padding, so the last ranks hold less of it, or nothing.
void Declare::take_part(plan::Param& p) const {
  int64_t held = p.shape[p.axis] / at_.tp;
  if (p.reserved > 0) {
    held = p.reserved;
    for (size_t i = 0; i < p.shape.size(); ++i)
      if (static_cast<int>(i) != p.axis) held /= p.shape[i];
  }
  p.begin = std::min(p.shape[p.axis], held * at_.at.tp);
  p.extent = std::min(held, p.shape[p.axis] - p.begin);
}

// Its learning rate factor, and whether it decays.
void Declare::group(plan::Param& p) const {
  const TrainSpec& t = spec_.train;
  for (const std::string& text : t.lr_factors)
    if (const auto f = named_factor(text); f && matches(f->name, p.name)) {
      p.lr_factor = static_cast<float>(f->factor);
      break;
    }
  p.decays = std::none_of(t.no_decay.begin(), t.no_decay.end(), [&](const std::string& pattern) {
    return pattern == kVectors ? p.shape.size() == 1 : matches(pattern, p.name);
  });
}

// Declares the linear's adapter, if targeted. The factor that stays whole is multiplied by a cut operand: A
// if the linear is cut by output, B if it is cut by input.
void Declare::adapt(Linear& l, int64_t in, const std::vector<plan::Param>& weights) {
  const TrainSpec& t = spec_.train;
  if (t.lora_rank == 0) return;
  const auto targeted = [&](const plan::Param& p) { return any_matches(t.lora_targets, p.name); };
  if (!targeted(weights[0])) return;
  for (const plan::Param& w : weights)
    if (!targeted(w))
      throw ConfigError(spec_.file, "train.lora_targets",
                        "name " + weights[0].name + " and not " + w.name + ", which are one linear here",
                        "name " + stem_of(weights));
  if (!l.adapter) l.adapter = std::make_shared<Adapter>();
  auto& [a, b, scale] = *l.adapter;
  const int axis = weights[0].axis;
  const int64_t rank = t.lora_rank;
  a.in = l.in, a.out = b.in = rank, b.out = l.out;
  scale = static_cast<float>(spec_.lora_scale());
  const float bound = 1.0f / std::sqrt(static_cast<float>(in));  // PyTorch's default for a linear
  plan::Param first{stem_of(weights) + kLoraA, {rank, in}, plan::Init::uniform, bound, axis == 1 ? 1 : -1};
  first.adapter = true;
  std::vector<plan::Param> second;
  for (const plan::Param& w : weights) {
    second.push_back({stem_of({w}) + kLoraB, {w.shape[0], rank}, plan::Init::zero, 0, axis == 0 ? 0 : -1});
    second.back().adapter = true;
  }
  tensor(a.weight, true, {std::move(first)}, Held::once,
         axis == 0 ? TensorUse::multiplied : TensorUse::usual);
  tensor(b.weight, true, std::move(second), Held::once, axis == 1 ? TensorUse::multiplied : TensorUse::usual);
}

void Declare::norm(Norm& n, const std::string& name, int64_t width, double eps, bool beta, TensorUse use) {
  n.eps = static_cast<float>(eps);
  tensor(n.gamma, false, {{name + ".weight", {width}, plan::Init::one}}, Held::once, use);
  if (beta) tensor(n.beta, false, {{name + ".bias", {width}, plan::Init::zero}});
}

void Declare::linear(Linear& l, const std::string& name, int64_t in, int64_t out, int cut_axis, bool bias) {
  l.in = cut_axis == 1 ? in / at_.tp : in;
  l.out = cut_axis == 0 ? out / at_.tp : out;
  l.fp8 = fp8_;
  const plan::Param weight{name + ".weight", {out, in}, plan::Init::normal, kSigma, cut_axis};
  tensor(l.weight, true, {weight});
  if (bias) tensor(l.bias, false, {{name + ".bias", {out}, plan::Init::zero, 0, cut_axis == 0 ? 0 : -1}});
  adapt(l, in, {weight});
}

void Declare::linear(Linear& l, int64_t in, int64_t out, std::vector<plan::Param> weights,
                     std::vector<plan::Param> bias, TensorUse use) {
  l.in = weights[0].axis == 1 ? in / at_.tp : in;
  l.out = weights[0].axis == 0 ? out / at_.tp : out;
  l.fp8 = fp8_;
  tensor(l.weight, true, weights, Held::once, use);
  if (!bias.empty()) tensor(l.bias, false, std::move(bias));
  adapt(l, in, weights);
}

// ---- placement in the flat parameters ----

Declare::Declare(plan::Builder& b, const RunSpec& spec, const Sharding& at, plan::Parameters& params)
    : b_(b), spec_(spec), at_(at), params_(params), fp8_(spec.policy.amp == Amp::fp8) {
  for (int64_t r = 0; at.copies > 1 && r < at.copies; ++r) written_.push({0, -r});
}

// True if this replica writes it to checkpoints: the replica with the fewest elements so far. All replicas
// compute the same.
bool Declare::writes(const plan::Param& p, bool state) {
  const bool kept_whole = state || at_.replicas > 1 || (p.frozen && params_.frozen_whole());
  if (at_.copies == 1 || !kept_whole) return true;
  int64_t elements = p.axis >= 0 ? p.extent : 1;
  for (size_t i = 0; i < p.shape.size(); ++i)
    if (static_cast<int>(i) != p.axis) elements *= p.shape[i];
  const auto [had, who] = written_.top();
  written_.pop();
  written_.push({had - elements, who});
  return -who == at_.copy;
}

// Experts are alike, so replicas take turns.
bool Declare::writes_expert(const plan::Param& p) {
  const bool kept_whole = at_.replicas > 1 || (p.frozen && params_.frozen_whole());
  return !kept_whole || experts_written_++ % at_.expert_copies == at_.expert_copy;
}

void Declare::list(std::span<const std::unique_ptr<NetPart>> parts) {
  list_ = true;
  for (const auto& part : parts) part->declare(*this);
  list_ = false;
}

void Declare::section(const plan::Section& s, TensorCut cut, const Stage& stage,
                      std::span<const std::unique_ptr<NetPart>> parts) {
  cut_ = cut;
  matrix_ = s.matrix;
  frozen_ = s.frozen;
  params_.section(s);
  for (part_ = stage.first; part_ < stage.end; ++part_) {
    const plan::InPart here(b_, part_);
    params_.part(part_);
    f32_ = parts[part_]->in_f32();
    parts[part_]->declare(*this);
  }
}

void declare_parameters(plan::Builder& b, const RunSpec& spec, const Sharding& at, plan::Parameters& params,
                        const Stages& stages, std::span<const std::unique_ptr<NetPart>> parts) {
  Declare d(b, spec, at, params);
  d.list(parts);
  const bool some_frozen = std::any_of(b.plan.tensors.begin(), b.plan.tensors.end(),
                                       [](const plan::Tensor& t) { return t.frozen; });
  for (const bool frozen : {false, true}) {
    if (frozen && !some_frozen) continue;
    for (const TensorCut cut :
         {TensorCut::cut, TensorCut::expert, TensorCut::partial, TensorCut::whole, TensorCut::kept}) {
      if (cut == TensorCut::kept && !frozen) continue;
      if (cut == TensorCut::cut && at.tp == 1) continue;
      if (cut == TensorCut::expert && at.ep == 1) continue;
      if (cut == TensorCut::partial && (at.tp == 1 || at.sequence || frozen || !has_partial(spec))) continue;
      for (const bool matrix : {true, false}) {
        if (!matrix && !params.by_reader(frozen)) continue;
        for (const Stage& stage : stages.list())
          d.section({.chunk = stage.chunk,
                     .group = cut == TensorCut::kept      ? -1
                              : cut == TensorCut::cut     ? at.cut_group
                              : cut == TensorCut::expert  ? at.expert_group
                              : cut == TensorCut::partial ? at.partial_group
                                                          : at.whole_group,
                     .matrix = matrix,
                     .counted = cut == TensorCut::expert ||
                                (at.counts_common && (cut == TensorCut::cut       ? true
                                                      : cut == TensorCut::partial ? at.counts_partial
                                                                                  : at.counts_whole)),
                     .frozen = frozen},
                    cut, stage, parts);
      }
    }
  }
  params.end();
}

}  // namespace isobar::nets
