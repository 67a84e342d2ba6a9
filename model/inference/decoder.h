// A language net that reads a text token by token on this host's cores. It keeps the keys and values of the
// tokens that it has read, so each token is computed once.
//
//   Decoder net(state.spec, TrainedWeights(checkpoint));
//   std::span<const float> logits = net(prompt);                    // of the token after the prompt
//   const int32_t word = drawn(logits, {.temperature = 0.8}, 0);
//   logits = net({&word, 1});                                       // of the one after that
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/base/spec/spec.h"
#include "model/inference/arena.h"
#include "model/inference/decoder_parts.h"
#include "model/inference/weights/trained_weights.h"

namespace isobar::inference {

class Decoder {
 public:
  /// `spec`: of a gpt or llama. Throws ConfigError naming a parameter that the weights lack.
  Decoder(const RunSpec& spec, const TrainedWeights& weights);
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  /// Reads more tokens, each below words(); returns the logits [words] of the one after them, until the next
  /// call. At most room() tokens.
  std::span<const float> operator()(std::span<const int32_t> tokens);
  int64_t words() const { return net_.vocab_size; }
  /// Tokens that can still be read: net.seq_length without those read.
  int64_t room() const { return net_.seq_length - read_; }

 private:
  struct Linear {  // y = x weight^T + bias
    std::vector<float> weight, bias;
  };
  struct Norm {
    std::vector<float> gamma, beta;
  };
  struct Layer {
    Norm norm1, norm2, q_norm, k_norm;  // the last two: of heads, may be empty
    Linear q, k, v, proj, up, down;
    int64_t hidden = 0;  // width of the MLP, or of shared experts; 0: there is none
    std::optional<DecoderExperts> experts;
    std::optional<DecoderLatent> latent;  // in place of q, k and v
    std::vector<float> keys, values;      // [seq_length, kv_heads * d], of which the tokens read are known
  };
  Linear linear(const TrainedWeights& from, const std::string& name, bool bias) const;
  Norm norm(const TrainedWeights& from, const std::string& name) const;
  Layer layer(const RunSpec& spec, const TrainedWeights& from, int64_t i) const;
  void add_mlp(Layer& l, const TrainedWeights& from, const std::string& name) const;
  void make_room(int64_t tokens);
  void normalise(const Norm& n, int64_t rows, int64_t cols, const float* x, float* h);
  void multiply(const Linear& l, int64_t tokens, int64_t out, int64_t in, const float* x, float* y,
                bool adds = false) const;
  void turn(int64_t tokens, int64_t cols, float* x) const;
  void find_heads(Layer& l, int64_t tokens);
  void attend(Layer& l, int64_t tokens);
  void pass_mlp(Layer& l, int64_t tokens);

  const WordsSpec net_;
  const bool llama_;  // RMSNorm, SwiGLU, rotary positions; else gpt
  const Activation activation_;
  const bool head_norms_;
  const int64_t window_;
  const double score_growth_;
  const int64_t d_, turned_, queries_,
      kv_;  // of a head, and with rotary positions; width of queries, of keys
  std::vector<float> embed_, positions_, rotary_;
  std::vector<Layer> layers_;
  Norm norm_;
  std::vector<float> head_;  // empty: the embedding's table
  int64_t read_ = 0;
  // Activations of one call, a row a token
  std::vector<float> x_, y_, h_, q_, o_, wide_, hidden_, statistics_, logits_;
};

struct Draw {
  double temperature = 0;  // 0: the most probable word
  uint64_t seed = 0;
};
/// A word by softmax(logits / temperature). The draw depends on seed and `index` alone.
int32_t drawn(std::span<const float> logits, const Draw& how, uint64_t index);

}  // namespace isobar::inference
