// Choosing: constraints, machines side by side, deadlines, what-ifs, and layouts emitted for other software.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli/shell.h"
#include "tests/pattern.h"

namespace isobar::cli {
namespace {

using nlohmann::json;

const std::string kLlama = shipped("models/llama3-8b.yaml") + " --set train.global_batch=64 ";

class Choose : public InDirectory {
 protected:
  // `asks`: predict, search, compare, budget or emit
  Answer isobar(const std::string& asks, const std::string& words) const {
    return shell(at(isobar_command() + " " + asks + " " + words + " 2>&1"));
  }
  json data(const std::string& asks, const std::string& words) const {
    const Answer a = shell(at(isobar_command() + " " + asks + " " + words + " --json 2>/dev/null"));
    return a.out.empty() ? json() : json::parse(a.out);
  }
};

TEST_F(Choose, ASearchKeepsToWhatIsFixedAndExcludedForEveryEngine) {
  const std::string words = kLlama +
                            "--machine dgx-h100 --gpus 16 --top 4 --fix tp=2..4,zero=1 "
                            "--exclude pp=1,recompute=full ";
  for (const char* engine : {"", "--engine nemo "}) {
    const json j = data("search", words + engine);
    ASSERT_FALSE(j.at("best").empty());
    for (const json& one : j["best"]) {
      const std::string l =
          one["layout"].is_string() ? one["layout"].get<std::string>() : one["layout"].dump();
      const bool own = !one["layout"].is_string();
      EXPECT_NE(l.find(own ? "\"zero\":1" : "ZeRO1"), std::string::npos) << l;
      EXPECT_EQ(own ? l.find("\"pp\":1,") == std::string::npos : l.find(" PP") != std::string::npos, true)
          << l;
      EXPECT_EQ(own ? l.find("\"tp\":1,") == std::string::npos : l.find(" TP") != std::string::npos, true)
          << l;
      EXPECT_EQ(l.find("full"), std::string::npos) << l;
    }
    EXPECT_NE(j.at("given").get<std::string>().find("--fix tp=2..4"), std::string::npos);
  }
  for (const auto& [options, part] : {std::pair{"--fix tpp=8", "there are dp, tp, cp"},
                                      {"--fix tp=4 --exclude tp=4", "leave out --fix tp=4"},
                                      {"--fix tp=4 --set layout.tp=2", "leave out layout.tp=2"}}) {
    const Answer a = isobar("search", kLlama + "--machine dgx-h100 --gpus 16 " + options);
    EXPECT_EQ(a.code, 2) << a.out;
    EXPECT_NE(a.out.find(part), std::string::npos) << a.out;
  }
  EXPECT_EQ(isobar("search", kLlama + "--machine dgx-h100 --fix tp=2").code, 2) << "without --gpus";
}

TEST_F(Choose, AnEnginesSearchGoesOnAfterANumberThatFitsNothing) {
  const std::string words = shipped("models/llama3-70b.yaml") +
                            " --machine dgx-h100 --engine nemo --gpus 1 "
                            "--gpus 97 --gpus 64 ";
  const Answer a = isobar("search", words);
  EXPECT_EQ(a.code, 2) << a.out;
  EXPECT_NE(a.out.find("no layout on 1 fits"), std::string::npos) << a.out;
  EXPECT_NE(a.out.find(" on 64 x "), std::string::npos) << a.out;
  const json j = data("search", words);
  ASSERT_EQ(j.size(), 3u);
  EXPECT_TRUE(j[0].contains("does_not_fit"));
  EXPECT_TRUE(j[1].contains("refused"));
  EXPECT_GT(j[2].at("step_s"), 0);
}

// Misfits end with code 4 in every command, and are said once.
TEST_F(Choose, WhatDoesNotFitEndsWithFour) {
  const std::string on = shipped("models/llama3-70b.yaml") + " --machine dgx-h100 ";
  const std::string layout = "--set layout.tp=2 --set layout.pp=1 --set policy.recompute=none ";
  struct Case {
    std::string asks, words, part;
  };
  for (const auto& [asks, words, part] :
       {Case{"budget", "--tokens 1T --deadline 10d --gpus 1", "no layout on 1 fits"},
        {"emit", "--for megatron --gpus 1", "no layout on 1 fits"},
        {"compare", "--what-if price*2 --gpus 1", "no layout on 1 fits"},
        {"emit", layout + "--for megatron", "does not fit: a rank needs "},
        {"compare", layout + "--machine dgx-b200", "dgx-h100: does not fit: a rank needs "}}) {
    const Answer a = isobar(asks, on + words);
    EXPECT_EQ(a.code, 4) << asks << ": " << a.out;
    EXPECT_NE(a.out.find(part), std::string::npos) << a.out;
    EXPECT_TRUE(asks == "compare" || a.out.find(part) == a.out.rfind(part)) << a.out;
  }
  const Answer rows = isobar("compare", on + layout + "--machine dgx-b200");
  EXPECT_NE(rows.out.find(" of 85.5 GB a rank, fits with 0 %"), std::string::npos) << rows.out;
  const json none = data("budget", on + "--tokens 1T --deadline 10d --gpus 1");
  ASSERT_EQ(none.size(), 1u);
  EXPECT_TRUE(none[0].contains("does_not_fit")) << none;
}

TEST_F(Choose, PricesAreComparedInOneCurrency) {
  std::string euros = read_file(shipped("machines/dgx-a100.yaml"));
  const size_t at = euros.find("currency: USD");
  ASSERT_NE(at, std::string::npos);
  write_atomically(dir_ / "euros.yaml", euros.replace(at, 13, "currency: EUR"));
  const std::string both = kLlama + "--machine dgx-h100 --machine euros.yaml --gpus 8 ";
  for (const auto& [asks, more] : {std::pair{"compare", ""}, {"budget", "--tokens 1T --deadline 30d"}}) {
    const Answer a = isobar(asks, both + more);
    EXPECT_EQ(a.code, 2) << a.out;
    EXPECT_NE(a.out.find("'accelerator.currency': is EUR, and that of dgx-h100 USD"), std::string::npos)
        << a.out;
  }
  const std::string cores = shipped("models/vit-tiny.yaml") + " --machine example-2core --machine dgx-h100";
  EXPECT_NE(isobar("compare", cores).out.find("USD/1000 samples"), std::string::npos);
}

// Each row equals the machine's own answer, and the chances are those of two log-normal numbers.
TEST_F(Choose, MachinesStandSideBySide) {
  for (const char* engine : {"", " --engine nemo"}) {
    const std::string words = kLlama + "--gpus 32" + engine + " ";
    const json rows = data("compare", words + "--machine dgx-h100 --machine dgx-a100 --machine dgx-b200");
    ASSERT_EQ(rows.size(), 3u);
    for (const json& row : rows) {
      const std::string name = row.at("machine");
      const json alone = data("search", words + "--machine " + name);
      EXPECT_EQ(row.at("step_s"), alone.at("step_s")) << name;
      EXPECT_EQ(row.at("step_lower_s"), alone.at("lower_s")) << name;
      EXPECT_EQ(row.at("samples_per_s").get<double>(), 64 / row.at("step_s").get<double>());
      EXPECT_EQ(row.at("gpus"), 32);
      if (row.at("price_per_million_tokens").is_null()) continue;
      // 3 USD an hour and GPU, say: tokens of a step over its seconds
      EXPECT_GT(row.at("price_per_million_tokens"), 0);
      EXPECT_NEAR(row.at("price_per_million_tokens_upper").get<double>() /
                      row.at("price_per_million_tokens").get<double>(),
                  row.at("step_upper_s").get<double>() / row.at("step_s").get<double>(), 1e-6);
    }
    EXPECT_TRUE(rows[0].at("chance_faster").is_null());
    const auto sigma = [](const json& r, const char* end) {
      return std::abs(std::log(r.at(end).get<double>() / r.at("step_s").get<double>())) / 1.2815515655446004;
    };
    const double gap = std::log(rows[0].at("step_s").get<double>() / rows[1].at("step_s").get<double>());
    const double both = std::hypot(sigma(rows[0], gap > 0 ? "step_lower_s" : "step_upper_s"),
                                   sigma(rows[1], gap > 0 ? "step_upper_s" : "step_lower_s"));
    EXPECT_NEAR(rows[1].at("chance_faster").get<double>(), 0.5 * std::erfc(-gap / both / std::sqrt(2.0)),
                1e-6);
    EXPECT_LT(rows[1].at("chance_faster"), 0.5) << "an A100 against an H100";
    EXPECT_GT(rows[2].at("chance_faster"), 0.5) << "a B200 against an H100";
  }
  const Answer said = isobar("compare", kLlama + "--gpus 32 --machine dgx-h100 --machine dgx-a100");
  EXPECT_EQ(said.code, 0) << said.out;
  for (const char* part :
       {"dgx-h100", "dgx-a100", "USD/M tokens", "tokens/s/GPU", "faster", "MFU", "limited by "})
    EXPECT_NE(said.out.find(part), std::string::npos) << part << said.out;
  EXPECT_EQ(isobar("compare", kLlama + "--gpus 32 --machine dgx-h100 --machine dgx-a100 --pareto").code, 2);
}

TEST_F(Choose, WhatIfsStandBesideTheMachineAsItIs) {
  const Answer a =
      isobar("compare", kLlama + "--gpus 16 --machine dgx-h100 --what-if flops*2 --what-if price*0.5");
  EXPECT_EQ(a.code, 0) << a.out;
  for (const char* row :
       {"dgx-h100 with flops*2 ", "dgx-h100 with price*0.5 ", "dgx-h100 with flops*2 with price*0.5"})
    EXPECT_NE(a.out.find(row), std::string::npos) << row << a.out;
}

// Offloading to host memory saves accelerator memory, and is no faster.
TEST_F(Choose, OffloadIsListedBesideTheSearch) {
  const json j = data("search", kLlama + "--gpus 8 --machine dgx-h100 --set policy.amp=bf16 --offload");
  ASSERT_EQ(j.at("offloaded").size(), 2u) << j;
  for (const json& one : j.at("offloaded")) {
    EXPECT_GE(one.at("step_s").get<double>(), 0.999 * j.at("step_s").get<double>()) << one;
    EXPECT_GT(one.at("chance_to_fit"), 0) << one;
  }
  EXPECT_NE(j.at("offloaded")[1].at("layout").get<std::string>().find("ZeRO3"), std::string::npos) << j;
  EXPECT_EQ(isobar("search", kLlama + "--machine dgx-h100 --offload").code, 2);
}

// A training that is twice as long takes twice the days at the same rate; half the price costs half.
TEST_F(Choose, WhatIfsOfTokensAndPricesChangeDaysAndBills) {
  const Answer a = isobar(
      "compare", kLlama + "--gpus 16 --machine dgx-h100 --tokens 10B --what-if tokens*2 --what-if price/2");
  EXPECT_EQ(a.code, 0) << a.out;
  for (const char* part : {"days", " USD ", "dgx-h100 with tokens*2 ", "dgx-h100 with tokens*2 with price/2"})
    EXPECT_NE(a.out.find(part), std::string::npos) << part << a.out;
  const Answer none = isobar("compare", kLlama + "--gpus 16 --machine dgx-h100 --what-if tokens*2");
  EXPECT_EQ(none.code, 2);
  EXPECT_NE(none.out.find("--tokens"), std::string::npos) << none.out;
  const json rows = data("compare", kLlama + "--gpus 16 --machine dgx-h100 --machine dgx-a100 --tokens 10B");
  ASSERT_EQ(rows.size(), 2u);
  for (const json& r : rows) {
    const double steps = std::ceil(1e10 / 8192 / 64);
    EXPECT_GE(r.at("training_days").get<double>(), r.at("step_s").get<double>() * steps / 86400 * 0.999);
    EXPECT_GT(r.at("training_price").get<double>(), 0);
  }
}

TEST_F(Choose, TheFewestThatMakeADeadline) {
  const std::string words = kLlama + "--machine dgx-h100 --tokens 100B --deadline 10d ";
  const json all = data("budget", words);
  ASSERT_GE(all.size(), 2u);
  int64_t before = 0;
  bool late = false, in_time = false;
  int64_t advised = 0;
  for (const json& one : all) {
    EXPECT_GT(one.at("gpus"), before);
    before = one.at("gpus");
    const double days = one.at("days").at("value"), steps = std::ceil(1e11 / 8192 / 64);
    EXPECT_NEAR(days * one.at("useful").get<double>(), one.at("step_s").get<double>() * steps / 86400,
                1e-3 * days);
    EXPECT_LT(one.at("useful"), 1);
    EXPECT_EQ(one.at("chance_in_time") > 0.5, days < 10);
    EXPECT_NEAR(one.at("price").get<double>(), days * 24 * before * 3, 1e-6 * one.at("price").get<double>());
    if (one.at("advised")) advised = one.at("gpus");
    late = late || one.at("chance_in_time") < 0.1;
    in_time = in_time || one.at("chance_in_time") >= 0.9;
  }
  EXPECT_TRUE(late && in_time);
  EXPECT_NE(isobar("budget", words).out.find("\n" + std::to_string(advised) + " x dgx-h100: "),
            std::string::npos);
  const Answer said = isobar("budget", words + "--budget 2k");
  EXPECT_EQ(said.code, 0) << said.out;
  for (const char* part : {"No number of GPUs keeps deadline and budget 9 times in 10. The likeliest: ",
                           "mtbf_hours", "what would change the answer", "limited by "})
    EXPECT_NE(said.out.find(part), std::string::npos) << part << "\n" << said.out;
  std::istringstream lines(said.out);
  for (std::string line; std::getline(lines, line);)
    if (line.find("  dgx-h100") == 0 || line.starts_with("  ---")) {
      EXPECT_LE(line.size(), 100u) << line;
    }
  const Answer two = isobar("budget", words + "--machine dgx-b200 --budget 2M -o page");
  EXPECT_EQ(two.code, 0) << two.out;
  EXPECT_NE(two.out.find("With "), std::string::npos) << "the other machine: " << two.out;
  const std::string page = read_file(dir_ / "page" / "index.html");
  const size_t answer = two.out.find(" x dgx-");
  ASSERT_NE(answer, std::string::npos) << two.out;
  EXPECT_NE(page.find(two.out.substr(answer, two.out.find(" days", answer) - answer)), std::string::npos);
  EXPECT_EQ(isobar("budget", kLlama + "--machine dgx-h100 --deadline 10d").code, 2);
  EXPECT_EQ(isobar("budget", kLlama + "--machine dgx-h100 --deadline 10 --tokens 1T").code, 2);
  EXPECT_EQ(isobar("budget", kLlama + "--machine dgx-h100 --deadline 10d --tokens 1X").code, 2);
  for (const char* engine : {"", "--engine nemo "}) {
    const Answer bill = isobar("search", kLlama + "--machine dgx-h100 --gpus 64 --tokens 100B " + engine);
    EXPECT_NE(bill.out.find("the whole training: "), std::string::npos) << bill.out;
    EXPECT_NE(bill.out.find("Daly 2006"), std::string::npos) << bill.out;
  }
}

// One answer in three places: the terminal's sentence and table stand on the page, with the numbers of
// --json.
TEST_F(Choose, ThePageOfABudgetHasTheTerminalsNumbers) {
  const std::string climate = " --machine dgx-a100 --machine dgx-h100 --deadline 14d --budget 100k";
  for (const std::string& asked :
       {std::string("llama3-70b --machine dgx-h100 --machine dgx-b200 --tokens 1T --deadline 45d --budget 2M "
                    "--gpus 128 --gpus 256"),
        "graphcast --samples 9.6M" + climate, "aurora --samples 4.8M" + climate}) {
    SCOPED_TRACE(asked);
    const json all = data("budget", asked);
    const Answer said = shell(at(isobar_command() + " budget " + asked + " -o page 2>/dev/null"));
    ASSERT_EQ(said.code, 0) << said.out;
    EXPECT_EQ(json::parse(read_file(dir_ / "page" / "budget.json")), all);
    const std::string page = replaced(read_file(dir_ / "page" / "index.html"), "&nbsp;", " ");
    std::istringstream lines(said.out);
    std::string answer;
    std::getline(lines, answer);
    EXPECT_NE(page.find(answer), std::string::npos) << answer;
    long gpus = 0;
    double days = 0, lower = 0, upper = 0, money = 0;
    char machine[32], unit = 0;
    ASSERT_EQ(std::sscanf(answer.c_str(), "%ld x %31[^:]: %lf days (%lf to %lf), $%lf %c", &gpus, machine,
                          &days, &lower, &upper, &money, &unit),
              7)
        << answer;
    EXPECT_NE(page.find(">" + std::to_string(gpus) + " x " + machine + "<"), std::string::npos);
    size_t worth = 0;
    for (const json& one : all) {
      worth += one.at("slower_and_dearer") == false ? 1 : 0;
      if (one.at("machine") != machine || one.at("gpus") != gpus) continue;
      const double exact = one.at("days").at("value");
      EXPECT_NEAR(days, exact, 0.05 * exact);
      EXPECT_NEAR(lower, one.at("days").at("lower").get<double>(), 0.05 * exact);
      EXPECT_NEAR(upper, one.at("days").at("upper").get<double>(), 0.05 * exact);
      EXPECT_NEAR(money * (unit == 'M' ? 1e6 : 1e3), one.at("price").get<double>(),
                  0.05 * one.at("price").get<double>());
    }
    size_t rows = 0;
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("  dgx-")) continue;
      ++rows;
      for (size_t at = 2; at < line.size(); at = line.find_first_not_of(' ', line.find("  ", at))) {
        const std::string cell = line.substr(at, line.find("  ", at) - at);
        EXPECT_NE(page.find(">" + cell + "</td>"), std::string::npos) << cell << " of " << line;
      }
    }
    EXPECT_EQ(rows, worth);
  }
}

// A machine with a queue also gets the paragraph and the scaling of a proposal; its page has the same.
TEST_F(Choose, AFacilityIsAskedForNodesNodeHoursAndJobs) {
  ASSERT_EQ(shell(at("sed 's/^cluster:/cluster:\\n  charge: 2\\n  max_nodes: 3/' " +
                     shipped("machines/perlmutter.yaml") + " > site.yaml"))
                .code,
            0);
  const Answer a = isobar(
      "budget", kLlama + "--machine site.yaml --tokens 10B --deadline 60d --gpus 32 --gpus 64 -o page");
  ASSERT_EQ(a.code, 0) << a.out;
  const size_t at_paragraph = a.out.find("For a proposal: ");
  ASSERT_NE(at_paragraph, std::string::npos) << a.out;
  const std::string paragraph = a.out.substr(at_paragraph, a.out.find('\n', at_paragraph) - at_paragraph);
  for (const char* part : {"nodes of perlmutter", "node-hours", "at 2 a node-hour", "of at most 4 h",
                           "a job there has at most 3 nodes"})
    EXPECT_NE(paragraph.find(part), std::string::npos) << paragraph;
  EXPECT_NE(a.out.find("Scaling of the training"), std::string::npos) << a.out;
  EXPECT_NE(read_file(dir_ / "page" / "index.html").find(paragraph), std::string::npos);
  EXPECT_EQ(isobar("budget", kLlama + "--machine dgx-h100 --tokens 10B --deadline 60d --gpus 32")
                .out.find("For a proposal"),
            std::string::npos);
}

// Isobar's own file says the same run: as many ranks, as many bytes, the same step.
TEST_F(Choose, AnEmittedConfigurationIsTheLayout) {
  const json best = data("search", kLlama + "--machine dgx-h100 --gpus 16 --top 1");
  const Answer wrote = shell(
      at(isobar_command() + " emit " + kLlama + "--machine dgx-h100 --gpus 16 --for isobar > best.yaml"));
  ASSERT_EQ(wrote.code, 0);
  const json again = data("predict", "best.yaml --machine dgx-h100 --set run.device=auto");
  EXPECT_EQ(again.at("ranks"), 16);
  EXPECT_EQ(again.at("layout"), best.at("layout"));
  EXPECT_EQ(again.at("step_s"), best.at("step_s"));
}

// The value behind an option.
std::string option(const std::string& text, const std::string& name) {
  const size_t at = text.find(name + " ");
  if (at == std::string::npos) return "";
  const size_t from = at + name.size() + 1;
  return text.substr(from, text.find_first_of(" \n", from) - from);
}

TEST_F(Choose, OptionsOfOthersMultiplyToTheWorldAndTheBatch) {
  const std::string search =
      kLlama + "--machine dgx-h100 --gpus 32 --exclude tp=1,schedule=zb-h1 --fix zero=0..1 ";
  const Answer m = isobar("emit", search + "--fix order=tp-cp-dp-pp --for megatron");
  ASSERT_EQ(m.code, 0) << m.out;
  EXPECT_NE(m.out.find("# predicted for megatron on 32 x dgx-h100: "), std::string::npos) << m.out;
  const auto of = [&](const char* name) { return std::stol("0" + option(m.out, name)); };
  const int64_t cut = of("--tensor-model-parallel-size") * of("--pipeline-model-parallel-size") *
                      of("--context-parallel-size");
  EXPECT_GT(cut, 1) << m.out;
  EXPECT_EQ(32 % cut, 0) << m.out;
  EXPECT_EQ(of("--global-batch-size"), 64);
  EXPECT_EQ(64 % (32 / cut * of("--micro-batch-size")), 0);
  EXPECT_EQ(of("--hidden-size"), 4096);
  for (const auto& [options, part] : {std::pair{"--fix zero=3 --for megatron", "policy.zero"},
                                      {"--fix zero=1 --for torchtitan", "zero"},
                                      {"--fix pp=2 --for deepspeed", "DeepSpeed's file says no pp"}}) {
    const Answer a = isobar("emit", kLlama + "--machine dgx-h100 --gpus 32 " + options);
    EXPECT_EQ(a.code, 2) << a.out;
    EXPECT_NE(a.out.find(part), std::string::npos) << a.out;
  }
  EXPECT_EQ(isobar("emit", kLlama + "--machine dgx-h100 --gpus 32 --for megatron --json").code, 2);
}

// The engine is the one that it is for, and its layouts are those that it can say.
TEST_F(Choose, WhatIsEmittedIsSearchedForItsSoftware) {
  for (const char* target : {"megatron", "nemo", "torchtitan", "deepspeed"}) {
    const Answer a =
        isobar("emit", kLlama + "--machine dgx-h100 --gpus 32 --for " + std::string(target) + " 2>/dev/null");
    ASSERT_EQ(a.code, 0) << a.out;
    EXPECT_NE(a.out.find("predicted for " + std::string(target) + " on 32 x dgx-h100: "), std::string::npos)
        << a.out;
  }
  const Answer tuned = isobar("emit", kLlama + "--machine dgx-h100 --tuned 1 --for isobar");
  EXPECT_EQ(tuned.code, 2) << tuned.out;
}

TEST_F(Choose, WhatIsobarDoesNotTrainIsPricedForAnUnknownEngine) {
  const std::string fp8 = kLlama + "--machine dgx-h100 --set policy.amp=fp8 ";
  const Answer a = isobar("predict", fp8);
  EXPECT_EQ(a.code, 0) << a.out;
  EXPECT_NE(a.out.find("for unknown: "), std::string::npos) << a.out;
  EXPECT_NE(a.out.find("fp8 is for predictions"), std::string::npos) << a.out;
  EXPECT_EQ(data("predict", fp8).at("engine"), "unknown");
  const Answer own = isobar("predict", fp8 + "--engine isobar");
  EXPECT_EQ(own.out.find("for unknown: "), std::string::npos) << own.out;
}

// The best few and a line about ties; --all lists every policy with its chances.
TEST_F(Choose, TheRestOfTheLayoutsIsBehindAll) {
  const std::string search = kLlama + "--machine dgx-h100 --gpus 16 ";
  const auto rows = [](const std::string& text) {
    std::istringstream lines(text.substr(text.find("step s (80 % interval)")));
    std::string line;
    std::getline(lines, line);
    int n = 0;
    while (std::getline(lines, line) && !line.empty()) n += line.find(" DP") != std::string::npos ? 1 : 0;
    return n;
  };
  const Answer few = isobar("search", search), all = isobar("search", search + "--all");
  EXPECT_LE(rows(few.out), 5) << few.out;
  EXPECT_GT(rows(all.out), 10) << all.out;
  EXPECT_NE(few.out.find("with 80 % the fastest is "), std::string::npos) << few.out;
  double chances = 0;
  const json found = data("search", search);
  for (const json& one : found.at("best")) chances += one.at("chance_fastest").get<double>();
  EXPECT_GT(chances, 0.5);
  EXPECT_LE(chances, 1.001);
  EXPECT_EQ(isobar("search", search + "--all --json").code, 2);
}

// 80 % interval of some tens of percent: two digits, not six.
TEST_F(Choose, NothingIsPrintedToMoreDigitsThanItsIntervalKnows) {
  const Answer a = isobar("search", kLlama + "--machine dgx-h100 --gpus 32");
  std::istringstream lines(a.out);
  int checked = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("total") == std::string::npos || line.find("interval") == std::string::npos) continue;
    double value = 0, lower = 0, upper = 0;
    char word[32] = {};
    ASSERT_EQ(std::sscanf(line.c_str(), " total %31s 80 %% interval %lf - %lf", word, &lower, &upper), 3)
        << line;
    value = std::stod(word);
    const std::string digits = word;
    const size_t dot = digits.find('.'), zeros = digits.size() - 1 - digits.find_last_not_of('0');
    // Zeros before the point are places, not significant digits.
    const double unit =
        std::pow(10, dot == std::string::npos ? static_cast<double>(zeros)
                                              : -static_cast<double>(digits.size() - dot - 1));
    EXPECT_GE(unit, 0.02 * (upper - lower)) << line;  // half of it has two digits at most
    EXPECT_TRUE(lower < value && value < upper) << line;
    ++checked;
  }
  EXPECT_EQ(checked, 1) << a.out;
}

TEST_F(Choose, AMachineFileIsStartedFromAnother) {
  const Answer a = shell(at(isobar_command() + " machine new --from dgx-h100 -o mine.yaml 2>&1"));
  ASSERT_EQ(a.code, 0) << a.out;
  const json mine = data("search", kLlama + "--machine mine.yaml --gpus 16"),
             theirs = data("search", kLlama + "--machine dgx-h100 --gpus 16");
  EXPECT_EQ(mine.at("machine"), "mine");
  EXPECT_EQ(mine.at("step_s"), theirs.at("step_s"));
  EXPECT_EQ(shell(at(isobar_command() + " machine new --from dgx-h100 -o mine.yaml 2>&1")).code, 2);
  EXPECT_EQ(shell(at(isobar_command() + " machine new --from nothing -o other.yaml 2>&1")).code, 2);
  const Answer keys = shell(isobar_command() + " machine keys");
  for (const char* key : {"accelerator.mtbf_hours", "peaks.bf16.value", "coefficients.gemm.bf16.value"})
    EXPECT_NE(keys.out.find(key), std::string::npos) << key;
}

TEST_F(Choose, ASearchIsAPageWithItsData) {
  const Answer a = isobar("search", kLlama + "--machine dgx-h100 --gpus 16 -o out");
  ASSERT_EQ(a.code, 0) << a.out;
  const json all = json::parse(read_file(dir_ / "out/search.json"));
  const json best = data("search", kLlama + "--machine dgx-h100 --gpus 16");
  ASSERT_GT(all.at("layouts").size(), 5u);
  double least = 1e9;
  for (const json& one : all["layouts"])
    least = std::min(least, one.at("step_s").get<double>() / one.at("chance_to_fit").get<double>());
  EXPECT_NEAR(least / best.at("step_s").get<double>(), 1, 0.02);
  EXPECT_GE(all.at("scaling").size(), 4u);
  // People read the digits that are known: no cell of the page has more than four behind a point.
  const std::string page = read_file(dir_ / "out/index.html");
  const std::string cells = page.substr(page.find("<table"), page.rfind("</table>") - page.find("<table"));
  EXPECT_FALSE(found(cells, R"(>[0-9]*\.[0-9]{5,}<)")) << cells;
  EXPECT_FALSE(found(cells, R"(>[1-9][0-9.]{5,}[1-9]<)")) << cells;
  for (const char* file : {"index.html", "figures/heat.vl.json", "figures/pareto.vl.json",
                           "figures/scaling.vl.json", "tables/layouts.csv", "tables/scaling.csv"})
    EXPECT_TRUE(std::filesystem::exists(dir_ / "out" / file)) << file;
  const Answer two = isobar("compare", kLlama + "--machine dgx-h100 --machine dgx-b200 --gpus 16 -o two");
  ASSERT_EQ(two.code, 0) << two.out;
  for (const char* file : {"index.html", "figures/machines.vl.json", "tables/machines.csv", "search.json"})
    EXPECT_TRUE(std::filesystem::exists(dir_ / "two" / file)) << file;
  EXPECT_EQ(isobar("search", kLlama + "--machine dgx-h100 -o out").code, 2) << "no search";
}

// Before these were commands of their own, `predict` had all of their options.
TEST_F(Choose, OldSpellingsAnswerAsTheNewOnesAndNameThem) {
  const std::string on = kLlama + "--machine dgx-h100 --exclude zero=2..3 ";
  for (const auto& [before, asks, now] : std::vector<std::tuple<std::string, std::string, std::string>>{
           {on + "--gpus 16 --emit megatron", "emit", on + "--gpus 16 --for megatron"},
           {on + "--gpus 64 --tokens 100B --deadline 10d", "budget",
            on + "--gpus 64 --tokens 100B --deadline 10d"},
           {on + "--gpus 16 --machine dgx-a100", "compare", on + "--gpus 16 --machine dgx-a100"}}) {
    const std::string command = isobar_command() + " predict " + before;
    const Answer old = shell(at(command + " 2>said")),
                 fresh = shell(at(isobar_command() + " " + asks + " " + now + " 2>/dev/null"));
    EXPECT_EQ(old.code, 0);
    EXPECT_EQ(old.out, fresh.out);
    const std::string said = read_file(dir_ / "said");
    EXPECT_NE(said.find("`isobar " + asks), std::string::npos) << said;
  }
  json old = data("predict", on + "--gpus 16"), fresh = data("search", on + "--gpus 16");
  old.erase("search_s"), fresh.erase("search_s");
  EXPECT_EQ(old, fresh);
  const Answer quiet = shell(at(isobar_command() + " predict " + on + "--gpus 16 --json 2>&1 >/dev/null"));
  EXPECT_EQ(quiet.out.find("spelt"), std::string::npos) << quiet.out;
}

}  // namespace
}  // namespace isobar::cli
