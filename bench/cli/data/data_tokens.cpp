// isobar data tokens: text as a file of tokens.
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "bench/cli/data/data.h"
#include "bench/cli/words/options.h"
#include "model/base/error.h"
#include "model/base/system/files.h"
#include "model/base/text/json.h"
#include "model/data/tables/token_file.h"
#include "model/data/tables/tokenizer.h"

namespace isobar::cli {
namespace {

constexpr int64_t kBytesOfText = 256;

struct TokensArguments {
  std::vector<std::string> texts;
  std::string out, tokenizer, end;
  bool json = false;
};

void make_tokens(const TokensArguments& a) {
  if (!a.out.ends_with(".bin"))
    throw ConfigError(a.out, "", "is no name of a file of tokens", "give one that ends in .bin");
  std::optional<data::Tokenizer> tokenizer;
  if (!a.tokenizer.empty()) tokenizer.emplace(a.tokenizer);
  std::vector<int32_t> tokens;
  for (const std::string& path : a.texts) {
    const std::string text = read_file(path);
    if (tokenizer) {
      const std::vector<int32_t> more = tokenizer->encode(text, path);
      tokens.insert(tokens.end(), more.begin(), more.end());
    } else {
      for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
    }
    if (!a.end.empty()) tokens.push_back(tokenizer->token(a.end, "--end"));
  }
  if (tokens.empty()) throw ConfigError(a.texts.front(), "", "is empty", "give text");
  const int64_t words = tokenizer ? tokenizer->words() : kBytesOfText;
  data::write_tokens(a.out, tokens, words);
  const nlohmann::json made = {{"out", a.out}, {"tokens", tokens.size()}, {"words", words}};
  if (a.json)
    std::cout << json_text(made, 2) << "\n";
  else
    std::cout << a.out << ": " << tokens.size() << " tokens of " << words
              << " words\nTrain on it with\n  --set net.vocab_size=" << words << " --set data.train=" << a.out
              << " --set data.train_fraction=0.9\n";
}

}  // namespace

void add_tokens(CLI::App& data) {
  auto a = std::make_shared<TokensArguments>();
  CLI::App* tokens =
      data.add_subcommand("tokens", "Make a file of tokens from text, a token a byte or by a tokenizer.json");
  tokens->footer(
      "Writes the texts' tokens, one text after another, as words of 16 bits (32 for more than 65536 words), "
      "as "
      "nanoGPT's\n"
      "prepare.py does: bytes (a vocabulary of 256 words), or what a byte-level tokenizer.json makes of "
      "them, as "
      "GPT-2's or\n"
      "Llama 3's. Files of tokens by other programs are read as they are: .bin of nanoGPT and llm.c, "
      "Megatron's "
      ".bin with\n"
      ".idx, .npy.\n\n"
      "  isobar data tokens shakespeare.txt -o shakespeare.bin\n"
      "  isobar data tokens a.txt b.txt --tokenizer tokenizer.json --end '<|endoftext|>' -o text.bin\n"
      "  isobar train configs/models/gpt-tiny.yaml --set data.train=shakespeare.bin --set "
      "data.train_fraction=0.9");
  tokens->add_option("text", a->texts, "Text files")->required();
  tokens->add_option("-o,--out", a->out, "File to write, .bin")->required();
  tokens->add_option("--tokenizer", a->tokenizer, "tokenizer.json of Hugging Face's tokenizers [bytes]");
  tokens->add_option("--end", a->end, "Special token behind each text [none]")->needs("--tokenizer");
  tokens->add_flag("--json", a->json, "Print what was made as JSON");
  tokens->callback([a] { make_tokens(*a); });
}

}  // namespace isobar::cli
