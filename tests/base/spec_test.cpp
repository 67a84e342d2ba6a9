// Mistakes in a run file, each answered with one ConfigError that names file, key and fix. Then inheritance,
// overrides and the round trip through JSON.
#include "model/base/spec/spec.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "model/base/error.h"
#include "model/base/names/did_you_mean.h"
#include "model/base/text/yaml.h"
#include "tests/paths.h"

namespace isobar {
namespace {

namespace fs = std::filesystem;

class Spec : public testing::Test {
 protected:
  Spec() : dir_(fs::temp_directory_path() / ("isobar-spec-" + std::to_string(::getpid()))) {
    fs::create_directories(dir_);
  }
  ~Spec() override { fs::remove_all(dir_); }
  std::string file(const std::string& name, const std::string& text) {
    std::ofstream(dir_ / name) << text;
    return (dir_ / name).string();
  }
  /// The message of the ConfigError that loading ends in; "" when it does not.
  static std::string message(const std::string& path, const std::vector<std::string>& overrides = {}) {
    try {
      load_run_spec(path, overrides);
    } catch (const ConfigError& e) {
      return e.what();
    }
    return "";
  }
  fs::path dir_;
};

#define EXPECT_HAS(text, part) \
  EXPECT_NE((text).find(part), std::string::npos) << "'" << (text) << "' lacks '" << (part) << "'"

TEST_F(Spec, EveryMistakeNamesFileKeyAndMend) {
  struct Case {
    const char *text, *key, *mend;
  };
  const Case cases[] = {
      // unknown keys, with what was probably meant
      {"net: {embed_dm: 64}", "'net.embed_dm'", "did you mean 'net.embed_dim'?"},
      {"trian: {lr: 1}", "'trian.lr'", "did you mean 'train'?"},
      {"trian: {lr: 1, steps: 2}", "'trian'", "did you mean 'train'?"},
      {"layot: {tp: 2}", "'layot.tp'", "did you mean 'layout.tp'?"},
      {"tp: 2", "'tp'", "did you mean 'layout.tp'?"},
      {"train: {bach: 8}", "'train.bach'", "did you mean 'train.global_batch'?"},
      {"policy: {overlap: true, qwertz: 1}", "'policy.qwertz'", "`isobar config show FILE` lists all keys"},
      {"train: {global_bach: 8}", "'train.global_bach'", "did you mean 'train.global_batch'?"},
      {"policy: {micro_batches: 2}", "'policy.micro_batches'", "did you mean 'policy.micro_batch'?"},
      {"net: 3", "'net'", "indent them below `net:`"},
      {"- 1\n- 2", "", "start with `net:`"},
      // wrong types
      {"net: {embed_dim: wide}", "'net.embed_dim'", "give a whole number"},
      {"net: {embed_dim: 64.5}", "'net.embed_dim'", "give a whole number"},
      {"net: {embed_dim: \"64\"}", "'net.embed_dim'", "give a whole number"},
      {"net: {depth: [2]}", "'net.depth'", "give a whole number"},
      {"train: {lr: fast}", "'train.lr'", "give a number"},
      {"train: {lr: nan}", "'train.lr'", "give a number"},
      {"policy: {overlap: 1}", "'policy.overlap'", "give true or false"},
      {"train: {optimizer: 5}", "'train.optimizer'", "give a word"},
      {"data: {variables: t2m}", "'data.variables'", "give a list of words"},
      {"data: {variables: [1, 2]}", "'data.variables'", "give a list of words"},
      // impossible values
      {"net: {patch_size: 7}", "'net.patch_size'", "the nearest that do are 6 and 8"},
      {"net: {num_heads: 7}", "'net.num_heads'", "the nearest that do are 6 and 8"},
      {"net: {depth: 0}", "'net.depth'", "give 1 or more"},
      {"net: {embed_dim: -64}", "'net.embed_dim'", "give 1 or more"},
      {"net: {embed_dim: 1000000000}", "'net.embed_dim'", "give 131072 or less"},
      {"net: {kind: gpt, img_height: 64}", "'net.img_height'", "remove it, or set net.kind"},
      {"net: {vocab_size: 64}", "'net.vocab_size'", "remove it, or set net.kind"},
      {"net: {kind: gpt, imgheight: 64}", "'net.imgheight'", "did you mean"},
      {"net: {kind: unet, depth: 3}", "'net.depth'", "remove it, or set net.kind"},
      {"net: {kind: unet, img_height: 72}", "'net.img_height'", "use a multiple of 2 * net.patch_size = 16"},
      {"net: {kind: resnet}", "'net.kind'", "use one of vit"},
      {"data: {train: era5, inputs: [t2m, t2m]}", "'data.inputs'", "name it once"},
      {"data: {train: era5, targets: [t2m]}", "'data.targets'", "name 20, or set net.out_channels"},
      {"data: {train: era5}\nnet: {out_channels: 3}", "'data.targets'", "name the 3"},
      {"data: {inputs: [t2m]}", "'data.inputs'", "set data.train"},
      {"net: {norm_eps: 0}", "'net.norm_eps'", "use 1e-6"},
      {"layout: {dp: 3}", "'train.global_batch'", "use a multiple, e.g. 18"},
      {"layout: {dp: 0}", "'layout.dp'", "give 1 or more"},
      {"policy: {micro_batch: 3}", "'policy.micro_batch'", "the nearest that do are 2 and 4"},
      {"policy: {amp: fp8}", "'policy.amp'", "use one of none, tf32, bf16"},
      {"policy: {schedule: dualpipe}", "'policy.schedule'", "use one of gpipe, 1f1b, interleaved"},
      {"policy: {zero: 4}", "'policy.zero'", "use 0 to 3"},
      {"policy: {bucket_mb: 0}", "'policy.bucket_mb'", "e.g. 25"},
      {"policy: {recompute_method: every}", "'policy.recompute_method'", "use one of uniform, block"},
      {"policy: {recompute_num_layers: 2}", "'policy.recompute_num_layers'", "set policy.recompute to full"},
      {"policy: {recompute_method: block}", "'policy.recompute_method'", "set policy.recompute to full"},
      {"policy: {recompute: some}", "'policy.recompute'", "use one of none, selective, full"},
      {"train: {lr: -1}", "'train.lr'", "e.g. 5e-4"},
      {"train: {steps: 0}", "'train.steps'", "give 1 or more"},
      {"train: {beta2: 1}", "'train.beta2'", "e.g. 0.95"},
      {"train: {optimizer: lion}", "'train.optimizer'", "use one of adam, adamw, sgd"},
      {"train: {optimizer: sgd, momentum: 1}", "'train.momentum'", "e.g. 0.9"},
      {"train: {lr_schedule: ramp}", "'train.lr_schedule'", "use one of cosine, constant, step, plateau"},
      {"train: {lr_schedule: step}", "'train.lr_step_size'", "give 1 or more"},
      {"train: {lr_schedule: plateau}", "'train.lr_schedule'", "set train.valid_every"},
      {"train: {lr_gamma: 1}", "'train.lr_gamma'", "e.g. 0.1"},
      {"train: {loss: l1}", "'train.loss'", "use one of relative-l2, mae, mse, huber"},
      {"train: {loss_weights: [1]}", "'train.loss_weights'", "use mae, mse or huber"},
      {"train: {loss: mae, loss_weights: [1, 2]}", "'train.loss_weights'", "give one a channel"},
      {"train: {loss: mae, loss_weights: 1}", "'train.loss_weights'", "give a list of numbers"},
      {"train: {loss: huber, huber_delta: 0}", "'train.huber_delta'", "e.g. 1"},
      {"train: {warmup: -1}", "'train.warmup'", "give 0 or more"},
      {"data: {dt: 0}", "'data.dt'", "give 1 or more"},
      {"data: {workers: -2}", "'data.workers'", "give 0 or more"},
      {"data: {workers: 99999}", "'data.workers'", "give 1024 or less"},
      {"data: {train_fraction: 1.5}", "'data.train_fraction'", "e.g. 0.8"},
      {"run: {hang_timeout: 0}", "'run.hang_timeout'", "give seconds"},
      // YAML itself
      {"net: {depth: 2", "'line ", "check indentation, colons and quotes there"},
      {"net:\n\tdepth: 2", "'line 2'", "check indentation"},
      {"net: {depth: 2, depth: 3}", "'depth'", "keep one of the two"},
      {"net:\n  <<: [depth]", "'net'", "write <<: *name of a map"},
      {"inherits: nowhere.yaml", "'inherits'", "name a file beside this one"},
      {"inherits: 3", "'inherits'", "e.g. vit.yaml"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.text);
    const std::string path = file("bad.yaml", c.text);
    const std::string text = message(path);
    EXPECT_TRUE(text.starts_with(path + ": ")) << text;
    EXPECT_HAS(text, c.key);
    EXPECT_HAS(text, " -> ");
    EXPECT_HAS(text.substr(text.find(" -> ")), c.mend);
    EXPECT_EQ(text.find('\n'), std::string::npos) << "more than one line: " << text;
  }
}

TEST_F(Spec, AMissingFileIsNamed) {
  const std::string text = message((dir_ / "absent.yaml").string());
  EXPECT_HAS(text, "absent.yaml");
  EXPECT_HAS(text, "check the path");
  EXPECT_HAS(message(dir_.string()), dir_.string());  // a directory is no file
}

TEST_F(Spec, OverridesThatAreWrongNameTheCommandLine) {
  const std::string good = file("good.yaml", "net: {depth: 2}");
  EXPECT_HAS(message(good, {"train.lr"}), "--set");
  EXPECT_HAS(message(good, {"train.lr"}), "is not key=value");
  EXPECT_HAS(message(good, {"=3"}), "is not key=value");
  EXPECT_HAS(message(good, {"net..depth=3"}), "has an empty part");
  EXPECT_HAS(message(good, {"net.depth.deeper=3"}), "goes through a value");
  EXPECT_HAS(message(good, {"net.dept=3"}), "did you mean 'net.depth'?");
  EXPECT_HAS(message(good, {"net.dept=3"}), "--set");
  EXPECT_HAS(message(good, {"net.depth=deep"}), "'net.depth'");
}

TEST_F(Spec, OverridesTakeYamlValuesAndTheLastOneWins) {
  const std::string good = file("good.yaml", "net: {depth: 2}");
  const RunSpec s = load_run_spec(
      good, {"train.lr=1e-3", "policy.overlap=false", "train.seed=3", "train.seed=4", "run.out=a=b",
             "data.variables=[t2m, u10]", "policy.amp=bf16", "layout.dp=2", "data.train=None"});
  EXPECT_EQ(s.net.vit().depth, 2);
  EXPECT_EQ(s.train.lr, 1e-3);
  EXPECT_FALSE(s.policy.overlap);
  EXPECT_EQ(s.train.seed, 4);
  EXPECT_EQ(s.run.out, "a=b");
  EXPECT_EQ(s.data.variables, (std::vector<std::string>{"t2m", "u10"}));
  EXPECT_EQ(s.policy.amp, Amp::bf16);
  EXPECT_EQ(s.layout.dp, 2);
  EXPECT_EQ(s.data.train, "");
  EXPECT_EQ(s.micro_batch(), 8);
  EXPECT_EQ(s.micro_batches(), 1);
}

TEST_F(Spec, InheritanceMergesKeyByKeyFromTheFileBeside) {
  fs::create_directories(dir_ / "base");
  file("base/grand.yaml", "net: {embed_dim: 96, depth: 3, num_heads: 4}\ntrain: {lr: 0.5}\n");
  file("base/parent.yaml", "inherits: grand.yaml\nnet: {depth: 5}\n");
  const std::string child = file("child.yaml", "inherits: base/parent.yaml\ntrain: {lr: 0.25, seed: 9}\n");
  const RunSpec s = load_run_spec(child, {"net.num_heads=8"});
  EXPECT_EQ(s.file, child);
  EXPECT_EQ(s.net.vit().embed_dim, 96);
  EXPECT_EQ(s.net.vit().depth, 5);
  EXPECT_EQ(s.net.vit().num_heads, 8);
  EXPECT_EQ(s.train.lr, 0.25);
  EXPECT_EQ(s.train.seed, 9);
  EXPECT_EQ(s.train.beta2, TrainSpec{}.beta2);
}

TEST_F(Spec, ACircleOfInheritanceIsRefused) {
  const std::string a = file("a.yaml", "inherits: b.yaml");
  file("b.yaml", "inherits: a.yaml");
  EXPECT_HAS(message(a), "in a circle");
}

TEST_F(Spec, JsonHoldsEveryFieldAndComesBackTheSame) {
  const std::string path = file("all.yaml",
                                "net: {embed_dim: 96, num_heads: 6}\ntrain: {lr: 0.1, optimizer: adamw}\n"
                                "data: {variables: [a, b]}\npolicy: {bucket_mb: 0.1}\nrun: {serial: true}\n");
  const RunSpec s = load_run_spec(path);
  const nlohmann::json j = to_json(s);
  const RunSpec back = run_spec_from_json(nlohmann::json::parse(j.dump()), "again");
  EXPECT_EQ(to_json(back), j);
  EXPECT_EQ(back.file, "again");
  EXPECT_EQ(back.net.vit().embed_dim, 96);
  EXPECT_EQ(back.train.lr, 0.1);
  EXPECT_EQ(back.data.variables, s.data.variables);
  EXPECT_TRUE(back.run.serial);
  nlohmann::json wrong = j;
  wrong["net"]["color"] = 1;
  EXPECT_THROW(run_spec_from_json(wrong, "x"), ConfigError);
}

TEST_F(Spec, EveryShippedModelLoads) {
  int n = 0;
  for (const auto& entry : fs::directory_iterator(source_dir() + "/configs/models")) {
    EXPECT_EQ(message(entry.path().string()), "") << entry.path();
    ++n;
  }
  EXPECT_GE(n, 5);
}

TEST_F(Spec, ARecordOfAnOlderProgramMayHoldTheKeysOfOtherKinds) {
  nlohmann::json j = to_json(RunSpec{});
  j["net"]["vocab_size"] = 50257;
  EXPECT_THROW(run_spec_from_json(j, "x"), ConfigError);
  EXPECT_EQ(run_spec_from_record(j, "x").net.vit().embed_dim, 384);
  j["net"]["color"] = 1;
  EXPECT_THROW(run_spec_from_record(j, "x"), ConfigError);
}

// Until layout.stages an aurora's placement was a key of its net.
TEST_F(Spec, RecordsOfBeforeKeepTheirStages) {
  RunSpec s;
  s.net.set_kind("aurora");
  s.layout.pp = 4;
  nlohmann::json j = to_json(s);
  for (const auto& [word, stages] : std::vector<std::pair<const char*, std::vector<int64_t>>>{
           {"balanced", {}}, {"halves", {0, 26, 26, 0}}}) {
    j["net"]["placement"] = word;
    EXPECT_EQ(run_spec_from_record(j, "x").layout.stages, stages) << word;
  }
  j["net"]["encoder_depths"] = {{"two", 2}};
  EXPECT_THROW(run_spec_from_record(j, "x"), ConfigError);  // for that key
  j["net"]["placement"] = "halves";
  EXPECT_THROW(run_spec_from_json(j, "x"), ConfigError);
}

TEST_F(Spec, EveryKindOfNetComesBackFromItsOwnJson) {
  for (const std::string& kind : NetSpec::kinds()) {
    RunSpec s;
    ASSERT_TRUE(s.net.set_kind(kind));
    EXPECT_EQ(s.net.kind(), kind);
    const nlohmann::json j = to_json(s);
    EXPECT_EQ(to_json(run_spec_from_json(j, "x")), j);
  }
}

// YAML files cannot hold a key without a name; JSON files, which programs write, can.
TEST_F(Spec, AKeyWithoutANameIsNamedAllTheSame) {
  for (const nlohmann::json& bad :
       {nlohmann::json{{"", nlohmann::json::object()}}, nlohmann::json{{"", 1}}}) {
    try {
      run_spec_from_json(bad, "job.json");
      ADD_FAILURE() << bad << " was taken";
    } catch (const ConfigError& e) {
      EXPECT_TRUE(std::string(e.what()).starts_with("job.json: '\"\"': ")) << e.what();
    }
  }
}

TEST(Yaml, ScalarsFollowTheCoreSchema) {
  const nlohmann::json j = parse_yaml(
      "{i: 12, n: -3, p: +4, f: 1e-3, g: .5, t: true, x: None, y: ~, z: null, s: word, q: '12', e: '', "
      "big: 99999999999999999999, v: 1.2.3}",
      "x");
  EXPECT_EQ(j["i"], 12);
  EXPECT_TRUE(j["i"].is_number_integer());
  EXPECT_EQ(j["n"], -3);
  EXPECT_EQ(j["p"], 4);
  EXPECT_EQ(j["f"], 1e-3);
  EXPECT_EQ(j["g"], 0.5);
  EXPECT_EQ(j["t"], true);
  for (const char* key : {"x", "y", "z"}) EXPECT_TRUE(j[key].is_null()) << key;
  EXPECT_EQ(j["s"], "word");
  EXPECT_EQ(j["q"], "12");
  EXPECT_EQ(j["e"], "");
  EXPECT_TRUE(j["big"].is_number_float());
  EXPECT_EQ(j["v"], "1.2.3");
}

TEST(Yaml, ARefusalShowsWhatBytesItRepeats) {
  for (const char byte : {'\0', '\x1b', '\x7f', '\r'}) {  // the parser's message repeats the unknown escape
    try {
      parse_yaml(std::string("a: \"\\") + byte + "\"", "bad.yaml");
      ADD_FAILURE() << "accepted byte " << int{byte};
    } catch (const ConfigError& e) {
      const std::string said = e.what();
      EXPECT_NE(said.find(" -> check"), std::string::npos) << said;
      for (const char c : said) EXPECT_GE(static_cast<unsigned char>(c), ' ') << said;
    }
  }
  EXPECT_STREQ(ConfigError(std::string("a\0b.yaml", 8), "k", "is é\x1b[2J", "mend").what(),
               "a\\x00b.yaml: 'k': is é\\x1b[2J -> mend");
}

TEST(Yaml, NestingHasAnEnd) {
  EXPECT_THROW(parse_yaml(std::string(200, '[') + std::string(200, ']'), "deep"), ConfigError);
}

TEST(Yaml, NearestIsTheWordOfLeastEditDistance) {
  EXPECT_EQ(nearest("embed", {"depth", "embed_dim", "kind"}), "embed_dim");
  EXPECT_EQ(nearest("lr", {"beta1", "lr", "lr_scaling"}), "lr");
  EXPECT_EQ(nearest("kitten", {"mitten", "sitting"}), "mitten");
}

TEST_F(Spec, SizesWhoseProductsAreNoNumbersAreRefused) {
  const std::string path = file("a.yaml", "net: {embed_dim: 64}");
  const auto refused = [&](const std::vector<std::string>& set, const char* key, const char* what) {
    const std::string said = message(path, set);
    EXPECT_HAS(said, key);
    EXPECT_HAS(said, what);
    EXPECT_HAS(said, " -> ");
  };
  const std::string most = "131072";
  refused({"net.in_channels=" + most, "net.out_channels=" + most, "net.img_height=" + most,
           "net.img_width=" + most, "train.global_batch=16777216"},
          "'train.global_batch'", "2^60");
  refused({"net.embed_dim=" + most, "net.mlp_ratio=" + most, "net.depth=" + most}, "'net'", "2^60");
  refused({"net.kind=gpt", "net.seq_length=1048576", "net.num_heads=64", "policy.attention=unfused",
           "train.global_batch=1024"},
          "'train.global_batch'", "2^60");
  refused({"layout.dp=1048576", "layout.tp=1048576", "layout.cp=1048576", "layout.pp=1048576",
           "train.global_batch=1048576"},
          "'layout'", "more ranks than 1048576");
  EXPECT_EQ(message(path, {"layout.dp=1048576", "train.global_batch=1048576"}), "");
  EXPECT_EQ(message(path, {"train.global_batch=16777216", "policy.micro_batch=1"}), "");
}

TEST_F(Spec, NamesWithConsecutiveNumbersAreARange) {
  const auto names = [&](const std::string& list) {
    return load_run_spec(file("table.yaml", "net: {kind: mlp, in_features: 3, out_features: 1}"),
                         {"data.train=t.csv", "data.inputs=[" + list + "]", "data.targets=[y]"})
        ->data.inputs;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names("x0..x2"), (Names{"x0", "x1", "x2"}));
  EXPECT_EQ(names("x08..x10"), (Names{"x08", "x09", "x10"}));  // of one width
  EXPECT_EQ(names("1..3"), (Names{"1", "2", "3"}));
  EXPECT_EQ(names("x1..y3,b,c"), (Names{"x1..y3", "b", "c"}));
  EXPECT_EQ(names("x..3,x3..x,.."), (Names{"x..3", "x3..x", ".."}));
}

}  // namespace
}  // namespace isobar
