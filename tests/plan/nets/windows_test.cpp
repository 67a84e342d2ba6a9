// Windows against the published method, and their cut over ranks.
#include "tests/plan/nets/windows.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <string>

#include "model/nets/windows/bands.h"
#include "model/nets/windows/relative_bias.h"

namespace isobar::plan {
namespace {

std::string text_of(const nets::WindowGrid& of) {
  const auto sizes = [](const nets::Sizes3& s) {
    return std::to_string(s[0]) + "x" + std::to_string(s[1]) + "x" + std::to_string(s[2]);
  };
  return sizes(of.grid) + " in " + sizes(of.window) + (of.shifted ? " shifted" : "") +
         (of.circle ? "" : ", no circle") + (of.as_aurora ? ", Aurora's" : "");
}

void expect_windows(const nets::WindowGrid& of, int64_t batch) {
  SCOPED_TRACE(text_of(of));
  const nets::WindowOrder order(of, batch);
  const int64_t rows = of.rows();
  const std::vector<int32_t> from = order.from(), to = order.to();
  ASSERT_EQ(static_cast<int64_t>(from.size()), order.rows());
  ASSERT_EQ(static_cast<int64_t>(to.size()), batch * rows);
  const auto wanted = published(of);
  int64_t place = 0, seen = 0;
  for (const nets::WindowRun& run : order.runs())
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

// Aurora's, and plain ones of a globe and of a region, by length or by sides
nets::WindowGrid drawn(std::mt19937_64& random, nets::WindowGrid of) {
  of.circle = random() % 2 == 0;
  of.as_aurora = of.circle && random() % 2 == 0;
  of.by_sides = !of.as_aurora && random() % 2 == 0;
  return of;
}

TEST(Windows, AttendAsPublished) {
  for (const bool aurora : {false, true})
    for (const bool shifted : {false, true}) {
      const auto expect = [&](const nets::Sizes3& grid, const nets::Sizes3& window, int64_t batch) {
        expect_windows({.grid = grid, .window = window, .shifted = shifted, .as_aurora = aurora}, batch);
      };
      expect({4, 45, 90}, {2, 6, 12}, 1);  // the coarsest grid of 0.25 degrees
      expect({4, 7, 9}, {2, 3, 4}, 2);
      expect({4, 2, 3}, {2, 3, 4}, 3);  // smaller than a window
    }
  std::mt19937_64 random(std::random_device{}());
  const auto draw = [&](int64_t from, int64_t to) {
    return from + static_cast<int64_t>(random() % static_cast<uint64_t>(to - from + 1));
  };
  for (int i = 0; i < 120; ++i) {
    const nets::Sizes3 window{draw(1, 3), draw(1, 6), draw(1, 6)};
    expect_windows(drawn(random, {.grid = {window[0] * draw(1, 3), draw(1, 20), draw(1, 20)},
                                  .window = window,
                                  .shifted = draw(0, 1) == 1}),
                   draw(1, 3));
  }
}

TEST(Windows, FillUpAttentionWithSegmentsOfFewLengths) {
  const nets::WindowOrder order({.grid = {4, 180, 360}, .window = {2, 6, 12}, .shifted = true}, 1);
  EXPECT_LE(order.runs().size(), 4u);
  EXPECT_EQ(order.rows(), 4 * 180 * 360);  // sizes divisible by windows: no padding
}

// Row i of a segment is row i, in row-major order, of a box whose sides its run gives.
TEST(Windows, BySidesHaveRowsInTheOrderOfABox) {
  for (const bool circle : {true, false}) {
    const nets::WindowGrid of{
        .grid = {1, 7, 9}, .window = {1, 3, 4}, .shifted = true, .circle = circle, .by_sides = true};
    const nets::WindowOrder order(of, 2);
    const std::vector<int32_t> from = order.from();
    size_t at = 0;
    std::set<nets::Sizes3> seen;
    for (const nets::WindowRun& run : order.runs()) {
      ASSERT_EQ(run.sides[0] * run.sides[1] * run.sides[2], run.length);
      EXPECT_TRUE(seen.insert(run.sides).second);
      for (int64_t s = 0; s < run.segments; ++s)
        for (int64_t r = 0; r < run.sides[1]; ++r)
          for (int64_t c = 0; c < run.sides[2]; ++c, ++at) {
            const int64_t first = from[at - static_cast<size_t>(r * run.sides[2] + c)];
            EXPECT_EQ(from[at] / 9, first / 9 + r);
            EXPECT_EQ(from[at] % 9, (first % 9 + c) % 9);
          }
    }
  }
}

TEST(Windows, NumberTheDistancesOfTheirPairs) {
  EXPECT_EQ(nets::distances({1, 3, 4}), 35);
  // From key to query: the same place is in the middle of the table.
  const std::vector<int32_t> of = nets::distances_of({1, 3, 4}, {1, 2, 2});
  EXPECT_EQ(of, (std::vector<int32_t>{17, 18, 24, 25, 16, 17, 23, 24, 10, 11, 17, 18, 9, 10, 16, 17}));
}

// ---- bands of latitudes ----

TEST(Bands, EndWhereTheCoarsestRowsEnd) {
  EXPECT_EQ(nets::bands_at({180, 90, 45}, 2, 4).begins, (std::vector<int64_t>{0, 12, 23, 34, 45}));
  EXPECT_EQ(nets::bands_at({180, 90, 45}, 0, 4).begins, (std::vector<int64_t>{0, 48, 92, 136, 180}));
  EXPECT_EQ(nets::bands_at({5}, 0, 4).begins, (std::vector<int64_t>{0, 2, 3, 4, 5}));
  EXPECT_EQ(nets::bands_at({7, 4, 2}, 0, 2).begins, (std::vector<int64_t>{0, 4, 7}));
}

// Moves row by row, as the ops and an all-to-all do: contents of each rank's windows, and rows returned to
// its band
void expect_exchange(const nets::WindowGrid& of, int64_t batch, int64_t ranks) {
  SCOPED_TRACE(text_of(of) + " over " + std::to_string(ranks));
  const nets::Sizes3& grid = of.grid;
  const nets::Bands bands = nets::bands_at({grid[1]}, 0, ranks);
  std::vector<std::vector<int32_t>> from;
  for (int64_t r = 0; r < ranks; ++r) {
    const nets::WindowOrder order(of, batch, bands, r);
    from.push_back(order.from());
    ASSERT_EQ(static_cast<int64_t>(from.back().size()), order.rows());
  }
  // All ranks' windows together are those of the whole grid.
  std::multiset<std::vector<int32_t>> cut, whole;
  const auto collect = [&](const nets::WindowOrder& order, std::multiset<std::vector<int32_t>>& to) {
    const std::vector<int32_t> rows = order.from();
    auto at = rows.begin();
    for (const nets::WindowRun& run : order.runs())
      for (int64_t i = 0; i < run.segments; ++i, at += run.length) {
        std::vector<int32_t> segment(at, at + run.length);
        if (segment != std::vector<int32_t>{-1}) to.insert(std::move(segment));
      }
  };
  std::deque<nets::RowExchange> x;
  std::vector<std::vector<int32_t>> band;  // rows of the whole grid
  for (int64_t r = 0; r < ranks; ++r) {
    collect(nets::WindowOrder(of, batch, bands, r), cut);
    x.emplace_back(of, batch, bands, r);
    ASSERT_EQ(x.back().inside, static_cast<int64_t>(from[static_cast<size_t>(r)].size()));
    band.emplace_back();
    for (int64_t level = 0; level < batch * grid[0]; ++level)
      for (int64_t h = bands.first(r); h < bands.first(r) + bands.rows(r); ++h)
        for (int64_t w = 0; w < grid[2]; ++w)
          band.back().push_back(static_cast<int32_t>((level * grid[1] + h) * grid[2] + w));
  }
  collect(nets::WindowOrder(of, batch), whole);
  ASSERT_EQ(cut, whole);
  // Rows arriving at each rank, by sender
  const auto moved = [&](const std::vector<std::vector<int32_t>>& held,
                         std::vector<int32_t> nets::RowExchange::Tables::*list,
                         std::vector<int64_t> nets::RowExchange::*send,
                         std::vector<int64_t> nets::RowExchange::*receive) {
    std::vector<std::vector<int32_t>> arrived(static_cast<size_t>(ranks));
    for (size_t to = 0; to < arrived.size(); ++to)
      for (size_t of = 0; of < arrived.size(); ++of) {
        const std::vector<int64_t>& counts = x[of].*send;
        size_t first = 0;
        for (size_t i = 0; i < to; ++i) first += static_cast<size_t>(counts[i]);
        EXPECT_EQ(counts[to], (x[to].*receive)[of]);
        for (size_t i = first; i < first + static_cast<size_t>(counts[to]); ++i)
          arrived[to].push_back(held[of].at(static_cast<size_t>((x[of].tables().*list).at(i))));
      }
    return arrived;
  };
  const auto picked = [](const std::vector<int32_t>& own, const std::vector<int32_t>& others, int32_t i,
                         int32_t j) {
    EXPECT_TRUE(i < 0 || j < 0) << "from two places";
    return i >= 0 ? own.at(static_cast<size_t>(i)) : j >= 0 ? others.at(static_cast<size_t>(j)) : -1;
  };
  const auto there =
      moved(band, &nets::RowExchange::Tables::sent, &nets::RowExchange::send, &nets::RowExchange::receive);
  const auto back = moved(from, &nets::RowExchange::Tables::returned, &nets::RowExchange::receive,
                          &nets::RowExchange::send);
  bool any = false;
  for (size_t r = 0; r < x.size(); ++r) {
    for (size_t i = 0; i < from[r].size(); ++i)
      ASSERT_EQ(picked(band[r], there[r], x[r].tables().from_own[i], x[r].tables().from_others[i]),
                from[r][i]);
    for (size_t i = 0; i < band[r].size(); ++i)
      ASSERT_EQ(picked(from[r], back[r], x[r].tables().to_own[i], x[r].tables().to_others[i]), band[r][i]);
    any = any || !x[r].tables().sent.empty();
  }
  for (const nets::RowExchange& of : x) EXPECT_EQ(of.any, any);
}

TEST(Bands, ExchangeTheRowsOfWindowsThatTheyShare) {
  for (const bool aurora : {false, true}) {
    const auto expect = [&](const nets::Sizes3& grid, bool shifted, int64_t batch) {
      expect_exchange({.grid = grid, .window = {2, 6, 12}, .shifted = shifted, .as_aurora = aurora}, batch,
                      4);
    };
    expect({4, 45, 9}, false, 1);
    expect({4, 45, 9}, true, 2);
    expect({4, 4, 8}, false, 2);  // one window: three ranks have none
  }
  std::mt19937_64 random(std::random_device{}());
  const auto draw = [&](int64_t from, int64_t to) {
    return from + static_cast<int64_t>(random() % static_cast<uint64_t>(to - from + 1));
  };
  for (int i = 0; i < 60; ++i) {
    const nets::Sizes3 window{draw(1, 3), draw(1, 6), draw(1, 6)};
    const int64_t rows = draw(1, 20);
    expect_exchange(drawn(random, {.grid = {window[0] * draw(1, 2), rows, draw(1, 12)},
                                   .window = window,
                                   .shifted = draw(0, 1) == 1}),
                    draw(1, 3), draw(1, std::min<int64_t>(rows, 6)));
  }
}

}  // namespace
}  // namespace isobar::plan
