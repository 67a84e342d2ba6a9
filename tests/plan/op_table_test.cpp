// The rows of op_kind.h: names, operands and back ends of every kind.
#include "model/plan/ops/op_table.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/plan/plans.h"

namespace isobar::plan {
namespace {

Op with_operands(OpKind kind) {  // all operands of its row
  Op op;
  op.kind = kind;
  op.path = "block07/some/op";
  op.reads.assign(reads_of(kind).size(), View{0, 0, 1});
  op.writes.assign(writes_of(kind).size(), View{0, 0, 1});
  return op;
}

std::string refusal(const Op& op) {
  try {
    check_operands(op);
  } catch (const std::logic_error& e) {
    return e.what();
  }
  return "(accepted)";
}

TEST(OpTable, NamesAreOneOfAKindAndLeadBack) {
  std::set<std::string> names;
  for (int k = 0; k < kOpKinds; ++k) {
    const auto kind = static_cast<OpKind>(k);
    EXPECT_TRUE(names.insert(name_of(kind)).second) << name_of(kind);
    EXPECT_EQ(op_named(name_of(kind)), kind);
  }
  EXPECT_EQ(op_named("relu"), std::nullopt);
}

TEST(OpTable, AnOperandThatLacksOrIsTooManyIsRefusedByItsRole) {
  for (int k = 0; k < kOpKinds; ++k) {
    const auto kind = static_cast<OpKind>(k);
    SCOPED_TRACE(name_of(kind));
    const Op whole = with_operands(kind);
    EXPECT_EQ(refusal(whole), "(accepted)");
    for (const bool read : {true, false}) {
      const auto roles = read ? reads_of(kind) : writes_of(kind);
      auto Op::*const views = read ? &Op::reads : &Op::writes;
      const std::string verb = read ? " reads " : " writes ";
      for (size_t i = 0; i < roles.size(); ++i) {
        Op absent = whole;
        (absent.*views)[i] = View{};
        EXPECT_EQ(refusal(absent), roles[i].optional
                                       ? "(accepted)"
                                       : "block07/some/op" + verb + "no " + std::string(roles[i].name));
      }
      Op more = whole;
      (more.*views).push_back(View{0, 0, 1});
      if (!roles.empty() && roles.back().repeats) {
        EXPECT_EQ(refusal(more), "(accepted)");
        continue;
      }
      EXPECT_NE(refusal(more).find(verb + std::to_string(roles.size() + 1) + " operands"), std::string::npos)
          << refusal(more);
    }
  }
}

TEST(OpTable, AWorkspaceComesBesides) {
  Op op = with_operands(OpKind::activation);
  op.writes.push_back(View{0, 0, 1});
  EXPECT_NE(refusal(op), "(accepted)");
  op.workspace = true;
  EXPECT_EQ(refusal(op), "(accepted)");
}

// Names stand for positions, so every op of every kind of plan must match its row.
TEST(OpTable, HoldsForWhatNetsEmit) {
  std::set<OpKind> seen;
  for (const char* model : {"vit-tiny", "gpt3-175b", "llama3-8b", "moe-tiny"}) {
    std::vector<std::string> small{"train.global_batch=8", "policy.micro_batch=2"};
    if (std::string(model) != "vit-tiny") small.insert(small.end(), {"net.depth=4", "layout.dp=1"});
    for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{
             {"layout.tp=1", "layout.pp=1"},
             {"layout.tp=1", "layout.pp=1", "policy.amp=bf16", "policy.recompute=full"},
             {"layout.tp=2", "layout.pp=2", "layout.dp=2", "policy.zero=3", "policy.amp=bf16"},
             {"layout.tp=2", "layout.pp=1", "policy.sequence_parallel=true", "policy.recompute=none"},
             {"layout.tp=1", "layout.pp=1", "layout.cp=2", "policy.cp_kind=ring", "policy.amp=bf16"},
             {"layout.tp=1", "layout.pp=1", "layout.cp=2", "policy.cp_kind=ulysses"},
             {"layout.tp=1", "layout.pp=1", "layout.dp=2", "policy.zero=2", "policy.main_grads_dtype=bf16",
              "train.optimizer=sgd"}}) {
      std::vector<std::string> all = small;
      all.insert(all.end(), more.begin(), more.end());
      const RunSpec spec = spec_of(model, all);
      for (int rank = 0; rank < spec.layout.world(); ++rank)
        for (const Op& op : nets::build_plan(spec, rank, odd_workspace).ops) {
          EXPECT_NO_THROW(check_operands(op)) << model;
          seen.insert(op.kind);
        }
    }
  }
  EXPECT_GE(seen.size(), 44u);  // the other kinds belong to options that are not set here
}

TEST(OpTable, EveryKindHasWorkOfItsOwnOrIsFree) {
  const Plan plan = plan_of("vit-tiny");
  for (const Op& op : plan.ops) {
    const Work w = work(op, plan);
    EXPECT_GT(w.bytes(), 0) << op.path;
    EXPECT_EQ(w.flops > 0, info_of(op.kind).price == PriceClass::product ||
                               info_of(op.kind).price == PriceClass::attention ||
                               info_of(op.kind).price == PriceClass::attention_backward)
        << op.path;
  }
}

}  // namespace
}  // namespace isobar::plan
