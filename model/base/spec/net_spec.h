// The nets of a run: a struct for each kind (net_specs/), which `net.kind` selects.
//
//   NetSpec net = MlpSpec{.in_features = 20};
//   net.mlp().hidden         // throws std::bad_variant_access if it is no mlp
//   net.images()             // of kinds that read images; nullptr: of others
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "model/base/net_specs/aurora.h"
#include "model/base/net_specs/graphcast.h"
#include "model/base/net_specs/mlp.h"
#include "model/base/net_specs/parts/words.h"
#include "model/base/net_specs/regional_gnn.h"
#include "model/base/net_specs/swin.h"
#include "model/base/net_specs/traced.h"
#include "model/base/net_specs/vits.h"

namespace isobar {

class NetSpec {
 public:
  using Kinds = std::variant<VitSpec, GptSpec, LlamaSpec, UnetSpec, MlpSpec, RegionalGnnSpec, AuroraSpec,
                             GraphcastSpec, SwinSpec, TracedSpec>;
  NetSpec() = default;
  template <class T>
  requires std::is_constructible_v<Kinds, T> NetSpec(T of) : of_(std::move(of)) {}

  template <class F>
  decltype(auto) visit(F&& f) const {
    return std::visit(std::forward<F>(f), of_);
  }
  template <class F>
  decltype(auto) visit(F&& f) {
    return std::visit(std::forward<F>(f), of_);
  }
  std::string kind() const {
    return visit([](const auto& n) { return std::string(n.kKind); });
  }
  /// Becomes the net of this kind with its defaults; false: there is no such kind.
  bool set_kind(const std::string& kind);
  /// Turns off all dropout, as for inference.
  void leave_out_dropout() {
    visit([](auto& n) {
      if constexpr (requires { n.dropout; }) n.dropout = 0;
      if constexpr (requires { n.drop_path; }) n.drop_path = 0;
    });
  }
  static std::vector<std::string> kinds();

  VitSpec& vit() { return std::get<VitSpec>(of_); }
  const VitSpec& vit() const { return std::get<VitSpec>(of_); }
  UnetSpec& unet() { return std::get<UnetSpec>(of_); }
  const UnetSpec& unet() const { return std::get<UnetSpec>(of_); }
  GptSpec& gpt() { return std::get<GptSpec>(of_); }
  const GptSpec& gpt() const { return std::get<GptSpec>(of_); }
  LlamaSpec& llama() { return std::get<LlamaSpec>(of_); }
  const LlamaSpec& llama() const { return std::get<LlamaSpec>(of_); }
  MlpSpec& mlp() { return std::get<MlpSpec>(of_); }
  const MlpSpec& mlp() const { return std::get<MlpSpec>(of_); }
  RegionalGnnSpec& regional_gnn() { return std::get<RegionalGnnSpec>(of_); }
  const RegionalGnnSpec& regional_gnn() const { return std::get<RegionalGnnSpec>(of_); }
  AuroraSpec& aurora() { return std::get<AuroraSpec>(of_); }
  const AuroraSpec& aurora() const { return std::get<AuroraSpec>(of_); }
  GraphcastSpec& graphcast() { return std::get<GraphcastSpec>(of_); }
  const GraphcastSpec& graphcast() const { return std::get<GraphcastSpec>(of_); }
  SwinSpec& swin() { return std::get<SwinSpec>(of_); }
  const SwinSpec& swin() const { return std::get<SwinSpec>(of_); }

  TracedSpec& traced() { return std::get<TracedSpec>(of_); }
  const TracedSpec& traced() const { return std::get<TracedSpec>(of_); }

  const Images* images() const;
  /// True for nets that predict on the grid that they read, so that predictions can be fed back.
  bool rolls_out() const {
    return visit([](const auto& n) { return n.kRollsOut; });
  }
  /// True for nets that send messages along the edges of a graph.
  bool has_edges() const {
    return visit([](const auto& n) { return n.kHasEdges; });
  }
  /// True for nets whose samples are rows of a table.
  bool reads_rows() const {
    return visit([](const auto& n) { return n.kReadsRows; });
  }
  /// True for nets whose ops another program recorded: they are priced, not run, and make 16-bit copies of
  /// weights in each pass.
  bool recorded() const {
    return visit([](const auto& n) { return n.kRecorded; });
  }
  /// Input time steps by a key of the net itself; 0: data.history gives them.
  int64_t own_history() const {
    return visit([](const auto& n) { return n.own_history(); });
  }
  /// Input channels that follow once after those of all time steps, because they never change.
  int64_t fixed_channels() const {
    return visit([](const auto& n) { return n.fixed_channels(); });
  }
  std::optional<NetGrid> grid() const {
    return visit([](const auto& n) { return n.grid(); });
  }
  Images* images() { return const_cast<Images*>(std::as_const(*this).images()); }
  const WordsSpec* words() const;
  WordsSpec* words() { return const_cast<WordsSpec*>(std::as_const(*this).words()); }

  // Figures that every kind has, for labels and rough counts: tokens of a sample, width and heads at the
  // input, blocks.
  int64_t tokens() const {
    return visit([](const auto& n) { return n.tokens(); });
  }
  int64_t width() const {
    return visit([](const auto& n) { return n.width(); });
  }
  int64_t heads() const {
    return visit([](const auto& n) { return n.heads(); });
  }
  int64_t blocks() const {
    return visit([](const auto& n) { return n.blocks(); });
  }
  /// The key that gives their number: "net.depth"
  const char* depth_key() const {
    return visit([](const auto& n) { return n.kDepthKey; });
  }
  /// Fields or features that are predicted and scored one by one; 0 for nets that predict words.
  int64_t outputs() const {
    return visit([](const auto& n) { return n.outputs(); });
  }
  /// Numbers read for a sample, input and target together.
  int64_t sample_numbers() const {
    return visit([](const auto& n) { return n.sample_numbers(); });
  }

 private:
  Kinds of_;
};

}  // namespace isobar
