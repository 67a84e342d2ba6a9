// Conditions of sweep files: expressions against arithmetic computed here, `when:` and `exclude:` against
// combinations written out.
#include "bench/sweep/condition.h"

#include <cmath>
#include <random>
#include <set>

#include "bench/sweep/results/trials.h"
#include "model/base/error.h"
#include "support.h"

namespace isobar::sweep {
namespace {

using nlohmann::json;

class ConditionTest : public SweepTest {
 protected:
  std::string refusal(const std::string& text) {
    write("bad.yaml", "base: base.yaml\n" + text);
    try {
      expand(load_sweep_spec((scratch_ / "bad.yaml").string()));
    } catch (const ConfigError& e) {
      return e.what();
    }
    return "(accepted)";
  }
};

Expression::Value made_up(const std::string& key) {
  if (key == "layout.tp") return 4.0;
  if (key == "layout.pp") return 2.0;
  if (key == "ranks") return 16.0;
  if (key == "policy.amp") return std::string("bf16");
  if (key == "run.serial") return false;
  throw BadExpression{"names " + key, ""};
}

TEST(Expressions, MeanWhatTheyMeanInPython) {
  const std::vector<std::pair<std::string, bool>> cases = {
      {"tp == 4", true},
      {"layout.tp != 4", false},
      {"tp * pp > 8", false},
      {"tp * pp >= 8", true},
      {"tp - pp - 2 == 0", true},  // left-associative
      {"gpus / tp / pp == 2", true},
      {"gpus % 5 == 1", true},
      {"-tp < -pp", true},
      {"2 + 3 * 4 == 14", true},
      {"(2 + 3) * 4 == 20", true},
      {"amp == bf16", true},
      {"policy.amp == 'bf16'", true},
      {"policy.amp != \"none\"", true},
      {"run.serial", false},
      {"not run.serial", true},
      {"run.serial == false", true},
      {"not not not run.serial", true},
      {"tp == 1 or pp == 2 and amp == bf16", true},
      {"(tp == 1 or pp == 2) and amp == none", false},
      {"tp == 4 or pp == 2 and amp == none", true},  // `and` binds tighter than `or`
      {"not tp == 1 and pp == 2", true},             // `not` binds looser than ==
      {"tp*pp==8 and(amp==bf16)", true},
      {"1e1 == 10 and .5 == 0.5", true},
      {"gpus % 0 == 0", false},
  };
  for (const auto& [text, truth] : cases) EXPECT_EQ(Expression(text).holds(made_up), truth) << text;
}

// Random expression trees, printed with all parentheses and evaluated here.
TEST(Expressions, ComputeAsHere) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 rng(seed);
  const std::function<std::pair<std::string, double>(int)> tree = [&](int depth) {
    if (depth == 0 || rng() % 4 == 0) {
      const auto n = static_cast<int>(rng() % 20);
      return std::pair{std::to_string(n), static_cast<double>(n)};
    }
    const auto [a, x] = tree(depth - 1);
    const auto [b, y] = tree(depth - 1);
    const char sign = "+-*/%"[rng() % 5];
    const double value = sign == '+'   ? x + y
                         : sign == '-' ? x - y
                         : sign == '*' ? x * y
                         : sign == '/' ? x / y
                                       : std::fmod(x, y);
    return std::pair{"(" + a + " " + sign + " " + b + ")", value};
  };
  for (int i = 0; i < 300; ++i) {
    const auto [a, x] = tree(4);
    const auto [b, y] = tree(4);
    EXPECT_EQ(Expression(a + " < " + b).holds(made_up), x < y) << a << " < " << b;
    EXPECT_EQ(Expression(a + " == " + b).holds(made_up), x == y) << a << " == " << b;
  }
}

TEST_F(ConditionTest, ExpressionsThatMeanNothingAreNamedWithTheirPlace) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"tp >", "lacks a value at its end"},
      {"tp > and pp > 1", "before 'and'"},
      {"(tp > 1", "parenthesis"},
      {"tp > 1 pp", "goes on with 'pp'"},
      {"tp = 1", "compare with =="},
      {"tp > 1 ; pp", "';'"},
      {"amp == 'bf16", "quote"},
      {"tp", "gives a number where a condition"},
      {"bf16", "gives a word where a condition"},
      {"amp > 3", "a word beside >"},
      {"amp == 3", "compares a word with a number"},
      {"tp == 1 or amp == 3", "compares a word with a number"},
      {"policy.ampp == bf16", "did you mean policy.amp?"},
      {"12x > 1", "no number"},
      {std::string(5000, '('), "nested"},
      {"", "lacks a value"},
  };
  for (const auto& [text, part] : cases) {
    const std::string said =
        refusal("axes: {gpus: [1, 2]}\nexclude:\n  - tp * pp > 99\n  - " + json(text).dump() + "\n");
    EXPECT_NE(said.find("bad.yaml: 'exclude[1]'"), std::string::npos) << text << ": " << said;
    EXPECT_NE(said.find(part), std::string::npos) << text << ": " << said;
    EXPECT_NE(said.find("->"), std::string::npos) << text << ": " << said;
  }
}

TEST_F(ConditionTest, ExclusionsByExpressionTakeOutWhatTheySay) {
  const Matrix m =
      expand(sweep("axes: {gpus: [1, 2, 4, 8], tp: [1, 2, 4], amp: [none, bf16]}\n"
                   "exclude: [tp * 2 > gpus and gpus > 1, amp == bf16 and layout.dp == 1]\n"));
  std::set<std::tuple<int64_t, int64_t, std::string>> is, should;
  for (const Trial& t : m.trials) is.insert({t.ranks(), t.spec.layout.tp, name_of(t.spec.policy.amp)});
  for (const int64_t gpus : {1, 2, 4, 8})
    for (const int64_t tp : {1, 2, 4})
      for (const char* amp : {"none", "bf16"})
        if (gpus % tp == 0 && !(tp * 2 > gpus && gpus > 1) && !(std::string(amp) == "bf16" && gpus / tp == 1))
          should.insert({gpus, tp, amp});
  EXPECT_EQ(is, should);
  EXPECT_EQ(m.trials.size(), is.size());
  EXPECT_GT(m.excluded, 0);
  EXPECT_EQ(expand(sweep("axes: {gpus: [1, 2]}\nexclude: gpus > 1")).trials.size(), 1u);  // one needs no list
}

TEST_F(ConditionTest, AxesVaryWhereTheirConditionHolds) {
  const Matrix m = expand(
      sweep("axes: {gpus: [1, 2, 4], amp: [none, bf16]}\n"
            "set: {policy.bucket_mb: 2}\n"
            "when:\n"
            "  - {if: {gpus: \">= 2\", amp: bf16}, axes: {policy.bucket_mb: [1, 4], policy.zero: [0, 1]}}\n"
            "  - {if: policy.zero == 1 and gpus == 4, axes: {policy.overlap: [true, false]}}\n"));
  using Settings = std::tuple<int64_t, std::string, double, int64_t, bool>;
  std::set<Settings> is, should;
  for (const Trial& t : m.trials) {
    const PolicySpec& p = t.spec.policy;
    is.insert({t.ranks(), name_of(p.amp), p.bucket_mb, p.zero, p.overlap});
  }
  const bool overlap = PolicySpec{}.overlap;
  const int64_t zero = PolicySpec{}.zero;
  for (const int64_t gpus : {1, 2, 4})
    for (const char* amp : {"none", "bf16"}) {
      if (gpus < 2 || amp == std::string("none")) {
        should.insert({gpus, amp, 2, zero, overlap});
        continue;
      }
      for (const double bucket : {1.0, 4.0}) {
        should.insert({gpus, amp, bucket, 0, overlap});
        for (const bool over : {true, false})
          if (gpus == 4 || over == overlap) should.insert({gpus, amp, bucket, 1, over});
      }
    }
  EXPECT_EQ(is, should);
  EXPECT_EQ(m.trials.size(), is.size());
  EXPECT_EQ(m.duplicates, 0);
}

TEST_F(ConditionTest, EqualTrialsRunOnceAndIncludedOnesStandAsTheyAre) {
  const std::string rules =
      "axes: {gpus: [1, 2], policy.bucket_mb: [1, 2]}\n"
      "when: [{if: gpus == 1, axes: {train.seed: [1, 1000]}}]\n";
  EXPECT_EQ(expand(sweep(rules)).trials.size(), 6u);
  // The rule yields the base's value, so the included run is a duplicate.
  const Matrix m =
      expand(sweep("axes: {amp: [none, bf16]}\nset: {policy.micro_batch: 2}\n"
                   "when: [{if: amp == bf16, axes: {policy.micro_batch: [2, 4]}}]\n"
                   "include: [{amp: bf16}, {amp: bf16, policy.micro_batch: 8}]\n"));
  EXPECT_EQ(m.trials.size(), 4u);
  EXPECT_EQ(m.duplicates, 1);
  std::set<std::string> names;
  for (const Trial& t : m.trials) names.insert(t.name);
  EXPECT_EQ(names.size(), m.trials.size());
}

TEST_F(ConditionTest, RulesThatCannotBeAreRefused) {
  const std::string axes = "axes: {gpus: [1, 2], amp: [none, bf16]}\n";
  const std::vector<std::pair<std::string, std::vector<std::string>>> cases = {
      {"when: {if: gpus == 1, axes: {policy.zero: 1}}", {"'when'", "list of rules"}},
      {"when: [{axes: {policy.zero: 1}}]", {"'when[0]'", "no `if`"}},
      {"when: [{if: gpus == 1}]", {"'when[0]'", "no `axes`"}},
      {"when: [{if: gpus == 1, axis: {policy.zero: 1}}]", {"when[0].axis", "`if` and `axes`"}},
      {"when: [{if: gpus == 1, axes: {}}]", {"when[0].axes", "empty"}},
      {"when: [{if: gpus == 1, axes: {policy.zeroo: [1]}}]", {"when[0].axes", "policy.zeroo", "policy.zero"}},
      {"when: [{if: gpus == 1, axes: {policy.zero: [1, 1]}}]", {"when[0].axes.policy.zero", "twice"}},
      {"when: [{if: {ampp: bf16}, axes: {policy.zero: [1]}}]", {"when[0].if", "ampp"}},
      {"when: [{if: net.dpth == 1, axes: {policy.zero: [1]}}]", {"when[0].if", "net.depth"}},
      {"when: [{if: gpus == 1, axes: {gpus: [4]}}]", {"when[0].axes.gpus", "`exclude:`"}},
      {"when: [{if: gpus == 1, axes: {tp: any}}]", {"when[0].axes.layout.tp", "list its values"}},
      {"when: [{if: gpus == 1, axes: {amp: bf16}}]", {"when[0].axes.policy.amp", "axis as well"}},
      {"zip: [{train.seed: [1, 2], policy.zero: [0, 1]}]\nwhen: [{if: gpus == 1, axes: {policy.zero: 1}}]",
       {"when[0].axes.policy.zero", "zip"}},
      {"when: [{if: gpus == 1, axes: {policy.zero: 1}}, {if: amp == none, axes: {policy.zero: 0}}]",
       {"when[1].if", "both set policy.zero", "ranks=1"}},
  };
  for (const auto& [text, words] : cases)
    for (const std::string& word : words) {
      const std::string said = refusal(axes + text);
      EXPECT_NE(said.find(word), std::string::npos)
          << text << "\n  said: " << said << "\n  without: " << word;
    }
  std::string numbers;
  for (int i = 1; i <= 500; ++i) numbers += (i > 1 ? "," : "") + std::to_string(i);
  const std::string many =
      "when: [{if: gpus > 0, axes: {train.seed: [" + numbers + "], data.prefetch: [" + numbers + "]}}]";
  EXPECT_NE(refusal(axes + many).find("250000 combinations, more than"), std::string::npos);
}

// A command-line key replaces the file's entries for it, in rules too.
TEST_F(ConditionTest, WordsReplaceRules) {
  write("s.yaml",
        "base: base.yaml\nsteps: 4\naxes: {amp: [none, bf16]}\n"
        "when: [{if: amp == bf16, axes: {policy.bucket_mb: [1, 2, 4]}}]\n");
  const std::string file = (scratch_ / "s.yaml").string();
  EXPECT_EQ(expand(load_sweep_spec(file)).trials.size(), 4u);
  EXPECT_EQ(expand(load_sweep_spec(file, {"policy.bucket_mb=1,2"})).trials.size(), 4u);
  EXPECT_EQ(expand(load_sweep_spec(file, {"policy.bucket_mb=3"})).trials.size(), 2u);
  EXPECT_EQ(expand(load_sweep_spec(file, {"exclude=policy.bucket_mb == 4"})).trials.size(), 3u);
}

}  // namespace
}  // namespace isobar::sweep
