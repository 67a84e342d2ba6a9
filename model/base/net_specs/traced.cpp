#include "model/base/net_specs/traced.h"

#include <numeric>

#include "model/base/spec/spec_check.h"
#include "model/base/spec/traced_net.h"

namespace isobar {

void TracedSpec::add_rows(KeyRows& to) {
  to.insert(to.end(), {{"net.file", file, "The net that isobar import wrote from PyTorch code."},
                       {"net.compiled", compiled,
                        "Price it as torch.compile does: a pointwise op, norm or reduction runs in the "
                        "kernel that makes its operand."},
                       {"net.tensor", tensor,
                        "How layout.tp cuts linear layers, e.g. \"blocks.*.attn.qkv: columns\", "
                        "\"blocks.*.attn.proj: rows\"; ranks sum the products of rows."}});
}

void TracedSpec::check_lists(const SpecCheck& check) const {
  check.that(!file.empty(), "net.file", "is missing",
             "write one: isobar import net.py:build --inputs 3x224x224 -o net.json");
  net();
}

void TracedSpec::check(const SpecCheck& check) const {
  check.that(check.s.policy.amp < Amp::fp8, "policy.amp",
             name_of(check.s.policy.amp) + " was not recorded from PyTorch", "use none, tf32, bf16 or fp16");
  check.that(check.s.policy.schedule != PipelineSchedule::zb_h1, "policy.schedule",
             "zb-h1 postpones weight gradients, which autograd computes with the others", "use 1f1b");
  check.that(check.s.policy.recompute != Recompute::selective, "policy.recompute",
             "selective needs to know a net's attention, and a traced net has parts only",
             "use full or none");
  check.that(check.s.policy.attention == AttentionKind::flash, "policy.attention",
             "is what the recorded code calls", "leave it out");
}

std::shared_ptr<const TracedNet> TracedSpec::net() const {
  return traced_net(file);
}

int64_t TracedSpec::sample_numbers() const {
  return file.empty() ? 0 : net()->sample_numbers();
}

std::vector<int32_t> TracedSpec::part_indices() const {
  if (!kept.empty()) return kept;
  std::vector<int32_t> all(net()->fp32.parts.size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

int64_t TracedSpec::blocks() const {
  return file.empty() ? 0 : static_cast<int64_t>(part_indices().size()) - 2;
}

RoughSize TracedSpec::rough_size(bool) const {
  if (file.empty()) return {};
  return {.weights = static_cast<double>(net()->parameter_count()),
          .sample = static_cast<double>(net()->fp32.saved_bytes.at(1)) / 4};
}

}  // namespace isobar
