// Aurora's sizes, and its windows against the published method: a padded, rolled grid under a mask.
#include "model/nets/aurora/bands.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "model/nets/aurora/fourier.h"
#include "model/nets/aurora/windows.h"
#include "model/nets/build.h"
#include "model/nets/legal_layout.h"
#include "model/nets/parts.h"
#include "model/plan/work.h"
#include "tests/paths.h"

namespace isobar {
namespace {

RunSpec shipped(const std::string& name, std::vector<std::string> set = {}) {
  return load_run_spec(source_dir() + "/configs/models/" + name + ".yaml", set);
}

// Counts of microsoft-aurora 2.0.1 without adapters
TEST(Aurora, HasThePublishedCounts) {
  EXPECT_EQ(build_plan(shipped("aurora"), 0, {}).parameter_count(), 1256300176);
  EXPECT_EQ(build_plan(shipped("aurora-0.1deg"), 0, {}).parameter_count(), 1199333764);
  const Plan small = build_plan(shipped("aurora-small"), 0, {});
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

// ---- windows ----

using aurora::Sizes3;
using Row = std::array<int64_t, 3>;

// For each grid row, the rows that it attends to; -1 stands for all zeros of its window. As in the published
// code: roll, pad on both sides, cut into windows and, if shifted, mask three regions an axis (the last two
// of the longitudes are one).
std::map<int64_t, std::multiset<int64_t>> published(const Sizes3& grid, Sizes3 window, bool shifted) {
  Sizes3 shift{}, pad{}, padded{};
  for (int i = 0; i < 3; ++i) {
    shift[i] = shifted ? window[i] / 2 : 0;
    if (grid[i] <= window[i]) shift[i] = 0, window[i] = grid[i];
    pad[i] = (window[i] - grid[i] % window[i]) % window[i];
    padded[i] = grid[i] + pad[i];
  }
  const bool masks = shift[0] || shift[1] || shift[2];
  const auto region = [&](int axis, int64_t rolled) -> int64_t {
    if (shift[axis] == 0) return 0;
    if (rolled < grid[axis] - window[axis]) return 0;
    return rolled < grid[axis] - shift[axis] || axis == 2 ? 1 : 2;
  };
  std::map<std::array<int64_t, 7>, std::multiset<int64_t>> groups;  // by window and region
  std::map<int64_t, std::array<int64_t, 7>> group_of;
  for (int64_t c = 0; c < padded[0]; ++c)
    for (int64_t h = 0; h < padded[1]; ++h)
      for (int64_t w = 0; w < padded[2]; ++w) {
        const Row at{c, h, w};
        std::array<int64_t, 7> group{};
        Row from{};
        bool padding = false;
        for (int i = 0; i < 3; ++i) {
          const int64_t rolled = at[i] - pad[i] / 2;
          padding = padding || rolled < 0 || rolled >= grid[i];
          group[i] = at[i] / window[i];
          group[3 + i] = masks ? region(i, rolled) : 0;
          from[i] = (rolled + shift[i] + grid[i]) % grid[i];
        }
        if (masks && padding) continue;  // a separate group, unused
        const int64_t row = padding ? -1 : (from[0] * grid[1] + from[1]) * grid[2] + from[2];
        if (padding) group[3] = group[4] = group[5] = 0;
        groups[group].insert(row);
        if (!padding) group_of[row] = group;
      }
  std::map<int64_t, std::multiset<int64_t>> out;
  for (const auto& [row, group] : group_of) out[row] = groups[group];
  return out;
}

void expect_windows(const Sizes3& grid, const Sizes3& window, bool shifted, int64_t batch) {
  SCOPED_TRACE(testing::Message() << grid[0] << "x" << grid[1] << "x" << grid[2] << " in " << window[0] << "x"
                                  << window[1] << "x" << window[2] << (shifted ? " shifted" : ""));
  const aurora::WindowOrder order(grid, window, shifted, batch);
  const int64_t rows = grid[0] * grid[1] * grid[2];
  const std::vector<int32_t> from = order.from(), to = order.to();
  ASSERT_EQ(static_cast<int64_t>(from.size()), order.rows());
  ASSERT_EQ(static_cast<int64_t>(to.size()), batch * rows);
  const auto wanted = published(grid, window, shifted);
  int64_t place = 0, seen = 0;
  for (const aurora::WindowRun& run : order.runs())
    for (int64_t i = 0; i < run.segments; ++i, place += run.length) {
      std::multiset<int64_t> members;
      int64_t sample = -1;
      for (int64_t k = place; k < place + run.length; ++k) {
        if (from[k] < 0) {
          ASSERT_EQ(k, place + run.length - 1) << "one row stands for the padding, the last one";
          for (int64_t pad = 0; pad < run.last_counts; ++pad) members.insert(-1);
          continue;
        }
        members.insert(from[k] % rows);
        ASSERT_EQ(to[from[k]], k);
        ASSERT_TRUE(sample < 0 || sample == from[k] / rows) << "two samples in a segment";
        sample = from[k] / rows, ++seen;
      }
      for (const int64_t row : members)
        if (row >= 0) {
          ASSERT_EQ(members, wanted.at(row)) << "row " << row;
        }
    }
  EXPECT_EQ(seen, batch * rows);
}

TEST(Aurora, AttendsWithinThePublishedWindows) {
  for (const bool shifted : {false, true}) {
    expect_windows({4, 45, 90}, {2, 6, 12}, shifted, 1);  // the coarsest grid of 0.25 degrees
    expect_windows({4, 7, 9}, {2, 3, 4}, shifted, 2);
    expect_windows({4, 2, 3}, {2, 3, 4}, shifted, 3);  // smaller than a window
  }
  std::mt19937_64 random(std::random_device{}());
  const auto draw = [&](int64_t from, int64_t to) {
    return from + static_cast<int64_t>(random() % static_cast<uint64_t>(to - from + 1));
  };
  for (int i = 0; i < 60; ++i) {
    const Sizes3 window{draw(1, 3), draw(1, 6), draw(1, 6)};
    expect_windows({window[0] * draw(1, 3), draw(1, 20), draw(1, 20)}, window, draw(0, 1) == 1, draw(1, 3));
  }
}

TEST(Aurora, FillsUpAttentionWithSegmentsOfFewLengths) {
  const aurora::WindowOrder order({4, 180, 360}, {2, 6, 12}, true, 1);
  EXPECT_LE(order.runs().size(), 4u);
  EXPECT_EQ(order.rows(), 4 * 180 * 360);  // sizes divisible by windows: no padding
}

// ---- bands of latitudes ----

using aurora::Bands, aurora::RowExchange, aurora::WindowOrder;

TEST(Aurora, CutsBandsWhereTheCoarsestRowsEnd) {
  EXPECT_EQ(aurora::bands_at({180, 90, 45}, 2, 4).begins, (std::vector<int64_t>{0, 12, 23, 34, 45}));
  EXPECT_EQ(aurora::bands_at({180, 90, 45}, 0, 4).begins, (std::vector<int64_t>{0, 48, 92, 136, 180}));
  EXPECT_EQ(aurora::bands_at({5}, 0, 4).begins, (std::vector<int64_t>{0, 2, 3, 4, 5}));
  EXPECT_EQ(aurora::bands_at({7, 4, 2}, 0, 2).begins, (std::vector<int64_t>{0, 4, 7}));
}

// Moves row by row, as the ops and an all-to-all do: contents of each rank's windows, and rows returned to
// its band
void expect_exchange(const Sizes3& grid, const Sizes3& window, bool shifted, int64_t batch, int64_t ranks) {
  SCOPED_TRACE(testing::Message() << grid[0] << "x" << grid[1] << "x" << grid[2] << " in " << window[0] << "x"
                                  << window[1] << "x" << window[2] << (shifted ? " shifted" : "") << " over "
                                  << ranks);
  const Bands bands = aurora::bands_at({grid[1]}, 0, ranks);
  std::vector<std::vector<int32_t>> from;
  for (int64_t r = 0; r < ranks; ++r) {
    const WindowOrder order(grid, window, shifted, batch, bands, r);
    from.push_back(order.from());
    ASSERT_EQ(static_cast<int64_t>(from.back().size()), order.rows());
  }
  // All ranks' windows together are those of the whole grid.
  std::multiset<std::vector<int32_t>> cut, whole;
  const auto collect = [&](const WindowOrder& order, std::multiset<std::vector<int32_t>>& to) {
    const std::vector<int32_t> rows = order.from();
    auto at = rows.begin();
    for (const aurora::WindowRun& run : order.runs())
      for (int64_t i = 0; i < run.segments; ++i, at += run.length) {
        std::vector<int32_t> segment(at, at + run.length);
        if (segment != std::vector<int32_t>{-1}) to.insert(std::move(segment));
      }
  };
  std::vector<RowExchange> x;
  std::vector<std::vector<int32_t>> band;  // rows of the whole grid
  for (int64_t r = 0; r < ranks; ++r) {
    collect(WindowOrder(grid, window, shifted, batch, bands, r), cut);
    x.push_back(aurora::exchange_of(grid, batch, bands, from, r));
    band.emplace_back();
    for (int64_t level = 0; level < batch * grid[0]; ++level)
      for (int64_t h = bands.first(r); h < bands.first(r) + bands.rows(r); ++h)
        for (int64_t w = 0; w < grid[2]; ++w)
          band.back().push_back(static_cast<int32_t>((level * grid[1] + h) * grid[2] + w));
  }
  collect(WindowOrder(grid, window, shifted, batch), whole);
  ASSERT_EQ(cut, whole);
  // Rows arriving at each rank, by sender
  const auto moved = [&](const std::vector<std::vector<int32_t>>& held,
                         std::vector<int32_t> RowExchange::*list, std::vector<int64_t> RowExchange::*send,
                         std::vector<int64_t> RowExchange::*receive) {
    std::vector<std::vector<int32_t>> arrived(static_cast<size_t>(ranks));
    for (size_t to = 0; to < arrived.size(); ++to)
      for (size_t of = 0; of < arrived.size(); ++of) {
        const std::vector<int64_t>& counts = x[of].*send;
        size_t first = 0;
        for (size_t i = 0; i < to; ++i) first += static_cast<size_t>(counts[i]);
        EXPECT_EQ(counts[to], (x[to].*receive)[of]);
        for (size_t i = first; i < first + static_cast<size_t>(counts[to]); ++i)
          arrived[to].push_back(held[of].at(static_cast<size_t>((x[of].*list).at(i))));
      }
    return arrived;
  };
  const auto picked = [](const std::vector<int32_t>& own, const std::vector<int32_t>& others, int32_t i,
                         int32_t j) {
    EXPECT_TRUE(i < 0 || j < 0) << "from two places";
    return i >= 0 ? own.at(static_cast<size_t>(i)) : j >= 0 ? others.at(static_cast<size_t>(j)) : -1;
  };
  const auto there = moved(band, &RowExchange::sent, &RowExchange::send, &RowExchange::receive);
  const auto back = moved(from, &RowExchange::returned, &RowExchange::receive, &RowExchange::send);
  bool any = false;
  for (size_t r = 0; r < x.size(); ++r) {
    for (size_t i = 0; i < from[r].size(); ++i)
      ASSERT_EQ(picked(band[r], there[r], x[r].from_own[i], x[r].from_others[i]), from[r][i]);
    for (size_t i = 0; i < band[r].size(); ++i)
      ASSERT_EQ(picked(from[r], back[r], x[r].to_own[i], x[r].to_others[i]), band[r][i]);
    any = any || !x[r].sent.empty();
  }
  for (const RowExchange& of : x) EXPECT_EQ(of.any, any);
}

TEST(Aurora, ExchangesTheRowsOfWindowsThatTwoBandsShare) {
  expect_exchange({4, 45, 9}, {2, 6, 12}, false, 1, 4);
  expect_exchange({4, 45, 9}, {2, 6, 12}, true, 2, 4);
  expect_exchange({4, 4, 8}, {2, 6, 12}, false, 2, 4);  // one window: three ranks have none
  std::mt19937_64 random(std::random_device{}());
  const auto draw = [&](int64_t from, int64_t to) {
    return from + static_cast<int64_t>(random() % static_cast<uint64_t>(to - from + 1));
  };
  for (int i = 0; i < 60; ++i) {
    const Sizes3 window{draw(1, 3), draw(1, 6), draw(1, 6)};
    const int64_t rows = draw(1, 20);
    expect_exchange({window[0] * draw(1, 2), rows, draw(1, 12)}, window, draw(0, 1) == 1, draw(1, 3),
                    draw(1, std::min<int64_t>(rows, 6)));
  }
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
    const Sizes3 grid{n.latent_levels, rows[r], columns[r]};
    const Bands bands = aurora::bands_at(rows, r, 4);
    for (const bool shifted : {false, true}) {
      const auto latitude = [&](int64_t row) { return row / grid[2] % grid[1]; };
      int64_t moved = 0;
      for (const auto& [row, members] : published(grid, {n.window[0], n.window[1], n.window[2]}, shifted)) {
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
    const Plan p = build_plan(s, rank, {});
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
    const Plan p = build_plan(s, rank, {});
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
    check_layout(s);
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
  const AuroraSpec n = shipped("aurora-small", {"net.placement=halves"}).net.aurora();
  // embed | 2 blocks, merge, 6, merge, 2 | 2, split, 6, split, 2 | head
  EXPECT_EQ(cuts_of(n, 4), (std::vector<int32_t>{0, 1, 13, 25, 26}));
  AuroraSpec by_work = n;
  by_work.placement = StagePlacement::balanced;
  EXPECT_NE(cuts_of(by_work, 4), cuts_of(n, 4));
  EXPECT_EQ(cuts_of(by_work, 2), cuts_of(n, 2));
  EXPECT_EQ(refused({"net.placement=halves"}), "");
  EXPECT_EQ(refused({"net.placement=halves", "layout.pp=4"}), "");
  EXPECT_EQ(refused({"net.placement=halves", "layout.pp=2", "layout.vpp=2", "policy.schedule=interleaved",
                     "policy.micro_batch=1"}),
            "");
  EXPECT_NE(refused({"net.placement=halves", "layout.pp=2"}).find("net.placement"), std::string::npos);
  EXPECT_NE(refused({"net.placement=thirds"}).find("net.placement"), std::string::npos);
}

// ---- precision ----

TEST(Aurora, EndsStayInFp32BesideABackboneInBf16) {
  for (const char* zero : {"0", "3"}) {
    const RunSpec spec = shipped("aurora-tiny", {"policy.amp=bf16", "net.fp32_ends=true", "layout.dp=2",
                                                 std::string("policy.zero=") + zero});
    const Plan plan = build_plan(spec, 0, {});
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
  const aurora::PatchGrid over{58, 350, 0.5, 1, 12, 2};  // its tenth patch begins at 0
  const std::vector<float> codes = over.positions(16),
                           first = aurora::PatchGrid{58, 0, 0.5, 1, 1, 2}.positions(16);
  for (size_t i = 0; i < 16; ++i) EXPECT_EQ(codes[10 * 16 + i], first[i]);
  EXPECT_EQ(refused({"net.west=355"}), "");
  EXPECT_NE(refused({"net.spacing=13", "net.north=90", "net.img_width=30"}).find("goes round the earth"),
            std::string::npos);
}

TEST(Aurora, ItsHistoryIsAKeyOfTheNet) {
  EXPECT_NE(refused({"data.history=2"}).find("this net has net.history: set that"), std::string::npos);
}

}  // namespace
}  // namespace isobar
