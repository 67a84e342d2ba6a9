#include "model/inference/weights/params.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <type_traits>

#include "model/base/error.h"
#include "model/base/rng.h"
#include "model/base/text/hash.h"

namespace isobar::inference {

std::vector<ElementRun> runs_of(const plan::Param& p) {
  // View the tensor as [outer, cut, inner]; an uncut tensor is one row.
  int64_t outer = 1, cut = 1, inner = 1, begin = 0, extent = 1;
  for (size_t i = 0; i < p.shape.size(); ++i) {
    const auto axis = static_cast<int>(i);
    (axis < p.axis ? outer : axis == p.axis ? cut : inner) *= p.shape[i];
  }
  if (p.axis >= 0) begin = p.begin, extent = p.extent;
  if (p.axis >= static_cast<int>(p.shape.size()) || begin < 0 || begin + extent > cut ||
      p.count != outer * extent * inner)
    throw std::logic_error("the part of " + p.name + " that the plan names is none");
  if (extent == cut) return {{0, p.offset, p.count}};
  std::vector<ElementRun> runs;
  runs.reserve(static_cast<size_t>(outer));
  for (int64_t i = 0; i < outer; ++i)
    runs.push_back({(i * cut + begin) * inner, p.offset + i * extent * inner, extent * inner});
  return runs;
}

std::vector<ElementRun> kept_runs(const plan::Plan& plan, const plan::Param& p,
                                  int64_t plan::Shard::*buffer) {
  std::vector<ElementRun> kept;
  for (const ElementRun& r : runs_of(p)) {
    // Shards are sorted and do not overlap: start with the last one that begins at or before the run.
    auto shard = std::upper_bound(plan.shards.begin(), plan.shards.end(), r.offset,
                                  [](int64_t offset, const plan::Shard& s) { return offset < s.begin; });
    if (shard != plan.shards.begin()) --shard;
    for (; shard != plan.shards.end() && shard->begin < r.offset + r.count; ++shard) {
      const int64_t first = std::max(r.offset, shard->begin);
      const int64_t end = std::min(r.offset + r.count, shard->begin + shard->count);
      if (first < end)
        kept.push_back({r.whole + first - r.offset, (*shard).*buffer + first - shard->begin, end - first});
    }
  }
  return kept;
}

namespace {

float first_value(const plan::Param& p, uint64_t seed, uint64_t stream, int64_t i) {
  switch (p.init) {
    case plan::Init::zero:
      return 0;
    case plan::Init::one:
      return 1;
    case plan::Init::normal:
      return p.scale * normal(seed, stream, i);
    case plan::Init::uniform:
      return p.scale * (2 * uniform(seed, stream, i) - 1);
  }
  throw std::logic_error("no such first value");
}

// The address of a run in params16
std::byte* halves_at(const plan::Plan& plan, const plan::Param& p, const ElementRun& r, const Weights& at) {
  if (at.params16 == nullptr) throw std::logic_error(p.name + " is kept in 16 bits alone");
  const DType t = plan.buffers[plan.params16_all.buffer].dtype;
  return static_cast<std::byte*>(at.params16) + r.offset * size_of(t);
}

void to_halves(DType t, const float* values, int64_t count, std::byte* halves) {
  if (t == DType::bf16)
    std::transform(values, values + count, reinterpret_cast<bf16*>(halves),
                   [](float x) { return to_bf16(x); });
  else
    std::transform(values, values + count, reinterpret_cast<f16*>(halves), [](float x) { return to_f16(x); });
}

void from_halves(DType t, const std::byte* halves, int64_t count, float* values) {
  const auto convert = [&](const auto* x) {
    std::transform(x, x + count, values, [](auto half) { return to_float(half); });
  };
  t == DType::bf16 ? convert(reinterpret_cast<const bf16*>(halves))
                   : convert(reinterpret_cast<const f16*>(halves));
}

// Calls `use(run, values)` for each run of a parameter, with values in f32 to read or write.
template <bool writes, class Use>
void each_run(const plan::Plan& plan, const plan::Param& p, const Weights& at, const Use& use) {
  std::vector<float> values;
  for (const ElementRun& r : kept_runs(plan, p, &plan::Shard::params)) {
    if (!p.half) {
      use(r, at.params + r.offset);
      continue;
    }
    const DType t = plan.buffers[plan.params16_all.buffer].dtype;
    std::byte* const halves = halves_at(plan, p, r, at);
    values.resize(static_cast<size_t>(r.count));
    if (!writes) from_halves(t, halves, r.count, values.data());
    use(r, values.data());
    if (writes) to_halves(t, values.data(), r.count, halves);
  }
}

constexpr int64_t kPiece = 4096;  // elements that a thread initialises at a time

// Cuts runs into pieces, so that threads share a long run as well as many short ones.
std::vector<ElementRun> pieces_of(const std::vector<ElementRun>& runs) {
  std::vector<ElementRun> pieces;
  for (const ElementRun& r : runs)
    for (int64_t i = 0; i < r.count; i += kPiece)
      pieces.push_back({r.whole + i, r.offset + i, std::min(kPiece, r.count - i)});
  return pieces;
}

const StoredTensor& stored(const SafetensorsReader& file, const std::string& name, const plan::Param& p) {
  const auto at = file.tensors().find(name);
  if (at == file.tensors().end())
    throw ConfigError(file.path().string(), name, "is missing from the checkpoint",
                      "use one of the same net; weights under another program's names: isobar import");
  if (at->second.shape != p.shape)
    throw ConfigError(file.path().string(), name, "has another shape than the net",
                      "use a checkpoint of the same net");
  return at->second;
}

bool is_kept_in(int64_t plan::Shard::*buffer, const plan::Param& p) {
  if (buffer == &plan::Shard::params && p.half) throw std::logic_error(p.name + " is kept in 16 bits alone");
  return buffer != &plan::Shard::moments || !p.frozen;
}

}  // namespace

void init_params(const plan::Plan& plan, uint64_t seed, const Weights& to) {
  for (const plan::Param& p : plan.params) {
    const uint64_t stream = std::stoull(sha256_hex(p.name).substr(0, 16), nullptr, 16);
    const std::vector<ElementRun> pieces = pieces_of(kept_runs(plan, p, &plan::Shard::params));
    if (p.half && !pieces.empty()) halves_at(plan, p, pieces.front(), to);  // throws here, not in a thread
#pragma omp parallel for schedule(static)
    for (const ElementRun& r : pieces) {
      std::array<float, kPiece> drawn;
      float* const x = p.half ? drawn.data() : to.params + r.offset;
      for (int64_t i = 0; i < r.count; ++i) x[i] = first_value(p, seed, stream, r.whole + i);
      if (p.half)
        to_halves(plan.buffers[plan.params16_all.buffer].dtype, x, r.count, halves_at(plan, p, r, to));
    }
  }
}

std::vector<plan::Tensor> prefixed(const std::vector<plan::Tensor>& tensors, const std::string& prefix) {
  std::vector<plan::Tensor> out = tensors;
  for (plan::Tensor& t : out) t.name.insert(0, prefix);
  return out;
}

std::vector<plan::Tensor> trained(const std::vector<plan::Tensor>& tensors) {
  std::vector<plan::Tensor> out;
  for (const plan::Tensor& t : tensors)
    if (!t.frozen) out.push_back(t);
  return out;
}

void write_tensors(const plan::Plan& plan, const SafetensorsWriter& file, const std::string& prefix,
                   int64_t plan::Shard::*buffer, const float* data) {
  for (const plan::Param& p : plan.params) {
    if (!p.writer || !is_kept_in(buffer, p)) continue;
    for (const ElementRun& r : kept_runs(plan, p, buffer))
      file.write(prefix + p.name, r.whole, r.count, data + r.offset);
  }
}

void write_weights(const plan::Plan& plan, const SafetensorsWriter& file, const Weights& from) {
  for (const plan::Param& p : plan.params)
    if (p.writer)
      each_run<false>(plan, p, from,
                      [&](const ElementRun& r, const float* x) { file.write(p.name, r.whole, r.count, x); });
}

void load_tensors(const plan::Plan& plan, const SafetensorsReader& file, const std::string& prefix,
                  int64_t plan::Shard::*buffer, float* data) {
  for (const plan::Param& p : plan.params) {
    if (!is_kept_in(buffer, p)) continue;
    const StoredTensor& t = stored(file, prefix + p.name, p);
    for (const ElementRun& r : kept_runs(plan, p, buffer)) file.read(t, r.whole, r.count, data + r.offset);
  }
}

void load_weights(const plan::Plan& plan, const SafetensorsReader& file, const std::string& prefix,
                  const Weights& to, Absent absent) {
  for (const plan::Param& p : plan.params) {
    const bool may_stay = absent == Absent::stays || (absent == Absent::adapters_stay && p.adapter);
    if (may_stay && !file.tensors().contains(prefix + p.name)) continue;
    const StoredTensor& t = stored(file, prefix + p.name, p);
    each_run<true>(plan, p, to, [&](const ElementRun& r, float* x) {
      file.read(t, r.whole, r.count, x);
      if (absent == Absent::adapters_stay)
        refuse_nonfinite(file.path().string(), t.name, r.whole, t.count, {x, static_cast<size_t>(r.count)});
    });
  }
}

}  // namespace isobar::inference
