#include "model/plan/builder.h"

#include <algorithm>
#include <stdexcept>

#include "model/plan/ops/op_table.h"

namespace isobar::plan {
namespace {
// Elements: parameters that start an operand are 64-byte aligned. The gaps stay zero, since no op writes
// their gradients.
constexpr int64_t kAlign = 16;
}  // namespace

Builder::Builder(int rank, int world, Workspace workspace) : workspace_(std::move(workspace)) {
  plan.rank = rank;
  plan.world = world;
  plan.align = workspace_.align;
}

View Builder::params_together(const std::vector<Param>& pieces) {
  pad_params(kAlign);
  const int64_t first = param_end_;
  for (Param p : pieces) {
    if (p.axis >= 0 && p.extent == 0 && p.reserved == 0) p.extent = p.shape[p.axis];
    p.count = 1;
    for (size_t i = 0; i < p.shape.size(); ++i)
      p.count *= static_cast<int>(i) == p.axis ? p.extent : p.shape[i];
    p.offset = param_end_;
    p.part = part_;
    param_end_ += std::max(p.count, p.reserved);
    plan.params.push_back(std::move(p));
  }
  return {-2, first, param_end_ - first};  // homes_ gives the buffer when an op uses it
}

void Builder::pad_params(int64_t to, int64_t from) {
  param_end_ = from + (param_end_ - from + to - 1) / to * to;
}

void Builder::home(Use use, int64_t begin, const View& at) {
  homes_[static_cast<int>(use)][begin] = at;
  if (at && known_homes_.insert({at.buffer, at.offset}).second) plan.homes.push_back({at, begin});
}

View Builder::at(Use use, const View& param) const {
  const auto& homes = homes_[static_cast<int>(use)];
  auto home = homes.upper_bound(param.offset);
  if (home != homes.begin()) {
    --home;
    const int64_t from = param.offset - home->first;
    if (from + param.count <= home->second.count)
      return home->second ? home->second.slice(from, param.count) : View{};
  }
  throw std::logic_error("the parameters at " + std::to_string(param.offset) + " are not on this rank now");
}

View Builder::weight(const View& param) const {
  const auto& copies = homes_[static_cast<int>(Use::matrix)];
  return at(copies.empty() ? Use::vector : Use::matrix, param);
}

namespace {

// One spelling: the path by slashes, then a dot and the tensor
std::string buffer_name(std::string name) {
  const size_t last = name.rfind('.');
  for (size_t i = 0; i < name.size(); ++i)
    if (name[i] == '.' && i != last) name[i] = '/';
  return name;
}

}  // namespace

View Builder::add(const std::string& name, BufferKind kind, DType t, int64_t count) {
  Buffer b{buffer_name(name), kind, t, count};
  if (kind == BufferKind::scratch || kind == BufferKind::saved) {
    if (routine_ < 0) throw std::logic_error("buffer " + name + " is declared outside of a routine");
    b.routine = routine_;
    b.chunk = plan.routines[routine_].chunk;
  }
  b.part = part_;
  plan.buffers.push_back(std::move(b));
  return {static_cast<int32_t>(plan.buffers.size()) - 1, 0, count};
}

View Builder::saved(const std::string& name, DType t, int64_t count) {
  if (!shares_saved_ || routine_ < 0) return add(name, BufferKind::saved, t, count);
  SavedKey key{plan.routines[routine_].chunk, part_, name, 0};
  std::get<3>(key) = times_saved_[key]++;
  const auto [place, fresh] = saved_.try_emplace(key);
  if (fresh) place->second = add(name, BufferKind::saved, t, count);
  const Buffer& b = plan.buffers[place->second.buffer];
  if (b.dtype != t || b.count != count)
    throw std::logic_error("steps of a roll-out save different things as " + name);
  return place->second;
}

View Builder::constant(const std::string& name, DType t, int64_t count, std::function<void(void*)> fill) {
  const InPart none(*this, -1);
  const View at = add(name, BufferKind::constants, t, count);
  plan.constants.push_back({at, std::move(fill)});
  return at;
}

int Builder::begin(const std::string& name, Pass pass, int chunk) {
  routine_ = static_cast<int>(plan.routines.size());
  times_saved_.clear();
  plan.routines.push_back({name, pass, chunk, static_cast<int32_t>(plan.ops.size()), 0});
  return routine_;
}

void Builder::end() {
  plan.routines[routine_].count = static_cast<int32_t>(plan.ops.size()) - plan.routines[routine_].first;
  routine_ = -1;
}

Op& Builder::emit(OpKind kind, const std::string& path, Attrs a, std::vector<View> reads,
                  std::vector<View> writes, Lane lane) {
  if (routine_ < 0) throw std::logic_error("op " + path + " is emitted outside of a routine");
  if (a.index() != info_of(kind).attrs)
    throw std::logic_error("op " + path + " has attributes of another kind than " + name_of(kind));
  if (!writes.empty() && std::none_of(writes.begin(), writes.end(), [](const View& v) { return bool(v); }))
    return left_out_ = {kind, lane, std::move(a), {}, {}, path};
  for (auto* operands : {&reads, &writes})
    for (View& v : *operands)
      if (v.buffer == -2) v = at(Use::vector, v);
  // The CPU knows no workspace for these kinds, so it follows their operands only if a backend asks.
  // Transfers get none: sharing one would serialise lanes.
  const bool fixed = kind == OpKind::attention || kind == OpKind::attention_backward;
  const int64_t bytes = fixed || is_collective(kind) ? 0 : workspace_of(kind, path, a, reads, writes);
  if (bytes > 0) writes.push_back(scratch(path + ".workspace", DType::f32, (bytes + 3) / 4));
  plan.ops.push_back(
      {kind, lane, std::move(a), std::move(reads), std::move(writes), path, fixed || bytes > 0, part_});
  return plan.ops.back();
}

int64_t Builder::workspace_of(OpKind kind, const std::string& path, const Attrs& a,
                              const std::vector<View>& reads, const std::vector<View>& writes) const {
  return workspace_ ? workspace_({kind, Lane::compute, a, reads, writes, path}) : 0;
}

void Builder::emit_with_workspace(OpKind kind, const std::string& path, Attrs a, std::vector<View> reads,
                                  std::vector<View> writes) {
  const int64_t bytes = workspace_of(kind, path, a, reads, writes);
  if (const auto roles = writes_of(kind); roles.back().name == "workspace") writes.resize(roles.size() - 1);
  writes.push_back(bytes > 0 ? scratch(path + ".workspace", DType::f32, (bytes + 3) / 4) : View{});
  emit(kind, path, std::move(a), std::move(reads), std::move(writes));
}

void Builder::convert(const std::string& path, const View& x, const View& y) {
  if (plan.buffers[x.buffer].dtype == plan.buffers[y.buffer].dtype)
    emit<OpKind::copy>(path, {.run = x.count}, {x}, {y});
  else
    emit<OpKind::cast>(path, {.count = x.count}, {x}, {y});
}

int Builder::group(const std::string& name, std::vector<int> ranks) {
  plan.groups.push_back({name, std::move(ranks)});
  return static_cast<int>(plan.groups.size()) - 1;
}

}  // namespace isobar::plan
