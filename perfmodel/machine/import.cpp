#include "perfmodel/machine/import.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "model/base/error.h"
#include "model/base/names/hugging_face_config.h"
#include "model/base/text/json.h"

namespace isobar::perf {
namespace {

enum class PeerFile : uint8_t {
  calculon_system,
  calculon_application,
  calculon_execution,
  tpe_system,
  tpe_model,
  hugging_face_config
};

using nlohmann::json;

bool has(const json& j, std::initializer_list<const char*> keys) {
  for (const char* k : keys)
    if (!j.contains(k)) return false;
  return true;
}

struct Fields {
  const json& j;
  const std::string& file;
  double number(const std::string& key) const {
    const json* at = &j;
    std::string rest = key;
    for (size_t dot = 0; dot != std::string::npos; rest = rest.substr(std::min(rest.size(), dot + 1))) {
      dot = rest.find('.');
      const std::string name = rest.substr(0, dot);
      if (!at->is_object() || !at->contains(name))
        throw ConfigError(file, key, "is missing", "give the whole file");
      at = &at->at(name);
      if (dot == std::string::npos) break;
    }
    if (!at->is_number())
      throw ConfigError(file, key, "is no number", "give the file as its program reads it");
    const double v = at->get<double>();
    if (!(v > 0) || !std::isfinite(v)) throw ConfigError(file, key, "is not positive", "correct it");
    return v;
  }
  int64_t whole(const std::string& key) const { return std::llround(number(key)); }
  double number_or(const std::string& key, double otherwise) const {
    return j.contains(key) ? number(key) : otherwise;
  }
};

// The efficiency for the largest size in Calculon's steps [least size, efficiency]
double best_step(const json& steps) {
  double most = -1, efficiency = 1;
  for (const json& s : steps)
    if (s.at(0).get<double>() > most) most = s.at(0).get<double>(), efficiency = s.at(1).get<double>();
  return efficiency;
}

void set(Machine& m, std::initializer_list<Coef> coefs, double value, const std::string& who) {
  for (Coef c : coefs) m[c] = Coefficient::make(std::max(value, m.floor_of(index_of(c))), 0.2, {who});
}

constexpr std::initializer_list<Coef> kMemoryBound = {Coef::norm, Coef::gelu, Coef::reduction,
                                                      Coef::copy, Coef::loss, Coef::optimizer};

Machine from_calculon(const json& j, const std::string& file) {
  const Fields f{j, file};
  const std::string who = "calculon: " + file;
  if (!j.at("networks").is_array() || j.at("networks").size() < 2)
    throw ConfigError(file, "networks", "holds fewer than two", "a host's and a cluster's are needed");
  const json &near = j["networks"][0], &far = j["networks"][1];
  const Fields host{near, file}, net{far, file};
  Accelerator a;
  a.name = file;
  a.memory_bytes = std::llround(f.number("mem1.GiB") * 1073741824.0);
  a.processors = 1;  // tile losses are part of the efficiencies
  a.host = {.name = "host",
            .ranks = host.whole("size"),
            .bandwidth = host.number("bandwidth") * 1e9,
            .latency = host.number("latency"),
            .provenance = {who}};
  a.net = {.name = "net",
           .bandwidth = net.number("bandwidth") * 1e9,
           .latency = net.number("latency"),
           .provenance = {who}};
  a.provenance = {who};
  const double matrix = f.number("matrix.tflops") * 1e12, memory = f.number("mem1.GBps") * 1e9;
  Machine m = machine_from_spec(file, {.cores = 1, .memory_bytes = a.memory_bytes, .cache_bytes = 1},
                                {{"f32", {f.number("vector.tflops") * 1e12, {who}}},
                                 {"bf16", {matrix, {who}}},
                                 {"memory", {memory, {who}}}},
                                a);
  const json& products = j["matrix"].at("gflops_efficiency");
  set(m, {Coef::gemm_bf16, Coef::attention_bf16, Coef::attention_backward_bf16},
      1 / (matrix * best_step(products.begin().value())), who);
  set(m, kMemoryBound, 1 / (memory * best_step(j["mem1"].at("MB_efficiency"))), who);
  set(m, {Coef::wire_host}, 1 / (a.host.bandwidth * host.number("efficiency")), who);
  set(m, {Coef::wire_net}, 1 / (a.net.bandwidth * net.number("efficiency")), who);
  return m;
}

Machine from_tpe(const json& j, const std::string& file) {
  const Fields f{j, file};
  const std::string who = "transformer-perf-estimates: " + file;
  Accelerator a;
  a.name = file;
  a.memory_bytes = std::llround(f.number("hbm_capacity") * 1e9);
  a.processors = 1;
  a.host = {.name = "host",
            .ranks = f.whole("nvlink_size"),
            .bandwidth = f.number("nvlink_bandwidth") * 1e9,
            .latency = f.number("nvlink_latency"),
            .provenance = {who}};
  a.net = {.name = "net",
           .bandwidth = f.number("ib_bandwidth") * 1e9,
           .latency = f.number("ib_latency"),
           .provenance = {who}};
  a.provenance = {who};
  const double matrix = f.number("matrix_flops_fp16") * 1e12, memory = f.number("hbm_bandwidth") * 1e9;
  Machine m = machine_from_spec(
      file, {.cores = 1, .memory_bytes = a.memory_bytes, .cache_bytes = 1},
      {{"f32", {f.number_or("vector_flops_fp32", f.number("vector_flops_fp16")) * 1e12, {who}}},
       {"bf16", {matrix, {who}}},
       {"memory", {memory, {who}}}},
      a);
  set(m, {Coef::gemm_bf16, Coef::attention_bf16, Coef::attention_backward_bf16}, 1 / (0.8 * matrix), who);
  set(m, {Coef::op}, 20e-6, who);  // of every operation
  set(m, kMemoryBound, 1 / memory, who);
  set(m, {Coef::wire_host}, 1 / (a.host.bandwidth * f.number("nvlink_eff")), who);
  set(m, {Coef::wire_net}, 1 / (a.net.bandwidth * f.number("ib_eff")), who);
  set(m, {Coef::collective_call}, 1e-9, who);
  return m;
}

json from_execution(const json& j, const std::string& file) {
  const Fields f{j, file};
  const auto on = [&](const char* key) {
    return j.contains(key) && j[key].is_boolean() && j[key].get<bool>();
  };
  const auto word = [&](const char* key) { return text_in(j, key); };
  for (const char* key : {"weight_offload", "activations_offload", "optimizer_offload"})
    if (on(key)) throw ConfigError(file, key, "is on, and offload is not predicted", "set it to false");
  const int64_t chunks = f.whole("pipeline_interleaving");
  const std::string recompute = word("activation_recompute");
  json out;
  out["layout"] = {{"tp", f.whole("tensor_par")},
                   {"pp", f.whole("pipeline_par")},
                   {"dp", f.whole("data_par")},
                   {"vpp", chunks}};
  out["train"] = {{"global_batch", f.whole("batch_size")}};
  out["policy"] = {{"amp", "bf16"},
                   {"micro_batch", f.whole("microbatch_size")},
                   {"schedule", chunks > 1 ? "interleaved" : "1f1b"},
                   {"recompute", recompute == "full"   ? "full"
                                 : recompute == "none" ? "none"
                                                       : "selective"},
                   {"sequence_parallel", word("tensor_par_comm_type") == "rs_ag"},
                   {"zero", on("optimizer_sharding") ? 1 : 0},
                   {"overlap", on("data_par_overlap")},
                   {"attention", "unfused"}};
  return out;
}

/// Throws ConfigError for any other file.
PeerFile peer_file(const json& j, const std::string& file) {
  if (j.is_object()) {
    if (has(j, {"matrix", "vector", "mem1", "networks"})) return PeerFile::calculon_system;
    if (has(j, {"hidden", "feedforward", "seq_size", "attn_heads", "num_blocks"}))
      return PeerFile::calculon_application;
    if (has(j, {"num_procs", "tensor_par", "pipeline_par", "data_par"})) return PeerFile::calculon_execution;
    if (has(j, {"matrix_flops_fp16", "hbm_bandwidth", "nvlink_bandwidth"})) return PeerFile::tpe_system;
    if (has(j, {"l", "e", "h", "depth"})) return PeerFile::tpe_model;
    if (is_hugging_face_config(j)) return PeerFile::hugging_face_config;
  }
  throw ConfigError(
      file, "", "is no file of a performance model that can be imported",
      "give Calculon's system, application or execution, transformer-perf-estimates' system or model, or "
      "config.json of transformers");
}

}  // namespace

bool is_machine(const json& j, const std::string& file) {
  const PeerFile f = peer_file(j, file);
  return f == PeerFile::calculon_system || f == PeerFile::tpe_system;
}

Machine import_machine(const json& j, const std::string& file) {
  switch (peer_file(j, file)) {
    case PeerFile::calculon_system:
      return from_calculon(j, file);
    case PeerFile::tpe_system:
      return from_tpe(j, file);
    default:
      throw ConfigError(file, "", "is a model, not a machine", "import it as one");
  }
}

json import_model(const json& j, const std::string& file) {
  const Fields f{j, file};
  switch (peer_file(j, file)) {
    case PeerFile::calculon_application:
      return {{"net",
               {{"kind", "gpt"},
                {"embed_dim", f.whole("hidden")},
                {"ffn_dim", f.whole("feedforward")},
                {"seq_length", f.whole("seq_size")},
                {"num_heads", f.whole("attn_heads")},
                {"depth", f.whole("num_blocks")},
                {"dropout", 0.1},
                {"vocab_size", 1}}}};
    case PeerFile::tpe_model:
      return {{"net",
               {{"kind", "gpt"},
                {"embed_dim", f.whole("e")},
                {"seq_length", f.whole("l")},
                {"num_heads", f.whole("h")},
                {"depth", f.whole("depth")},
                {"dropout", 0.1},
                {"vocab_size", 1}}},
              {"policy", {{"amp", "bf16"}}}};
    case PeerFile::calculon_execution:
      return from_execution(j, file);
    case PeerFile::hugging_face_config:
      return {{"net", net_of_config(j, file)}};
    default:
      throw ConfigError(file, "", "is a machine, not a model", "import it as one");
  }
}

}  // namespace isobar::perf
