// Aurora's sizes, exchanges and refusals.
#include <gtest/gtest.h>

#include <algorithm>

#include "model/nets/aurora/fourier.h"
#include "model/nets/build.h"
#include "model/nets/layout/legal_layout.h"
#include "model/nets/parts.h"
#include "model/nets/windows/bands.h"
#include "model/plan/ops/work.h"
#include "tests/paths.h"
#include "tests/plan/nets/windows.h"

namespace isobar::plan {
namespace {

RunSpec shipped(const std::string& name, std::vector<std::string> set = {}) {
  return load_run_spec(source_dir() + "/configs/models/" + name + ".yaml", set);
}

// Counts of microsoft-aurora 2.0.1 without adapters
TEST(Aurora, HasThePublishedCounts) {
  EXPECT_EQ(nets::build_plan(shipped("aurora"), 0, {}).parameter_count(), 1256300176);
  EXPECT_EQ(nets::build_plan(shipped("aurora-0.1deg"), 0, {}).parameter_count(), 1199333764);
  const Plan small = nets::build_plan(shipped("aurora-small"), 0, {});
  EXPECT_EQ(small.parameter_count(), 112797584);
  int64_t encoder = 0, backbone = 0, decoder = 0;
  for (const Tensor& t : small.tensors) {
    int64_t count = 1;
    for (const int64_t n : t.shape) count *= n;
    (t.name.starts_with("encoder.") ? encoder : t.name.starts_with("decoder.") ? decoder : backbone) += count;
  }
  EXPECT_EQ(encoder, 1743616);
  EXPECT_EQ(backbone, 108616704);
  EXPECT_EQ(decoder, 2437264);
}

// In a step of one micro-batch, each row outside the band of its window's middle row travels there and back
// in each block's forward and backward; merges and splits exchange nothing.
TEST(Aurora, PutsRowsOfSharedWindowsOnTheWireAndNothingElse) {
  const RunSpec s = shipped(
      "aurora-tiny", {"net.img_height=28", "layout.cp=4", "train.global_batch=2", "policy.micro_batch=2"});
  const AuroraSpec& n = s.net.aurora();
  const std::vector<int64_t> rows = {14, 7, 4};
  const std::vector<int64_t> columns = {9, 5, 3};
  double elements = 0, wire = 0;
  for (size_t r = 0; r < 3; ++r) {
    const nets::Sizes3 grid{n.latent_levels, rows[r], columns[r]};
    const nets::Bands bands = nets::bands_at(rows, r, 4);
    for (const bool shifted : {false, true}) {
      const auto latitude = [&](int64_t row) { return row / grid[2] % grid[1]; };
      int64_t moved = 0;
      for (const auto& [row, members] : published({.grid = grid,
                                        .window = {n.window[0], n.window[1], n.window[2]},
                                        .shifted = shifted,
                                        .as_aurora = true})) {
        int64_t north = grid[1], south = 0;
        for (const int64_t m : members)
          if (m >= 0) north = std::min(north, latitude(m)), south = std::max(south, latitude(m));
        moved += bands.owner((north + south) / 2) != bands.owner(latitude(row)) ? 1 : 0;
      }
      int64_t blocks = 0;
      for (const int64_t depth : {n.encoder_depths[r], n.decoder_depths[2 - r]})
        blocks += shifted ? depth / 2 : (depth + 1) / 2;
      elements += static_cast<double>(blocks * 2 * moved * (n.embed_dim << r));
    }
  }
  for (int rank = 0; rank < 4; ++rank) {
    const Plan p = nets::build_plan(s, rank, {});
    for (const Op& op : p.ops)
      if (op.kind == OpKind::all_to_all) wire += work(op, p).wire_bytes;
  }
  EXPECT_GT(elements, 0);
  EXPECT_EQ(wire, 4 * 4 * elements);
}

// Window exchanges overlap with products that do not need them, in both directions and passes.
TEST(Aurora, ExchangesRowsUnderTheWorkOnWindowsOfItsOwn) {
  const RunSpec s = shipped(
      "aurora-tiny", {"net.img_height=28", "layout.cp=2", "train.global_batch=2", "policy.micro_batch=2"});
  for (int rank = 0; rank < 2; ++rank) {
    const Plan p = nets::build_plan(s, rank, {});
    int64_t exchanges = 0, covered = 0;
    for (size_t i = 0; i < p.ops.size(); ++i) {
      if (p.ops[i].kind != OpKind::all_to_all || p.ops[i].writes[0].count == 0) continue;
      EXPECT_EQ(p.ops[i].lane, Lane::cp);
      const auto reads = [&](const Op& op) {
        return std::any_of(op.reads.begin(), op.reads.end(),
                           [&](const View& v) { return v && v.buffer == p.ops[i].writes[0].buffer; });
      };
      bool product = false;
      size_t j = i + 1;
      for (; j < p.ops.size() && !reads(p.ops[j]); ++j) product |= p.ops[j].kind == OpKind::gemm;
      ASSERT_LT(j, p.ops.size());
      ++exchanges, covered += product ? 1 : 0;
    }
    EXPECT_GT(exchanges, 0);
    EXPECT_EQ(covered, exchanges);
  }
}

// ---- refusals ----

std::string refused(const std::vector<std::string>& set) {
  try {
    const RunSpec s = shipped("aurora-tiny", set);
    nets::check_layout(s);
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

TEST(Aurora, RefusesSizesThatDoNotFitAndSaysWhichWould) {
  EXPECT_EQ(refused({}), "");
  EXPECT_NE(refused({"net.history=1"}).find("'net.in_channels': is 17, and the variables come to 9"),
            std::string::npos)
      << refused({"net.history=1"});
  EXPECT_NE(refused({"net.out_channels=7"}).find("'net.out_channels'"), std::string::npos);
  EXPECT_NE(refused({"net.patch_size=4"}).find("'net.patch_size'"), std::string::npos);
  EXPECT_NE(refused({"net.latent_levels=3"}).find("'net.latent_levels'"), std::string::npos);
  EXPECT_NE(refused({"net.encoder_num_heads=[2,4]"}).find("'net.encoder_num_heads'"), std::string::npos);
  EXPECT_NE(refused({"net.window=[2,3]"}).find("'net.window'"), std::string::npos);
  EXPECT_EQ(refused({"layout.cp=2"}), "");
  EXPECT_NE(refused({"layout.cp=3"}).find("3 is more than the 2 rows of the coarsest grid"),
            std::string::npos)
      << refused({"layout.cp=3"});
  EXPECT_NE(refused({"layout.cp=2", "policy.cp_kind=ring"}).find("ring is a way of attention"),
            std::string::npos);
  EXPECT_NE(refused({"net.gelu=tanh"}).find("net.gelu"), std::string::npos);
}

// ---- pipelines ----

TEST(Aurora, OfFourStagesTheBackboneMayHaveTwo) {
  const RunSpec s = shipped("aurora-small", {"layout.pp=4", "layout.stages=[0,12,12,0]"});
  // embed | 2 blocks, merge, 6, merge, 2 | 2, split, 6, split, 2 | head
  EXPECT_EQ(nets::cuts_of(s.net, 4, s.layout.stages), (std::vector<int32_t>{0, 1, 13, 25, 26}));
  EXPECT_NE(nets::cuts_of(s.net, 4), nets::cuts_of(s.net, 4, s.layout.stages));
  EXPECT_EQ(nets::cuts_of(s.net, 2), nets::cuts_of(s.net, 2, s.layout.stages));  // the source's two GPUs
  EXPECT_EQ(refused({"layout.pp=4", "layout.stages=[0,7,7,0]"}), "");
  EXPECT_EQ(refused({"layout.pp=2", "layout.vpp=2", "policy.schedule=interleaved", "policy.micro_batch=1",
                     "layout.stages=[0,7,7,0]"}),
            "");
}

// ---- precision ----

TEST(Aurora, EndsStayInFp32BesideABackboneInBf16) {
  for (const char* zero : {"0", "3"}) {
    const RunSpec spec = shipped("aurora-tiny", {"policy.amp=bf16", "net.fp32_ends=true", "layout.dp=2",
                                                 std::string("policy.zero=") + zero});
    const Plan plan = nets::build_plan(spec, 0, {});
    const auto last = static_cast<int32_t>(plan.parts.size()) - 1;
    int64_t products = 0;
    for (const Op& op : plan.ops) {
      if (op.kind != OpKind::gemm && op.kind != OpKind::attention && op.kind != OpKind::attention_backward)
        continue;
      const bool end = op.part == 0 || op.part == last;
      for (size_t i = 0; i < 2; ++i)
        EXPECT_EQ(plan.buffers[op.reads[i].buffer].dtype, end ? DType::f32 : DType::bf16) << op.path;
      ++products;
    }
    EXPECT_GT(products, 100);
    for (const Param& p : plan.params)
      if (p.part == 0 || p.part == last) EXPECT_FALSE(p.matrix) << p.name;
  }
  EXPECT_NE(refused({"net.fp32_ends=true", "policy.amp=fp16"}).find("net.fp32_ends"), std::string::npos);
}

TEST(Aurora, DropPathHasAsManyBlocksBothWays) {
  EXPECT_NE(refused({"net.drop_path=0.2", "net.decoder_depths=[1,2,3]"}).find("net.drop_path"),
            std::string::npos);
  EXPECT_NE(refused({"net.drop_path=1"}).find("net.drop_path"), std::string::npos);
}

TEST(Aurora, GridsCrossTheMeridianThatLongitudesBeginAt) {
  const nets::aurora::PatchGrid over{58, 350, 0.5, 1, 12, 2};  // its tenth patch begins at 0
  const std::vector<float> codes = over.positions(16),
                           first = nets::aurora::PatchGrid{58, 0, 0.5, 1, 1, 2}.positions(16);
  for (size_t i = 0; i < 16; ++i) EXPECT_EQ(codes[10 * 16 + i], first[i]);
  EXPECT_EQ(refused({"net.west=355"}), "");
  EXPECT_NE(refused({"net.spacing=13", "net.north=90", "net.img_width=30"}).find("goes round the earth"),
            std::string::npos);
}

TEST(Aurora, ItsHistoryIsAKeyOfTheNet) {
  EXPECT_NE(refused({"data.history=2"}).find("this net has net.history: set that"), std::string::npos);
}

}  // namespace
}  // namespace isobar::plan
