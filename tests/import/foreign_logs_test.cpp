// Random logs in each program's documented format, with random labels of launchers. The reader must return
// the values they were written from; a contradiction within a log is an error with both numbers.
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <functional>
#include <random>

#include "bench/import/import.h"
#include "bench/import/training_log.h"
#include "bench/logs/log_text.h"
#include "model/base/error.h"
#include "model/base/system/files.h"
#include "tests/engine/command.h"

namespace isobar::foreign {
namespace {

std::string text(const char* format, ...) __attribute__((format(printf, 1, 2)));
std::string text(const char* format, ...) {
  char s[600];
  va_list args;
  va_start(args, format);
  std::vsnprintf(s, sizeof s, format, args);
  va_end(args);
  return s;
}

class ForeignLogs : public testing::Test {
 protected:
  void SetUp() override {
    seed_ = std::random_device{}();
    rng_.seed(seed_);
  }
  void TearDown() override {
    if (HasFailure()) std::printf("seed %llu\n", static_cast<unsigned long long>(seed_));
  }
  int64_t among(int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(rng_);
  }
  double between(double least, double most) {
    return std::uniform_real_distribution<double>(least, most)(rng_);
  }
  double median_but_first(std::vector<double> v) {
    v.erase(v.begin());
    std::sort(v.begin(), v.end());
    const size_t n = v.size();
    return n % 2 == 1 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
  }
  /// The lines with the labels of a random launcher.
  std::string launched(const std::string& lines) {
    const int64_t how = among(0, 9), rank = among(0, 63);
    std::string out;
    std::istringstream in(lines);
    for (std::string line; std::getline(in, line);) {
      const std::string labels[] = {"",
                                    text("%3lld: ", static_cast<long long>(rank)),
                                    text("[1,%lld]<stdout>:", static_cast<long long>(rank)),
                                    text("[prterun-node-12@1,%lld]<stdout>: ", static_cast<long long>(rank)),
                                    text("[default%lld]:", static_cast<long long>(rank % 8)),
                                    text("[rank%lld]: ", static_cast<long long>(rank)),
                                    text("[%lld] ", static_cast<long long>(rank)),
                                    text("nid%06lld: ", static_cast<long long>(rank)),
                                    text("node%02lld.cluster: [rank0]:", static_cast<long long>(rank)),
                                    "(TrainWorker pid=4711, ip=10.0.0.1) "};
      out += labels[how] + line + "\n";
    }
    return out;
  }
  std::string write(const std::string& name, const std::string& lines) {
    write_atomically(folder_ / name, lines);
    return folder_ / name;
  }
  std::string gpt(int64_t batch, int64_t seq = 2048) {
    return write("gpt.yaml",
                 text("net: {kind: gpt, embed_dim: 5120, depth: 40, num_heads: 40, seq_length: %lld, "
                      "vocab_size: 50304}\ntrain: {global_batch: %lld}\nlayout: {dp: 8, tp: 4}\n"
                      "policy: {amp: bf16}\n",
                      static_cast<long long>(seq), static_cast<long long>(batch)));
  }
  static std::string refusal(const std::function<void()>& f) {
    try {
      f();
    } catch (const ConfigError& e) {
      return e.what();
    }
    return "nothing was refused";
  }
  static void says(const std::string& error, const std::vector<std::string>& words) {
    for (const std::string& w : words)
      EXPECT_NE(error.find(w), std::string::npos) << w << " is not in: " << error;
  }

  uint64_t seed_ = 0;
  std::mt19937_64 rng_;
  Folder folder_;
};

TEST_F(ForeignLogs, LaunchersLabelsAreTakenOffAndWordsOfTheLogAreNot) {
  for (const char* line :
       {"step: 10  loss: 3", "Epoch 0: : 1%|  | 1/2", "fp8: false", "    fp8: false", "WARNING: x",
        "    1048576   262144  float", "# nThread 1", "iteration   10/ 20 |", "[NeMo I 2024] x",
        "[titan] 2024-01-01 x", "[Rank 0] (after 1 iterations)", "a | b"})
    EXPECT_EQ(logs::without_labels(line, logs::Times::kept),
              std::string_view(line).substr(line == std::string("a | b") ? 4 : 0))
        << line;
  const std::set<std::string> hosts = {"node01", "nid000012", "worker-1.cluster", "localhost",
                                       "x1000c0s0b0n0"};
  for (const char* label : {"0: ", "  12: ", "[1,0]<stdout>: ", "[1,0]<stdout>:", "[1,12]<stderr>:",
                            "[rank0]:", "[default3]: ", "[0] ", "[trainer0|12]:", "node01: ", "nid000012: ",
                            "worker-1.cluster: ", "localhost: ", "x1000c0s0b0n0 3: ", "(pid=12) ",
                            "[pod/a-b/c] ", "ray-training  | ", "node01: [1,0]<stdout>:[rank0]:"})
    EXPECT_EQ(logs::without_labels(std::string(label) + "# size", logs::Times::kept, hosts), "# size")
        << label;
  for (const char* time :
       {"2024-01-01T10:00:00.123456Z ", "2024-01-01 10:00:00,123 ", "[2024-01-01 10:00:00] ",
        "Nov 26 04:11:24 ", "Nov  6 04:11:24 ", "00:00:05 ", "2024-01-01T10:00:00+01:00 0: ",
        "Thu Nov 26 04:11:24 2026<stdout>:", "Thu Nov 26 04:11:24 2026[1,0]<stdout>:"})
    EXPECT_EQ(logs::without_labels(std::string(time) + "# size", logs::Times::taken_off), "# size") << time;
  // A word is a host's name when several lines begin with it, or most lines for a word without a number.
  const auto many = [](const std::string& line, int n) {
    std::string all;
    for (int i = 0; i < n; ++i) all += line + "\n";
    return all;
  };
  EXPECT_EQ(logs::log_lines(many("node01: # size", 3) + many("other", 9))[0], "# size");
  EXPECT_EQ(logs::log_lines(many("2024-01-01 10:00:00 node01: # size", 3), logs::Times::taken_off)[0],
            "# size");
  EXPECT_EQ(logs::log_lines(many("bf16: true", 2) + many("node01: fp8: false", 3))[2], "fp8: false");
  EXPECT_EQ(logs::log_lines(many("bf16: true", 2))[0], "bf16: true");
  EXPECT_EQ(logs::log_lines(many("alice: # size", 10))[3], "# size");
  EXPECT_EQ(logs::log_lines(many("alice: # size", 10) + many("step: 10", 11))[0], "alice: # size");
}

TEST_F(ForeignLogs, ALogInUtf16IsNamed) {
  const std::string file = write("w.log", std::string("\xff\xfe") + "s" + std::string(1, '\0'));
  says(refusal([&] { logs::log_text(file); }), {"UTF-16", "iconv"});
}

TEST_F(ForeignLogs, TheClockOfALineIsSecondsSince1970) {
  EXPECT_EQ(logs::clock_in("[1970-01-01 00:00:01] x"), std::nullopt);  // logs are of this century
  EXPECT_EQ(logs::clock_in(" [2000-03-01 00:00:00] x"), 951868800.0);
  EXPECT_EQ(logs::clock_in("x 2024-02-29T23:59:59.250Z"), 1709251199.25);
  EXPECT_EQ(logs::clock_in("no 2024 clock"), std::nullopt);
}

TEST_F(ForeignLogs, MegatronInMillisecondsAndInSeconds) {
  for (int round = 0; round < 20; ++round) {
    const bool ms = among(0, 1) == 1;
    const long long batch = 64 * among(1, 8), every = among(1, 20);
    const double middle = between(2, 20) * static_cast<double>(batch) / 64;
    std::vector<double> steps;
    std::string lines, wrong_rate, wrong_count;
    const auto line = [&](long long i, double s, double rate, long long samples) {
      const std::string time = ms ? text("(ms): %.1f", 1e3 * s) : text("(s): %.4f", s);
      return text(
          " iteration %8lld/ 1000000 | consumed samples: %12lld | elapsed time per iteration %s | learning "
          "rate: 1.000E-04 | global batch size: %5lld | lm loss: 2.463556E+00 | number of nan iterations:   "
          "0 "
          "| samples per second: %.3f | TFLOPs: %.2f |\n",
          i, samples, time.c_str(), batch, rate,
          6 * 13e9 * 2048 * static_cast<double>(batch) / (s * 32) * 1e-12);
    };
    for (long long k = 1; k <= 6; ++k) {
      const double s = (k == 1 ? 3 : between(0.99, 1.01)) * middle;
      steps.push_back(ms ? 1e-3 * std::stod(text("%.1f", 1e3 * s)) : std::stod(text("%.4f", s)));
      const double rate = static_cast<double>(batch) / s;
      lines += line(k * every, s, rate, k * every * batch);
      wrong_rate += line(k * every, s, 2 * rate, k * every * batch);
      wrong_count += line(k * every, s, rate, 2 * k * every * batch);
    }
    const LoggedRun r = read_training_log({write("m.log", launched(lines))}, gpt(batch));
    EXPECT_EQ(r.kind, LogKind::megatron);
    EXPECT_EQ(r.steps.size(), 5u);
    EXPECT_NEAR(r.seconds(), median_but_first(steps), 1e-9);
    const auto refused = [&](const std::string& all) {
      return refusal([&] { read_training_log({write("wrong.log", launched(all))}, gpt(batch)); });
    };
    says(refused(wrong_rate), {"'samples per second'", "in the log", "samples in"});
    says(refused(wrong_count), {"'consumed samples'", std::to_string(2 * batch), std::to_string(batch)});
    says(refused(lines + lines), {"several runs"});
  }
}

// Seconds labelled as milliseconds contradict the clock times of the lines.
TEST_F(ForeignLogs, AMegatronLogOfAnotherUnitIsContradictedByItsClock) {
  std::string lines;
  for (int k = 1; k <= 9; ++k)
    lines += text(
        " [2025-03-02 10:%02d:%02d] iteration %8d/     200 | consumed samples: %8d | elapsed time per "
        "iteration (ms): 15.2 | learning rate: 1.5E-07 | global batch size:    64 |\n",
        10 + k / 4, (15 * k) % 60, k, 64 * k);
  says(refusal([&] { read_training_log({write("m.log", lines)}, gpt(64)); }), {"'step time'", "clock"});
}

TEST_F(ForeignLogs, TorchtitanOf2024AndOfToday) {
  for (int round = 0; round < 20; ++round) {
    const bool words = among(0, 1) == 1;  // "wps" until the end of 2024
    const long long ranks = 8 * among(1, 4), local = among(1, 2), every = among(1, 10);
    std::string lines =
        words ? text("Building 1-D device mesh with ['dp'], [%lld]\n", ranks)
              : text(
                    "Building device mesh with parallelism: pp=1, dp_replicate=1, dp_shard=%lld, cp=1, "
                    "tp=1, ep=1\n",
                    ranks);
    lines += text(
        "Building llama3 8B with %s(dim=4096, n_layers=32, n_heads=32, n_kv_heads=8, vocab_size=128256, "
        "multiple_of=1024, ffn_dim_multiplier=1.3, norm_eps=1e-05, max_seq_len=8192)\n",
        words ? "ModelArgs" : "TransformerModelArgs");
    lines += "Applied full activation checkpointing to the model\nApplied FSDP to the model\n";
    const std::string start = words ? "Training starts at step 1, with" : "Trainer is initialized with";
    const auto batch = [&](long long all) {
      return text(
          "%s local batch size %lld, global batch size %lld, %ssequence length 8192, total steps 60 (warmup "
          "2)\n",
          start.c_str(), local, all, words ? "" : "gradient accumulation steps 1, ");
    };
    std::vector<double> steps;
    std::string measured;
    for (long long k = 0; k < 6; ++k) {
      const long long rate = k == 0 ? 800 : among(6400, 6600);
      steps.push_back(static_cast<double>(local) * 8192 / static_cast<double>(rate));
      const std::string thousands =
          rate < 1000 ? text("%lld", rate) : text("%lld,%03lld", rate / 1000, rate % 1000);
      measured += text("step: %2lld  loss: 10.6032  memory: 45.12GiB(57.03%%)  %s: %s  mfu: 15.68%%\n",
                       k == 0 ? 1 : k * every + 1, words ? "wps" : "tps", thousands.c_str());
      measured +=
          text("validate step: %2lld  loss: 10.6  memory: 40.00GiB(42.10%%)  tps: 19,500\n", k * every);
    }
    const auto log = [&](const std::string& all) {
      std::string out;
      std::istringstream in(all);
      for (std::string line; std::getline(in, line);)
        out += "2024-07-05 12:00:00,000 - root - INFO - " + line + "\n";
      return write("t.log", launched(out));
    };
    const LoggedRun r = read_training_log({log(lines + batch(local * ranks) + measured)}, "");
    EXPECT_EQ(r.kind, LogKind::torchtitan);
    EXPECT_NEAR(r.seconds(), median_but_first(steps), 1e-9);
    EXPECT_EQ(r.steps.size(), 5u);
    EXPECT_EQ(r.cells.at("gpus"), std::to_string(ranks));
    EXPECT_EQ(r.cells.at("recompute"), "full");
    says(refusal([&] { read_training_log({log(lines + batch(2 * local * ranks) + measured)}, ""); }),
         {"'global batch size'", std::to_string(2 * local * ranks), std::to_string(local * ranks)});
  }
  const std::string experts =
      "Building device mesh with parallelism: pp=1, dp_replicate=1, dp_shard=8, cp=1, tp=1, ep=8\n"
      "Building deepseek_v3 16B with DeepSeekV3ModelArgs(dim=2048, n_layers=27, n_heads=16, num_experts=64, "
      "vocab_size=102400)\nTrainer is initialized with local batch size 1, global batch size 8, sequence "
      "length 4096\n"
      "step:  1  loss: 9  memory: 40.00GiB(42%)  tps: 9,000  mfu: 20%\n";
  says(refusal([&] { read_training_log({write("e.log", experts)}, ""); }), {"'arch'", "experts", "--config"});
}

TEST_F(ForeignLogs, NemosLinesAgainstTheirSamples) {
  const long long batch = 64;
  const auto log = [&](long long consumed) {
    std::string lines = "All distributed processes registered. Starting with 32 processes\n";
    for (long long k = 0; k < 6; ++k)
      lines += text(
          "Training epoch 0, iteration %lld/99 | lr: 1.499e-07 | global_batch_size: %lld | global_step: %lld "
          "| "
          "reduced_train_loss: 11.03 | train_step_timing in s: %.3f | consumed_samples: %lld\n",
          k, batch, k, k == 0 ? 31.2 : 5.5 + 0.01 * static_cast<double>(k), consumed * (k + 1));
    return write("nemo.log", launched(lines));
  };
  EXPECT_NEAR(read_training_log({log(batch)}, gpt(batch)).seconds(), 5.53, 1e-9);
  says(refusal([&] { read_training_log({log(batch / 2)}, gpt(batch)); }), {"'consumed samples'", "32", "64"});
}

// A progress bar of many steps rounds its numbers, which are then unusable as counts.
TEST_F(ForeignLogs, NemosBarsShortenLargeNumbers) {
  std::string bar;
  for (int k = 0; k < 5; ++k)
    bar += text(
        "Epoch 0: :  12%%|#   | %d/900000 [00:28<46:39, reduced_train_loss=9.00, global_step=1.28e+5, "
        "consumed_samples=%s, train_step_timing in s=5.%d20]\r",
        128000 + k, k < 3 ? "8.19e+6" : "8.2e+6", k);
  const LoggedRun r = read_training_log({write("bar.log", bar)}, gpt(64));
  EXPECT_EQ(r.steps, (std::vector<double>{5.12, 5.22, 5.32, 5.42}));
}

// Lines may be far apart because of an evaluation.
TEST_F(ForeignLogs, AnEvaluationBetweenLinesIsNoContradiction) {
  std::string lines;
  for (int k = 1; k <= 5; ++k)
    lines += text(
        " [2025-03-02 10:%02d:%02d] iteration %8d/     200 | consumed samples: %8d | elapsed time per "
        "iteration (ms): 1000.0 | learning rate: 1.5E-07 | global batch size:    64 |\n",
        k < 4 ? 10 : 40, 10 * k, 10 * k, 640 * k);
  EXPECT_EQ(read_training_log({write("m.log", lines)}, gpt(64)).seconds(), 1);
}

std::string mlperf(const char* key, double seconds, const json& value, json metadata = json::object()) {
  metadata["lineno"] = 129;
  const json j = {{"namespace", ""},
                  {"time_ms", std::llround(1.7e12 + 1e3 * seconds)},
                  {"event_type", "POINT_IN_TIME"},
                  {"key", key},
                  {"value", value},
                  {"metadata", metadata}};
  return ":::MLLOG " + j.dump() + "\n";
}

TEST_F(ForeignLogs, MlperfCountsSamplesTokensOrNothing) {
  for (int round = 0; round < 24; ++round) {
    const long long batch = 8 * among(1, 200), seq = 2048, each = among(5, 50);
    const double step = std::round(1e3 * between(1, 30)) / 1e3;
    const bool tokens = round % 4 == 1, lengths = round % 4 == 2, none = round % 4 == 3;
    const long long unit = tokens || lengths ? batch * seq : batch;
    const double printed = static_cast<double>(tokens || lengths ? batch * seq : batch) / step;
    const std::string head = mlperf("global_batch_size", 0, batch) + mlperf("max_sequence_length", 0, seq);
    const auto blocks = [&](long long begin_unit, double throughput) {
      std::string out = head + mlperf("run_start", 0, nullptr);
      double clock = 1;
      for (long long k = 0; k < 4; ++k) {
        const double took = static_cast<double>(each) * step;
        const json first = {{"first_epoch_num", k * each * unit}, {"epoch_count", each * unit}};
        const char* count = tokens ? "epoch_num" : "samples_count";
        out += mlperf("block_start", clock, nullptr,
                      none      ? json::object()
                      : lengths ? first
                                : json{{count, k * each * begin_unit}});
        if (none)
          out += mlperf("tracked_stats", clock, {{"train_step_time", step}, {"reduced_train_loss", 1.3}});
        out +=
            mlperf("tracked_stats", clock, {{"throughput", throughput}}, {{"step", (k + 1) * each * unit}});
        out += mlperf("block_stop", clock + took, nullptr,
                      none      ? json::object()
                      : lengths ? first
                                : json{{count, (k + 1) * each * unit}});
        clock += took + 20;  // an evaluation
      }
      return out + mlperf("run_stop", clock, nullptr, {{"status", "success"}});
    };
    const auto read = [&](const std::string& all) {
      return read_training_log({write("p.log", launched(all))}, gpt(batch, seq));
    };
    SCOPED_TRACE(text("round %d, batch %lld", round, batch));
    EXPECT_NEAR(read(blocks(unit, printed)).seconds(), step, 2e-3);
    if (none) continue;
    says(refusal([&] { read(blocks(unit, 3 * printed)); }), {"'throughput'", "in the log"});
    says(refusal([&] { read(blocks(unit, printed) + blocks(unit, printed)); }), {"several runs"});
    if (lengths) continue;
    EXPECT_NEAR(read(blocks(unit / batch, printed)).seconds(), step, 2e-3);  // begins in steps
    says(refusal([&] { read(blocks(unit / batch + 1, printed)); }),
         {"'block_start'", std::to_string(each * (unit / batch + 1)), std::to_string(each * unit)});
  }
  // Without blocks and counts, steps follow from the throughput.
  const std::string amd = mlperf("global_batch_size", 0, 8) + mlperf("run_start", 0, nullptr) +
                          mlperf("tracked_stats", 9, {{"throughput", 2.0}}) +
                          mlperf("tracked_stats", 19, {{"throughput", 2.5}}) +
                          mlperf("run_stop", 20, nullptr);
  EXPECT_NEAR(read_training_log({write("a.log", amd)}, gpt(8)).seconds(), 8 / 2.5, 1e-9);
}

struct RingLog {
  int64_t ranks = 8, groups = 1;
  double factor = 1;       // on busbw
  double time_factor = 1;  // on time
  int64_t repeated = -1;   // a rank that is listed in another's place
  int64_t wrong = 0, wrong_in_place = 0;
  const char* program = nullptr;
  bool one_host = false;  // by its name
  bool bounds = true;
};

std::string ring(const RingLog& l, double gbs) {
  std::string s =
      "# nThread 1 nGpus 1 minBytes 1048576 maxBytes 268435456 step: 16(factor) warmup iters: 5\n#\n";
  if (l.program) s += text("# Collective test starting: %s\n", l.program);
  s += "# Using devices\n";
  for (int64_t r = 0; r < l.ranks; ++r)
    s += text(
        "#  Rank %2lld Group %2lld Pid %6lld on  node%02lld device %2lld [0x%02llx] NVIDIA H100 80GB HBM3\n",
        static_cast<long long>(r == l.repeated ? 0 : r), static_cast<long long>(r % l.groups),
        static_cast<long long>(1000 + r), static_cast<long long>(l.one_host ? 0 : r / 8),
        static_cast<long long>(r % 8), static_cast<unsigned long long>(r % 8 + 1));
  s += "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   "
       "algbw   busbw "
       "#wrong\n#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            "
       "(us)  (GB/s)  "
       "(GB/s)\n";
  const double n = static_cast<double>(l.ranks) / static_cast<double>(l.groups);
  for (double bytes = 1 << 20; bytes < 3e8; bytes *= 4) {
    const double us = 20 + bytes / gbs * 1e-3, algbw = bytes / us * 1e-3,
                 busbw = algbw * 2 * (n - 1) / n * l.factor;
    const auto half = [&](int64_t wrong) {
      return text("  %8.2f  %6.2f  %6.2f  %5lld", us * l.time_factor, algbw, busbw,
                  static_cast<long long>(wrong));
    };
    s += text("%12.0f  %12.0f     float     sum      -1", bytes, bytes / 4) + half(l.wrong) +
         half(l.wrong + l.wrong_in_place) + "\n";
  }
  return s + "# Out of bounds values : " + (l.bounds ? "0 OK\n" : "12 FAILED\n");
}

TEST_F(ForeignLogs, NcclsRanksAndBandwidthsAgree) {
  for (int round = 0; round < 20; ++round) {
    const double gbs = between(10, 300);
    RingLog l;
    l.ranks = 2 * among(1, 16);
    const auto read = [&](const RingLog& log) {
      std::string stamped;
      std::istringstream in(ring(log, gbs));
      const bool stamps = among(0, 1) == 1;
      for (std::string line; std::getline(in, line);)
        stamped += (stamps ? "2024-01-01T10:00:00.123Z " : "") + line + "\n";
      return read_nccl_tests(write("all_reduce.log", launched(stamped)), "");
    };
    const Collectives c = read(l);
    EXPECT_EQ(c.rows.size(), 5u);
    EXPECT_EQ(c.rows[0].ranks, l.ranks);
    EXPECT_EQ(c.rows[0].hosts, (l.ranks + 7) / 8);
    EXPECT_EQ(c.device, "NVIDIA H100 80GB HBM3");
    EXPECT_NEAR(c.rows[4].seconds, 1e-6 * (20 + 268435456 / gbs * 1e-3), 1e-8);
    const auto refused = [&](const std::function<void(RingLog&)>& change) {
      RingLog other = l;
      change(other);
      return refusal([&] { read(other); });
    };
    says(refused([&](RingLog& o) { o.repeated = o.ranks - 1; }), {"'Rank': 0 is listed twice"});
    says(refused([](RingLog& o) { o.factor = 0; }), {"busbw 0.00", "makes"});
    says(refused([](RingLog& o) { o.factor = 1.1; }), {"busbw", "algbw", "all_reduce"});
    says(refused([](RingLog& o) { o.time_factor = 1e-3; }), {"algbw", "size and time make"});
    says(refused([](RingLog& o) { o.wrong = 7; }), {"7 wrong values"});
    says(refused([](RingLog& o) { o.wrong_in_place = 7; }), {"7 wrong values"});
    says(refused([](RingLog& o) { o.bounds = false; }), {"'Out of bounds values'", "broken"});
    says(refused([](RingLog& o) { o.program = "sendrecv_perf"; }), {"sendrecv_perf", "not read"});
    if (l.ranks > 8)
      says(refused([](RingLog& o) { o.one_host = true; }), {"8 is on node00 device 0 [0x01], as rank 0"});
    l.program = "all_reduce_perf";
    says(refusal([&] { read_nccl_tests(write("x.log", ring(l, gbs)), "all_gather"); }),
         {"'--collective'", "all_gather", "all_reduce by the log"});
    l.ranks = 16, l.groups = 2;  // two collectives of eight ranks side by side
    EXPECT_EQ(read(l).rows[0].ranks, 8);
  }
}

json span(const char* category, const std::string& name, double begin, double end, int64_t correlation = 0) {
  json e = {{"ph", "X"}, {"cat", category}, {"name", name},      {"pid", 1},
            {"tid", 1},  {"ts", begin},     {"dur", end - begin}};
  if (correlation > 0) e["args"] = {{"correlation", correlation}};
  return e;
}

// A host that launches each step's kernels far ahead of the device: step k ends with its last kernel and not
// with its mark.
TEST_F(ForeignLogs, TracesOfHostsThatRunAheadAndOfCutSteps) {
  const std::string run =
      write("run.yaml", "net: {embed_dim: 64, depth: 2, num_heads: 4}\ntrain: {global_batch: 16}\n");
  for (int round = 0; round < 30; ++round) {
    const bool ahead = among(0, 1) == 1, launches = among(0, 1) == 1, cut = among(0, 1) == 1,
               ops = among(0, 1) == 1;
    const int64_t steps = among(3, 6), kernels = among(2, 5);
    json events = json::array();
    std::vector<double> expected;
    double host = 1e6, device = host, last_end = host;
    int64_t correlation = 100;
    for (int64_t k = 0; k <= steps; ++k) {
      const bool stub = k == steps;
      if (stub && !cut) break;
      const double begin = host, work = between(9e4, 1.1e5);
      const int64_t of_step = stub ? 0 : kernels;
      const double each = work / static_cast<double>(kernels);
      for (int64_t i = 0; i < of_step; ++i) {
        const double asked = host + 5;
        device = std::max(device, asked + 3);
        if (ops) events.push_back(span("cpu_op", "aten::mm", asked - 2, asked + 2));
        if (launches)
          events.push_back(span("cuda_runtime", "cudaLaunchKernel", asked, asked + 1, ++correlation));
        events.push_back(
            span("kernel", "gemm_" + std::to_string(i), device, device + each, launches ? correlation : 0));
        device += each;
        host += 20;
      }
      if (stub)
        host += 5;
      else if (!ahead)
        host = device + 10;  // it waits for the device
      events.push_back(span("user_annotation", "ProfilerStep#" + std::to_string(k + 7), begin, host));
      if (stub) break;
      expected.push_back(ahead ? device - (k == 0 ? begin : last_end) : host - begin);
      last_end = device;
    }
    std::shuffle(events.begin(), events.end(), rng_);
    const std::string trace = json{{"schemaVersion", 1}, {"traceEvents", events}}.dump();
    SCOPED_TRACE(text("ahead %d launches %d cut %d ops %d steps %lld", ahead, launches, cut, ops,
                      static_cast<long long>(steps)));
    std::string file = write("trace.json", trace);
    if (among(0, 1) == 1) {
      file = folder_ / "trace.json.gz";
      gzFile out = gzopen(file.c_str(), "wb");
      gzwrite(out, trace.data(), static_cast<unsigned>(trace.size()));
      gzclose(out);
    }
    std::vector<std::string> notes;
    const std::vector<double> read = kineto_steps({file}, notes);
    ASSERT_EQ(read.size(), expected.size());
    for (size_t i = 0; i < read.size(); ++i) EXPECT_NEAR(read[i], 1e-6 * expected[i], 1e-9) << "step " << i;
    EXPECT_EQ(notes.size(), static_cast<size_t>(ahead) + static_cast<size_t>(cut));
  }
}

TEST_F(ForeignLogs, TracesAreOfDifferentRanksOfOneWorld) {
  const auto trace = [&](const char* name, int rank, int size) {
    const json world = {{"backend", "nccl"}, {"rank", rank}, {"world_size", size}};
    const json events = {span("user_annotation", "ProfilerStep#1", 0, 900),
                         span("user_annotation", "ProfilerStep#2", 1000, 1900)};
    return write(name, json{{"distributedInfo", world}, {"traceEvents", events}}.dump());
  };
  std::vector<std::string> traces = {trace("0.json", 0, 2), trace("1.json", 1, 2)};
  std::vector<std::string> notes;
  std::optional<int64_t> world;
  EXPECT_EQ(kineto_steps(traces, notes, &world).size(), 2u);
  EXPECT_EQ(world, 2);
  const auto config = [&](int dp) {
    return write("run.yaml", text("net: {embed_dim: 64, depth: 2, num_heads: 4}\ntrain: {global_batch: "
                                  "16}\nlayout: {dp: %d}\n",
                                  dp));
  };
  EXPECT_EQ(import_kineto(traces, config(2), folder_ / "out").runs, 1u);
  says(refusal([&] { import_kineto(traces, config(4), folder_ / "out"); }),
       {"'distributedInfo.world_size'", "is 2", "4"});
  says(refusal([&] { read_training_log(traces, config(4)); }), {"'gpus'", "2", "4"});
  traces[1] = trace("1.json", 0, 2);
  says(refusal([&] { kineto_steps(traces, notes); }), {"'distributedInfo.rank'", "0.json"});
  traces[1] = trace("1.json", 1, 4);
  says(refusal([&] { kineto_steps(traces, notes); }), {"'distributedInfo.world_size'", "is 4", "2"});
}

TEST_F(ForeignLogs, TracesOfTwoProfilesOrOfOtherRunsAreRefused) {
  const auto marks = [&](const char* name, std::initializer_list<int> numbers) {
    json events = json::array();
    double at = 0;
    for (const int n : numbers)
      events.push_back(span("user_annotation", "ProfilerStep#" + std::to_string(n), at, at + 900)),
          at += 1000;
    return write(name, json{{"traceEvents", events}}.dump());
  };
  std::vector<std::string> notes;
  says(refusal([&] { kineto_steps({marks("a.json", {1, 2, 1})}, notes); }), {"ProfilerStep#1", "twice"});
  const std::string a = marks("a.json", {1, 2, 3}), b = marks("b.json", {2, 3, 4}),
                    c = marks("c.json", {7, 8});
  EXPECT_EQ(kineto_steps({a, b}, notes).size(), 2u);  // steps that both ranks have
  says(refusal([&] { kineto_steps({a, c}, notes); }), {"no step in common", "a.json"});
}

}  // namespace
}  // namespace isobar::foreign
