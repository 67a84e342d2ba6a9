// Aurora (Bodnar 2024).
#pragma once
#include <string>
#include <vector>

#include "model/base/net_specs/parts/resolutions.h"

namespace isobar {

// Aurora (Bodnar 2024): fields of the surface and of pressure levels, `history` steps in, the next one out,
// by a 3-D Swin U-Net between Perceivers. Input channels: the steps, oldest first, each with surface fields
// and then upper-air ones (all levels of a variable together), then static fields. Output: one step.
struct AuroraSpec : Resolutions {
  static constexpr const char* kKind = "aurora";
  static constexpr bool kRollsOut = true;
  AuroraSpec()
      : Resolutions{Images{{}, 720, 1440, 141, 69},
                    4,
                    512,
                    {6, 10, 8},
                    {8, 16, 32},
                    {8, 10, 6},
                    {2, 6, 12},
                    4,
                    1e-5} {}
  std::vector<std::string> surf_vars = {"2t", "10u", "10v", "msl"};
  std::vector<std::string> static_vars = {"lsm", "z", "slt"};
  std::vector<std::string> atmos_vars = {"z", "u", "v", "t", "q"};
  std::vector<int64_t> levels = {50, 100, 150, 200, 250, 300, 400, 500, 600, 700, 850, 925, 1000};  // hPa
  int64_t history = 2;                          // steps that are read
  double lead_time = 6;                         // hours from the last input step to the prediction
  double north = 90, west = 0, spacing = 0.25;  // degrees: the grid's first row, first column, step
  int64_t latent_levels = 4;                    // one of the surface, the others of upper air
  int64_t num_heads = 16;                       // of the Perceivers
  int64_t dec_mlp_ratio = 2;                    // of the decoder; mlp_ratio: of backbone and encoder
  double drop_path = 0;    // of backbone blocks in training; of the last block of encoder and decoder
  bool fp32_ends = false;  // encoder and decoder stay in fp32 where the backbone is in bf16
  int64_t own_history() const { return history; }
  int64_t fixed_channels() const { return static_fields(); }
  int64_t surface_fields() const { return static_cast<int64_t>(surf_vars.size()); }
  int64_t static_fields() const { return static_cast<int64_t>(static_vars.size()); }
  int64_t upper_variables() const { return static_cast<int64_t>(atmos_vars.size()); }
  int64_t pressure_levels() const { return static_cast<int64_t>(levels.size()); }
  int64_t fields() const { return surface_fields() + upper_variables() * pressure_levels(); }  // of a step
  std::optional<NetGrid> grid() const { return NetGrid{north, spacing, west, spacing}; }
  int64_t tokens() const { return latent_levels * patches(); }
  void add_rows(KeyRows& to);
  void check_lists(const SpecCheck& check) const;
  void check(const SpecCheck& check) const;
  RoughSize rough_size(bool unfused) const;
};

}  // namespace isobar
