#include "model/base/net_specs/parts/rotary.h"

#include <string>

#include "model/base/spec/spec_check.h"

namespace isobar {

void RotarySpec::add_rows(KeyRows& to) {
  to.insert(
      to.end(),
      {{"net.rope_theta", theta, positive("e.g. 10000"), "Base of the angles of rotary position embedding."},
       {"net.rope_scaling", scaling,
        "Stretching of the rotary angles for longer contexts: of long wavelengths, as Llama 3.1's, or "
        "YaRN's."},
       {"net.rope_scaling_factor", factor,
        within("[]", 1, 1024, "1 scales nothing; Llama 3.1 has 8, DeepSeek-V3 40"),
        "Times that contexts are longer; 1: angles are not stretched."},
       {"net.rope_original_length", original_length, from_to(1, 1 << 24),
        "Tokens of the contexts before that."},
       {"net.rope_beta_fast", beta_fast, positive("YaRN has 32"),
        "yarn: pairs that turn more often in such a context stay."},
       {"net.rope_beta_slow", beta_slow, positive("YaRN has 1"),
        "yarn: pairs that turn less often are stretched in full."},
       {"net.rope_mscale", mscale, zero_or_positive("DeepSeek-V3 has 1"),
        "yarn: cosines and sines grow by 0.1 rope_mscale ln(rope_scaling_factor) + 1 over the same of "
        "rope_mscale_all_dim, if both are set; else by that of 1."},
       {"net.rope_mscale_all_dim", mscale_all_dim, zero_or_positive("DeepSeek-V3 has 1"),
        "yarn: latent attention's scores grow by its square."}});
}

void RotarySpec::check(const SpecCheck& check) const {
  const RotarySpec usual;
  const bool yarn = scaling == RopeScaling::yarn;
  check.that(!yarn || factor > 1, "net.rope_scaling", "is yarn, and net.rope_scaling_factor is 1",
             "set net.rope_scaling_factor, e.g. 40, or leave it out");
  check.that(factor > 1 || original_length == usual.original_length, "net.rope_original_length",
             "is set, and net.rope_scaling_factor is 1",
             "set net.rope_scaling_factor, e.g. 8, or leave it out");
  for (const auto& [given, key] : {std::pair{beta_fast != usual.beta_fast, "net.rope_beta_fast"},
                                   {beta_slow != usual.beta_slow, "net.rope_beta_slow"},
                                   {mscale != 0, "net.rope_mscale"},
                                   {mscale_all_dim != 0, "net.rope_mscale_all_dim"}})
    check.that(yarn || !given, key, "is of YaRN, and net.rope_scaling is not yarn",
               "set net.rope_scaling to yarn, or leave it out");
  check.that(beta_fast > beta_slow, "net.rope_beta_fast", "is not above net.rope_beta_slow",
             "YaRN has 32 and 1");
}

}  // namespace isobar
