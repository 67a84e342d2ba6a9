#include "model/nets/traced/tensor_cut.h"

#include <algorithm>

#include "model/base/error.h"
#include "model/nets/traced/aten.h"

namespace isobar::nets {
namespace {

using Axes = std::map<std::string, int>;
using Sizes = std::map<std::string, int64_t>;
constexpr const char *kTensorKey = "net.tensor",
                     *kTensorMend = "write \"blocks.*.attn.qkv: columns\" or \"…: rows\"";

/// `*` stands for any one name between dots.
bool fits_module(std::string_view pattern, std::string_view path) {
  while (!pattern.empty() && !path.empty()) {
    const size_t a = std::min(pattern.find('.'), pattern.size()), b = std::min(path.find('.'), path.size());
    if (pattern.substr(0, a) != "*" && pattern.substr(0, a) != path.substr(0, b)) return false;
    pattern.remove_prefix(std::min(a + 1, pattern.size()));
    path.remove_prefix(std::min(b + 1, path.size()));
  }
  return pattern.empty() && path.empty();
}

Axes axes_of(const TracedSpec& spec, const TracedNet& net) {
  Axes axes;
  for (const std::string& word : spec.tensor) {
    const size_t colon = word.find(':');
    const size_t first = colon == std::string::npos ? colon : word.find_first_not_of(' ', colon + 1);
    const std::string pattern = word.substr(0, colon),
                      how = first == std::string::npos ? "" : word.substr(first);
    if (how != "columns" && how != "rows")
      throw ConfigError(spec.file, kTensorKey, "'" + word + "' says neither columns nor rows", kTensorMend);
    bool found = false;
    for (const TracedNet::Parameter& p : net.parameters) {
      const size_t dot = p.name.rfind('.');
      if (dot == std::string::npos || !fits_module(pattern, p.name.substr(0, dot))) continue;
      const std::string kind = p.name.substr(dot + 1);
      if (p.shape.size() > 2 || (kind == "weight" && p.shape.size() != 2) ||
          (kind != "weight" && kind != "bias"))
        throw ConfigError(spec.file, kTensorKey, "cuts " + p.name + ", which is of no linear layer",
                          kTensorMend);
      found = true;
      if (kind == "weight") axes[p.name] = how == "columns" ? 0 : 1;
      if (kind == "bias" && how == "columns") axes[p.name] = 0;
    }
    if (!found)
      throw ConfigError(spec.file, kTensorKey, "'" + pattern + "' is no linear layer of the net",
                        kTensorMend);
  }
  return axes;
}

/// Cuts one definition.
class DefinitionCutter {
 public:
  DefinitionCutter(TracedDefinition& d, const TracedPart& part, const Axes& axes, const std::string& file,
                   int64_t tp, Sizes& sizes)
      : d_(d),
        part_(part),
        file_(file),
        tp_(tp),
        sizes_(sizes),
        cut_(d.values.size()),
        weight_(d.values.size()) {
    for (size_t i = 0; i < d.parameters.size(); ++i) {
      const auto axis = axes.find(part.parameters[i]);
      weight_[at(d.parameters[i].value)] = true;
      if (axis == axes.end()) continue;
      any_ = cut_[at(d.parameters[i].value)] = true;
      size(part.parameters[i], d.parameters[i].shape[static_cast<size_t>(axis->second)]);
    }
  }

  void run() {
    if (!any_) return;
    for (bool more = true; more;) {  // an op may write to what an earlier one made
      const std::vector<bool> before = cut_;
      for (TracedOp& op : d_.forward) follow(op, false);
      for (TracedOp& op : d_.backward) follow(op, true);
      more = cut_ != before;
    }
    check_ends();
    for (auto* ops : {&d_.forward, &d_.backward})
      for (TracedOp& op : *ops) divide(op);
    for (size_t v = 0; v < d_.values.size(); ++v)
      if (cut_[v]) divide(d_.values[v].bytes);
  }

 private:
  static size_t at(int32_t value) { return static_cast<size_t>(value); }
  bool cut(const TracedOperand& o) const { return cut_[at(o.value)]; }
  bool weight(const TracedOperand& o) const { return weight_[at(o.value)]; }
  void divide(TracedSize& s) const { s.fixed /= tp_, s.each /= tp_; }
  void size(const std::string& name, int64_t n) { sizes_[name] = n; }
  [[noreturn]] void refuse(const TracedOp& op, const std::string& what) const {
    throw ConfigError(file_, kTensorKey,
                      "cannot cut " + part_.path + (op.module.empty() ? "" : "." + op.module) + ": " + op.op +
                          " (" + op.line + ") " + what,
                      "put rows before it, or leave that module whole");
  }
  void mark(TracedOp& op) {
    for (const TracedOperand& o : op.out) cut_[at(o.value)] = true;
    if (op.op == "_to_copy" && weight(op.in[0])) weight_[at(op.out[0].value)] = true;
  }
  static bool batched(const TracedOp& op) { return op.op == "bmm" || op.op == "baddbmm"; }
  static size_t factor(const TracedOp& op) { return op.op == "addmm" || op.op == "baddbmm" ? 1 : 0; }

  // An op's results are cut as its operands are, partial sums, or refused.
  void follow(TracedOp& op, bool backward) {
    if (op.op == "_to_copy" && op.in.size() == 1 && weight(op.in[0])) weight_[at(op.out[0].value)] = true;
    if (std::none_of(op.in.begin(), op.in.end(), [&](const TracedOperand& o) { return cut(o); })) return;
    switch (aten_class(op)) {
      case AtenClass::product:
        return product(op);
      case AtenClass::attention:
        if (!cut(op.in[0]) || !cut(op.in[1]) || !cut(op.in[2]))
          refuse(op, "has heads that are cut and heads that are not");
        return mark(op);
      case AtenClass::convolution:
        return refuse(op, "is no product of a linear layer");
      case AtenClass::nothing:
        return mark(op);
      case AtenClass::row:
      case AtenClass::unknown:
        return row(op, backward);
    }
  }

  void product(TracedOp& op) {
    const size_t a = factor(op), b = a + 1;
    if (op.in.size() <= b || op.out.empty() || op.in[b].shape.size() < 2)
      refuse(op, "is no product of two matrices");
    const TracedOperand &x = op.in[a], &y = op.in[b];
    if (batched(op)) {
      if (!cut(x) || !cut(y)) refuse(op, "multiplies what is cut with what is not");
      return mark(op);
    }
    if (cut(x) && cut(y)) {
      op.partial = true;
      return;
    }
    const bool whole_weight = (cut(x) && weight(y)) || (cut(y) && weight(x));
    if (whole_weight || (!cut(x) && !cut(y)))
      refuse(op, "multiplies what is cut with a weight that is whole");
    mark(op);
  }

  void row(TracedOp& op, bool backward) {
    const AtenRow r = aten_row(op);
    if (op.op.find("norm") != std::string::npos) refuse(op, "normalises what is cut");
    if (r.price == plan::PriceClass::loss || op.op.starts_with("_log_softmax"))
      refuse(op, "is a loss of what is cut");
    if (op.op == "embedding") refuse(op, "is no linear layer");
    if (r.price == plan::PriceClass::reduction && !backward) refuse(op, "reduces what is cut");
    if (op.pointwise) {
      int64_t most = 0;
      for (const TracedOperand& o : op.in)
        if (cut(o)) most = std::max(most, o.elements(1));
      for (const TracedOperand& o : op.in)
        if (!cut(o) && o.elements(1) == most && most > 1 && !weight(o))
          refuse(op, "joins what is cut and what is not");
    }
    mark(op);
  }

  void check_ends() const {
    for (const auto* ends : {&d_.gives, &d_.gradients_out, &d_.carried_out})
      for (const int32_t v : *ends)
        if (v >= 0 && cut_[at(v)])
          throw ConfigError(file_, kTensorKey, "leaves the results of " + part_.path + " cut",
                            "give its last linear layer rows");
    for (size_t i = 0; i < d_.parameters.size(); ++i) {
      const TracedDefinition::Parameter& p = d_.parameters[i];
      if (p.gradient >= 0 && cut_[at(p.gradient)] != cut_[at(p.value)])
        throw ConfigError(file_, kTensorKey, "does not cut " + part_.parameters[i] + " as its gradient is",
                          "cut both ends of what it multiplies");
    }
  }

  // ---- sizes ----

  void divide(TracedOp& op) {
    switch (aten_class(op)) {
      case AtenClass::product:
        return divide_product(op);
      case AtenClass::attention:
        for (auto* side : {&op.in, &op.out})
          for (TracedOperand& o : *side)
            if (cut(o) && o.shape.size() > 1) {
              size("heads of " + part_.kind, o.shape[1].fixed);
              divide(o.shape[1]);
            }
        return;
      default:
        for (auto* side : {&op.in, &op.out})
          for (TracedOperand& o : *side)
            if (cut(o)) divide_any(op, o);
    }
  }

  void divide_product(TracedOp& op) {
    const size_t a = factor(op), b = a + 1;
    TracedOperand &x = op.in[a], &y = op.in[b], &z = op.out[0];
    const auto from_end = [&](TracedOperand& o, size_t i) {
      if (o.shape.size() >= i) divide(o.shape[o.shape.size() - i]);
    };
    if (a == 1 && cut(op.in[0])) from_end(op.in[0], 1);
    if (!cut(x) && !cut(y)) return;
    if (batched(op)) {
      size("heads of " + part_.kind, x.shape[0].at(1));
      for (TracedOperand* o : {&x, &y, &z}) divide(o->shape[0]);
    } else if (cut(x) && cut(y)) {
      from_end(x, 1), from_end(y, 2);
    } else {
      from_end(cut(x) ? x : y, cut(x) ? 2 : 1);
      from_end(z, cut(x) ? 2 : 1);
    }
  }

  // Only the number of its elements counts.
  void divide_any(const TracedOp& op, TracedOperand& o) const {
    if (tp_ == 1 || o.elements(1) <= 1) return;
    for (const bool free : {false, true})
      for (size_t i = o.shape.size(); i-- > 0;) {
        TracedSize& s = o.shape[i];
        if ((s.each != 0) == free && s.fixed % tp_ == 0 && s.each % tp_ == 0) return divide(s);
      }
    refuse(op, "has no size that " + std::to_string(tp_) + " ranks divide");
  }

  TracedDefinition& d_;
  const TracedPart& part_;
  const std::string& file_;
  const int64_t tp_;
  Sizes& sizes_;
  std::vector<bool> cut_, weight_;  // by value: each rank has its share of it; it is a parameter, or one cast
  bool any_ = false;
};

/// Equal parts have one definition, so they are cut alike.
void check_alike(const TracedSpec& spec, const TracedGraph& g, const Axes& axes) {
  std::map<int32_t, const TracedPart*> first;
  const auto axis = [&](const std::string& name) {
    const auto found = axes.find(name);
    return found == axes.end() ? -1 : found->second;
  };
  for (const TracedPart& part : g.parts) {
    const TracedPart& one = *first.try_emplace(part.definition, &part).first->second;
    for (size_t i = 0; i < part.parameters.size(); ++i)
      if (axis(part.parameters[i]) != axis(one.parameters[i]))
        throw ConfigError(
            spec.file, kTensorKey,
            "cuts " + part.parameters[i] + " otherwise than " + one.parameters[i] + ", its equal",
            "name both, as with blocks.*");
  }
}

}  // namespace

TensorCutNet tensor_cut(const TracedSpec& spec, Amp amp, int64_t tp) {
  const std::shared_ptr<const TracedNet> net = spec.net();
  TensorCutNet out{{net, &net->graph(amp)}, {}, {}};
  if (spec.tensor.empty()) return out;
  out.axes = axes_of(spec, *net);
  check_alike(spec, *out.graph, out.axes);
  auto graph = std::make_shared<TracedGraph>(*out.graph);
  std::map<int32_t, const TracedPart*> first;
  for (const TracedPart& part : graph->parts) first.try_emplace(part.definition, &part);
  for (const auto& [index, part] : first)
    DefinitionCutter(graph->definitions[static_cast<size_t>(index)], *part, out.axes, spec.file, tp,
                     out.sizes)
        .run();
  out.graph = graph;
  return out;
}

}  // namespace isobar::nets
