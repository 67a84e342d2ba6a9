#include "model/base/spec.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <tuple>

#include "model/base/error.h"
#include "model/base/yaml.h"

namespace isobar {
namespace {

// One table of (key, member) serves reading, writing and the list of known keys.
template <class Visitor>
void visit(Visitor&& v, RunSpec& s) {
  v("net.kind", s.net.kind);
  v("net.embed_dim", s.net.embed_dim);
  v("net.depth", s.net.depth);
  v("net.num_heads", s.net.num_heads);
  v("net.patch_size", s.net.patch_size);
  v("net.mlp_ratio", s.net.mlp_ratio);
  v("net.img_height", s.net.img_height);
  v("net.img_width", s.net.img_width);
  v("net.in_channels", s.net.in_channels);
  v("net.out_channels", s.net.out_channels);
  v("net.norm_eps", s.net.norm_eps);
  v("net.gelu", s.net.gelu);
  v("net.seq_length", s.net.seq_length);
  v("net.vocab_size", s.net.vocab_size);
  v("net.num_kv_heads", s.net.num_kv_heads);
  v("net.ffn_dim", s.net.ffn_dim);
  v("net.tie_embeddings", s.net.tie_embeddings);
  v("net.dropout", s.net.dropout);
  v("data.train", s.data.train);
  v("data.valid", s.data.valid);
  v("data.means", s.data.means);
  v("data.stds", s.data.stds);
  v("data.variables", s.data.variables);
  v("data.train_fraction", s.data.train_fraction);
  v("data.dt", s.data.dt);
  v("data.limit_samples", s.data.limit_samples);
  v("data.limit_valid_samples", s.data.limit_valid_samples);
  v("data.workers", s.data.workers);
  v("data.prefetch", s.data.prefetch);
  v("data.shuffle", s.data.shuffle);
  v("train.global_batch", s.train.global_batch);
  v("train.steps", s.train.steps);
  v("train.loss", s.train.loss);
  v("train.loss_weights", s.train.loss_weights);
  v("train.huber_delta", s.train.huber_delta);
  v("train.optimizer", s.train.optimizer);
  v("train.lr", s.train.lr);
  v("train.momentum", s.train.momentum);
  v("train.beta1", s.train.beta1);
  v("train.beta2", s.train.beta2);
  v("train.adam_eps", s.train.adam_eps);
  v("train.weight_decay", s.train.weight_decay);
  v("train.initial_loss_scale", s.train.initial_loss_scale);
  v("train.min_loss_scale", s.train.min_loss_scale);
  v("train.loss_scale_window", s.train.loss_scale_window);
  v("train.grad_clip", s.train.grad_clip);
  v("train.lr_schedule", s.train.lr_schedule);
  v("train.lr_gamma", s.train.lr_gamma);
  v("train.lr_step_size", s.train.lr_step_size);
  v("train.lr_patience", s.train.lr_patience);
  v("train.lr_threshold", s.train.lr_threshold);
  v("train.lr_cooldown", s.train.lr_cooldown);
  v("train.lr_min", s.train.lr_min);
  v("train.warmup", s.train.warmup);
  v("train.lr_scaling", s.train.lr_scaling);
  v("train.lr_base_batch", s.train.lr_base_batch);
  v("train.seed", s.train.seed);
  v("train.log_every", s.train.log_every);
  v("train.valid_every", s.train.valid_every);
  v("train.checkpoint_every", s.train.checkpoint_every);
  v("layout.dp", s.layout.dp);
  v("layout.tp", s.layout.tp);
  v("layout.cp", s.layout.cp);
  v("layout.pp", s.layout.pp);
  v("layout.vpp", s.layout.vpp);
  v("layout.order", s.layout.order);
  v("policy.amp", s.policy.amp);
  v("policy.micro_batch", s.policy.micro_batch);
  v("policy.schedule", s.policy.schedule);
  v("policy.zero", s.policy.zero);
  v("policy.offload_optimizer", s.policy.offload_optimizer);
  v("policy.main_grads_dtype", s.policy.main_grads_dtype);
  v("policy.bucket_mb", s.policy.bucket_mb);
  v("policy.overlap", s.policy.overlap);
  v("policy.sequence_parallel", s.policy.sequence_parallel);
  v("policy.cp_kind", s.policy.cp_kind);
  v("policy.recompute", s.policy.recompute);
  v("policy.recompute_method", s.policy.recompute_method);
  v("policy.recompute_num_layers", s.policy.recompute_num_layers);
  v("policy.attention", s.policy.attention);
  v("run.out", s.run.out);
  v("run.threads", s.run.threads);
  v("run.serial", s.run.serial);
  v("run.device", s.run.device);
  v("run.cuda_graphs", s.run.cuda_graphs);
  v("run.gemm_choice", s.run.gemm_choice);
  v("run.fuse", s.run.fuse);
  v("run.hang_timeout", s.run.hang_timeout);
}

std::pair<std::string, std::string> split(const std::string& key) {
  const size_t dot = key.find('.');
  return {key.substr(0, dot), key.substr(dot + 1)};
}

struct Reader {
  const nlohmann::json& j;
  const std::string& file;

  const nlohmann::json* find(const std::string& key) const {
    const auto [section, name] = split(key);
    if (!j.contains(section) || !j[section].contains(name)) return nullptr;
    return &j[section][name];
  }
  [[noreturn]] void wrong(const std::string& key, const nlohmann::json& v, const char* want) const {
    throw ConfigError(file, key, "is " + v.dump() + ", not " + want, std::string("give ") + want);
  }
  void operator()(const std::string& key, std::string& out) const {
    const auto* v = find(key);
    if (!v) return;
    if (v->is_null())
      out.clear();
    else if (v->is_string())
      out = v->get<std::string>();
    else
      wrong(key, *v, "a word");
  }
  void operator()(const std::string& key, int64_t& out) const {
    const auto* v = find(key);
    if (!v) return;
    if (v->is_null())
      out = 0;
    else if (v->is_number_integer())
      out = v->get<int64_t>();
    else
      wrong(key, *v, "a whole number");
  }
  void operator()(const std::string& key, double& out) const {
    const auto* v = find(key);
    if (!v) return;
    if (!v->is_number()) wrong(key, *v, "a number");
    out = v->get<double>();
  }
  void operator()(const std::string& key, bool& out) const {
    const auto* v = find(key);
    if (!v) return;
    if (!v->is_boolean()) wrong(key, *v, "true or false");
    out = v->get<bool>();
  }
  void operator()(const std::string& key, std::vector<double>& out) const {
    const auto* v = find(key);
    if (!v) return;
    out.clear();
    if (v->is_null()) return;
    if (!v->is_array()) wrong(key, *v, "a list of numbers");
    for (const auto& number : *v) {
      if (!number.is_number()) wrong(key, *v, "a list of numbers");
      out.push_back(number.get<double>());
    }
  }
  void operator()(const std::string& key, std::vector<std::string>& out) const {
    const auto* v = find(key);
    if (!v) return;
    if (v->is_null()) {
      out.clear();
      return;
    }
    if (!v->is_array()) wrong(key, *v, "a list of words");
    out.clear();
    for (const auto& word : *v) {
      if (!word.is_string()) wrong(key, *v, "a list of words");
      out.push_back(word.get<std::string>());
    }
  }
};

void refuse_unknown_keys(const nlohmann::json& j, const std::string& file) {
  std::map<std::string, std::vector<std::string>> known;
  RunSpec none;
  visit([&](const std::string& key, auto&) { known[split(key).first].push_back(split(key).second); }, none);
  std::vector<std::string> sections;
  sections.reserve(known.size());
  for (const auto& [section, names] : known) sections.push_back(section);
  for (const auto& [section, body] : j.items()) {
    if (!known.contains(section))
      throw ConfigError(file, section, "is not a known section",
                        "did you mean '" + nearest(section, sections) + "'?");
    if (!body.is_object())
      throw ConfigError(file, section, "must hold keys of its own", "indent them below `" + section + ":`");
    for (const auto& item : body.items()) {
      const auto& names = known[section];
      if (std::find(names.begin(), names.end(), item.key()) == names.end())
        throw ConfigError(file, section + "." + item.key(), "is not a known key",
                          "did you mean '" + section + "." + nearest(item.key(), names) + "'?");
    }
  }
}

struct Check {
  const RunSpec& s;
  void that(bool ok, const char* key, const std::string& what, const std::string& mend) const {
    if (!ok) throw ConfigError(s.file, key, what, mend);
  }
  void at_least(int64_t value, int64_t low, const char* key) const {
    that(value >= low, key, "is " + std::to_string(value) + ", below " + std::to_string(low),
         "give " + std::to_string(low) + " or more");
  }
  void at_most(int64_t value, int64_t high, const char* key) const {
    that(value <= high, key, "is " + std::to_string(value) + ", above " + std::to_string(high),
         "give " + std::to_string(high) + " or less");
  }
  void one_of(const std::string& value, const std::vector<std::string>& allowed, const char* key) const {
    if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return;
    std::string list;
    for (const auto& a : allowed) list += (list.empty() ? "" : ", ") + a;
    that(false, key, "'" + value + "' is unknown", "use one of " + list);
  }
  void divides(int64_t d, int64_t n, const char* key, const std::string& of) const {
    if (n % d == 0) return;
    int64_t below = 1,
            above = n;  // among divisors up to a million and their partners: any number may be typed
    for (int64_t i = 1; i <= std::min<int64_t>(n / i, 1'000'000); ++i)
      if (n % i == 0)
        for (const int64_t one : {i, n / i}) {
          if (one < d) below = std::max(below, one);
          if (one > d) above = std::min(above, one);
        }
    that(false, key, std::to_string(d) + " does not divide " + of + " = " + std::to_string(n),
         "the nearest that do are " + std::to_string(below) + " and " + std::to_string(above));
  }
};

}  // namespace

void validate(const RunSpec& s) {
  const Check check{s};
  const auto str = [](int64_t v) { return std::to_string(v); };
  const NetSpec& n = s.net;
  check.one_of(n.kind, {"vit", "gpt", "llama"}, "net.kind");
  // Upper bounds keep every product of sizes below 2^63.
  for (auto [value, key] : {std::pair{n.embed_dim, "net.embed_dim"},
                            {n.depth, "net.depth"},
                            {n.num_heads, "net.num_heads"},
                            {n.patch_size, "net.patch_size"},
                            {n.mlp_ratio, "net.mlp_ratio"},
                            {n.img_height, "net.img_height"},
                            {n.img_width, "net.img_width"},
                            {n.in_channels, "net.in_channels"},
                            {n.out_channels, "net.out_channels"}}) {
    check.at_least(value, 1, key);
    check.at_most(value, 1 << 17, key);
  }
  for (auto [value, low, key] : {std::tuple{n.seq_length, int64_t{1}, "net.seq_length"},
                                 {n.vocab_size, int64_t{1}, "net.vocab_size"},
                                 {n.num_kv_heads, int64_t{0}, "net.num_kv_heads"},
                                 {n.ffn_dim, int64_t{0}, "net.ffn_dim"}}) {
    check.at_least(value, low, key);
    check.at_most(value, 1 << 24, key);
  }
  if (!n.language()) {
    check.divides(n.patch_size, n.img_height, "net.patch_size", "net.img_height");
    check.divides(n.patch_size, n.img_width, "net.patch_size", "net.img_width");
  }
  check.divides(n.num_heads, n.embed_dim, "net.num_heads", "net.embed_dim");
  check.divides(n.kv_heads(), n.num_heads, "net.num_kv_heads", "net.num_heads");
  check.that(n.dropout >= 0 && n.dropout < 1, "net.dropout", "is not in [0, 1)", "e.g. 0.1");
  check.that(n.language() || (n.dropout == 0 && n.num_kv_heads == 0 && n.ffn_dim == 0 && !n.tie_embeddings),
             "net.kind", "vit has no dropout, num_kv_heads, ffn_dim or tie_embeddings",
             "remove them, or use gpt or llama");
  check.that(n.in_channels == n.out_channels, "net.out_channels",
             str(n.out_channels) + " differs from net.in_channels = " + str(n.in_channels),
             "a forecast has the channels of its input");
  check.one_of(n.gelu, {"erf", "tanh"}, "net.gelu");
  check.that(n.norm_eps > 0, "net.norm_eps", "is not positive", "use 1e-6");

  const DataSpec& d = s.data;
  check.at_least(d.dt, 1, "data.dt");
  check.at_least(d.workers, 0, "data.workers");
  check.at_most(d.workers, 1024, "data.workers");
  check.at_least(d.prefetch, 1, "data.prefetch");
  check.at_most(d.prefetch, 1024, "data.prefetch");
  check.at_least(d.limit_samples, 0, "data.limit_samples");
  check.at_least(d.limit_valid_samples, 0, "data.limit_valid_samples");
  check.that(d.train_fraction > 0 && d.train_fraction <= 1, "data.train_fraction", "is not in (0, 1]",
             "e.g. 0.8");

  const LayoutSpec& l = s.layout;
  for (auto [value, key] : {std::pair{l.dp, "layout.dp"},
                            {l.tp, "layout.tp"},
                            {l.cp, "layout.cp"},
                            {l.pp, "layout.pp"},
                            {l.vpp, "layout.vpp"}}) {
    check.at_least(value, 1, key);
    check.at_most(value, 1 << 20, key);
  }
  const TrainSpec& t = s.train;
  check.at_least(t.global_batch, 1, "train.global_batch");
  check.at_most(t.global_batch, 1 << 24, "train.global_batch");
  check.at_least(t.steps, 1, "train.steps");
  check.one_of(t.optimizer, {"adam", "adamw", "sgd"}, "train.optimizer");
  check.that(t.momentum >= 0 && t.momentum < 1, "train.momentum", "is not in [0, 1)", "e.g. 0.9");
  const auto weights = static_cast<int64_t>(t.loss_weights.size());
  check.one_of(t.loss, {"relative-l2", "mae", "mse", "huber"}, "train.loss");
  check.that(weights == 0 || t.loss != "relative-l2", "train.loss_weights",
             "are not for relative-l2, a quotient of norms over all channels", "use mae, mse or huber");
  check.that(weights == 0 || weights == n.out_channels, "train.loss_weights",
             "has " + str(weights) + " numbers, net.out_channels is " + str(n.out_channels),
             "give one a channel");
  for (const double w : t.loss_weights)
    check.that(w >= 0 && std::isfinite(w), "train.loss_weights", "has a negative number", "give 0 or more");
  check.that(t.huber_delta > 0 && std::isfinite(t.huber_delta), "train.huber_delta", "is not positive",
             "e.g. 1");
  check.one_of(t.lr_schedule, {"cosine", "constant", "step", "plateau"}, "train.lr_schedule");
  check.that(t.lr_gamma > 0 && t.lr_gamma < 1, "train.lr_gamma", "is not in (0, 1)", "e.g. 0.1");
  check.at_least(t.lr_step_size, t.lr_schedule == "step" ? 1 : 0, "train.lr_step_size");
  check.at_least(t.lr_patience, 0, "train.lr_patience");
  check.at_least(t.lr_cooldown, 0, "train.lr_cooldown");
  check.that(t.lr_threshold >= 0 && t.lr_threshold < 1, "train.lr_threshold", "is not in [0, 1)",
             "e.g. 1e-4");
  check.that(t.lr_min >= 0 && std::isfinite(t.lr_min), "train.lr_min", "is negative", "give 0 or more");
  const bool validates = t.valid_every > 0 && (!d.valid.empty() || d.train_fraction < 1);
  check.that(t.lr_schedule != "plateau" || validates, "train.lr_schedule",
             "plateau watches the validation loss, and this run has none before its end",
             "set train.valid_every, and data.valid or data.train_fraction");
  check.one_of(t.lr_scaling, {"none", "sqrt"}, "train.lr_scaling");
  check.that(t.lr > 0 && std::isfinite(t.lr), "train.lr", "is not positive", "e.g. 5e-4");
  check.that(t.beta1 >= 0 && t.beta1 < 1, "train.beta1", "is not in [0, 1)", "e.g. 0.9");
  check.that(t.beta2 >= 0 && t.beta2 < 1, "train.beta2", "is not in [0, 1)", "e.g. 0.95");
  check.that(t.adam_eps > 0, "train.adam_eps", "is not positive", "e.g. 1e-8");
  check.that(t.weight_decay >= 0, "train.weight_decay", "is negative", "give 0 or more");
  check.that(t.grad_clip >= 0 && std::isfinite(t.grad_clip), "train.grad_clip", "is negative",
             "0 clips nothing");
  check.that(t.min_loss_scale > 0 && t.min_loss_scale <= t.initial_loss_scale, "train.min_loss_scale",
             "is not between 0 and train.initial_loss_scale", "e.g. 1");
  check.that(t.initial_loss_scale <= 0x1p100, "train.initial_loss_scale", "is above 2^100", "e.g. 65536");
  check.at_least(t.loss_scale_window, 1, "train.loss_scale_window");
  check.at_least(t.warmup, 0, "train.warmup");
  check.at_least(t.lr_base_batch, 1, "train.lr_base_batch");
  check.at_least(t.seed, 0, "train.seed");
  check.at_least(t.log_every, 1, "train.log_every");
  check.at_least(t.valid_every, 0, "train.valid_every");
  check.at_least(t.checkpoint_every, 0, "train.checkpoint_every");
  check.that(t.global_batch % l.dp == 0, "train.global_batch",
             str(t.global_batch) + " cannot be shared by layout.dp = " + str(l.dp),
             "use a multiple, e.g. " + str((t.global_batch / l.dp + 1) * l.dp));

  const PolicySpec& p = s.policy;
  check.one_of(p.amp, {"none", "tf32", "bf16", "fp16", "fp8"}, "policy.amp");
  check.one_of(p.main_grads_dtype, {"fp32", "bf16"}, "policy.main_grads_dtype");
  check.one_of(p.schedule, {"gpipe", "1f1b", "interleaved", "zb-h1"}, "policy.schedule");
  check.one_of(p.cp_kind, {"allgather", "ring", "ulysses"}, "policy.cp_kind");
  check.one_of(p.recompute, {"none", "selective", "full"}, "policy.recompute");
  check.one_of(p.recompute_method, {"uniform", "block"}, "policy.recompute_method");
  check.at_least(p.recompute_num_layers, 1, "policy.recompute_num_layers");
  check.that(p.recompute == "full" || (p.recompute_method == "uniform" && p.recompute_num_layers == 1),
             p.recompute_num_layers == 1 ? "policy.recompute_method" : "policy.recompute_num_layers",
             "says which blocks full recomputation throws away, and policy.recompute is " + p.recompute,
             "leave it out, or set policy.recompute to full");
  check.one_of(p.attention, {"flash", "unfused"}, "policy.attention");
  check.that(p.amp != "fp8" || n.language(), "policy.amp", "fp8 is for net.kind gpt and llama",
             "use one of none, tf32, bf16, fp16");
  check.that(p.attention != "unfused" || n.language(), "policy.attention",
             "unfused is for net.kind gpt and llama", "use flash");
  check.that(p.attention != "unfused" || l.cp == 1, "policy.attention",
             "unfused attention cannot be cut by layout.cp", "use flash, or set layout.cp to 1");
  check.at_least(p.micro_batch, 0, "policy.micro_batch");
  if (p.micro_batch)
    check.divides(p.micro_batch, t.global_batch / l.dp, "policy.micro_batch", "the batch of one dp rank");
  check.that(p.zero >= 0 && p.zero <= 3, "policy.zero", str(p.zero) + " is no ZeRO stage", "use 0 to 3");
  check.that(p.bucket_mb > 0 && std::isfinite(p.bucket_mb), "policy.bucket_mb", "is not positive", "e.g. 25");
  check.at_least(s.run.threads, 0, "run.threads");
  check.one_of(s.run.device, {"cpu", "cuda", "auto"}, "run.device");
  check.one_of(s.run.gemm_choice, {"heuristic", "timed"}, "run.gemm_choice");
  check.that(s.run.hang_timeout > 0, "run.hang_timeout", "is not positive", "give seconds, e.g. 300");
}

RunSpec run_spec_from_json(const nlohmann::json& j, const std::string& file) {
  if (!j.is_object()) throw ConfigError(file, "line 1", "does not hold a map of keys", "start with `net:`");
  refuse_unknown_keys(j, file);
  RunSpec s;
  s.file = file;
  visit(Reader{j, file}, s);
  return s;
}

RunSpec load_run_spec(const std::string& path, const std::vector<std::string>& overrides) {
  nlohmann::json j = load_yaml(path);
  for (const std::string& assignment : overrides) {
    apply_override(j, assignment);
    nlohmann::json alone;
    apply_override(alone, assignment);
    refuse_unknown_keys(alone, "--set");
  }
  RunSpec s = run_spec_from_json(j, path);
  validate(s);
  return s;
}

nlohmann::json to_json(const RunSpec& spec) {
  nlohmann::json j = nlohmann::json::object();
  RunSpec copy = spec;
  visit([&](const std::string& key, auto& member) { j[split(key).first][split(key).second] = member; }, copy);
  return j;
}

}  // namespace isobar
