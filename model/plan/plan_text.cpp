// The text of plans: golden files, `isobar plan`, and the plan's hash.
#include <cstdio>
#include <map>
#include <vector>

#include "model/base/text/hash.h"
#include "model/base/text/joined.h"
#include "model/plan/ops/work.h"
#include "model/plan/plan.h"

namespace isobar::plan {
namespace {

// Names of a plan's operands: buffers, and of parameters and their gradients the tensors
class Names {
 public:
  explicit Names(const Plan& plan) : plan_(plan) {
    for (const ParamHome& h : plan.homes) homes_[h.at.buffer][h.at.offset] = {h.at.count, h.begin};
    for (const Param& p : plan.params) params_[p.offset] = &p;
  }

  std::string operator()(const View& v) const {
    if (!v) return "-";
    const Buffer& b = plan_.buffers[v.buffer];
    std::string s = b.name;
    if (v.offset != 0 || v.count != b.count) {
      const std::string tensors = tensors_of(v);
      s += tensors.empty() ? range(v.offset, v.count) : ":" + tensors;
    }
    if (v.back != 0) s += v.back > 0 ? "@-" + std::to_string(v.back) : "@+" + std::to_string(-v.back);
    return s;
  }

 private:
  struct Home {
    int64_t count, begin;
  };
  static constexpr int kMostNamed = 4;

  static std::string range(int64_t from, int64_t count) {
    return "[" + std::to_string(from) + ":" + std::to_string(from + count) + "]";
  }

  // A tensor, its part, or a few adjacent ones; "" for any other view
  std::string tensors_of(const View& v) const {
    const auto buffer = homes_.find(v.buffer);
    if (buffer == homes_.end()) return "";
    auto home = buffer->second.upper_bound(v.offset);
    if (home == buffer->second.begin()) return "";
    --home;
    const auto& [count, begin] = home->second;
    if (v.offset + v.count > home->first + count) return "";
    const int64_t from = begin + v.offset - home->first, end = from + v.count;
    auto param = params_.upper_bound(from);
    if (param == params_.begin()) return "";
    --param;
    const Param& first = *param->second;
    if (end <= first.offset + first.count)
      return first.name + (v.count == first.count ? "" : range(from - first.offset, v.count));
    if (from != first.offset) return "";
    std::string names;
    int named = 0;
    for (; param != params_.end() && param->first < end; ++param) {
      if (++named > kMostNamed || param->first + param->second->count > end) return "";
      names += (names.empty() ? "" : "+") + param->second->name;
    }
    return names;
  }

  const Plan& plan_;
  std::map<int32_t, std::map<int64_t, Home>> homes_;  // by buffer and offset
  std::map<int64_t, const Param*> params_;            // by flat offset
};

// An op's attributes beside its sizes: those that differ from the usual
class Settings {
 public:
  explicit Settings(const Op& op) {
    std::visit([&](const auto& a) { of(a); }, op.attrs);
  }
  const std::string& text() const { return text_; }

 private:
  void of(const GemmAttrs& a) {
    add("batch", a.batch);
    add("fp8", a.fp8);
    add("scale", a.scale, 1.0f);
  }
  void of(const GroupedGemmAttrs& a) {
    add("groups", a.groups);
    add("fp8", a.fp8);
    add("busiest", a.busiest, 1.0);
  }
  void of(const RouteAttrs& a) {
    add("top", a.top);
    add("normalised", a.normalised);
    add("factor", a.factor, 1.0f);
    add("sigmoid", a.sigmoid);
    add("groups", a.groups, int64_t{1});
    add("top_groups", a.top_groups, int64_t{1});
    add("tokens", a.tokens);
    add("sample", a.sample);
    add("balance", a.balance);
    add("z", a.z);
    add("weight", a.weight);
    add("capacity", a.capacity);
    add("ranks_before", a.ranks_before);
  }
  void of(const ExpertRowsAttrs& a) { add("top", a.top); }
  void of(const HeldExpertsAttrs& a) {
    add("ranks", a.ranks);
    add("experts", a.experts);
    add("first", a.first, int64_t{-1});
    add("held", a.held);
  }
  void of(const AttentionAttrs& a) {
    add("scale", a.scale);
    add("ld", list({a.ld_q, a.ld_kv, a.ld_o}));
    add("token0", a.token0);
  }
  void of(const AttentionMergeAttrs& a) { add("first", a.first); }
  void of(const NormAttrs& a) {
    add("eps", a.eps);
    add("period", a.period);
    add("row0", a.row0);
    add("first", a.first);
    add("heads", a.heads, int64_t{1});
    add("ld_x", a.ld_x);
    add("ld_h", a.ld_h);
  }
  void of(const RowsAttrs&) {}
  void of(const AddAttrs& a) { add("period", a.period), add("row0", a.row0); }
  void of(const RotaryAttrs& a) {
    add("d", a.d);
    add("ld", a.ld);
    add("tokens", a.tokens);
  }
  void of(const LatentAttrs& a) {
    add("heads", a.heads);
    add("nope", a.nope);
    add("rope", a.rope);
    add("v", a.v);
    add("ld", a.ld);
    add("tokens", a.tokens);
  }
  void of(const SumAttrs&) {}
  void of(const PeriodSumAttrs& a) {
    add("period", a.period);
    add("row0", a.row0);
  }
  void of(const IndexAttrs& a) { add("batch", a.batch); }
  void of(const ActivationAttrs&) {}
  void of(const SoftmaxAttrs& a) { add("causal", a.causal); }
  void of(const EmbeddingAttrs& a) {
    add("first", a.first);
    add("word0", a.word0);
    of(a.tokens);
  }
  void of(const DropoutAttrs& a) {
    add("rate", a.rate);
    add("seed", a.seed, int64_t{-1});
    add("stream", a.stream, int64_t{-1});
    add("period", a.period);
    add("row0", a.row0);
    add("each", a.each, int64_t{1});
    add("sample", a.sample);
    of(a.tokens);
  }
  void of(const TokenRuns& held) {
    add("token0", held.first);
    add("tokens", held.count);
    add("then", held.then);
    add("more", held.more);
  }
  void of(const ImageAttrs& a) {
    add("row0", a.row0);
    add("token0", a.token0);
  }
  void of(const RollAttrs& a) {
    of(a.image);
    add("predicted", a.predicted);
    add("history", a.history);
  }
  void of(const LossAttrs& a) {
    const LossWeights& w = a.weighed();
    word(a.kind == LossKind::projection ? "projection" : name_of(a.kind));  // which no user sets
    if (a.kind == LossKind::huber) add("delta", a.delta);
    add("weight", a.weight);
    of(a.image);
    add("channels", list(w.channel));
    add("above", list(w.above));
    add("intense", list(w.intense));
    add("latitude_weights", w.latitude);
    add("latitudes", list(w.latitudes));
    add("by", w.by_name);
  }
  void of(const CrossEntropyAttrs& a) {
    add("weight", a.weight);
    add("column0", a.column0);
    add("padding", a.padding);
    add("tokens", a.tokens, int64_t{1});
  }
  void of(const ElementsAttrs&) {}
  void of(const CopyAttrs& a) {
    if (a.extent[0] * a.extent[1] * a.extent[2] == 1) return;
    add("blocks", list(a.extent));
    add("from", list(a.from));
    add("to", list(a.to));
  }
  void of(const AverageAttrs& a) { add("rate", a.rate); }
  void of(const LossScaleAttrs& a) {
    add("least", a.least);
    add("window", a.window);
  }
  void of(const AdamAttrs& a) {
    add("beta1", a.beta1);
    add("beta2", a.beta2);
    add("eps", a.eps);
    add(a.decoupled ? "decoupled_decay" : "decay", a.weight_decay);
    add("clip", a.clip);
  }
  void of(const SgdAttrs& a) {
    add("momentum", a.momentum);
    add("decay", a.weight_decay);
    add("clip", a.clip);
  }
  void of(const TransferAttrs& a) {
    add("send", list(a.send));
    add("receive", list(a.receive));
    add("largest", a.largest);
    add("width", a.width);
    add("back", a.back);
  }

  void of(const PricedAttrs& a) { word(a.op); }

  static std::string spelled(bool) { return ""; }
  static std::string spelled(int64_t n) { return std::to_string(n); }
  static std::string spelled(double x) {
    char s[32];
    std::snprintf(s, sizeof s, "%.7g", x);
    return s;
  }
  static std::string spelled(float x) { return spelled(static_cast<double>(x)); }
  static std::string spelled(const std::string& s) { return s; }
  // A long list as its hash
  template <class T>
  static std::string list(const T& values) {
    const std::string out = joined(values, ",", [](const auto& x) { return spelled(x); });
    return std::size(values) > 16 ? "sha256:" + sha256_hex(out).substr(0, 16) : out;
  }
  static std::string list(std::initializer_list<int64_t> values) {
    return list(std::vector<int64_t>(values));
  }
  void word(const std::string& w) { text_ += (text_.empty() ? "" : " ") + w; }
  template <class T>
  void add(const char* name, const T& value, const T& usual = T()) {
    if (value == usual) return;
    const std::string s = spelled(value);
    word(s.empty() ? std::string(name) : name + (" " + s));
  }
  std::string text_;
};

}  // namespace

std::string shape_text(const Op& op) {
  char s[160] = "";
  const auto text = [&s](const char* format, auto... values) {
    std::snprintf(s, sizeof s, format, values...);
  };
  const auto product = [&](const auto& a, const char* groups) {
    text("%c%c %ldx%ldx%ld%s%s%s", a.trans_a ? 'T' : 'N', a.trans_b ? 'T' : 'N', a.m, a.n, a.k, groups,
         a.accumulate ? " +=" : "", a.tf32 ? " tf32" : "");
  };
  if (const auto* gemm = std::get_if<GemmAttrs>(&op.attrs)) {
    product(*gemm, "");
  } else if (const auto* grouped = std::get_if<GroupedGemmAttrs>(&op.attrs)) {
    product(*grouped, (" of " + std::to_string(grouped->groups)).c_str());
  } else if (const AttentionAttrs* a = attention_in(op.attrs)) {
    text("b%ld h%ld/%ld q%ld k%ld d%ld%s%s%s%s", a->batch, a->heads, a->kv_heads, a->tq, a->tk, a->d,
         a->causal ? " causal" : "", a->window > 0 ? (" window " + std::to_string(a->window)).c_str() : "",
         a->tf32 ? " tf32" : "",
         a->last_counts == 1 ? "" : (" last x" + std::to_string(a->last_counts)).c_str());
  } else if (const ImageAttrs* image = image_of(op.attrs)) {
    text("b%ld c%ld %ldx%ld p%ld", image->batch, image->channels, image->height, image->width, image->patch);
  } else if (op.kind == OpKind::exchange) {
    text("%ld out %ld in", op.as<TransferAttrs>().send.at(0), op.as<TransferAttrs>().receive.at(0));
  } else if (const RowExtent of = extent_of(op.attrs); of.rows || of.cols) {
    const auto* activation = std::get_if<ActivationAttrs>(&op.attrs);
    const bool other = activation && activation->function != Activation::gelu;
    const std::string function = other ? " " + name_of(activation->function) : "";
    text("%ldx%ld%s%s", of.rows, of.cols, accumulates(op.attrs) ? " +=" : "", function.c_str());
  }
  return s;
}

std::string to_text(const Plan& plan) {
  std::string out;
  char line[512];
  std::snprintf(line, sizeof line, "plan rank %d of %d, %ld parameters, arena %ld bytes\n", plan.rank,
                plan.world, plan.parameter_count(), plan.memory.arena);
  out += line;
  for (const Group& g : plan.groups) {
    out += "group " + g.name + ":";
    for (int r : g.ranks) out += " " + std::to_string(r);
    out += "\n";
  }
  for (int k = 0; k < kBufferKinds; ++k) {
    if (plan.memory.by_kind[k] == 0) continue;
    std::snprintf(line, sizeof line, "memory %-9s %15ld bytes\n", name_of(static_cast<BufferKind>(k)),
                  plan.memory.by_kind[k]);
    out += line;
  }
  for (const Constant& c : plan.constants) {
    const Buffer& b = plan.buffers[c.at.buffer];
    std::string content(static_cast<size_t>(b.bytes()), 0);
    c.fill(content.data());
    out += "constant " + b.name + " " + name_of(b.dtype) + " " + std::to_string(b.count) + " sha256 " +
           sha256_hex(content).substr(0, 16) + "\n";
  }
  const Names name(plan);
  for (const Routine& r : plan.routines) {
    std::snprintf(line, sizeof line, "routine %s chunk %d: %d ops\n", r.name.c_str(), r.chunk, r.count);
    out += line;
    for (int i = r.first; i < r.first + r.count; ++i) {
      const Op& op = plan.ops[i];
      const Work w = work(op, plan);
      std::snprintf(line, sizeof line, "  %-42s %-8s %-22s %-26s %12.4g F %12.4g B", op.path.c_str(),
                    name_of(op.lane), name_of(op.kind), shape_text(op).c_str(), w.flops, w.bytes());
      out += line;
      if (w.wire_bytes > 0) {
        std::snprintf(line, sizeof line, " %12.4g wire", w.wire_bytes);
        out += line;
      }
      out += " |";
      for (const View& v : op.reads) out += " " + name(v);
      out += " ->";
      for (const View& v : op.writes) out += " " + name(v);
      const Settings settings(op);
      if (!settings.text().empty()) out += " | " + settings.text();
      out += "\n";
    }
  }
  const auto list = [&](const char* title, const std::vector<Invocation>& invocations) {
    out += title;
    for (const Invocation& i : invocations) {
      out += " " + plan.routines[i.routine].name;
      if (plan.routines[i.routine].pass == Pass::forward || plan.routines[i.routine].pass == Pass::backward)
        out += "(" + std::to_string(i.micro) + ")@" + std::to_string(i.slot);
    }
    out += "\n";
  };
  list("init:", plan.init);
  list("step:", plan.train);
  for (size_t i = 0; i < plan.shorter.size(); ++i)
    list(("train " + std::to_string(i + 1) + ":").c_str(), plan.shorter[i]);
  list("eval:", plan.eval);
  if (!plan.exchange.empty()) list("exchange:", plan.exchange);
  return out;
}

}  // namespace isobar::plan
