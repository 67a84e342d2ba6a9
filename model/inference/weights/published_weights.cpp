#include "model/inference/weights/published_weights.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "model/base/error.h"
#include "model/base/system/files.h"
#include "model/base/text/joined.h"
#include "model/inference/one_rank.h"
#include "model/inference/weights/sharded_safetensors.h"
#include "model/nets/build.h"
#include "model/nets/published/published.h"
#include "model/nets/transformer/adapter.h"

namespace isobar::inference {
namespace {

namespace fs = std::filesystem;

struct Form {
  std::vector<plan::Tensor> own;
  nets::PublishedForm published;
};

bool of_adapter(const plan::Tensor& t) {
  return t.name.ends_with(nets::kLoraA) || t.name.ends_with(nets::kLoraB);
}

RunSpec with_adapters(RunSpec one, int64_t rank, double alpha, const std::vector<std::string>& targets) {
  one.train.lora_rank = rank, one.train.lora_alpha = alpha, one.train.lora_targets = targets;
  return one;
}

// The form of the whole net, including the published adapters if they stay apart
Form form_of(const RunSpec& spec, const std::string& from, Adapters adapters) {
  const RunSpec one = on_one_rank(spec, 1);
  Form f;
  f.own = nets::build_plan(one, 0, {}).tensors;
  f.published = nets::published_form(spec.net, f.own);
  if (const nets::PublishedAdapters& a = f.published.adapters; adapters == Adapters::apart && a.rank > 0) {
    f.own = nets::build_plan(with_adapters(one, a.rank, a.alpha, a.targets), 0, {}).tensors;
    f.published = nets::published_form(spec.net, f.own);
  }
  if (f.published.program.empty())
    throw ConfigError(from, "net.kind", "is " + spec.net.kind() + ", which has no form but ours",
                      "take a safetensors file in our names, which train.init_from reads and export writes");
  return f;
}

// Throws unless the spec's adapters are the published ones.
void same_adapters(const RunSpec& spec, const Form& form, const std::string& from) {
  const nets::PublishedAdapters& a = form.published.adapters;
  const TrainSpec& t = spec.train;
  const auto names = [](const std::vector<plan::Tensor>& all) {
    std::vector<std::string> out;
    for (const plan::Tensor& x : all)
      if (of_adapter(x)) out.push_back(x.name);
    return out;
  };
  const RunSpec own = with_adapters(on_one_rank(spec, 1), t.lora_rank, t.lora_alpha, t.lora_targets);
  const std::string mend = a.rank == 0
                               ? "merge them"
                               : "set train.lora_rank " + std::to_string(a.rank) + ", lora_targets [" +
                                     joined(a.targets) + "], and lora_alpha as large";
  if (a.rank != t.lora_rank || a.alpha / static_cast<double>(a.rank) != spec.lora_scale())
    throw ConfigError(from, "train.lora_rank",
                      "is " + std::to_string(t.lora_rank) + " with the factor " +
                          std::to_string(t.lora_rank > 0 ? spec.lora_scale() : 0) + ", and " +
                          form.published.program + " has rank " + std::to_string(a.rank) + " and factor " +
                          std::to_string(a.rank > 0 ? a.alpha / static_cast<double>(a.rank) : 0),
                      mend);
  if (names(nets::build_plan(own, 0, {}).tensors) != names(form.own))
    throw ConfigError(from, "train.lora_targets",
                      "has not the linears to which " + form.published.program + " has adapters", mend);
}

/// A published name, without the parts that PyTorch's wrappers add to it.
std::string bare_of(std::string name, const nets::PublishedForm& form) {
  for (const std::string_view inside : {"_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module."})
    for (size_t at = name.find(inside); at != std::string::npos; at = name.find(inside))
      name.erase(at, inside.size());
  for (const std::string_view before : {std::string_view("module."), std::string_view(form.prefix)})
    if (name.starts_with(before)) name.erase(0, before.size());
  return name;
}

std::set<std::string> bare_names(const NamedWeights& file, const nets::PublishedForm& form) {
  std::set<std::string> out;
  for (const auto& [name, shape] : file.shapes()) out.insert(bare_of(name, form));
  return out;
}

template <class Place>  // (our first element, their first element)
void each_run(const nets::PublishedTensor::Piece& p, Place&& place) {
  for (int64_t i = 0; i < p.rows; ++i) place(p.own_first + i * p.own_stride, p.first + i * p.stride);
}

using FoundTensors = std::vector<std::pair<std::string, const nets::PublishedTensor*>>;

/// The net's tensors in a file; throws unless the file has all of them and nothing else.
FoundTensors found_in(const NamedWeights& file, const std::string& named, const Form& form) {
  std::map<std::string, const nets::PublishedTensor*> known;
  for (const nets::PublishedTensor& t : form.published.earlier) known[t.name] = &t;
  for (const nets::PublishedTensor& t : form.published.tensors) known[t.name] = &t;  // override `earlier`
  std::map<std::string, int64_t> elements;                                           // found, by our tensor
  FoundTensors out;
  for (const auto& [name, shape] : file.shapes()) {
    const std::string bare = bare_of(name, form.published);
    const auto at = known.find(bare);
    if (form.published.unread.contains(bare)) continue;
    if (at == known.end() && !file.floating(name)) continue;  // a counter
    if (at == known.end())
      throw ConfigError(named, name, "is nothing that this net has",
                        "give the configuration of the net that the file is of");
    if (shape != at->second->shape)
      throw ConfigError(named, name,
                        "has shape [" + joined(shape, " x ") + "], and in this net [" +
                            joined(at->second->shape, " x ") + "]",
                        "give the configuration of the net that the file is of");
    for (const nets::PublishedTensor::Piece& p : at->second->pieces) elements[p.own] += p.rows * p.run;
    out.emplace_back(name, at->second);
  }
  const std::set<std::string> there = bare_names(file, form.published);
  for (const plan::Tensor& t : form.own)
    if (elements[t.name] != nets::elements_of(t.shape)) {
      const auto lacks = std::find_if(
          form.published.tensors.begin(), form.published.tensors.end(), [&](const nets::PublishedTensor& p) {
            return !there.contains(p.name) && std::any_of(p.pieces.begin(), p.pieces.end(),
                                                          [&](const auto& q) { return q.own == t.name; });
          });
      if (lacks == form.published.tensors.end())
        throw ConfigError(named, t.name, "is there twice, under two of its names", "leave one of them out");
      throw ConfigError(named, lacks->name, "is missing",
                        "give the configuration of the net that the file is of");
    }
  return out;
}

// True when the file has published adapters: tensors whose pieces are adapters of ours
bool has_adapters(const NamedWeights& file, const Form& form) {
  std::set<std::string> ours;
  for (const plan::Tensor& t : form.own)
    if (of_adapter(t)) ours.insert(t.name);
  const std::set<std::string> there = bare_names(file, form.published);
  return std::any_of(form.published.tensors.begin(), form.published.tensors.end(),
                     [&](const nets::PublishedTensor& t) {
                       return !t.pieces.empty() && ours.contains(t.pieces[0].own) && there.contains(t.name);
                     });
}

/// Throws when a second name of a tensor has other values than its first.
void require_one_tensor(const NamedWeights& file, const std::string& named, const Form& form,
                        const FoundTensors& found) {
  for (const auto& [name, shape] : file.shapes()) {
    const auto second = form.published.again.find(bare_of(name, form.published));
    if (second == form.published.again.end()) continue;
    for (const auto& [first, t] : found) {
      if (t->pieces[0].own != second->second) continue;
      std::vector<float> one(static_cast<size_t>(nets::elements_of(t->shape))), other;
      if (shape == t->shape) {
        other.resize(one.size());
        file.read(first, one.data()), file.read(name, other.data());
      }
      if (one != other)
        throw ConfigError(named, name, "differs from " + first + ", and net.tie_embeddings makes them one",
                          "say net.tie_embeddings: false");
    }
  }
}

}  // namespace

namespace {

// transformers loads in the type that the config has.
std::string config_with(const std::string& config, DType type) {
  nlohmann::json j = nlohmann::json::parse(config);
  j["dtype"] = type == DType::bf16 ? "bfloat16" : "float32";
  return j.dump(2) + "\n";
}

}  // namespace

int64_t write_published(const RunSpec& spec, const TrainedWeights& weights, const fs::path& to,
                        const PublishedFiles& how) {
  const Adapters adapters = how.adapters;
  const Form form = form_of(spec, weights.path(), adapters);
  if (adapters == Adapters::apart) same_adapters(spec, form, weights.path());
  std::vector<plan::Tensor> tensors;
  for (const nets::PublishedTensor& t : form.published.tensors) tensors.push_back({t.name, t.shape});
  ShardedWriter out(to, tensors, how.type, how.most_bytes);
  std::string last;  // pieces of one of our tensors are adjacent
  std::vector<float> ours, theirs;
  for (const nets::PublishedTensor& t : form.published.tensors) {
    theirs.assign(static_cast<size_t>(nets::elements_of(t.shape)), 0.0f);
    for (const nets::PublishedTensor::Piece& p : t.pieces) {
      if (p.own != last)
        ours = adapters == Adapters::merged ? weights.merged(p.own) : weights.base(p.own), last = p.own;
      each_run(p, [&](int64_t own, int64_t their) {
        for (int64_t j = 0; j < p.run; ++j) theirs[their + j * p.step] = ours[own + j];
      });
    }
    out.write({t.name, t.shape}, theirs.data());
  }
  out.finish();
  if (!form.published.config.empty())
    write_atomically(to.parent_path() / "config.json", config_with(form.published.config, how.type));
  return weights.adapters();
}

int64_t import_published_weights(const RunSpec& spec, const NamedWeights& in, const std::string& named,
                                 const fs::path& to) {
  Form form = form_of(spec, named, Adapters::apart);
  const bool adapted = has_adapters(in, form);
  if (!adapted) form = form_of(spec, named, Adapters::merged);
  const bool merges = adapted && spec.train.lora_rank == 0;
  if (adapted && !merges) same_adapters(spec, form, spec.file);
  const auto found = found_in(in, named, form);
  require_one_tensor(in, named, form, found);
  const HalfFile half(to.string() + ".tmp");
  const fs::path& temp = half.path;
  create_safetensors(temp, form.own, {{"format", "pt"}});
  const SafetensorsWriter out(temp, form.own, {{"format", "pt"}});
  std::vector<float> theirs, run;
  for (const auto& [name, t] : found) {
    theirs.resize(static_cast<size_t>(nets::elements_of(t->shape)));
    in.read(name, theirs.data());
    refuse_nonfinite(named, name, 0, nets::elements_of(t->shape), theirs);
    for (const nets::PublishedTensor::Piece& p : t->pieces)
      each_run(p, [&](int64_t own, int64_t their) {
        run.resize(static_cast<size_t>(p.run));
        for (int64_t j = 0; j < p.run; ++j) run[j] = theirs[their + j * p.step];
        out.write(p.own, own, p.run, run.data());
      });
  }
  out.sync();
  if (!merges) {
    fs::rename(temp, to);
    return 0;
  }
  const HalfFile both(to.string() + ".apart");
  const fs::path& apart = both.path;
  fs::rename(temp, apart);
  const nets::PublishedAdapters& a = form.published.adapters;
  return TrainedWeights(apart, a.alpha / static_cast<double>(a.rank)).write(to);
}

}  // namespace isobar::inference
