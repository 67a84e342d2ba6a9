// isobar generate: a trained language net continues a text.
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/cli/commands.h"
#include "bench/cli/words/options.h"
#include "model/base/error.h"
#include "model/base/text/json.h"
#include "model/data/tables/tokenizer.h"
#include "model/engine/host/host.h"
#include "model/inference/decoder.h"

namespace isobar::cli {
namespace {

struct GenerateArguments {
  std::string from, prompt, tokenizer;
  int64_t tokens = 0, threads = 0;  // tokens: 0, as many as usual
  inference::Draw draw;
  bool json = false;
};

constexpr int64_t kBytes = 256;  // words of a net that reads text byte by byte

bool of_bytes(const RunSpec& spec) {
  return spec.net.words()->vocab_size == kBytes;
}

inference::CheckpointState state_of_words(const std::filesystem::path& checkpoint) {
  inference::CheckpointState state = inference::state_of(checkpoint);
  const std::string file = checkpoint.string();
  if (!state.checkable())
    throw ConfigError(file, "", "was written before checkpoints said what their net is",
                      "train it again, or resume it for a step");
  if (!state.spec.net.words())
    throw ConfigError(file, "net.kind", "is " + state.spec.net.kind() + ", which writes no text",
                      "give a run of a gpt or llama; other nets forecast: isobar forecast");
  return state;
}

/// Numbers of words: "464 3290, 318"
std::vector<int32_t> words_in(const std::string& prompt, int64_t words) {
  std::vector<int32_t> out;
  const auto separates = [](char c) { return c == ' ' || c == ',' || c == '\n' || c == '\t'; };
  for (size_t at = 0; at < prompt.size();) {
    if (separates(prompt[at])) {
      ++at;
      continue;
    }
    const size_t begin = at;
    while (at < prompt.size() && !separates(prompt[at])) ++at;
    const std::string word = prompt.substr(begin, at - begin);
    const bool digits = std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!digits || word.size() > 9 || std::stol(word) >= words)
      throw ConfigError(
          "--prompt", "'" + showable(word) + "'",
          "is no word of this net, whose words are the numbers from 0 to " + std::to_string(words - 1),
          "give tokens as numbers: --prompt '464 3290 318'; a net of 256 words takes text");
    out.push_back(static_cast<int32_t>(std::stol(word)));
  }
  return out;
}

// How a net's tokens are written: by a tokenizer, as bytes, or as numbers
using MaybeTokenizer = std::unique_ptr<data::Tokenizer>;

MaybeTokenizer tokenizer_of(const GenerateArguments& a, const RunSpec& spec) {
  if (a.tokenizer.empty()) return nullptr;
  auto out = std::make_unique<data::Tokenizer>(a.tokenizer);
  const int64_t words = spec.net.words()->vocab_size;
  if (out->words() > words)
    throw ConfigError("--tokenizer", a.tokenizer,
                      "has " + std::to_string(out->words()) + " words, and the net " + std::to_string(words),
                      "give that of the net's data");
  return out;
}

std::vector<int32_t> tokens_of(const std::string& prompt, const RunSpec& spec, const MaybeTokenizer& by) {
  if (by) return by->encode(prompt, "--prompt");
  if (!of_bytes(spec)) return words_in(prompt, spec.net.words()->vocab_size);
  std::vector<int32_t> out;
  for (const char c : prompt) out.push_back(static_cast<unsigned char>(c));
  return out;
}

std::string text_of(const std::vector<int32_t>& tokens, const MaybeTokenizer& by) {
  if (by) return by->decode(tokens);
  std::string out;
  for (const int32_t t : tokens) out += static_cast<char>(t);
  return out;
}

/// Tokens to write after a prompt of this length; the last one is only written.
int64_t tokens_to_write(const GenerateArguments& a, size_t prompt, const WordsSpec& net) {
  constexpr int64_t kUsual = 100;
  if (prompt == 0)
    throw ConfigError("--prompt", "", "is empty", "give what the net is to continue, at least one token");
  const auto given = static_cast<int64_t>(prompt);
  const int64_t room = net.seq_length - given + 1;
  const std::string more = " than net.seq_length, " + std::to_string(net.seq_length) +
                           ", which is what this net was trained to read";
  if (room < 1)
    throw ConfigError("--prompt", std::to_string(given) + " tokens", "are more" + more, "shorten the prompt");
  if (a.tokens > room)
    throw ConfigError("--tokens", std::to_string(a.tokens),
                      "and the prompt's " + std::to_string(given) + " are more" + more,
                      "give at most " + std::to_string(room));
  return a.tokens > 0 ? a.tokens : std::min(kUsual, room);
}

void run_generate(const GenerateArguments& a) {
  const std::filesystem::path checkpoint = inference::find_checkpoint(a.from, "RUN");
  const inference::CheckpointState state = state_of_words(checkpoint);
  const MaybeTokenizer by = tokenizer_of(a, state.spec);
  const std::vector<int32_t> prompt = tokens_of(a.prompt, state.spec, by);
  const int64_t tokens = tokens_to_write(a, prompt.size(), *state.spec.net.words());
  const int threads = a.threads > 0 ? static_cast<int>(a.threads) : engine::cores();
  omp_set_num_threads(threads);
  inference::Meeting one;
  one.threads = threads;
  inference::Decoder net(state.spec, inference::TrainedWeights(inference::OpenCheckpoint(
                                         checkpoint, inference::CheckpointPart::weights, one)));

  const bool text = by || of_bytes(state.spec);
  const auto say = [&](const std::vector<int32_t>& tokens) {
    if (a.json) return;
    if (text) std::cout << text_of(tokens, by);
    for (const int32_t t : tokens)
      if (!text) std::cout << t << ' ';
    std::cout << std::flush;
  };
  say(prompt);
  std::vector<int32_t> made;
  const auto begun = std::chrono::steady_clock::now();
  std::span<const float> logits = net(prompt);
  const auto read = std::chrono::steady_clock::now();
  while (true) {
    made.push_back(inference::drawn(logits, a.draw, made.size()));
    say({made.back()});
    if (static_cast<int64_t>(made.size()) == tokens) break;
    logits = net({&made.back(), 1});
  }
  const auto seconds = [](auto from, auto to) { return std::chrono::duration<double>(to - from).count(); };
  if (!a.json) {
    std::cout << "\n";
    return;
  }
  nlohmann::json j = {{"checkpoint", checkpoint.string()},
                      {"step", state.train.step},
                      {"prompt", prompt},
                      {"tokens", made},
                      {"prompt_s", seconds(begun, read)},
                      {"tokens_s", seconds(read, std::chrono::steady_clock::now())}};
  if (text) j["text"] = text_of(made, by);
  std::cout << j.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
}

}  // namespace

void add_generate_command(CLI::App& app) {
  auto a = std::make_shared<GenerateArguments>();
  CLI::App* c = app.add_subcommand("generate", "Continue a text with a trained language net");
  c->footer(
      "Runs a gpt or llama on this machine's cores. A net of 256 words reads and writes the bytes of text "
      "(isobar data\n"
      "tokens); any other text by --tokenizer, or the numbers of its tokenizer's tokens.\n"
      "Without --temperature each token is the most probable one; with it, one drawn from softmax(logits / "
      "T): below 1\n"
      "the likely ones become likelier. The same --seed draws the same text.\n\n"
      "  isobar generate runs/shakespeare --prompt 'ROMEO:' --tokens 200\n"
      "  isobar generate runs/shakespeare --prompt 'ROMEO:' --tokens 200 --temperature 0.8 --seed 3\n"
      "  isobar generate runs/gpt2/checkpoints/step-00001000 --prompt '464 3290 318' --tokens 20 --json");
  c->add_option("RUN", a->from, "A run's directory (its last checkpoint), or one checkpoint")->required();
  c->add_option("--prompt", a->prompt, "What to continue: text, or numbers of tokens")->required();
  c->add_option("--tokenizer", a->tokenizer, "tokenizer.json of the net's data [bytes, or numbers]");
  c->add_option("--tokens", a->tokens, "Tokens to write [100, or what net.seq_length leaves]")
      ->check(CLI::Range(1, 1 << 24));
  c->add_option("--temperature", a->draw.temperature,
                "Draw tokens, at this temperature [0: the most probable one]")
      ->check(number_in(0, 100));
  c->add_option("--seed", a->draw.seed, "Of the draws")->capture_default_str();
  c->add_option("--threads", a->threads, "Threads [all cores]")->check(CLI::Range(1, 4096));
  c->add_flag("--json", a->json, "Print tokens, text and times as JSON");
  c->callback([a, c] {
    refuse_unused(*c, {{"--seed", a->draw.temperature == 0, "draws nothing without a temperature",
                        "add --temperature 1, or leave it out"}});
    run_generate(*a);
  });
}

}  // namespace isobar::cli
