// A swin's sizes, parts and refusals, and what its windows put on the wire.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "model/nets/layout/legal_layout.h"
#include "model/nets/parts.h"
#include "model/nets/windows/bands.h"
#include "model/plan/ops/work.h"
#include "tests/plan/nets/windows.h"
#include "tests/plan/plans.h"

namespace isobar::plan {
namespace {

// Counts of bench/peers/swin.py
TEST(Swin, HasTheCountsOfItsReference) {
  EXPECT_EQ(plan_of("swin-era5").parameter_count(), 166779720);
  EXPECT_EQ(plan_of("swin-tiny").parameter_count(), 189560);
  EXPECT_EQ(spec_of("swin-era5").net.tokens(), 64800);
}

// A table of (2 x 6 - 1)(2 x 12 - 1) distances for each head of each block; windows at most as large as the
// grid
TEST(Swin, HasABiasForEachHeadAndDistance) {
  int64_t biases = 0;
  const std::set<std::vector<int64_t>> shapes{{6, 253}, {12, 253}, {24, 253}};
  for (const Tensor& t : plan_of("swin-era5").tensors)
    if (t.name.ends_with("relative_position_bias_table")) {
      EXPECT_TRUE(shapes.contains(t.shape)) << t.name;
      ++biases;
    }
  EXPECT_EQ(biases, 28);
  for (const Tensor& t :
       plan_of("swin-tiny").tensors)  // two rows of three patches at the coarsest resolution
    if (t.name == "decoder.0.blocks.0.attn.relative_position_bias_table") {
      EXPECT_EQ(t.shape, (std::vector<int64_t>{8, 15}));
    }
  const Plan plain = plan_of("swin-tiny", {"net.relative_position_bias=false"});
  for (const Tensor& t : plain.tensors) EXPECT_EQ(t.name.find("bias_table"), std::string::npos);
  for (const Op& op : plain.ops) EXPECT_EQ(op.path.find("/attn/bias"), std::string::npos);
}

// Blocks that begin with a waiting sum, and that do not, are not the same.
TEST(Swin, ItsPartsAreThoseOfAUNet) {
  std::string kinds;
  std::vector<int32_t> same;
  for (const Part& p : nets::parts_of(spec_of("swin-tiny").net))
    kinds += p.kind + " ", same.push_back(p.same_as);
  EXPECT_EQ(
      kinds,
      "embed block block merge block block merge block block split block block split block block head ");
  EXPECT_EQ(same, (std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 4, 5, 12, 13, 2, 15}));
}

std::string swin_refused(const std::vector<std::string>& set) {
  try {
    nets::check_layout(spec_of("swin-tiny", set));
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

TEST(Swin, RefusesSizesThatDoNotFitAndSaysWhichWould) {
  const auto says = [](const std::vector<std::string>& set, const char* what) {
    EXPECT_NE(swin_refused(set).find(what), std::string::npos) << set[0] << ": " << swin_refused(set);
  };
  EXPECT_EQ(swin_refused({}), "");
  EXPECT_EQ(swin_refused({"layout.tp=2", "layout.cp=2"}), "");
  says({"net.patch_size=5"}, "'net.patch_size'");
  says({"net.window=[3]"}, "'net.window': has 1 sizes");
  says({"net.window=[0,4]"}, "'net.window'");
  says({"net.encoder_num_heads=[2,4]"}, "'net.encoder_num_heads'");
  says({"net.encoder_num_heads=[2,3,8]"}, "'net.encoder_num_heads'");
  says({"net.decoder_depths=[2,2]"}, "'net.decoder_depths'");
  says({"net.encoder_depths=[]"}, "'net.encoder_depths'");
  says({"layout.tp=3"}, "'layout.tp'");
  says({"layout.cp=3"}, "3 is more than the 2 rows of the coarsest grid");
  says({"layout.cp=2", "policy.cp_kind=ring"}, "ring is a way of attention");
  says({"layout.tp=2", "policy.sequence_parallel=true"}, "cannot cut a swin's rows");
  says({"net.depth=2"}, "'net.depth'");
}

// In a step of one micro-batch, each row outside the band of its window's middle row travels there and back
// in each block's forward and backward; nothing else is on the wire between ranks of one sample.
TEST(Swin, PutsRowsOfSharedWindowsOnTheWireAndNothingElse) {
  const RunSpec s = spec_of(
      "swin-tiny", {"net.img_height=56", "layout.cp=4", "train.global_batch=2", "policy.micro_batch=2"});
  const SwinSpec& n = s.net.swin();
  const std::vector<int64_t> rows = {14, 7, 4}, columns = {9, 5, 3};
  double elements = 0, wire = 0;
  for (size_t r = 0; r < 3; ++r)
    for (const bool shifted : {false, true}) {
      const nets::WindowGrid of{
          .grid = {1, rows[r], columns[r]}, .window = {1, n.window[0], n.window[1]}, .shifted = shifted};
      const nets::Bands bands = nets::bands_at(rows, r, 4);
      const auto latitude = [&](int64_t row) { return row / columns[r]; };
      int64_t moved = 0;
      for (const auto& [row, members] : published(of)) {
        const auto [north, south] = std::minmax_element(members.begin(), members.end());
        const int64_t middle = (latitude(*north) + latitude(*south)) / 2;
        moved += bands.owner(middle) != bands.owner(latitude(row)) ? 1 : 0;
      }
      for (const int64_t depth : {n.encoder_depths[r], n.decoder_depths[2 - r]})
        elements +=
            static_cast<double>((shifted ? depth / 2 : (depth + 1) / 2) * 2 * moved * (n.embed_dim << r));
    }
  for (int rank = 0; rank < 4; ++rank) {
    const Plan p = nets::build_plan(s, rank, {});
    for (const Op& op : p.ops)
      if (op.kind == OpKind::all_to_all) wire += work(op, p).wire_bytes;
  }
  EXPECT_GT(elements, 0);
  EXPECT_EQ(wire, 4 * 4 * elements);
}

}  // namespace
}  // namespace isobar::plan
