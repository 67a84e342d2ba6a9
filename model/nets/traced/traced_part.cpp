#include "model/nets/traced/traced_part.h"

#include <algorithm>
#include <set>

#include "model/nets/traced/aten.h"

namespace isobar::nets {

TracedNetPart::TracedNetPart(int index, const TracedPart& part, TracedShared& shared,
                             std::vector<std::string> own)
    : NetPart(index, part.path),
      part_(part),
      s_(shared),
      d_(shared.graph.definitions[static_cast<size_t>(part.definition)]),
      own_(std::move(own)),
      batch_(d_.batch.size()),
      states_(d_.states.size()),
      forward_(kernels_of(d_.forward, shared.compiled)),
      backward_(kernels_of(d_.backward, shared.compiled)),
      needed_(d_.values.size(), false),
      handed_(d_.values.size(), false) {
  for (size_t i = 0; i < d_.parameters.size(); ++i) {
    parameter_[d_.parameters[i].value] = i;
    if (d_.parameters[i].gradient >= 0) gradient_[d_.parameters[i].gradient] = i;
  }
  std::set<int32_t> made(d_.gradients_in.begin(), d_.gradients_in.end());
  made.insert(d_.carried_in.begin(), d_.carried_in.end());
  for (const TracedOp& op : d_.backward) {
    for (const TracedOperand& o : op.in)
      if (!made.contains(o.value)) needed_[static_cast<size_t>(o.value)] = true;
    for (const TracedOperand& o : op.out) made.insert(o.value);
  }
  for (const int32_t v : d_.saved)
    if (!made.contains(v)) needed_[static_cast<size_t>(v)] = true;
  for (const auto& [value, first] : forward_.same)
    if (needed_[static_cast<size_t>(value)]) needed_[static_cast<size_t>(first)] = true;
  std::set<int32_t> outside;
  for (const TracedOp& op : d_.forward)
    for (const TracedOperand& o : op.outside ? op.out : op.in) {
      if (op.outside) outside.insert(o.value);
      const auto i = static_cast<size_t>(o.value);
      if (outside.contains(o.value)) handed_[i] = handed_[i] || !op.outside || needed_[i];
    }
}

void TracedNetPart::declare(Declare& d) {
  for (const std::string& name : own_) {
    const TracedNet::Parameter& p = *s_.shapes.at(name);
    const std::vector<int64_t> shape = p.shape.empty() ? std::vector<int64_t>{1} : p.shape;
    const auto axis = s_.axes.find(name);
    const bool twice = s_.twice.contains(name);
    const Held held = !twice ? Held::once : index() == 0 ? Held::first_of_two : Held::second_of_two;
    d.tensor(s_.parameters[name], false,
             {{name, shape, plan::Init::normal, kSigma, axis == s_.axes.end() ? -1 : axis->second}}, held);
  }
}

void TracedNetPart::set_tied(int32_t value, const std::string& parameter) {
  const auto at = std::find(part_.parameters.begin(), part_.parameters.end(), parameter);
  gradient_[value] = static_cast<size_t>(at - part_.parameters.begin());
}

// ---- buffers ----

plan::View TracedNetPart::sized(int32_t value, bool kept, const std::string& name) {
  const TracedValue& v = d_.values[static_cast<size_t>(value)];
  return s_.e.b.saved_or_scratch(name, v.type.stored, std::max<int64_t>(1, v.count(s_.at.batch)), kept);
}

plan::View TracedNetPart::receive_buffer(size_t i) {
  const plan::InPart here(s_.e.b, index());
  return sized(static_cast<int32_t>(i), true, path() + ".input" + std::to_string(i));
}

plan::View TracedNetPart::own_parameter(int32_t value) const {
  const std::string& name = part_.parameters[parameter_.at(value)];
  const auto found = s_.parameters.find(name);
  return found == s_.parameters.end() ? plan::View{} : found->second;
}

// Binds what exists before a pass.
void TracedNetPart::bind() {
  const plan::InPart here(s_.e.b, index());
  for (const auto& [value, place] : parameter_) views_[static_cast<size_t>(value)] = own_parameter(value);
  for (size_t i = 0; i < d_.batch.size(); ++i) views_[static_cast<size_t>(d_.batch[i])] = batch_[i];
  for (size_t i = 0; i < d_.states.size(); ++i) {
    const TracedValue& v = d_.values[static_cast<size_t>(d_.states[i])];
    const int64_t count = std::max<int64_t>(1, v.count(1)), bytes = count * size_of(v.type.stored);
    if (!states_[i])
      states_[i] = s_.e.b.constant(path() + "." + part_.states[i], v.type.stored, count,
                                   [bytes](void* to) { std::fill_n(static_cast<char*>(to), bytes, 0); });
    views_[static_cast<size_t>(d_.states[i])] = states_[i];
  }
}

// The buffer of a value: the one that is meant for it, or a new one.
plan::View TracedNetPart::result_of(int32_t value, const std::string& name) {
  value = equal_to(value);
  plan::View& at = views_[static_cast<size_t>(value)];
  if (at) return at;
  if (const auto place = places_.find(value); place != places_.end()) return at = place->second;
  const auto i = static_cast<size_t>(value);
  return at = sized(value, (keep_ && needed_[i]) || (checkpoints_ && handed_[i]), name);
}

// The value that stands for it: casts that are computed once have one buffer.
int32_t TracedNetPart::equal_to(int32_t value) const {
  for (const TracedKernels* k : {&forward_, &backward_})
    if (const auto first = k->same.find(value); first != k->same.end()) return first->second;
  return value;
}

std::string TracedNetPart::path_of(const TracedOp& op, const char* pass) {
  const std::string base = path() + "/" + (op.module.empty() ? "" : op.module + "/") + op.op;
  const int n = ++paths_[base + pass];
  return base + (n > 1 ? "." + std::to_string(n) : "") + pass;
}

// ---- passes ----

std::vector<Flow> TracedNetPart::forward(const std::vector<Flow>& in, const Forward& how) {
  views_.assign(d_.values.size(), {});
  places_.clear(), paths_.clear(), sums_.clear();
  bind();
  for (size_t i = 0; i < in.size(); ++i) views_[i] = in[i].x;
  if (how.keep == Keep::input) kept_ = in;
  keep_ = how.keep == Keep::all, checkpoints_ = how.keep == Keep::input;
  const bool again = how.recompute && !how.result;
  if (again)
    for (const auto& [value, view] : kept_outside_) views_[static_cast<size_t>(value)] = view;
  if (!how.recompute)
    for (size_t port = 0; port < gives_.size(); ++port) {
      const int32_t value = d_.result(gives_[port]);
      const bool saves = keep_ && needed_[static_cast<size_t>(value)];
      if (!saves && !views_[static_cast<size_t>(value)] && !places_.contains(value))
        places_[value] = how.output_place(port);
    }
  std::vector<TracedKernel> kernels = forward_.kernels;
  if (again) {
    kernels.resize(static_cast<size_t>(last_needed()));
    std::erase_if(kernels, [&](const TracedKernel& k) { return outside(k); });
  }
  run(d_.forward, kernels, how.pass());
  for (size_t i = 0; i < handed_.size() && checkpoints_; ++i)
    if (handed_[i] && views_[i]) kept_outside_[static_cast<int32_t>(i)] = views_[i];
  std::vector<Flow> out;
  for (const int32_t give : gives_) {
    const int32_t value = d_.result(give);
    out.push_back(
        {.x = how.result ? result_of(value, path() + ".result") : views_[static_cast<size_t>(value)]});
  }
  return out;
}

// Kernels until the last that computes what the backward pass reads, where checkpointing stops.
int32_t TracedNetPart::last_needed() const {
  for (size_t k = forward_.kernels.size(); k-- > 0;)
    for (const int32_t op : forward_.kernels[k])
      for (const TracedOperand& o : d_.forward[static_cast<size_t>(op)].out)
        if (needed_[static_cast<size_t>(o.value)]) return static_cast<int32_t>(k) + 1;
  return 0;
}

bool TracedNetPart::outside(const TracedKernel& kernel) const {
  return std::all_of(kernel.begin(), kernel.end(),
                     [&](int32_t op) { return d_.forward[static_cast<size_t>(op)].outside; });
}

void TracedNetPart::backward(const std::vector<Gradient>& out, std::vector<Gradient>& in) {
  plan::Builder& b = s_.e.b;
  places_.clear(), sums_.clear();
  keep_ = checkpoints_ = false;
  const auto arrive = [&](int32_t value, const plan::View& at) {
    if (value >= 0) views_[static_cast<size_t>(value)] = at;
  };
  std::set<int32_t> arriving(d_.gradients_in.begin(), d_.gradients_in.end());
  arriving.insert(d_.carried_in.begin(), d_.carried_in.end());
  for (const TracedOp& op : d_.backward)  // an earlier micro-batch's
    for (const TracedOperand& o : op.out) views_[static_cast<size_t>(o.value)] = plan::View{};
  for (size_t port = 0; port < gives_.size(); ++port)
    arrive(d_.gradient_of_result(gives_[port]), out[port].dx);
  for (size_t i = 0; i < d_.carried_in.size(); ++i)
    arrive(d_.carried_in[i], s_.carried[{index(), static_cast<int32_t>(i)}]);
  for (size_t i = 0; i < in.size(); ++i) {
    const int32_t value = d_.gradients_out[i];
    if (value < 0 || arriving.contains(value)) continue;
    const TracedValue& v = d_.values[static_cast<size_t>(value)];
    if (v.count(s_.at.batch) == in[i].dx.count && v.type.stored == d_.values[i].type.stored)
      places_.try_emplace(value, in[i].dx);
  }
  for (const auto& [value, place] : gradient_) {
    const plan::View parameter = own_parameter(d_.parameters[place].value);
    const TracedValue& v = d_.values[static_cast<size_t>(value)];
    const bool whole = v.type.stored == DType::f32 && v.count(s_.at.batch) == parameter.count;
    if (whole && b.trained(parameter) && !s_.e.accumulates()) places_.try_emplace(value, b.grad(parameter));
  }
  run(d_.backward, backward_.kernels, "/backward");
  for (size_t i = 0; i < in.size(); ++i) {
    const int32_t value = d_.gradients_out[i];
    if (value < 0 || shares_gradient_with(i) >= 0) continue;
    const plan::View& at = views_[static_cast<size_t>(value)];
    if (at && at.buffer != in[i].dx.buffer && at.count >= in[i].dx.count)
      b.convert(path() + "/gradient" + std::to_string(i) + "/backward", at.slice(0, in[i].dx.count),
                in[i].dx);
  }
  for (size_t i = 0; i < carried_to_.size(); ++i)
    s_.carried[carried_to_[i]] = views_[static_cast<size_t>(d_.carried_out[i])];
}

void TracedNetPart::run(const std::vector<TracedOp>& ops, const std::vector<TracedKernel>& kernels,
                        const char* pass) {
  const bool tf32 = s_.e.spec.policy.amp == Amp::tf32;
  for (const TracedKernel& kernel : kernels) {
    const TracedOp& op = ops[static_cast<size_t>(kernel.back())];
    const std::string at = path_of(op, pass);
    if (kernel.size() > 1) {
      run_fused(ops, kernel, at);
    } else {
      std::vector<plan::View> in, out;
      for (const TracedOperand& o : op.in)
        in.push_back(result_of(o.value, path() + "." + op.op + ".operand"));
      for (const TracedOperand& o : op.out) out.push_back(result_of(o.value, at));
      emit_aten(s_.e.b, {.op = op, .samples = s_.at.batch, .tf32 = tf32, .path = at}, in, out);
      if (op.partial && s_.at.tp > 1)
        s_.e.b.emit<plan::OpKind::all_reduce>(at + "/all_reduce", {.group = s_.at.tp_group}, {out[0]},
                                              {out[0]}, plan::Lane::tp);
    }
    for (const int32_t i : kernel) settle(at, ops[static_cast<size_t>(i)]);
  }
}

// One pass over memory: what the kernel's ops hand to each other stays in registers.
void TracedNetPart::run_fused(const std::vector<TracedOp>& ops, const TracedKernel& kernel,
                              const std::string& path) {
  std::map<int32_t, double> read, written;  // bytes
  std::set<int32_t> outside;                // values that other kernels read
  for (size_t i = 0; i < ops.size(); ++i)
    if (std::find(kernel.begin(), kernel.end(), static_cast<int32_t>(i)) == kernel.end())
      for (const TracedOperand& o : ops[i].in) outside.insert(equal_to(o.value));
  for (const auto* ends : {&d_.gives, &d_.gradients_out, &d_.carried_out})
    for (const int32_t value : *ends) outside.insert(equal_to(value));
  plan::PricedAttrs a{.op = ops[static_cast<size_t>(kernel.back())].op,
                      .price = plan::PriceClass::activation};
  for (const int32_t i : kernel) {
    const TracedOp& op = ops[static_cast<size_t>(i)];
    const AtenRow row = aten_row(op);
    if (row.price == plan::PriceClass::norm || row.price == plan::PriceClass::loss)
      a.price = row.price, a.op = op.op;
    int64_t largest = 0;
    for (const TracedOperand& o : op.in) {
      largest = std::max(largest, o.elements(s_.at.batch));
      double& bytes = read[equal_to(o.value)];
      if (!written.contains(equal_to(o.value))) bytes = std::max(bytes, aten_bytes(o, d_, s_.at.batch));
    }
    for (const TracedOperand& o : op.out) {
      largest = std::max(largest, o.elements(s_.at.batch));
      written[o.value] = aten_bytes(o, d_, s_.at.batch);
    }
    a.vector_flops += row.vector_flops * static_cast<double>(largest);
  }
  std::vector<plan::View> reads, writes;
  for (const auto& [value, bytes] : read)
    if (bytes > 0) reads.push_back(result_of(value, path + ".operand")), a.bytes_read += bytes;
  for (const auto& [value, bytes] : written)
    if (outside.contains(value) || needed_[static_cast<size_t>(value)] || gradient_.contains(value))
      writes.push_back(result_of(value, path)), a.bytes_written += bytes;
  if (!writes.empty())
    s_.e.b.emit<plan::OpKind::priced>(path, std::move(a), std::move(reads), std::move(writes));
}

// Adds a parameter's gradient to those of earlier micro-batches, or brings it into its form.
void TracedNetPart::settle(const std::string& path, const TracedOp& op) {
  plan::Builder& b = s_.e.b;
  for (const TracedOperand& o : op.out) {
    const auto found = gradient_.find(o.value);
    if (found == gradient_.end()) continue;
    const plan::View parameter = own_parameter(d_.parameters[found->second].value);
    const plan::View& at = views_[static_cast<size_t>(o.value)];
    if (!at || !b.trained(parameter)) continue;
    const plan::View to = b.grad(parameter);
    if (at.buffer == to.buffer && at.offset == to.offset) continue;
    b.emit<plan::OpKind::cast>(path + "/gradient", {.count = to.count, .accumulate = s_.e.accumulates()},
                               {at.slice(0, std::min(at.count, to.count))}, {to});
  }
}

// ---- what the chunk asks ----

// A value that the part only hands on has one gradient on both sides.
int TracedNetPart::shares_gradient_with(size_t i) const {
  const int32_t gradient = d_.gradients_out[i];
  for (size_t port = 0; port < gives_.size(); ++port) {
    const int32_t arrives = d_.gradient_of_result(gives_[port]);
    const bool same = gradient >= 0 ? arrives == gradient
                                    : arrives < 0 && d_.result(gives_[port]) == static_cast<int32_t>(i);
    if (!same) continue;
    for (size_t before = 0; before < i; ++before)  // one buffer for one operand
      if (gradient >= 0 && d_.gradients_out[before] == gradient) return -1;
    return static_cast<int>(port);
  }
  return -1;
}

plan::View TracedNetPart::last_gradient(bool) const {
  for (size_t i = d_.backward.size(); i-- > 0;)
    for (const TracedOperand& o : d_.backward[i].out)
      if (const auto found = gradient_.find(o.value); found != gradient_.end())
        return own_parameter(d_.parameters[found->second].value);
  return {};
}

std::vector<int> TracedNetPart::backward_reads() const {
  std::set<int> homes;
  for (const std::string& name : part_.parameters) {
    homes.insert(s_.homes.at(name));
    if (s_.twice.contains(name)) homes.insert(index());
  }
  return {homes.begin(), homes.end()};
}

}  // namespace isobar::nets
