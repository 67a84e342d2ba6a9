#include "model/base/spec.h"

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "model/base/did_you_mean.h"
#include "model/base/error.h"
#include "model/base/json.h"
#include "model/base/spec_keys.h"
#include "model/base/yaml.h"

namespace isobar {
namespace {

template <class Visitor>
void visit_images(Visitor&& v, Images& n) {
  v("net.img_height", n.img_height);
  v("net.img_width", n.img_width);
  v("net.in_channels", n.in_channels);
  v("net.out_channels", n.out_channels);
}

template <class Visitor>
void visit_words(Visitor&& v, WordsSpec& n) {
  v("net.embed_dim", n.embed_dim);
  v("net.depth", n.depth);
  v("net.num_heads", n.num_heads);
  v("net.num_kv_heads", n.num_kv_heads);
  v("net.mlp_ratio", n.mlp_ratio);
  v("net.ffn_dim", n.ffn_dim);
  v("net.norm_eps", n.norm_eps);
  v("net.seq_length", n.seq_length);
  v("net.vocab_size", n.vocab_size);
  v("net.tie_embeddings", n.tie_embeddings);
  v("net.dropout", n.dropout);
}

template <class Visitor>
void visit_net(Visitor&& v, VitSpec& n) {
  v("net.embed_dim", n.embed_dim);
  v("net.depth", n.depth);
  v("net.num_heads", n.num_heads);
  v("net.patch_size", n.patch_size);
  v("net.mlp_ratio", n.mlp_ratio);
  visit_images(v, n);
  v("net.norm_eps", n.norm_eps);
  v("net.gelu", n.gelu);
}

template <class Visitor>
void visit_net(Visitor&& v, UnetSpec& n) {
  v("net.embed_dim", n.embed_dim);
  v("net.encoder_depth", n.encoder_depth);
  v("net.bottleneck_depth", n.bottleneck_depth);
  v("net.decoder_depth", n.decoder_depth);
  v("net.num_heads", n.num_heads);
  v("net.patch_size", n.patch_size);
  v("net.mlp_ratio", n.mlp_ratio);
  visit_images(v, n);
  v("net.norm_eps", n.norm_eps);
  v("net.gelu", n.gelu);
}

template <class Visitor>
void visit_net(Visitor&& v, GptSpec& n) {
  visit_words(v, n);
  v("net.gelu", n.gelu);
}

template <class Visitor>
void visit_net(Visitor&& v, LlamaSpec& n) {
  visit_words(v, n);
  v("net.rope_theta", n.rope_theta);
  v("net.rope_scaling_factor", n.rope_scaling_factor);
  v("net.rope_original_length", n.rope_original_length);
}

template <class Visitor>
void visit_net(Visitor&& v, MlpSpec& n) {
  v("net.in_features", n.in_features);
  v("net.out_features", n.out_features);
  v("net.hidden", n.hidden);
  v("net.activation", n.activation);
  v("net.dropout", n.dropout);
}

template <class Visitor>
void visit_net(Visitor&& v, RegionalGnnSpec& n) {
  visit_images(v, n);
  v("net.north", n.north);
  v("net.west", n.west);
  v("net.spacing", n.spacing);
  v("net.downstream", n.downstream);
  v("net.upstream", n.upstream);
  v("net.boundary_longitude", n.boundary_longitude);
  v("net.neighbors", n.neighbors);
  v("net.boundary_neighbors", n.boundary_neighbors);
  v("net.latent_size", n.latent_size);
  v("net.num_gnn_layers", n.num_gnn_layers);
  v("net.mlp_hidden_size", n.mlp_hidden_size);
  v("net.mlp_num_hidden_layers", n.mlp_num_hidden_layers);
  v("net.norm_eps", n.norm_eps);
  v("net.partition", n.partition);
}

template <class Visitor>
void visit_net(Visitor&& v, AuroraSpec& n) {
  visit_images(v, n);
  v("net.surf_vars", n.surf_vars);
  v("net.static_vars", n.static_vars);
  v("net.atmos_vars", n.atmos_vars);
  v("net.levels", n.levels);
  v("net.history", n.history);
  v("net.lead_time", n.lead_time);
  v("net.north", n.north);
  v("net.west", n.west);
  v("net.spacing", n.spacing);
  v("net.patch_size", n.patch_size);
  v("net.embed_dim", n.embed_dim);
  v("net.latent_levels", n.latent_levels);
  v("net.num_heads", n.num_heads);
  v("net.encoder_depths", n.encoder_depths);
  v("net.encoder_num_heads", n.encoder_num_heads);
  v("net.decoder_depths", n.decoder_depths);
  v("net.window", n.window);
  v("net.mlp_ratio", n.mlp_ratio);
  v("net.dec_mlp_ratio", n.dec_mlp_ratio);
  v("net.norm_eps", n.norm_eps);
  v("net.drop_path", n.drop_path);
  v("net.fp32_ends", n.fp32_ends);
  v("net.placement", n.placement);
}

template <class Visitor>
void visit_net(Visitor&& v, GraphcastSpec& n) {
  visit_images(v, n);
  v("net.mesh_level", n.mesh_level);
  v("net.radius", n.radius);
  v("net.latent_size", n.latent_size);
  v("net.num_gnn_layers", n.num_gnn_layers);
  v("net.mlp_hidden_size", n.mlp_hidden_size);
  v("net.mlp_num_hidden_layers", n.mlp_num_hidden_layers);
  v("net.norm_eps", n.norm_eps);
  v("net.partition", n.partition);
}

template <class Visitor>
void visit_rows(Visitor&& v, DataSpec& d) {
  v("data.mask_mode", d.mask_mode);
  v("data.ice_variable", d.ice_variable);
  v("data.min_ice_concentration", d.min_ice_concentration);
  v("data.thin_fraction", d.thin_fraction);
  v("data.max_patterns", d.max_patterns);
}

template <class Visitor>
void visit_rollout(Visitor&& v, RunSpec& s) {
  v("train.rollout", s.train.rollout);
  v("train.rollout_every", s.train.rollout_every);
  v("train.rollout_gradient", s.train.rollout_gradient);
  v("train.prediction", s.train.prediction);
  v("train.replay_capacity", s.train.replay_capacity);
  v("train.replay_refresh", s.train.replay_refresh);
  v("train.replay_max_lead", s.train.replay_max_lead);
  v("train.replay_warmup_steps", s.train.replay_warmup_steps);
  v("train.replay_warmup_lead", s.train.replay_warmup_lead);
}

template <class Visitor>
void visit_selection(Visitor&& v, DataSpec& d) {
  v("data.region", d.region);
  v("data.stride", d.stride);
  v("data.dates", d.dates);
  v("data.valid_dates", d.valid_dates);
  v("data.time_step", d.time_step);
  v("data.static_fields", d.static_fields);
  v("data.static_file", d.static_file);
  v("data.forcings", d.forcings);
  v("data.mask", d.mask);
}

// One table of (key, member) serves reading, writing and the list of known keys.
template <class Visitor>
void visit(Visitor&& v, RunSpec& s) {
  s.net.visit([&](auto& net) { visit_net(v, net); });
  v("data.train", s.data.train);
  v("data.valid", s.data.valid);
  v("data.means", s.data.means);
  v("data.stds", s.data.stds);
  v("data.variables", s.data.variables);
  v("data.inputs", s.data.inputs);
  v("data.targets", s.data.targets);
  v("data.train_fraction", s.data.train_fraction);
  v("data.dt", s.data.dt);
  v("data.limit_samples", s.data.limit_samples);
  v("data.limit_valid_samples", s.data.limit_valid_samples);
  v("data.workers", s.data.workers);
  v("data.prefetch", s.data.prefetch);
  v("data.shuffle", s.data.shuffle);
  if (s.net.kind() == MlpSpec::kKind) visit_rows(v, s.data);
  if (s.net.images()) visit_selection(v, s.data);
  if (s.net.images() && s.net.own_history() == 0) v("data.history", s.data.history);
  if (s.net.rolls_out()) visit_rollout(v, s);
  v("train.global_batch", s.train.global_batch);
  v("train.steps", s.train.steps);
  v("train.loss", s.train.loss);
  v("train.loss_weights", s.train.loss_weights);
  v("train.variable_weights", s.train.variable_weights);
  v("train.level_weights", s.train.level_weights);
  v("train.loss_weighting", s.train.loss_weighting);
  v("train.surface_weight", s.train.surface_weight);
  v("train.upper_weight", s.train.upper_weight);
  v("train.data_weight", s.train.data_weight);
  v("train.intensity", s.train.intensity);
  v("train.latitude_weights", s.train.latitude_weights);
  v("train.huber_delta", s.train.huber_delta);
  v("train.optimizer", s.train.optimizer);
  v("train.lr", s.train.lr);
  v("train.momentum", s.train.momentum);
  v("train.beta1", s.train.beta1);
  v("train.beta2", s.train.beta2);
  v("train.adam_eps", s.train.adam_eps);
  v("train.weight_decay", s.train.weight_decay);
  v("train.no_decay", s.train.no_decay);
  v("train.lr_factors", s.train.lr_factors);
  v("train.ema", s.train.ema);
  v("train.ema_valid", s.train.ema_valid);
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
  v("train.lr_steps", s.train.lr_steps);
  v("train.warmup", s.train.warmup);
  v("train.lr_scaling", s.train.lr_scaling);
  v("train.lr_base_batch", s.train.lr_base_batch);
  v("train.freeze", s.train.freeze);
  v("train.lora_rank", s.train.lora_rank);
  v("train.lora_alpha", s.train.lora_alpha);
  v("train.lora_targets", s.train.lora_targets);
  v("train.init_from", s.train.init_from);
  v("train.seed", s.train.seed);
  v("train.log_every", s.train.log_every);
  v("train.valid_every", s.train.valid_every);
  v("train.checkpoint_every", s.train.checkpoint_every);
  v("train.checkpoint_keep", s.train.checkpoint_keep);
  v("train.checkpoint_best", s.train.checkpoint_best);
  v("train.early_stopping_patience", s.train.early_stopping_patience);
  v("train.jacobian_samples", s.train.jacobian_samples);
  v("train.jacobian_window", s.train.jacobian_window);
  v("train.jacobian_tolerance", s.train.jacobian_tolerance);
  v("train.min_steps", s.train.min_steps);
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
  v("policy.offload_parameters", s.policy.offload_parameters);
  v("policy.main_grads_dtype", s.policy.main_grads_dtype);
  v("policy.bucket_mb", s.policy.bucket_mb);
  v("policy.overlap", s.policy.overlap);
  v("policy.sequence_parallel", s.policy.sequence_parallel);
  v("policy.cp_kind", s.policy.cp_kind);
  v("policy.recompute", s.policy.recompute);
  v("policy.recompute_method", s.policy.recompute_method);
  v("policy.recompute_num_layers", s.policy.recompute_num_layers);
  v("policy.attention", s.policy.attention);
  if (s.net.has_edges()) v("policy.edge_chunks", s.policy.edge_chunks);
  v("run.out", s.run.out);
  v("run.threads", s.run.threads);
  v("run.serial", s.run.serial);
  v("run.device", s.run.device);
  v("run.cuda_graphs", s.run.cuda_graphs);
  v("run.gemm_choice", s.run.gemm_choice);
  v("run.fuse", s.run.fuse);
  v("run.deterministic_attention", s.run.deterministic_attention);
  v("run.hang_timeout", s.run.hang_timeout);
  v("run.tensorboard", s.run.tensorboard);
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
  /// No size, count or step comes near, and products of a few such stay within 64 bits; a seed may be any.
  static constexpr int64_t kMostOfAny = int64_t{1} << 40;
  int64_t bounded(const std::string& key, const nlohmann::json& v) const {
    const bool seed = key.ends_with("seed");
    const int64_t most = seed ? std::numeric_limits<int64_t>::max() : kMostOfAny;
    const bool above = v.is_number_unsigned() ? v.get<uint64_t>() > static_cast<uint64_t>(most)
                                              : v.get<int64_t>() > most || v.get<int64_t>() < -most;
    if (above)
      throw ConfigError(file, key, "is " + json_text(v) + ", beyond " + std::to_string(most), "give less");
    return v.get<int64_t>();
  }
  [[noreturn]] void wrong(const std::string& key, const nlohmann::json& v, const char* want) const {
    throw ConfigError(file, key, "is " + json_text(v) + ", not " + want, std::string("give ") + want);
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
    else if (!v->is_number_integer())
      wrong(key, *v, "a whole number");
    else
      out = bounded(key, *v);
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
    list(key, out, "a list of numbers", [](const nlohmann::json& x) { return x.is_number(); });
  }
  void operator()(const std::string& key, std::vector<int64_t>& out) const {
    list(key, out, "a list of whole numbers", [&](const nlohmann::json& x) {
      if (x.is_number_integer()) bounded(key, x);
      return x.is_number_integer();
    });
  }
  void operator()(const std::string& key, std::vector<std::string>& out) const {
    list(key, out, "a list of words", [](const nlohmann::json& x) { return x.is_string(); });
  }

 private:
  template <class T, class Is>
  void list(const std::string& key, std::vector<T>& out, const char* want, const Is& is) const {
    const auto* v = find(key);
    if (!v) return;
    out.clear();
    if (v->is_null()) return;
    if (!v->is_array()) wrong(key, *v, want);
    for (const auto& item : *v) {
      if (!is(item)) wrong(key, *v, want);
      out.push_back(item.get<T>());
    }
  }
};

// Known keys by section, for a run with this kind of net, net.kind included.
std::map<std::string, std::vector<std::string>> keys_of(const std::string& kind) {
  std::map<std::string, std::vector<std::string>> known;
  RunSpec none;
  none.net.set_kind(kind);
  known["net"].push_back("kind");
  visit([&](const std::string& key, auto&) { known[split(key).first].push_back(split(key).second); }, none);
  return known;
}

bool has(const std::vector<std::string>& list, const std::string& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

std::string kind_in(const nlohmann::json& j, const std::string& file) {
  if (!j.contains("net") || !j["net"].is_object() || !j["net"].contains("kind")) return VitSpec::kKind;
  const auto& kind = j["net"]["kind"];
  const std::vector<std::string> kinds = NetSpec::kinds();
  if (kind.is_string() && has(kinds, kind.get<std::string>())) return kind;
  std::string list;
  for (const auto& k : kinds) list += (list.empty() ? "" : ", ") + k;
  throw ConfigError(file, "net.kind", "is " + json_text(kind) + ", which is unknown", "use one of " + list);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> key_types(const std::string& kind) {
  struct Types {
    std::vector<std::pair<std::string, std::string>>& out;
    void operator()(const std::string& key, std::string&) { out.emplace_back(key, "text"); }
    void operator()(const std::string& key, int64_t&) { out.emplace_back(key, "int"); }
    void operator()(const std::string& key, double&) { out.emplace_back(key, "float"); }
    void operator()(const std::string& key, bool&) { out.emplace_back(key, "bool"); }
    void operator()(const std::string& key, std::vector<int64_t>&) { out.emplace_back(key, "list of int"); }
    void operator()(const std::string& key, std::vector<double>&) { out.emplace_back(key, "list of float"); }
    void operator()(const std::string& key, std::vector<std::string>&) {
      out.emplace_back(key, "list of text");
    }
  };
  std::vector<std::pair<std::string, std::string>> out;
  RunSpec none;
  none.net.set_kind(kind);
  visit(Types{out}, none);
  return out;
}

std::vector<std::string> net_kinds_with(const std::string& key) {
  const auto [section, name] = split(key);
  std::vector<std::string> out;
  for (const std::string& kind : NetSpec::kinds())
    if (has(keys_of(kind)[section], name)) out.push_back(kind);
  return out;
}

namespace {

// Expands "x0..x783" into names with consecutive numbers; all other names stay unchanged.
std::vector<std::string> with_ranges(const std::vector<std::string>& names) {
  constexpr int64_t kMostNames = 1 << 17;
  // Digits at the name's end, nine at most
  const auto digits_of = [](const std::string& name) {
    const size_t other = name.find_last_not_of("0123456789");
    return name.substr(std::max(other + 1, name.size() - std::min<size_t>(name.size(), 9)));
  };
  std::vector<std::string> out;
  for (const std::string& name : names) {
    const size_t dots = name.find("..");
    const std::string from = name.substr(0, dots),
                      to = dots == std::string::npos ? "" : name.substr(dots + 2);
    const std::string first = digits_of(from), last = digits_of(to);
    const std::string stem = from.substr(0, from.size() - first.size());
    const bool named = !first.empty() && !last.empty() && stem == to.substr(0, to.size() - last.size());
    if (!named || std::stoll(first) > std::stoll(last) ||
        std::stoll(last) - std::stoll(first) >= kMostNames) {
      out.push_back(name);
      continue;
    }
    for (int64_t i = std::stoll(first); i <= std::stoll(last); ++i) {
      std::string number = std::to_string(i);  // x000..x783 are of one width
      if (number.size() < first.size()) number.insert(0, first.size() - number.size(), '0');
      out.push_back(stem + number);
    }
  }
  return out;
}

void refuse_unknown_keys(const nlohmann::json& j, const std::string& kind, const std::string& file) {
  auto known = keys_of(kind);
  const std::string list_keys = "`isobar config show FILE` lists all keys";
  std::vector<std::string> sections, keys;
  for (const auto& [section, names] : known) {
    sections.push_back(section);
    for (const std::string& name : names) keys.push_back(section + "." + name);
  }
  for (const auto& [section, body] : j.items()) {
    if (!known.contains(section)) {
      const std::string one = body.is_object() && body.size() == 1 ? section + "." + body.begin().key() : "";
      std::vector<std::string> allowed = one.empty() ? sections : keys;
      if (!body.is_object()) allowed.insert(allowed.end(), keys.begin(), keys.end());
      const std::string word = one.empty() ? section : one;
      throw ConfigError(file, key_named(word), one.empty() ? "is not a known section" : "is not a known key",
                        did_you_mean(word, allowed, did_you_mean(section, sections, list_keys)));
    }
    if (!body.is_object())
      throw ConfigError(file, key_named(section), "must hold keys of its own",
                        "indent them below `" + section + ":`");
    for (const auto& item : body.items()) {
      const auto& names = known[section];
      if (has(names, item.key())) continue;
      const std::vector<std::string> others = net_kinds_with(section + "." + item.key());
      if (others.empty()) {
        const std::string word = section + "." + item.key();
        std::vector<std::string> of_all_kinds;
        for (const std::string& one : NetSpec::kinds())
          for (const auto& [its_section, its_names] : keys_of(one))
            for (const std::string& name : its_names) of_all_kinds.push_back(its_section + "." + name);
        const std::string elsewhere = did_you_mean(word, of_all_kinds, list_keys);
        throw ConfigError(file, word, "is not a known key",
                          did_you_mean(word, keys, did_you_mean(item.key(), keys, elsewhere)));
      }
      std::string list;
      for (const auto& k : others) list += (list.empty() ? "" : " and ") + k;
      throw ConfigError(
          file, section + "." + item.key(), "is a key of net.kind " + list + ", and net.kind is " + kind,
          section != "net" && has(known["net"], item.key()) ? "this net has net." + item.key() + ": set that"
                                                            : "remove it, or set net.kind");
    }
  }
}

}  // namespace

RunSpec run_spec_from_json(const nlohmann::json& j, const std::string& file) {
  if (!j.is_object()) throw ConfigError(file, "line 1", "does not hold a map of keys", "start with `net:`");
  const std::string kind = kind_in(j, file);
  refuse_unknown_keys(j, kind, file);
  RunSpec s;
  s.file = file;
  s.net.set_kind(kind);
  visit(Reader{j, file}, s);
  for (auto* names : {&s.data.inputs, &s.data.targets}) *names = with_ranges(*names);
  return s;
}

RunSpec run_spec_from_record(nlohmann::json j, const std::string& file) {
  if (j.is_object() && j.contains("net") && j["net"].is_object()) {
    const std::vector<std::string> own = keys_of(kind_in(j, file))["net"];
    nlohmann::json& net = j["net"];
    for (auto item = net.begin(); item != net.end();)
      item = has(own, item.key()) || net_kinds_with("net." + item.key()).empty() ? std::next(item)
                                                                                 : net.erase(item);
  }
  return run_spec_from_json(j, file);
}

bool NetSpec::set_kind(const std::string& kind) {
  const auto take = [&]<class... T>(const std::variant<T...>*) {
    return ((kind == T::kKind ? (of_ = T{}, true) : false) || ...);
  };
  return take(static_cast<const Kinds*>(nullptr));
}

std::vector<std::string> NetSpec::kinds() {
  const auto list = []<class... T>(const std::variant<T...>*) {
    return std::vector<std::string>{T::kKind...};
  };
  return list(static_cast<const Kinds*>(nullptr));
}

const Images* NetSpec::images() const {
  return visit([](const auto& n) -> const Images* {
    if constexpr (std::is_base_of_v<Images, std::decay_t<decltype(n)>>)
      return &n;
    else
      return nullptr;
  });
}

const WordsSpec* NetSpec::words() const {
  return visit([](const auto& n) -> const WordsSpec* {
    if constexpr (std::is_base_of_v<WordsSpec, std::decay_t<decltype(n)>>)
      return &n;
    else
      return nullptr;
  });
}

RunSpec load_run_spec(const std::string& path, const std::vector<std::string>& overrides) {
  nlohmann::json j = load_yaml(path);
  for (const std::string& assignment : overrides) {
    apply_override(j, assignment);
    nlohmann::json alone;
    apply_override(alone, assignment);
    refuse_unknown_keys(alone, kind_in(j, path), "--set");
  }
  RunSpec s = run_spec_from_json(j, path);
  validate(s);
  return s;
}

nlohmann::json to_json(const RunSpec& spec) {
  nlohmann::json j = nlohmann::json::object();
  RunSpec copy = spec;
  j["net"]["kind"] = spec.net.kind();
  visit([&](const std::string& key, auto& member) { j[split(key).first][split(key).second] = member; }, copy);
  return j;
}

}  // namespace isobar
