// The keys of nets: a struct for each kind (`net.kind` selects it; YAML keys are the members' names). Plain
// data.
//
//   NetSpec net = VitSpec{.embed_dim = 64};
//   net.vit().depth          // throws std::bad_variant_access if it is no vit
//   net.images()             // of kinds that read images; nullptr: of others
#pragma once
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace isobar {

struct Images {              // weather fields on a grid, as input and output
  int64_t img_height = 360;  // rows (latitude)
  int64_t img_width = 720;   // columns (longitude)
  int64_t in_channels = 20;
  int64_t out_channels = 20;
  int64_t pixels() const { return img_height * img_width; }
  int64_t outputs() const { return out_channels; }
  int64_t sample_numbers() const { return (in_channels + out_channels) * pixels(); }
};

struct VitSpec : Images {  // patches, equal blocks, pixels
  static constexpr const char* kKind = "vit";
  int64_t embed_dim = 384;  // D
  int64_t depth = 12;
  int64_t num_heads = 8;
  int64_t patch_size = 8;  // p, square
  int64_t mlp_ratio = 4;
  double norm_eps = 1e-6;
  std::string gelu = "erf";  // erf (exact) | tanh (an approximation that cuBLASLt has in a product: run.fuse)
  int64_t tokens() const { return img_height / patch_size * (img_width / patch_size); }
  int64_t width() const { return embed_dim; }
  int64_t heads() const { return num_heads; }
  int64_t hidden() const { return mlp_ratio * embed_dim; }
  int64_t kv_heads() const { return num_heads; }
  int64_t blocks() const { return depth; }
};

struct WordsSpec {          // kinds that read tokens of a vocabulary: causal attention, loss over the words
  int64_t embed_dim = 384;  // D
  int64_t depth = 12;
  int64_t num_heads = 8;
  int64_t num_kv_heads = 0;  // grouped-query attention; 0 = num_heads
  int64_t mlp_ratio = 4;
  int64_t ffn_dim = 0;  // hidden width of the MLP; 0 = mlp_ratio * embed_dim
  double norm_eps = 1e-6;
  int64_t seq_length = 2048;
  int64_t vocab_size = 50257;   // padded to a multiple of 128 * tp, as Megatron does
  bool tie_embeddings = false;  // the head shares the embedding's weight
  double dropout = 0.0;         // of hidden states and attention weights
  int64_t tokens() const { return seq_length; }
  int64_t outputs() const { return 0; }
  int64_t sample_numbers() const { return 2 * seq_length; }  // words and the next ones
  int64_t width() const { return embed_dim; }
  int64_t heads() const { return num_heads; }
  int64_t hidden() const { return ffn_dim ? ffn_dim : mlp_ratio * embed_dim; }
  int64_t kv_heads() const { return num_kv_heads ? num_kv_heads : num_heads; }
  int64_t blocks() const { return depth; }
};

struct GptSpec : WordsSpec {  // LayerNorm, GELU, biases, learned positions
  static constexpr const char* kKind = "gpt";
  std::string gelu = "erf";  // as a vit's
};

struct LlamaSpec : WordsSpec {  // RMSNorm, SwiGLU, rotary positions, no biases
  static constexpr const char* kKind = "llama";
  double rope_theta = 10000;            // base of the rotary angles
  double rope_scaling_factor = 1;       // Llama 3.1's stretching of long wavelengths …
  int64_t rope_original_length = 8192;  // … for contexts beyond this length
};

// A ViT of two resolutions, shaped like the U-Nets of Swin and Aurora: blocks on a fine grid, patch merging
// (four tokens into one of twice the width), blocks on the coarse grid, splitting, and blocks on the fine
// grid with a skip connection from the first ones.
struct UnetSpec : Images {
  static constexpr const char* kKind = "unet";
  int64_t embed_dim = 96;  // D on the fine grid, 2 D on the coarse one
  int64_t encoder_depth = 2;
  int64_t bottleneck_depth = 6;  // on the coarse grid
  int64_t decoder_depth = 2;
  int64_t num_heads = 4;   // on the fine grid, twice as many on the coarse one
  int64_t patch_size = 8;  // p, square
  int64_t mlp_ratio = 4;
  double norm_eps = 1e-6;
  std::string gelu = "erf";  // as a vit's
  int64_t tokens() const { return img_height / patch_size * (img_width / patch_size); }
  int64_t width() const { return embed_dim; }
  int64_t heads() const { return num_heads; }
  int64_t hidden() const { return mlp_ratio * embed_dim; }
  int64_t kv_heads() const { return num_heads; }
  int64_t blocks() const { return encoder_depth + bottleneck_depth + decoder_depth; }
};

// Numbers in, numbers out, with linears and activations between, as emulators of a column's physics are.
struct MlpSpec {
  static constexpr const char* kKind = "mlp";
  int64_t in_features = 14;
  int64_t out_features = 1;
  std::vector<int64_t> hidden = {64, 64, 64};  // widths between them, an activation after each
  std::string activation = "gelu";             // base/activation.h
  double dropout = 0.0;                        // of each hidden layer's outputs
  int64_t outputs() const { return out_features; }
  int64_t sample_numbers() const { return in_features + out_features; }
  int64_t tokens() const { return 1; }
  int64_t width() const { return hidden.empty() ? 0 : hidden.front(); }
  int64_t heads() const { return 1; }
  int64_t blocks() const { return static_cast<int64_t>(hidden.size()); }
};

/// A latitude-longitude region as a range of rows and columns of the grid that contains it.
struct GridBox {
  int64_t row = 0, column = 0, rows = 0, columns = 0;
  int64_t points() const { return rows * columns; }
};

// A graph network over two regions of a latitude-longitude grid. Nodes are grid points; each downstream node
// gets messages from its nearest neighbours, nodes at the western boundary also from the nearest upstream
// ones. A sample is a field on the whole grid (img_*); the downstream region is predicted.
struct RegionalGnnSpec : Images {
  static constexpr const char* kKind = "regional-gnn";
  RegionalGnnSpec() : Images{101, 221, 336, 1} {}
  double north = 50, west = 70, spacing = 0.25;         // degrees: the grid's first row, first column, step
  std::vector<double> downstream = {25, 40, 110, 125};  // degrees: south, north, west, east
  std::vector<double> upstream = {25, 50, 70, 110};     // in the same order
  double boundary_longitude = 111;                      // downstream nodes up to here are at the boundary
  int64_t neighbors = 8;                                // of a downstream node, downstream
  int64_t boundary_neighbors = 32;                      // upstream neighbours of a boundary node
  int64_t latent_size = 256;                            // of nodes and edges
  int64_t num_gnn_layers = 12;                          // message passing steps, each with its own weights
  int64_t mlp_hidden_size = 256, mlp_num_hidden_layers = 2;
  double norm_eps = 1e-5;
  // Assignment of nodes to ranks of context parallelism. bands: of latitude | metis: METIS' cut of the graph
  std::string partition = "bands";

  GridBox box(const std::vector<double>& region) const {
    const auto first = [&](double x) { return static_cast<int64_t>(std::ceil(x / spacing - 1e-6)); };
    const auto last = [&](double x) { return static_cast<int64_t>(std::floor(x / spacing + 1e-6)); };
    const int64_t row = first(north - region[1]), column = first(region[2] - west);
    return {row, column, last(north - region[0]) - row + 1, last(region[3] - west) - column + 1};
  }
  GridBox downstream_box() const { return box(downstream); }
  GridBox upstream_box() const { return box(upstream); }
  /// Western columns of the downstream region that are its boundary.
  int64_t boundary_columns() const {
    return box({downstream[0], downstream[1], downstream[2], boundary_longitude}).columns;
  }
  int64_t boundary_nodes() const { return boundary_columns() * downstream_box().rows; }
  int64_t intra_edges() const { return neighbors * downstream_box().points(); }
  int64_t boundary_edges() const { return boundary_neighbors * boundary_nodes(); }
  int64_t tokens() const { return downstream_box().points(); }
  int64_t width() const { return latent_size; }
  int64_t heads() const { return 1; }
  int64_t blocks() const { return num_gnn_layers; }
};

// Aurora (Bodnar 2024): fields of the surface and of pressure levels, `history` steps in, the next one out,
// by a 3-D Swin U-Net between Perceivers. Input channels: the steps, oldest first, each with surface fields
// and then upper-air ones (all levels of a variable together), then static fields. Output: one step.
struct AuroraSpec : Images {
  static constexpr const char* kKind = "aurora";
  AuroraSpec() : Images{720, 1440, 141, 69} {}
  std::vector<std::string> surf_vars = {"2t", "10u", "10v", "msl"};
  std::vector<std::string> static_vars = {"lsm", "z", "slt"};
  std::vector<std::string> atmos_vars = {"z", "u", "v", "t", "q"};
  std::vector<int64_t> levels = {50, 100, 150, 200, 250, 300, 400, 500, 600, 700, 850, 925, 1000};  // hPa
  int64_t history = 2;                          // steps that are read
  double lead_time = 6;                         // hours from the last input step to the prediction
  double north = 90, west = 0, spacing = 0.25;  // degrees: the grid's first row, first column, step
  int64_t patch_size = 4;                       // p, square
  int64_t embed_dim = 512;                      // D at the finest resolution, doubled at each coarser one
  int64_t latent_levels = 4;                    // one of the surface, the others of upper air
  int64_t num_heads = 16;                       // of the Perceivers
  std::vector<int64_t> encoder_depths = {6, 10, 8};      // blocks by resolution, finest first
  std::vector<int64_t> encoder_num_heads = {8, 16, 32};  // … and heads; reversed in the decoder
  std::vector<int64_t> decoder_depths = {8, 10, 6};      // coarsest first
  std::vector<int64_t> window = {2, 6, 12};              // latent levels, patches down and across
  int64_t mlp_ratio = 4, dec_mlp_ratio = 2;              // of backbone and encoder; of the decoder
  double norm_eps = 1e-5;
  double drop_path = 0;  // of backbone blocks in training; of the last block of encoder and decoder
  // Placement on pipeline stages. balanced: by counted work | halves: four stages, encoder, the two halves of
  // the backbone, decoder
  std::string placement = "balanced";
  bool fp32_ends = false;  // encoder and decoder stay in fp32 where the backbone is in bf16
  int64_t surface_fields() const { return static_cast<int64_t>(surf_vars.size()); }
  int64_t static_fields() const { return static_cast<int64_t>(static_vars.size()); }
  int64_t upper_variables() const { return static_cast<int64_t>(atmos_vars.size()); }
  int64_t pressure_levels() const { return static_cast<int64_t>(levels.size()); }
  int64_t fields() const { return surface_fields() + upper_variables() * pressure_levels(); }  // of a step
  int64_t patches() const { return img_height / patch_size * (img_width / patch_size); }
  int64_t tokens() const { return latent_levels * patches(); }
  int64_t width() const { return embed_dim; }
  int64_t heads() const { return encoder_num_heads.empty() ? 1 : encoder_num_heads.front(); }
  int64_t blocks() const {
    int64_t all = 0;
    for (const auto* depths : {&encoder_depths, &decoder_depths})
      for (const int64_t d : *depths) all += d;
    return all;
  }
};

// GraphCast (Lam 2023): fields of a latitude-longitude grid with both poles are sent to an icosahedral
// multi-mesh, exchanged there, and sent back.
struct GraphcastSpec : Images {
  static constexpr const char* kKind = "graphcast";
  GraphcastSpec() : Images{721, 1440, 471, 227} {}
  int64_t mesh_level = 6;  // how often an icosahedron is split: 10 * 4^level + 2 nodes
  double radius = 0.6;     // reach of grid-to-mesh edges, as a share of the longest edge of the finest level
  int64_t latent_size = 512;    // of nodes and edges
  int64_t num_gnn_layers = 16;  // message passing steps on the mesh, each with its own weights
  int64_t mlp_hidden_size = 512, mlp_num_hidden_layers = 1;
  double norm_eps = 1e-5;
  // Assignment of grid points and mesh nodes to ranks of context parallelism. bands: of latitude, grid and
  // mesh cut evenly each | metis: METIS' cut of the graph
  std::string partition = "bands";

  int64_t mesh_nodes() const { return 10 * (int64_t{1} << (2 * mesh_level)) + 2; }
  int64_t mesh_edges() const { return 20 * ((int64_t{1} << (2 * mesh_level + 2)) - 1); }  // of all levels
  int64_t mesh_to_grid_edges() const { return 3 * pixels(); }
  int64_t tokens() const { return pixels(); }
  int64_t width() const { return latent_size; }
  int64_t heads() const { return 1; }
  int64_t blocks() const { return num_gnn_layers; }
};

class NetSpec {
 public:
  using Kinds = std::variant<VitSpec, GptSpec, LlamaSpec, UnetSpec, MlpSpec, RegionalGnnSpec, AuroraSpec,
                             GraphcastSpec>;
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

  const Images* images() const;
  /// True for nets that predict on the grid that they read, so that predictions can be fed back.
  bool rolls_out() const {
    return kind() == VitSpec::kKind || kind() == UnetSpec::kKind || kind() == AuroraSpec::kKind;
  }
  /// True for nets that send messages along the edges of a graph.
  bool has_edges() const { return kind() == RegionalGnnSpec::kKind || kind() == GraphcastSpec::kKind; }
  /// Input time steps by a key of the net itself; 0: data.history gives them.
  int64_t own_history() const { return kind() == AuroraSpec::kKind ? aurora().history : 0; }
  /// Input channels that follow once after those of all time steps, because they never change.
  int64_t fixed_channels() const { return kind() == AuroraSpec::kKind ? aurora().static_fields() : 0; }
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
