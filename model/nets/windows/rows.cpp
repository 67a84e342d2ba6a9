#include "model/nets/windows/rows.h"

#include <algorithm>
#include <stdexcept>

namespace isobar::nets {

plan::View RowOrder::constant(plan::View& made, const char* what, int64_t count, const Make& make) {
  if (!made) made = indices(b_, name_ + "." + what, count, make);
  return made;
}

plan::View RowOrder::from_others() {
  return constant(made_from_others_, "from_others", inside,
                  [cut = cut_] { return cut->tables().from_others; });
}

void RowOrder::gather(const std::string& path, const plan::View& x, const plan::View& y, int64_t width,
                      const plan::View& table2, const plan::View& index2) {
  if (cut_) {
    if (table2) throw std::logic_error(path + " has a second table, and its rows are cut");
    return take(path, x, fetch(path, x, width), y, width, 0, inside);
  }
  b_.emit<plan::OpKind::gather>(
      path, {.rows = inside, .cols = width, .batch = 1},
      {plan::View{}, x, constant(made_from_, "from", inside, from_), table2, index2}, {y});
}

void RowOrder::take(const std::string& path, const plan::View& x, const plan::View& others,
                    const plan::View& y, int64_t width, int64_t first, int64_t rows) {
  const auto part = [&](const plan::View& index) { return index.slice(first, rows); };
  b_.emit<plan::OpKind::gather>(path, {.rows = rows, .cols = width, .batch = 1},
                                {plan::View{}, x, part(constant(made_from_, "from", inside, from_)), others,
                                 others ? part(from_others()) : plan::View{}},
                                {y.slice(first * width, rows * width)});
}

void RowOrder::back(const std::string& path, const plan::View& base, const plan::View& y, const plan::View& x,
                    int64_t width) {
  back(path, base, y, x, width, give(path, y, width));
}

void RowOrder::back(const std::string& path, const plan::View& base, const plan::View& y, const plan::View& x,
                    int64_t width, const plan::View& others) {
  plan::View which;
  if (others)
    which = constant(made_to_others_, "to_others", outside, [cut = cut_] { return cut->tables().to_others; });
  b_.emit<plan::OpKind::gather>(path, {.rows = outside, .cols = width, .batch = 1},
                                {base, y, constant(made_to_, "to", outside, to_), others, which}, {x});
}

plan::View RowOrder::fetch(const std::string& path, const plan::View& x, int64_t width) {
  return cut_ ? of_others(path, x, width, false) : plan::View{};
}

// Reads shared rows only: the others may not be complete yet.
plan::View RowOrder::give(const std::string& path, const plan::View& y, int64_t width) {
  return cut_ ? of_others(path, y.slice(own * width, (inside - own) * width), width, true) : plan::View{};
}

// Rows of other ranks' x in sequence; absent if there are none
plan::View RowOrder::of_others(const std::string& path, const plan::View& x, int64_t width, bool returns) {
  const std::vector<int64_t>&send = returns ? cut_->receive : cut_->send,
        &receive = returns ? cut_->send : cut_->receive;
  const DType type = b_.plan.buffers[x.buffer].dtype;
  plan::TransferAttrs a{.group = group_};
  int64_t leave = 0, arrive = 0;
  for (const int64_t rows : send) a.send.push_back(rows * width), leave += rows;
  for (const int64_t rows : receive) a.receive.push_back(rows * width), arrive += rows;
  const plan::View leaving = b_.scratch(path + ".leaving", type, std::max<int64_t>(1, leave * width));
  const plan::View arriving = b_.scratch(path + ".arriving", type, std::max<int64_t>(1, arrive * width));
  const auto places = [cut = cut_, returns, first = returns ? own : 0] {
    std::vector<int32_t> out = returns ? cut->tables().returned : cut->tables().sent;
    for (int32_t& place : out) place -= static_cast<int32_t>(first);
    return out;
  };
  if (leave > 0)
    b_.emit<plan::OpKind::gather>(
        path + "/halo/pack", {.rows = leave, .cols = width, .batch = 1},
        {plan::View{}, x,
         constant(returns ? made_returned_ : made_sent_, returns ? "returned" : "sent", leave, places),
         plan::View{}, plan::View{}},
        {leaving});
  b_.emit<plan::OpKind::all_to_all>(path + "/halo", a, {leaving.slice(0, leave * width)},
                                    {arriving.slice(0, arrive * width)}, plan::Lane::cp);
  return arrive > 0 ? arriving : plan::View{};
}

}  // namespace isobar::nets
