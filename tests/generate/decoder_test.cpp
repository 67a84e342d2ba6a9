// A language net that reads token by token, with keys and values of earlier ones kept, against the forward
// pass of its training plan over the whole text.
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>

#include "model/base/rng.h"
#include "model/inference/decoder.h"
#include "model/inference/one_rank.h"
#include "model/inference/weights/params.h"
#include "model/nets/build.h"
#include "model/plan/ops/operands.h"
#include "tests/engine/command.h"
#include "tests/engine/nets.h"
#include "tests/paths.h"

namespace isobar {
namespace {

constexpr int64_t kLength = 40;

// The eval program up to the logits, which the loss then overwrites by their gradient
plan::Program forward_of(const plan::Plan& plan) {
  plan::Program all = plan::link(plan, plan.eval, true);
  std::erase_if(all.instrs,
                [&](const plan::Instr& i) { return plan.ops[i.op].kind == plan::OpKind::cross_entropy; });
  return all;
}

// A net with random weights, of which all parameters take part, as plan and as file
class WholeText {
 public:
  WholeText(const TestNet& net, const std::string& file)
      : spec_(inference::on_one_rank(
            load_run_spec(net.config,
                          net.set + Words{"net.seq_length=" + std::to_string(kLength), "net.vocab_size=300"}),
            1)),
        plan_(nets::build_plan(spec_, 0, cpu_workspace(omp_get_max_threads()))),
        logits_(plan::in<plan::OpKind::cross_entropy>(
            *std::find_if(plan_.ops.begin(), plan_.ops.end(),
                          [](const plan::Op& op) { return op.kind == plan::OpKind::cross_entropy; }),
            "logits")),
        forward_(forward_of(plan_)),
        arena_(plan_.memory.arena),
        backend_(plan_, arena_.data()) {
    backend_.load_constants();
    auto* const weights = reinterpret_cast<float*>(backend_.at(plan_.params_all));
    inference::init_params(plan_, 7, weights);
    for (int64_t i = 0; i < plan_.params_all.count; ++i)
      weights[i] += 0.05f * normal(8, 0, static_cast<uint64_t>(i));
    inference::run_in_order(plan_, plan::link(plan_, plan_.init, true), backend_);
    inference::create_safetensors(file, plan_.tensors, {});
    inference::write_weights(plan_, inference::SafetensorsWriter(file, plan_.tensors, {}), weights);
    backend_.on_fetch([this](int32_t, const BatchPlaces& to) {
      std::copy(tokens_.begin(), tokens_.end(), reinterpret_cast<int32_t*>(to.at("tokens")));
    });
  }
  const RunSpec& spec() const { return spec_; }
  // Logits of the token after each
  std::vector<std::vector<float>> operator()(std::vector<int32_t> tokens) {
    const size_t read = tokens.size();
    tokens_ = std::move(tokens);
    tokens_.resize(kLength);  // later tokens change nothing before them
    inference::run_in_order(plan_, forward_, backend_);
    const int64_t held = logits_.count / kLength;
    const auto* at = reinterpret_cast<const float*>(backend_.at(logits_));
    std::vector<std::vector<float>> out;
    for (size_t i = 0; i < read; ++i, at += held) out.emplace_back(at, at + 300);
    return out;
  }

 private:
  const RunSpec spec_;
  const plan::Plan plan_;
  const plan::View logits_;
  const plan::Program forward_;
  inference::Arena arena_;
  CpuBackend backend_;
  std::vector<int32_t> tokens_;
};

std::vector<int32_t> some_text() {
  std::vector<int32_t> out;
  for (int64_t i = 0; i < kLength; ++i)
    out.push_back(static_cast<int32_t>(300 * uniform(9, 0, static_cast<uint64_t>(i))));
  return out;
}

std::vector<TestNet> nets() {
  std::vector<TestNet> out{kLlama, kQwen, kDeepSeekV3, kPlainLatents};
  for (const char* name : {"gpt-tiny", "llama-tiny", "moe-tiny"})
    out.push_back({source_dir() + "/configs/models/" + name + ".yaml", {}});
  return out;
}

TEST(Decoder, HasTheLogitsOfTheTrainingPlanInPiecesOfAnySize) {
  const Folder dir;
  for (const TestNet& config : nets()) {
    WholeText whole(config, dir / "weights.safetensors");
    const std::vector<int32_t> text = some_text();
    const auto expected = whole(text);
    float largest = 0;
    for (const float x : expected.back()) largest = std::max(largest, std::abs(x));
    ASSERT_GT(largest, 0.5f) << "logits that hardly differ";
    for (const std::vector<size_t>& pieces : {std::vector<size_t>{kLength}, std::vector<size_t>(kLength, 1),
                                              std::vector<size_t>{17, 1, 1, 20, 1}}) {
      inference::Decoder net(whole.spec(), inference::TrainedWeights(dir / "weights.safetensors", 1));
      size_t read = 0;
      for (const size_t piece : pieces) {
        const auto logits = net(std::span(text).subspan(read, piece));
        read += piece;
        ASSERT_EQ(logits.size(), 300u);
        for (size_t w = 0; w < logits.size(); ++w)
          ASSERT_NEAR(logits[w], expected[read - 1][w], 2e-5f * largest)
              << text_of(config) << ", " << read << " tokens read";
      }
      EXPECT_EQ(net.room(), 0);
    }
  }
}

TEST(Decoder, GoesOnGreedilyLikeTheWholePrefixEachTime) {
  const Folder dir;
  for (const TestNet& config : nets()) {
    WholeText whole(config, dir / "weights.safetensors");
    std::vector<int32_t> kept = some_text();
    kept.resize(4);
    std::vector<int32_t> again = kept;
    inference::Decoder net(whole.spec(), inference::TrainedWeights(dir / "weights.safetensors", 1));
    auto logits = net(kept);
    while (net.room() > 0) {
      kept.push_back(inference::drawn(logits, {}, 0));
      logits = net({&kept.back(), 1});
      const std::vector<float> last = whole(again).back();
      again.push_back(static_cast<int32_t>(std::max_element(last.begin(), last.end()) - last.begin()));
    }
    EXPECT_EQ(kept, again) << text_of(config);
  }
}

TEST(Decoder, DrawsBySoftmaxOfTheTemperature) {
  const std::vector<float> logits = {1, 3, -1, 2};
  for (const double temperature : {0.5, 1.0, 2.0}) {
    constexpr int kDraws = 20000;
    std::vector<double> times(4);
    for (uint64_t i = 0; i < kDraws; ++i)
      ++times.at(static_cast<size_t>(inference::drawn(logits, {.temperature = temperature, .seed = 5}, i)));
    double sum = 0;
    for (const float x : logits) sum += std::exp(static_cast<double>(x) / temperature);
    for (size_t w = 0; w < 4; ++w) {
      const double p = std::exp(static_cast<double>(logits[w]) / temperature) / sum;
      EXPECT_NEAR(times[w] / kDraws, p, 5 * std::sqrt(p * (1 - p) / kDraws)) << temperature;
    }
  }
  EXPECT_EQ(inference::drawn(logits, {}, 3), 1);
}

// Trained on one sentence over and over, a net says it from its first words on.
TEST(Generate, AMemorisedTextComesBack) {
  const Folder dir;
  const std::string sentence = "The quick brown fox jumps over the lazy dog, and then sleeps. ";
  std::string text;
  for (int i = 0; i < 60; ++i) text += sentence;
  std::ofstream(dir / "text.txt") << text;
  ASSERT_EQ(Child({command(), "data", "tokens", dir / "text.txt", "-o", dir / "text.bin"}).wait().code, 0);
  for (const char* config : {"gpt-tiny", "llama-tiny", "moe-tiny"}) {
    const std::string out = dir / config;
    const Ended e = Child(train_words(source_dir() + "/configs/models/" + config + ".yaml",
                                      {"data.train=" + (dir / "text.bin"), "train.steps=200",
                                       "train.checkpoint_every=200", "run.threads=1", "run.out=" + out}))
                        .wait();
    ASSERT_EQ(e.code, 0) << e.text;
    const Words command_line = {command(),  "generate", out,         "--prompt", "The quick brown",
                                "--tokens", "48",       "--threads", "1"};
    const Ended said = Child(command_line).wait();
    ASSERT_EQ(said.code, 0) << said.text;
    EXPECT_EQ(said.text, (sentence + sentence).substr(0, 15 + 48) + "\n") << config;
    const auto json_of = [&](const Words& more) {
      Words all = command_line;
      all.insert(all.end(), more.begin(), more.end());
      const Ended ended = Child(all).wait();
      EXPECT_EQ(ended.code, 0) << ended.text;
      return json::parse(ended.text);
    };
    EXPECT_EQ(json_of({"--json"}).at("text"), (sentence + sentence).substr(15, 48));
    const Words drawn = {"--json", "--temperature", "30", "--seed"};
    Words one = drawn, two = drawn;
    one.push_back("1"), two.push_back("2");
    EXPECT_EQ(json_of(one).at("tokens"), json_of(one).at("tokens"));
    EXPECT_NE(json_of(one).at("tokens"), json_of(two).at("tokens"));
  }
}

TEST(Generate, BadInputEndsWithALineThatTeaches) {
  const Folder dir;
  const auto trained = [&](const std::string& config, const Words& set) {
    const std::string out = dir / config;
    Words all = {"train.steps=1", "train.checkpoint_every=1", "run.threads=1", "run.out=" + out};
    all.insert(all.end(), set.begin(), set.end());
    const Ended e = Child(train_words(source_dir() + "/configs/models/" + config + ".yaml", all)).wait();
    EXPECT_EQ(e.code, 0) << e.text;
    return out;
  };
  const std::string gpt = trained("gpt-tiny", {"net.vocab_size=300"}), vit = trained("vit-tiny", {});
  for (const auto& [words, says] : std::vector<std::pair<Words, std::string>>{
           {{vit, "--prompt", "1"}, "isobar forecast"},
           {{gpt, "--prompt", "hello"}, "from 0 to 299"},
           {{gpt, "--prompt", "5 300"}, "'300'"},
           {{gpt, "--prompt", ""}, "--prompt"},
           {{gpt, "--prompt", "5 6 7", "--tokens", "63"}, "at most 62"},
           {{gpt, "--prompt", "5", "--seed", "1"}, "--temperature"},
           {{gpt, "--prompt", "5", "--temperature", "-1"}, "--temperature"},
           {{dir / "nothing", "--prompt", "5"}, "nothing"}}) {
    Words all = {command(), "generate"};
    all.insert(all.end(), words.begin(), words.end());
    const Ended e = Child(all).wait();
    EXPECT_EQ(e.code, 2) << e.text;
    EXPECT_NE(e.text.find(says), std::string::npos) << e.text;
    EXPECT_EQ(std::count(e.text.begin(), e.text.end(), '\n'), 1) << e.text;
  }
  for (const Words& length : {Words{"--tokens", "62"}, Words{}}) {  // the usual 100 are what the net reads
    const Ended e = Child(Words{command(), "generate", gpt, "--prompt", "5 6 7"} + length).wait();
    EXPECT_EQ(e.code, 0) << e.text;
    EXPECT_EQ(std::count(e.text.begin(), e.text.end(), ' '), 65) << e.text;
  }
  for (const Words& asks :
       {Words{"forecast", "-o", dir / "f.nc"}, Words{"verify"}, Words{"jacobian", "-o", dir / "f.nc"}}) {
    const Ended e = Child(Words{command()} + asks + Words{gpt}).wait();
    EXPECT_EQ(e.code, 2) << e.text;
    EXPECT_NE(e.text.find("step-00000001: 'net.kind': gpt predicts words"), std::string::npos) << e.text;
    EXPECT_EQ(std::count(e.text.begin(), e.text.end(), '\n'), 1) << e.text;
  }
}

}  // namespace
}  // namespace isobar
