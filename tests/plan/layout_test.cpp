// Ranks and groups against tables of Megatron's `order` rule, and against the rule itself.
#include "model/plan/layout.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "model/base/error.h"

namespace isobar::plan {
namespace {

using Groups = std::vector<std::vector<int>>;

LayoutSpec layout(int64_t dp, int64_t tp, int64_t cp, int64_t pp, const std::string& order) {
  LayoutSpec l;
  l.dp = dp;
  l.tp = tp;
  l.cp = cp;
  l.pp = pp;
  l.order = order;
  return l;
}

Groups blocks(int n, int size) {  // 0-3, 4-7, …
  Groups out;
  for (int i = 0; i < n; ++i)
    if (i % size == 0)
      out.push_back({i});
    else
      out.back().push_back(i);
  return out;
}

Groups strided(int n, int stride) {  // {0, stride, …} … {stride-1, …}
  Groups out(stride);
  for (int i = 0; i < n; ++i) out[i % stride].push_back(i);
  return out;
}

TEST(Layout, GroupsAreThoseOfTheKnownLayouts) {
  const Groups pairs = {{0, 1}, {2, 3}, {4, 5}, {6, 7}}, twos = {{0, 2}, {1, 3}, {4, 6}, {5, 7}},
               fours = {{0, 4}, {1, 5}, {2, 6}, {3, 7}};
  const LayoutSpec a = layout(2, 4, 1, 1, "tp-cp-dp");
  EXPECT_EQ(layout_groups(a, "tp"), blocks(8, 4));
  EXPECT_EQ(layout_groups(a, "cp"), blocks(8, 1));
  EXPECT_EQ(layout_groups(a, "dp"), fours);
  EXPECT_EQ(layout_groups(a, "tp-cp"), blocks(8, 4));

  const LayoutSpec b = layout(2, 2, 2, 1, "tp-cp-dp");
  EXPECT_EQ(layout_groups(b, "tp"), pairs);
  EXPECT_EQ(layout_groups(b, "cp"), twos);
  EXPECT_EQ(layout_groups(b, "dp"), fours);
  EXPECT_EQ(layout_groups(b, "tp-cp"), blocks(8, 4));

  const LayoutSpec c = layout(2, 2, 2, 1, "cp-tp-dp");
  EXPECT_EQ(layout_groups(c, "tp"), twos);
  EXPECT_EQ(layout_groups(c, "cp"), pairs);
  EXPECT_EQ(layout_groups(c, "dp"), fours);
  EXPECT_EQ(layout_groups(c, "tp-cp"), blocks(8, 4));

  const LayoutSpec d = layout(2, 2, 2, 1, "dp-tp-cp");
  EXPECT_EQ(layout_groups(d, "tp"), twos);
  EXPECT_EQ(layout_groups(d, "cp"), fours);
  EXPECT_EQ(layout_groups(d, "dp"), pairs);
  EXPECT_EQ(layout_groups(d, "tp-cp"), (Groups{{0, 2, 4, 6}, {1, 3, 5, 7}}));

  const LayoutSpec e = layout(4, 1, 4, 1, "cp-tp-dp");
  EXPECT_EQ(layout_groups(e, "tp"), blocks(16, 1));
  EXPECT_EQ(layout_groups(e, "cp"), blocks(16, 4));
  EXPECT_EQ(layout_groups(e, "dp"), strided(16, 4));
  EXPECT_EQ(layout_groups(e, "tp-cp"), blocks(16, 4));

  const LayoutSpec f = layout(2, 2, 1, 2, "tp-pp-dp");
  EXPECT_EQ(layout_groups(f, "tp"), pairs);
  EXPECT_EQ(layout_groups(f, "cp"), blocks(8, 1));
  EXPECT_EQ(layout_groups(f, "dp"), fours);
  EXPECT_EQ(layout_groups(f, "pp"), twos);
  EXPECT_EQ(layout_groups(f, "tp-cp"), pairs);

  const LayoutSpec g = layout(8, 4, 1, 1, "tp-cp-pp-dp");
  EXPECT_EQ(layout_groups(g, "tp"), blocks(32, 4));
  EXPECT_EQ(layout_groups(g, "dp"), strided(32, 4));
  EXPECT_EQ(layout_groups(g, "tp-cp"), blocks(32, 4));
}

TEST(Layout, CoordinatesAreMixedRadixDigitsAndGroupsPartitionTheRanks) {
  for (const char* order : {"tp-cp-dp-pp", "pp-dp-cp-tp", "dp-pp-tp-cp", "cp-tp-pp-dp"}) {
    SCOPED_TRACE(order);
    const LayoutSpec l = layout(3, 2, 4, 5, order);
    const std::map<std::string, int64_t> size = {{"dp", 3}, {"tp", 2}, {"cp", 4}, {"pp", 5}};
    std::set<std::vector<int>> seen;
    for (int rank = 0; rank < l.world(); ++rank) {
      const Coords c = coords_of(l, rank);
      std::map<std::string, int> at = {{"dp", c.dp}, {"tp", c.tp}, {"cp", c.cp}, {"pp", c.pp}};
      seen.insert({c.dp, c.tp, c.cp, c.pp});
      int64_t back = 0, stride = 1;
      for (const std::string& axis : order_tokens(l)) {
        EXPECT_LT(at[axis], size.at(axis));
        back += at[axis] * stride;
        stride *= size.at(axis);
      }
      EXPECT_EQ(back, rank);
    }
    EXPECT_EQ(static_cast<int64_t>(seen.size()), l.world());
    for (const char* axes : {"dp", "tp", "cp", "pp", "tp-cp", "dp-cp", "dp-tp-cp-pp"}) {
      std::multiset<int> members;
      for (const auto& group : layout_groups(l, axes)) {
        for (const int rank : group) {
          members.insert(rank);
          EXPECT_EQ(group_of(l, axes, rank), group);
        }
        EXPECT_TRUE(std::is_sorted(group.begin(), group.end()));
      }
      EXPECT_EQ(members.size(), static_cast<size_t>(l.world())) << axes;
      EXPECT_EQ(std::set<int>(members.begin(), members.end()).size(), members.size()) << axes;
    }
  }
}

TEST(Layout, AnOrderThatCannotBeIsRefused) {
  EXPECT_THROW(order_tokens(layout(2, 2, 1, 1, "tp-cp")), ConfigError);     // leaves out dp
  EXPECT_THROW(order_tokens(layout(2, 2, 1, 1, "tp-tp-dp")), ConfigError);  // twice
  EXPECT_THROW(order_tokens(layout(2, 2, 1, 1, "tp-xp-dp")), ConfigError);
  EXPECT_EQ(order_tokens(layout(2, 1, 1, 1, "dp")), (std::vector<std::string>{"dp", "tp", "cp", "pp"}));
}

}  // namespace
}  // namespace isobar::plan
