#include "model/nets/declare.h"

namespace isobar {

// ---- what parts say ----

void Declare::tensor(View& v, bool matrix, std::vector<Param> pieces, Held held) {
  if (list_) {
    if (held == Held::second_of_two) return;
    for (const Param& p : pieces) b_.plan.tensors.push_back({p.name, p.shape});
    return;
  }
  if (held != Held::once) params_.alone(part_, held == Held::first_of_two);
  if (at_.tp == 1)
    for (Param& p : pieces) p.axis = -1;
  const bool is_cut = pieces[0].axis >= 0;
  if (is_cut == cut_ && (!params_.by_reader() || matrix == matrix_)) {
    for (Param& p : pieces) {
      p.matrix = matrix;
      if (is_cut) {
        p.extent = p.shape[p.axis] / at_.tp;
        p.begin = p.extent * at_.at.tp;
      }
      p.writer = held != Held::second_of_two && (is_cut || at_.counts_whole) && writes(p);
    }
    v = b_.params_together(pieces);
  }
  if (held != Held::once) params_.part(part_);
}

void Declare::norm(Norm& n, const std::string& name, int64_t width, double eps, bool beta) {
  n.eps = static_cast<float>(eps);
  tensor(n.gamma, false, {{name + ".weight", {width}, Init::one}});
  if (beta) tensor(n.beta, false, {{name + ".bias", {width}, Init::zero}});
}

void Declare::linear(Linear& l, const std::string& name, int64_t in, int64_t out, int cut_axis, bool bias) {
  l.in = cut_axis == 1 ? in / at_.tp : in;
  l.out = cut_axis == 0 ? out / at_.tp : out;
  l.fp8 = fp8_;
  tensor(l.weight, true, {{name + ".weight", {out, in}, Init::normal, kSigma, cut_axis}});
  if (bias) tensor(l.bias, false, {{name + ".bias", {out}, Init::zero, 0, cut_axis == 0 ? 0 : -1}});
}

void Declare::linear(Linear& l, int64_t in, int64_t out, std::vector<Param> weights,
                     std::vector<Param> bias) {
  l.in = in;
  l.out = weights[0].axis == 0 ? out / at_.tp : out;
  l.fp8 = fp8_;
  tensor(l.weight, true, std::move(weights));
  if (!bias.empty()) tensor(l.bias, false, std::move(bias));
}

// ---- where they lie ----

Declare::Declare(Builder& b, const RunSpec& spec, const Sharding& at, Parameters& params)
    : b_(b), at_(at), params_(params), fp8_(spec.policy.amp == "fp8") {
  for (int64_t r = 0; at.replicas > 1 && r < at.replicas; ++r) written_.push({0, -r});
}

// Whether this replica is the one that writes it: whoever has the least so far, all replicas count alike.
bool Declare::writes(const Param& p) {
  if (at_.replicas == 1) return true;
  int64_t elements = p.axis >= 0 ? p.extent : 1;
  for (size_t i = 0; i < p.shape.size(); ++i)
    if (static_cast<int>(i) != p.axis) elements *= p.shape[i];
  const auto [had, who] = written_.top();
  written_.pop();
  written_.push({had - elements, who});
  return -who == at_.replica;
}

void Declare::list(std::span<const std::unique_ptr<NetPart>> parts) {
  list_ = true;
  for (const auto& part : parts) part->declare(*this);
  list_ = false;
}

void Declare::section(const Section& s, bool cut, const Stage& stage,
                      std::span<const std::unique_ptr<NetPart>> parts) {
  cut_ = cut;
  matrix_ = s.matrix;
  params_.section(s);
  for (part_ = stage.first; part_ < stage.end; ++part_) {
    const InPart here(b_, part_);
    params_.part(part_);
    parts[part_]->declare(*this);
  }
}

void declare_parameters(Builder& b, const RunSpec& spec, const Sharding& at, Parameters& params,
                        const Stages& stages, std::span<const std::unique_ptr<NetPart>> parts) {
  Declare d(b, spec, at, params);
  d.list(parts);
  for (const bool cut : {true, false}) {
    if (cut && at.tp == 1) continue;
    for (const bool matrix : {true, false}) {
      if (!matrix && !params.by_reader()) continue;
      for (const Stage& stage : stages.list())
        d.section({.chunk = stage.chunk,
                   .group = cut ? at.cut_group : at.whole_group,
                   .matrix = matrix,
                   .counted = cut || at.counts_whole},
                  cut, stage, parts);
    }
  }
  params.end();
}

}  // namespace isobar
