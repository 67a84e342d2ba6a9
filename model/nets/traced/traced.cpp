#include "model/nets/traced/traced.h"

#include <algorithm>
#include <map>
#include <set>

#include "model/base/error.h"
#include "model/base/spec/traced_net.h"
#include "model/nets/kinds.h"
#include "model/nets/tied.h"
#include "model/nets/traced/aten.h"
#include "model/nets/traced/tensor_cut.h"
#include "model/nets/traced/traced_part.h"

namespace isobar::nets {
namespace {

/// The parts of a spec, which may be fewer than its file's: equal ones stand for each other.
class KeptParts {
 public:
  explicit KeptParts(const TracedSpec& n) : kept_(n.part_indices()), same_(n.net()->same_as()) {}
  const std::vector<int32_t>& kept() const { return kept_; }
  int32_t place(int32_t part) const {  // -1: left out
    const auto at = std::lower_bound(kept_.begin(), kept_.end(), part);
    return at != kept_.end() && *at == part ? static_cast<int32_t>(at - kept_.begin()) : -1;
  }
  /// The links between kept parts; what a part left out gives, the last kept one like it gives.
  std::vector<TracedLink> links(const std::vector<TracedLink>& all) const {
    std::vector<TracedLink> out;
    for (TracedLink l : all) {
      const bool forward = l.from < l.to;
      const int32_t to = place(l.to);
      int32_t from = place(l.from);
      for (int32_t p = l.from; from < 0 && p >= 0 && p < static_cast<int32_t>(same_.size());
           p += forward ? -1 : 1)
        if (same_[static_cast<size_t>(p)] == same_[static_cast<size_t>(l.from)]) from = place(p);
      if (to < 0 || from < 0) continue;
      l.from = from, l.to = to;
      out.push_back(l);
    }
    return out;
  }

 private:
  const std::vector<int32_t> kept_, same_;
};

class Traced : public Net {
 public:
  Traced(const TracedSpec& n, Emission& e, const Sharding& at)
      : at_(at), kept_(n), cut_(tensor_cut(n, e.spec.policy.amp, at.tp)), shared_{e,         at,
                                                                                  n.net(),   *cut_.graph,
                                                                                  cut_.axes, n.compiled} {
    check_priced(n);
    for (const TracedNet::Parameter& p : shared_.net->parameters) shared_.shapes[p.name] = &p;
    if (at.pp > 1)
      for (const auto& [name, readers] : shared_.net->shared_parameters()) shared_.twice.insert(name);
    add_parts(n);
    const std::vector<TracedLink> links = kept_.links(shared_.graph.links);
    std::vector<std::vector<int32_t>> gives(parts_.size());
    for (const TracedLink& l : links) {
      const TracedDefinition& d = of(l.from);
      const TracedValue& v = d.values[static_cast<size_t>(d.result(l.out))];
      streams_.push_back({"x" + (l.in > 0 ? std::to_string(l.in) : ""), l.from, l.to, v.type.stored,
                          std::max<int64_t>(1, v.count(at.batch))});
      gives[static_cast<size_t>(l.from)].push_back(l.out);
    }
    for (size_t i = 0; i < parts_.size(); ++i) part(i).set_results(std::move(gives[i]));
    std::vector<std::vector<std::pair<int32_t, int32_t>>> carried(parts_.size());
    for (size_t i = 0; i < parts_.size(); ++i)
      carried[i].resize(of(static_cast<int32_t>(i)).carried_out.size());
    for (const TracedLink& l : kept_.links(shared_.graph.carried))
      carried[static_cast<size_t>(l.from)][static_cast<size_t>(l.out)] = {l.to, l.in};
    if (!shared_.twice.empty()) tie(carried.back());
    for (size_t i = 0; i < parts_.size(); ++i) part(i).set_carried(std::move(carried[i]));
    add_batch();
    metrics_ = {{"loss", 0, 1}};
  }
  plan::ImageAttrs fetch() const override { return {.rows = at_.full_rows, .batch = at_.batch}; }
  void before_optimizer(const plan::Parameters& params) override {
    for (const std::string& name : shared_.twice)
      if (const auto held = shared_.parameters.find(name); held != shared_.parameters.end())
        sum_tied_gradient(shared_.e, at_, params, held->second);
  }
  void fetched(size_t tensor, const plan::View& v) override {
    const auto [at, place] = readers_.at(tensor);
    part(at).set_batch(place, v);
  }

 private:
  const TracedDefinition& of(int32_t i) const {
    return shared_.graph.of(kept_.kept()[static_cast<size_t>(i)]);
  }
  TracedNetPart& part(size_t i) { return static_cast<TracedNetPart&>(*parts_[i]); }

  // The first part that reads a parameter declares it; those that none reads are the last one's.
  void add_parts(const TracedSpec& n) {
    std::set<std::string> read, declared;
    for (const TracedPart& p : shared_.graph.parts) read.insert(p.parameters.begin(), p.parameters.end());
    for (const int32_t i : kept_.kept()) {
      const TracedPart& p = shared_.graph.parts[static_cast<size_t>(i)];
      std::vector<std::string> own;
      for (const std::string& name : p.parameters)
        if (declared.insert(name).second) {
          own.push_back(name);
          shared_.homes[name] = here();
        } else if (shared_.twice.contains(name)) {
          own.push_back(name);
        }
      if (i == n.part_indices().back())
        for (const TracedNet::Parameter& unread : shared_.net->parameters)
          if (!read.contains(unread.name)) own.push_back(unread.name);
      add_part(std::make_unique<TracedNetPart>(here(), p, shared_, std::move(own)));
    }
  }

  // The last part keeps the gradient of its own copy, which it would hand to the first; the optimizer sums
  // them.
  void tie(std::vector<std::pair<int32_t, int32_t>>& carried) {
    const auto last = static_cast<int32_t>(parts_.size()) - 1;
    for (const int32_t value : of(last).carried_out)
      for (const std::string& name : shared_.twice)
        if (shared_.shapes.at(name)->count() == of(last).values[static_cast<size_t>(value)].count(1))
          part(static_cast<size_t>(last)).set_tied(value, name);
    carried.clear();
  }

  void add_batch() {
    for (int32_t i = 0; i < static_cast<int32_t>(parts_.size()); ++i) {
      const std::vector<int32_t>& values = of(i).batch;
      for (size_t k = 0; k < values.size(); ++k) {
        const TracedValue& v = of(i).values[static_cast<size_t>(values[k])];
        const bool last = i + 1 == static_cast<int32_t>(parts_.size());
        batch_.push_back(
            {shared_.graph.parts[static_cast<size_t>(kept_.kept()[static_cast<size_t>(i)])].batch[k],
             last ? plan::BatchRole::target : plan::BatchRole::input, i, v.type.stored, v.count(1),
             std::max<int64_t>(1, v.count(at_.batch)), true});
        readers_.emplace_back(static_cast<size_t>(i), k);
      }
    }
  }

  const Sharding& at_;
  const KeptParts kept_;
  const TensorCutNet cut_;
  TracedShared shared_;
  std::vector<std::pair<size_t, size_t>> readers_;  // by batch tensor: part and place among its own
};

}  // namespace

std::unique_ptr<Net> make_net(const TracedSpec& n, Emission& e, const Sharding& at) {
  return std::make_unique<Traced>(n, e, at);
}

std::vector<plan::Part> parts_of(const TracedSpec& n) {
  const std::shared_ptr<const TracedNet> net = n.net();
  const std::vector<int32_t> same = net->same_as(), kept = n.part_indices();
  std::map<int32_t, int32_t> first;
  std::vector<plan::Part> parts;
  for (const int32_t i : kept) {
    const TracedPart& p = net->fp32.parts[static_cast<size_t>(i)];
    const auto at = static_cast<int32_t>(parts.size());
    parts.push_back({p.kind, p.path, first.try_emplace(same[static_cast<size_t>(i)], at).first->second});
  }
  return parts;
}

// Runs of equal parts are cut to three: the first two and the last.
TracedSpec distinct_parts(TracedSpec n) {
  const std::vector<int32_t> same = n.net()->same_as(), all = n.part_indices();
  std::vector<int32_t> kept;
  const auto equal = [&](size_t i, size_t j) {
    return same[static_cast<size_t>(all[i])] == same[static_cast<size_t>(all[j])];
  };
  for (size_t i = 0; i < all.size(); ++i) {
    const bool inside = i >= 2 && i + 1 < all.size() && equal(i, i - 1) && equal(i, i - 2) && equal(i, i + 1);
    if (!inside) kept.push_back(all[i]);
  }
  n.kept = std::move(kept);
  return n;
}

NetLimits limits_of(const TracedSpec& n) {
  const std::shared_ptr<const TracedNet> net = n.net();
  NetLimits limits{
      .tp = {},
      .kv_heads = 1,
      .tokens = 1,
      .inner_parts = n.blocks(),
      .no_tp = n.tensor.empty() ? "has no words that cut a traced net's layers (net.tensor)" : "",
      .no_cp = "a traced net's samples are not cut",
      .no_sequence = "a traced net's samples are not cut"};
  for (const Amp amp : {Amp::none, Amp::bf16})
    for (const auto& [name, size] : tensor_cut(n, amp, 1).sizes) limits.tp.push_back({name, size});
  limits.no_pp = net->why_whole();
  return limits;
}

void check_priced(const TracedSpec& n) {
  const std::shared_ptr<const TracedNet> net = n.net();
  for (const TracedGraph* g : {&net->fp32, &net->bf16})
    for (size_t i = 0; i < g->parts.size(); ++i) {
      const TracedDefinition& d = g->of(static_cast<int32_t>(i));
      for (const auto* ops : {&d.forward, &d.backward})
        for (const TracedOp& op : *ops)
          if (aten_class(op) == AtenClass::unknown)
            throw ConfigError(n.file, "nets",
                              "has " + op.op + ", which has no price, in " + g->parts[i].path +
                                  (op.module.empty() ? "" : "." + op.module) + " (" + op.line + ")",
                              "write it with ops of PyTorch's core, or leave that module out");
    }
}

}  // namespace isobar::nets
