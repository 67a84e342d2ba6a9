// Like product.cpp for language models: GPT with tied tables and dropout, Llama with grouped queries, by
// turns. Their vocabulary is padded, by layout.tp.
#include <gtest/gtest.h>
#include <omp.h>

#include "tests/engine/worlds/trained.h"
#include "tests/paths.h"

namespace isobar::engine {
namespace {

// Heads for tp and Ulysses, which cuts heads of keys too; 19 tokens make cp's parts uneven.
std::vector<std::string> language_model_for(const Choice& c, bool llama) {
  const auto text = [](const char* key, int v) { return key + std::to_string(v); };
  const int cuts = c[Choice::kTp] * c[Choice::kCp], chunks = c[Choice::kPp] * (c.interleaved() ? 2 : 1);
  std::vector<std::string> net = {text("net.num_heads=", 2 * cuts),
                                  text("net.embed_dim=", 8 * cuts),
                                  text("net.ffn_dim=", 12 * cuts),
                                  text("net.depth=", std::max(3, chunks + 1)),
                                  "net.seq_length=19",
                                  "net.vocab_size=150",
                                  text("train.global_batch=", batch_of(c)),
                                  text("train.steps=", kSteps),
                                  "train.lr=3e-3",
                                  "train.warmup=0",
                                  "train.seed=5",
                                  "run.threads=1"};
  net.push_back(llama ? text("net.num_kv_heads=", cuts) : "net.dropout=0.05");
  if (llama && c[Choice::kKind] != 1) net.push_back(text("net.sliding_window=", 3 + 2 * cuts));
  return net;
}

TEST(Product, OfALanguageModelsLayoutsOfThisWorldTrainsLikeOneRank) {
  const comm::Mpi& mpi = session();
  omp_set_num_threads(1);
  const uint32_t seed = seed_of_all("ISOBAR_PRODUCT_SEED");
  std::mt19937 random(seed);
  std::vector<Choice> all = product_of(mpi.size());
  const size_t pairs = covering_first(all, random);
  double losses = 0, norms = 0, weights = 0;
  size_t ran = 0;
  for (size_t i = 0; i < pairs; ++i) {
    if (mpi.size() > 4 && (i + seed) % 2 == 1) continue;  // many ranks share few cores
    const bool llama = i % 2 == 1;
    const std::string config =
        source_dir() + "/configs/models/" + (llama ? "llama-tiny.yaml" : "gpt-tiny.yaml");
    const std::vector<std::string> net = language_model_for(all[i], llama);
    std::vector<std::string> words = net;
    for (std::string& word : layout_words(all[i], batch_of(all[i]), random)) words.push_back(std::move(word));
    const std::string text = config + " " + text_of(words);
    if (mpi.rank() == 0) std::printf("%s\n", text.c_str()), std::fflush(stdout);
    try {
      const Trained& one = one_rank(config, net, mpi);
      const Deviation d = compare(trained(load_run_spec(config, words), mpi, text), one, mpi);
      ++ran;
      losses = std::max(losses, d.losses);
      norms = std::max(norms, d.norms);
      weights = std::max(weights, d.weights);
      if (mpi.rank() != 0) continue;
      EXPECT_LT(one.losses.back(), kLearnt * one.losses[0])
          << "nothing is learnt: nothing is tested. " << text;
      EXPECT_LT(d.losses, 1e-5) << text;
      EXPECT_LT(d.norms, 2e-5) << text;
      EXPECT_LT(d.weights, 1e-5) << text;
      EXPECT_TRUE(d.whole) << "weights that no rank holds: " << text;
    } catch (const std::exception& e) {  // the other ranks wait for this one
      std::printf("FAILED on rank %d: %s under %s\n", mpi.rank(), e.what(), text.c_str());
      std::fflush(stdout);
      mpi.abort(1);
    }
  }
  if (mpi.rank() == 0)
    std::printf(
        "%d ranks: %zu layouts of language models (seed %u); largest deviations: losses %.1e, norms "
        "%.1e, weights %.1e\n",
        mpi.size(), ran, seed, losses, norms, weights);
}

}  // namespace
}  // namespace isobar::engine
