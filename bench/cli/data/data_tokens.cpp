// isobar data tokens: text as a file of tokens.
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/cli/data/data.h"
#include "model/base/error.h"
#include "model/base/system/files.h"
#include "model/base/text/json.h"
#include "model/data/tables/token_file.h"

namespace isobar {

void add_tokens(CLI::App& data) {
  struct Arguments {
    std::vector<std::string> texts;
    std::string out;
    bool json = false;
  };
  auto a = std::make_shared<Arguments>();
  CLI::App* tokens = data.add_subcommand("tokens", "Make a file of tokens from text, a token a byte");
  tokens->footer(
      "Writes the bytes of the texts, one after another, as words of 16 bits, as nanoGPT's prepare.py does "
      "(a vocabulary\n"
      "of 256 words). Files of tokens by other tokenizers are read as they are: .bin of nanoGPT and llm.c, "
      "Megatron's\n"
      ".bin with .idx, .npy.\n\n"
      "  isobar data tokens shakespeare.txt -o shakespeare.bin\n"
      "  isobar train configs/models/gpt-tiny.yaml --set data.train=shakespeare.bin --set "
      "data.train_fraction=0.9");
  tokens->add_option("text", a->texts, "Text files")->required();
  tokens->add_option("-o,--out", a->out, "File to write, .bin")->required();
  tokens->add_flag("--json", a->json, "Print what was made as JSON");
  tokens->callback([a] {
    if (!a->out.ends_with(".bin"))
      throw ConfigError(a->out, "", "is no name of a file of tokens", "give one that ends in .bin");
    std::string all;
    for (const std::string& path : a->texts) all += read_file(path);
    if (all.empty()) throw ConfigError(a->texts.front(), "", "is empty", "give text");
    write_tokens(a->out, all);
    const nlohmann::json made = {{"out", a->out}, {"tokens", all.size()}, {"words", 256}};
    if (a->json)
      std::cout << json_text(made, 2) << "\n";
    else
      std::cout << a->out << ": " << all.size()
                << " tokens of 256 words\nTrain on it with\n  --set net.vocab_size=256 --set data.train="
                << a->out << " --set data.train_fraction=0.9\n";
  });
}

}  // namespace isobar
