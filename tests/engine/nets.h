// Small nets of every kind for tests of layouts, with numbers of parts, rows and tokens that ranks cannot
// divide evenly; fp32.
#pragma once
#include <string>
#include <vector>

#include "tests/paths.h"

namespace isobar {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // times and memory are meaningless then
#else
constexpr bool kSanitized = false;
#endif

using Words = std::vector<std::string>;

inline Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline std::string tiny() {
  return source_dir() + "/configs/models/vit-tiny.yaml";
}

inline const Words kNet = {"net.depth=5",         "net.img_height=40",
                           "net.img_width=56",    "train.global_batch=12",
                           "train.steps=10",      "train.lr=3e-3",
                           "train.seed=5",        "run.threads=1",
                           "run.hang_timeout=60", "train.checkpoint_every=10"};

struct TestNet {
  std::string config;
  Words set;
};
inline const TestNet kVit{tiny(), kNet};
// 6 x 8 tokens, because 7 x 5 would not merge two by two. Nine parts of four kinds between its ends.
inline const TestNet kUnet{
    source_dir() + "/configs/models/unet-tiny.yaml",
    {"net.img_height=48", "net.img_width=64", "train.global_batch=12", "train.steps=10", "train.lr=3e-3",
     "train.seed=5", "run.threads=1", "run.hang_timeout=60", "train.checkpoint_every=10"}};

// Three message-passing steps, the last with fewer outputs: stages of one part and of two.
inline const TestNet kGraph{source_dir() + "/configs/models/regional-gnn-tiny.yaml",
                            {"train.global_batch=12", "train.steps=10", "train.lr=3e-3", "train.seed=5",
                             "run.threads=1", "run.hang_timeout=60", "train.checkpoint_every=10"}};

// Three resolutions with skip connections, windows that do not divide the grid, conditioning in all blocks.
// Squares, because the signs of absolute errors turn with a sum's last bit.
inline const TestNet kAurora{
    source_dir() + "/configs/models/aurora-tiny.yaml",
    {"train.loss=mse", "train.loss_weighting=channels", "train.variable_weights=[]", "train.data_weight=1",
     "train.global_batch=12", "train.steps=10", "train.lr=3e-3", "train.seed=5", "run.threads=1",
     "run.hang_timeout=60", "train.checkpoint_every=10"}};

// 14, 7 and 4 rows of patches: windows span two bands, and a band may have no window of its own.
inline TestNet tall_aurora() {
  TestNet net = kAurora;
  net.set.push_back("net.img_height=28");
  return net;
}

// Three resolutions with skip connections, windows that do not divide the grids of 14 x 9, 7 x 5 and 4 x 3
// patches.
inline const TestNet kSwin{
    source_dir() + "/configs/models/swin-tiny.yaml",
    {"net.img_height=56", "train.global_batch=12", "train.steps=10", "train.lr=3e-3", "train.seed=5",
     "run.threads=1", "run.hang_timeout=60", "train.checkpoint_every=10"}};

// Grid to mesh, three steps, mesh to grid: five parts between its ends.
inline const TestNet kGlobe{source_dir() + "/configs/models/graphcast-tiny.yaml", kGraph.set};

// Grouped queries and 35 tokens, uneven over ranks; a vocabulary that is padded, by layout.tp.
inline const Words kWordsNet = {
    "net.depth=5",         "net.seq_length=35",        "net.vocab_size=300", "train.global_batch=12",
    "train.steps=10",      "train.warmup=0",           "train.seed=5",       "run.threads=1",
    "run.hang_timeout=60", "train.checkpoint_every=10"};
inline const TestNet kGpt{source_dir() + "/configs/models/gpt-tiny.yaml",
                          kWordsNet + Words{"net.dropout=0.1"}};
// A window, biases as Qwen2's, and rotary angles that YaRN stretches
inline const TestNet kLlama{
    source_dir() + "/configs/models/llama-tiny.yaml",
    kWordsNet + Words{"net.sliding_window=5", "net.attention_bias=true", "net.rope_scaling=yarn",
                      "net.rope_scaling_factor=4", "net.rope_original_length=8", "net.rope_beta_fast=1",
                      "net.rope_beta_slow=0.05"}};

// Experts as Mixtral's, with strong losses of the router, and as DeepSeek's: shared ones, a block without
// any, weights by all experts. With this seed no two experts are all but equal for a token: a rounding would
// send it to the other one.
inline const TestNet kMixtral{source_dir() + "/configs/models/moe-tiny.yaml",
                              kWordsNet + Words{"net.router_balance_loss=0.5", "net.router_z_loss=0.1"}};
inline const TestNet kDeepSeek{
    source_dir() + "/configs/models/moe-tiny.yaml",
    kWordsNet + Words{"net.num_experts=6", "net.num_experts_per_tok=3", "net.num_shared_experts=2",
                      "net.expert_ffn_dim=24", "net.first_k_dense_replace=1", "net.norm_topk_prob=false",
                      "train.seed=6"}};

// Experts that drop tokens
inline const TestNet kCapacity{
    source_dir() + "/configs/models/moe-tiny.yaml",
    kWordsNet + Words{"net.expert_capacity_factor=0.8", "net.router_balance_loss=0.5", "train.seed=9"}};

// Heads that are together wider than the net, with norms of their own, and experts as Qwen3's
inline const TestNet kQwen{
    source_dir() + "/configs/models/moe-tiny.yaml",
    kWordsNet + Words{"net.head_dim=24", "net.qk_norm=true", "net.first_k_dense_replace=2", "train.seed=7"}};

// Latent attention, sigmoid scores and biases that move, as DeepSeek-V3's; a second one whose queries have no
// latents
inline const TestNet kDeepSeekV3{
    source_dir() + "/configs/models/moe-tiny.yaml",
    kWordsNet + Words{"net.num_kv_heads=0", "net.kv_lora_rank=20", "net.q_lora_rank=28",
                      "net.qk_nope_head_dim=12", "net.qk_rope_head_dim=6", "net.v_head_dim=10",
                      "net.num_experts_per_tok=3", "net.num_shared_experts=1", "net.expert_ffn_dim=24",
                      "net.first_k_dense_replace=1", "net.scoring_func=sigmoid", "net.n_group=4",
                      "net.topk_group=2", "net.routed_scaling_factor=2.5", "net.router_bias_rate=0.01",
                      "net.router_z_loss=0", "train.seed=8"}};
inline const TestNet kPlainLatents{
    source_dir() + "/configs/models/llama-tiny.yaml",
    kWordsNet + Words{"net.num_kv_heads=0", "net.kv_lora_rank=20", "net.qk_nope_head_dim=12",
                      "net.qk_rope_head_dim=4", "net.v_head_dim=16", "net.rope_scaling=yarn",
                      "net.rope_scaling_factor=4", "net.rope_mscale=1", "net.rope_mscale_all_dim=0.7"}};

inline std::string text_of(const TestNet& net) {
  std::string text = net.config;
  for (const std::string& word : net.set) text += " " + word;
  return text;
}

}  // namespace isobar
