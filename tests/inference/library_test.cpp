// The installed library: programs linked with it alone print the values of `isobar forecast` bit for bit; bad
// checkpoints give codes and messages; two handles work in two threads.
#include <gtest/gtest.h>
#include <netcdf.h>
#include <xmmintrin.h>

#include <atomic>
#include <cmath>
#include <thread>

#include "model/inference/library/isobar.h"
#include "tests/engine/command.h"
#include "tests/paths.h"

namespace isobar::inference {
namespace {

constexpr int kInputs = 14, kOutputs = 2, kRows = 700;

// Numbers that text holds exactly
class Emulator : public testing::Test {
 protected:
  void SetUp() override {
    std::uniform_int_distribution<int> digit(-2048, 2048);
    std::ofstream file(dir_ / "t.csv"), rows(dir_ / "rows");
    for (int c = 0; c < kInputs; ++c) file << "in" << c << ",";
    file << "a,b\n";
    file.precision(9), rows.precision(9);
    for (int r = 0; r < kRows; ++r) {
      float sum = 0;
      for (int c = 0; c < kInputs; ++c) {
        const float x = static_cast<float>(digit(random_)) / 256 + static_cast<float>(c);
        sum += x;
        in_.push_back(x);
        file << x << ",";
        rows << x << (c + 1 < kInputs ? " " : "\n");
      }
      file << sum << "," << 1e-3f * sum * sum << "\n";
    }
  }
  void train(const std::string& amp = "none", const Words& more = {}) {
    std::string inputs;
    for (int c = 0; c < kInputs; ++c) inputs += (c ? ",in" : "in") + std::to_string(c);
    Words words = {"data.train=" + (dir_ / "t.csv"),
                   "data.valid=" + (dir_ / "t.csv"),
                   "data.inputs=[" + inputs + "]",
                   "data.targets=[a,b]",
                   "net.out_features=2",
                   "train.global_batch=50",
                   "train.steps=20",
                   "train.checkpoint_every=20",
                   "run.threads=1",
                   "policy.amp=" + amp,
                   "run.out=" + run()};
    words.insert(words.end(), more.begin(), more.end());
    const Ended e = Child(train_words(source_dir() + "/configs/models/mlp-emulator.yaml", words)).wait();
    ASSERT_EQ(e.code, 0) << e.text;
  }
  std::string run() const { return dir_ / "run"; }
  std::string checkpoint() const { return dir_ / "run/checkpoints/step-00000020"; }
  std::vector<float> forecast(int64_t batch) {
    const std::string out = dir_ / ("f" + std::to_string(batch) + ".nc");
    const Ended e =
        Child({command(), "forecast", run(), "-o", out, "--batch", std::to_string(batch), "--threads", "1"})
            .wait();
    EXPECT_EQ(e.code, 0) << e.text;
    std::vector<float> a(kRows), b(kRows), both;
    int nc = -1, id = -1;
    EXPECT_EQ(nc_open(out.c_str(), NC_NOWRITE, &nc), NC_NOERR);
    EXPECT_EQ(nc_inq_varid(nc, "a", &id), NC_NOERR);
    EXPECT_EQ(nc_get_var_float(nc, id, a.data()), NC_NOERR);
    EXPECT_EQ(nc_inq_varid(nc, "b", &id), NC_NOERR);
    EXPECT_EQ(nc_get_var_float(nc, id, b.data()), NC_NOERR);
    nc_close(nc);
    for (int r = 0; r < kRows; ++r) both.push_back(a[r]), both.push_back(b[r]);
    return both;
  }
  std::vector<float> by_library(int64_t batch) {
    isobar_net* net = nullptr;
    const isobar_options options{1, batch};
    EXPECT_EQ(isobar_open(run().c_str(), &options, &net), ISOBAR_OK) << isobar_last_error();
    std::vector<float> out(kRows * kOutputs);
    if (!net) return {};
    EXPECT_EQ(isobar_run(net, kRows, in_.data(), out.data()), ISOBAR_OK) << isobar_last_error();
    isobar_close(net);
    return out;
  }
  void refused(const std::string& path, const std::string& says) {
    isobar_net* net = nullptr;
    EXPECT_EQ(isobar_open(path.c_str(), nullptr, &net), ISOBAR_BAD_INPUT);
    EXPECT_EQ(net, nullptr);
    EXPECT_NE(std::string(isobar_last_error()).find(says), std::string::npos) << isobar_last_error();
  }

  const Folder dir_;
  std::mt19937_64 random_{std::random_device{}()};
  std::vector<float> in_;
};

TEST_F(Emulator, InstalledProgramsSayWhatForecastWritesToTheLastBit) {
  train();
  const auto shell = [](const std::string& line) {
    const Ended e = Child({"/bin/sh", "-c", line}).wait();
    EXPECT_EQ(e.code, 0) << line << "\n" << e.text;
    return e.text;
  };
  const std::string prefix = dir_ / "prefix", built = dir_ / "examples";
  shell("cmake --install " + build_dir() + " --component inference --prefix " + prefix);
  shell("cmake -S " + source_dir() + "/model/inference/examples -B " + built +
        " -DCMAKE_PREFIX_PATH=" + prefix + " && cmake --build " + built);
  const std::string needs = shell("readelf -d " + prefix + "/lib*/libisobar.so " + prefix +
                                  "/lib/*/libisobar.so 2>/dev/null | grep NEEDED; true");
  EXPECT_NE(needs.find("libdnnl"), std::string::npos) << needs;
  const std::string loads = shell("ldd " + built + "/emulate_c");
  for (const char* never : {"libmpi", "hdf5", "netcdf", "cuda", "nccl", "open-rte"})
    EXPECT_EQ(loads.find(never), std::string::npos) << never << " in " << loads;
  const std::string symbols =
      shell("nm -D --defined-only $(find " + prefix + " -name libisobar.so) | grep -v ' isobar_' ; true");
  EXPECT_EQ(symbols, "");
  for (const int64_t batch : {1, 64, 256, 700}) {
    const std::vector<float> truth = forecast(batch);
    for (const char* language : {"c", "cpp", "fortran"}) {
      if (!fs::exists(built + "/emulate_" + language) && std::string(language) == "fortran") continue;
      std::istringstream said(shell(built + "/emulate_" + language + " " + run() + " " +
                                    std::to_string(batch) + " < " + (dir_ / "rows")));
      std::vector<float> got;
      for (std::string word; said >> word;) got.push_back(std::strtof(word.c_str(), nullptr));
      EXPECT_EQ(got, truth) << language << " " << batch;
    }
  }
  // 70,000 rows, more than the examples' first buffers
  for (const char* language : {"c", "cpp", "fortran"}) {
    const std::string program = built + "/emulate_" + language;
    if (!fs::exists(program) && std::string(language) == "fortran") continue;
    EXPECT_EQ(std::stol(shell("for i in $(seq 100); do cat " + (dir_ / "rows") + "; done | " + program + " " +
                              run() + " 256 | wc -l")),
              100 * kRows * kOutputs)
        << language;
  }
  // Superfluous arguments and incomplete rows are errors
  std::ofstream(dir_ / "few") << "1 2 3\n";
  for (const char* language : {"c", "cpp", "fortran"}) {
    const std::string program = built + "/emulate_" + language;
    if (!fs::exists(program) && std::string(language) == "fortran") continue;
    const auto ends = [&](const std::string& words, const std::string& rows) {
      return Child({"/bin/sh", "-c", program + " " + run() + " " + words + " < " + (dir_ / rows)})
          .wait()
          .code;
    };
    EXPECT_EQ(ends("64 more", "rows"), 64) << language;
    EXPECT_EQ(ends("64x", "rows"), 64) << language;
    if (std::string(language) != "fortran") {  // whose READ accepts the end of a file within a row
      EXPECT_EQ(ends("64", "few"), 64) << language << ": three numbers are no row";
    }
    EXPECT_EQ(ends("64", "rows"), 0) << language;
  }
}

// Logits: their softmax equals `isobar forecast`, and their derivatives the Jacobian
TEST_F(Emulator, OfAClassifierPutsOutTheLogitsOfItsClasses) {
  std::ofstream file(dir_ / "t.csv");
  for (int c = 0; c < kInputs; ++c) file << "in" << c << ",";
  file << "kind\n";
  file.precision(9);
  for (int r = 0; r < kRows; ++r) {
    const float* x = in_.data() + static_cast<int64_t>(r) * kInputs;
    for (int c = 0; c < kInputs; ++c) file << x[c] << ",";
    file << (x[0] > 0 ? 0 : x[1] > 1 ? 1 : 2) << "\n";
  }
  file.close();
  train("none", {"data.targets=[kind]", "net.out_features=3", "train.loss=cross_entropy", "net.dropout=0.3",
                 "net.activation=tanh"});
  const std::string out = dir_ / "kind.nc";
  const Ended e = Child({command(), "forecast", run(), "-o", out, "--threads", "1"}).wait();
  ASSERT_EQ(e.code, 0) << e.text;
  std::vector<float> p(kRows * 3);
  int nc = -1, id = -1;
  ASSERT_EQ(nc_open(out.c_str(), NC_NOWRITE, &nc), NC_NOERR);
  ASSERT_EQ(nc_inq_varid(nc, "kind_probability", &id), NC_NOERR);
  ASSERT_EQ(nc_get_var_float(nc, id, p.data()), NC_NOERR);
  nc_close(nc);
  isobar_net* net = nullptr;
  ASSERT_EQ(isobar_open(run().c_str(), nullptr, &net), ISOBAR_OK) << isobar_last_error();
  EXPECT_EQ(isobar_output_shape(net).channels, 3);
  EXPECT_STREQ(isobar_output_name(net, 2), "kind_2");
  EXPECT_EQ(isobar_output_name(net, 3), nullptr);
  std::vector<float> logits(kRows * 3);
  ASSERT_EQ(isobar_run(net, kRows, in_.data(), logits.data()), ISOBAR_OK) << isobar_last_error();
  for (int r = 0; r < kRows; ++r) {
    double sum = 0;
    for (int k = 0; k < 3; ++k) sum += std::exp(static_cast<double>(logits[3 * r + k]));
    for (int k = 0; k < 3; ++k)
      ASSERT_NEAR(p[3 * r + k], std::exp(static_cast<double>(logits[3 * r + k])) / sum, 1e-6) << r;
  }
  const int64_t which[3] = {0, 1, 2};
  std::vector<float> rows(3 * kInputs), x(in_.begin(), in_.begin() + kInputs), up(3), down(3);
  ASSERT_EQ(isobar_jacobian(net, x.data(), 3, which, rows.data()), ISOBAR_OK) << isobar_last_error();
  for (int c = 0; c < kInputs; ++c) {
    const float at = x[c], h = 0.25f;
    x[c] = at + h;
    ASSERT_EQ(isobar_run(net, 1, x.data(), up.data()), ISOBAR_OK);
    x[c] = at - h;
    ASSERT_EQ(isobar_run(net, 1, x.data(), down.data()), ISOBAR_OK);
    x[c] = at;
    for (int k = 0; k < 3; ++k)
      EXPECT_NEAR((up[k] - down[k]) / (2 * h), rows[k * kInputs + c], 2e-3) << c << " " << k;
  }
  isobar_close(net);
}

// Without the training data, other data are normalised by the checkpoint's statistics; bf16 too.
TEST_F(Emulator, ACheckpointSaysHowItsNetIsNormalised) {
  for (const char* amp : {"none", "bf16"}) {
    fs::remove_all(run());
    train(amp);
    fs::rename(dir_ / "t.csv", dir_ / "training.csv");
    const Ended gone = Child({command(), "forecast", run(), "-o", dir_ / "gone.nc"}).wait();
    EXPECT_EQ(gone.code, 2) << gone.text;  // its validation data were the same file
    // Only some of the rows, whose own statistics differ
    Child({"/bin/sh", "-c", "head -101 " + (dir_ / "training.csv") + " > " + (dir_ / "some.csv")}).wait();
    const Ended e = Child({command(), "forecast", run(), "-o", dir_ / "some.nc", "--data", dir_ / "some.csv",
                           "--batch", "50", "--threads", "1", "--force"})
                        .wait();
    ASSERT_EQ(e.code, 0) << e.text;
    std::vector<float> a(100);
    int nc = -1, id = -1;
    ASSERT_EQ(nc_open((dir_ / "some.nc").c_str(), NC_NOWRITE, &nc), NC_NOERR);
    ASSERT_EQ(nc_inq_varid(nc, "a", &id), NC_NOERR);
    EXPECT_EQ(nc_get_var_float(nc, id, a.data()), NC_NOERR);
    nc_close(nc);
    const std::vector<float> own = by_library(50);
    for (int r = 0; r < 100; ++r) EXPECT_EQ(a[r], own[2 * r]) << amp << " " << r;
    fs::rename(dir_ / "training.csv", dir_ / "t.csv");
  }
}

TEST_F(Emulator, TwoHandlesWorkInTwoThreadsAndLeaveTheirCallersArithmetic) {
  train();
  const std::vector<float> truth = by_library(100);
  std::atomic<int> wrong{0};
  const auto work = [&] {
    const unsigned before = _mm_getcsr();
    for (int i = 0; i < 5; ++i) wrong += by_library(100) != truth;
    wrong += _mm_getcsr() != before;
  };
  std::thread other(work);
  work();
  other.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(Emulator, JacobiansAreThoseOfTheCommandToTheLastBit) {
  train();
  const std::string out = dir_ / "j.nc";
  const Ended e =
      Child({command(), "jacobian", run(), "-o", out, "--threads", "1", "--samples", "20"}).wait();
  ASSERT_EQ(e.code, 0) << e.text;
  isobar_net* net = nullptr;
  ASSERT_EQ(isobar_open(run().c_str(), nullptr, &net), ISOBAR_OK) << isobar_last_error();
  int nc = -1;
  ASSERT_EQ(nc_open(out.c_str(), NC_NOWRITE, &nc), NC_NOERR);
  const int64_t both[] = {0, 1}, beyond[] = {2};
  for (size_t sample = 0; sample < 20; ++sample) {
    std::vector<float> rows(2 * kInputs, NAN);
    const float* in = in_.data() + sample * kInputs;
    ASSERT_EQ(isobar_jacobian(net, in, 2, both, rows.data()), ISOBAR_OK) << isobar_last_error();
    for (int c = 0; c < 2 * kInputs; ++c) {
      const std::string name =
          std::string("d_") + (c < kInputs ? "a" : "b") + "_d_in" + std::to_string(c % kInputs);
      int id = -1;
      float written = NAN;
      ASSERT_EQ(nc_inq_varid(nc, name.c_str(), &id), NC_NOERR) << name;
      ASSERT_EQ(nc_get_var1_float(nc, id, &sample, &written), NC_NOERR);
      EXPECT_EQ(rows[c], written) << name;
    }
    // The rows are also the derivatives of isobar_run.
    std::vector<float> moved(in, in + kInputs), up(kOutputs), down(kOutputs);
    const float h = 0.02f;
    moved[1] = in[1] + h;
    ASSERT_EQ(isobar_run(net, 1, moved.data(), up.data()), ISOBAR_OK);
    moved[1] = in[1] - h;
    ASSERT_EQ(isobar_run(net, 1, moved.data(), down.data()), ISOBAR_OK);
    for (int o = 0; o < kOutputs; ++o) {
      const float size = std::abs(rows[o * kInputs]) + std::abs(rows[o * kInputs + 1]);
      EXPECT_NEAR((up[o] - down[o]) / (2 * h), rows[o * kInputs + 1], 0.05f * size) << o;
    }
  }
  nc_close(nc);
  float row[kInputs];
  EXPECT_EQ(isobar_jacobian(net, in_.data(), 1, beyond, row), ISOBAR_BAD_INPUT);
  EXPECT_EQ(isobar_jacobian(net, in_.data(), 1, both, nullptr), ISOBAR_BAD_INPUT);
  EXPECT_EQ(isobar_jacobian(net, nullptr, 0, nullptr, nullptr), ISOBAR_OK);
  isobar_close(net);
}

TEST_F(Emulator, SaysWhatItIs) {
  train();
  isobar_net* net = nullptr;
  ASSERT_EQ(isobar_open(checkpoint().c_str(), nullptr, &net), ISOBAR_OK) << isobar_last_error();
  EXPECT_EQ(isobar_input_shape(net).channels, kInputs);
  EXPECT_EQ(isobar_output_shape(net).channels, kOutputs);
  EXPECT_STREQ(isobar_input_name(net, 3), "in3");
  EXPECT_STREQ(isobar_output_name(net, 1), "b");
  EXPECT_EQ(isobar_output_name(net, 2), nullptr);
  EXPECT_EQ(isobar_run(net, -1, in_.data(), in_.data()), ISOBAR_BAD_INPUT);
  EXPECT_EQ(isobar_run(net, 1, nullptr, in_.data()), ISOBAR_BAD_INPUT);
  EXPECT_EQ(isobar_run(net, 0, nullptr, nullptr), ISOBAR_OK);
  isobar_close(net);
}

TEST_F(Emulator, BadCheckpointsAreCodesAndTexts) {
  train();
  refused(dir_ / "nowhere", "holds no checkpoint");
  const auto in_place_of = [&](const std::string& file, const std::string& bytes, const std::string& says) {
    const std::string path = checkpoint() + "/" + file, good = text_of(path);
    std::ofstream(path, std::ios::binary) << bytes;
    refused(run(), says);
    std::ofstream(path, std::ios::binary) << good;
  };
  const std::string weights = text_of(checkpoint() + "/model.safetensors");
  in_place_of("model.safetensors", weights.substr(0, weights.size() / 2), "was written with");
  std::string flipped = weights;
  flipped[flipped.size() - 1 - random_() % 1000] ^= 4;
  in_place_of("model.safetensors", flipped, "is damaged");
  std::string noise(3000, 0);
  for (char& c : noise) c = static_cast<char>(random_());
  in_place_of("model.safetensors", noise, "was written with");
  in_place_of("state.json", noise, "is no JSON object");
  std::string state = text_of(checkpoint() + "/state.json");
  const size_t at = state.find("\"mean\"");
  ASSERT_NE(at, std::string::npos);
  in_place_of("state.json", state.replace(at, 6, "\"MEAN\""), "mean");
  EXPECT_EQ(by_library(64).size(), 1u * kRows * kOutputs);
  fs::remove(checkpoint() + "/model.safetensors");
  refused(run(), "is missing");
}

}  // namespace
}  // namespace isobar::inference
