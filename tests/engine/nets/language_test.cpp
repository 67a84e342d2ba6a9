// Language models through the real command: GPT and Llama learn text, in bf16, and resume as any other
// layout.
#include "model/data/tables/token_file.h"
#include "tests/engine/layouts.h"

namespace isobar::engine {
namespace {

const std::initializer_list<TestNet> kBoth = {kGpt, kLlama};

TEST(LanguageTraining, InBf16IsCloseToFp32) {
  for (const TestNet& net : kBoth) {
    const Folder dir;
    const TrainedNet half = run(dir / "half", {"policy.amp=bf16"}, 1, {}, net);
    for (const auto& [step, loss] : one_rank(net).record.losses)
      EXPECT_NEAR(half.record.losses.at(step) / loss, 1, 1e-2) << "step " << step;
    EXPECT_GT(distance(one_rank(net).weights, half.weights), 1e-6);
  }
}

// The tables in a checkpoint have no padding, so one rank reads what four wrote.
TEST(LanguageTraining, ResumesAsAnyOtherLayout) {
  for (const TestNet& net : kBoth) {
    const Folder dir;
    const Words save = {"train.checkpoint_every=5"};
    const TrainedNet a =
        run(dir / "a", save + Words{"layout.tp=2", "layout.pp=2", "policy.micro_batch=3"}, 4, {}, net);
    const TrainedNet b = run(dir / "b", {}, 1, {"--resume", dir / "a/checkpoints/step-00000005"}, net);
    ASSERT_EQ(b.record.losses.size(), 5u);
    for (const auto& [step, loss] : b.record.losses)
      EXPECT_NEAR(loss / a.record.losses.at(step), 1, 1e-6) << "step " << step;
    EXPECT_LT(distance(a.weights, b.weights), 1e-5);
    EXPECT_EQ(a.weights.tensors.at("embed.weight").shape, (std::vector<int64_t>{300, 64}));
  }
}

std::vector<int32_t> bytes_in(const std::string& text) {
  std::vector<int32_t> out;
  for (const char c : text) out.push_back(static_cast<unsigned char>(c));
  return out;
}

// This repository's own text, byte by byte: better than the frequencies of the bytes say, and the validation
// too.
TEST(LanguageTraining, LearnsText) {
  const Folder dir;
  std::string text;
  for (const char* name : {"README.md", "model/README.md", "configs/keys.md", "perfmodel/README.md"})
    text += text_of(fs::path(source_dir()) / name);
  data::write_tokens(dir / "text.bin", bytes_in(text), 256);
  std::map<char, double> times;
  for (const char c : text) ++times[c];
  double entropy = 0;
  for (const auto& [c, n] : times) {
    const double p = n / static_cast<double>(text.size());
    entropy -= p * std::log(p);
  }
  for (const TestNet& net : kBoth) {
    const std::string out = dir / fs::path(net.config).stem();
    const Ended e =
        Child(train_words(net.config,
                          {"data.train=" + (dir / "text.bin"), "data.train_fraction=0.9", "train.steps=150",
                           "train.valid_every=150", "run.threads=1", "run.out=" + out},
                          {"--machine", source_dir() + "/configs/machines/example-2core.yaml"}))
            .wait();
    ASSERT_EQ(e.code, 0) << e.text;
    EXPECT_NE(e.text.find("tokens/s"), std::string::npos) << e.text;
    EXPECT_NE(e.text.find("perplexity"), std::string::npos) << e.text;
    EXPECT_NE(e.text.find(" TFLOP/s  MFU "), std::string::npos) << e.text;
    const WrittenRun record = read_run(out);
    const json& valid = record.end.at("valid");
    EXPECT_NEAR(valid.at("perplexity").get<double>(), std::exp(valid.at("loss").get<double>()), 1e-9);
    EXPECT_LT(record.losses.at(150), 0.95 * entropy) << net.config;
    EXPECT_LT(record.end.at("valid").at("loss").get<double>(), 0.98 * entropy) << net.config;
  }
}

TEST(LanguageTraining, WordsBeyondTheVocabularyEndTheRunByName) {
  const Folder dir;
  data::write_tokens(dir / "text.bin", std::vector<int32_t>(5000, 255), 256);
  const Ended e = Child(train_words(kGpt.config, {"data.train=" + (dir / "text.bin"), "net.vocab_size=200",
                                                  "train.steps=2", "run.threads=1"}))
                      .wait();
  EXPECT_EQ(e.code, 2) << e.text;
  EXPECT_NE(e.text.find("text.bin"), std::string::npos) << e.text;
  EXPECT_NE(e.text.find("net.vocab_size"), std::string::npos) << e.text;
}

// 0.8 of the copies are taken at most. Under cp, a sample's counts are those of all its tokens.
TEST(LanguageTraining, TellsTheShareOfTokensThatExpertsDrop) {
  const Folder dir;
  const auto dropped = [&](const std::string& name, const Words& layout, int ranks, const TestNet& net) {
    run(dir / name, layout, ranks, {}, net);
    std::vector<double> out;
    std::istringstream lines(text_of(fs::path(dir / name) / "result.jsonl"));
    for (std::string line; std::getline(lines, line);)
      if (const json event = json::parse(line);
          event.value("event", "") == "step" && event.contains("dropped"))
        out.push_back(event.at("dropped").get<double>());
    return out;
  };
  EXPECT_TRUE(dropped("all", {}, 1, kMixtral).empty());
  const std::vector<double> one = dropped("one", {}, 1, kCapacity);
  const std::vector<double> cut = dropped("cut", {"layout.cp=2", "layout.ep=2"}, 2, kCapacity);
  ASSERT_FALSE(one.empty());
  ASSERT_EQ(one.size(), cut.size());
  EXPECT_GT(*std::min_element(one.begin(), one.end()), 0.15);
  EXPECT_LT(*std::max_element(one.begin(), one.end()), 1);
  EXPECT_NEAR(cut[0], one[0], 1e-6);
}

}  // namespace
}  // namespace isobar::engine
