#include "model/nets/aurora/rows.h"

#include <algorithm>
#include <stdexcept>

namespace isobar::aurora {

View RowOrder::constant(View& made, const char* what, int64_t count, const Make& make) {
  if (!made) made = indices(b_, name_ + "." + what, count, make);
  return made;
}

void RowOrder::gather(const std::string& path, const View& x, const View& y, int64_t width,
                      const View& table2, const View& index2) {
  View others = table2, which = index2;
  if (cut_) {
    if (table2) throw std::logic_error(path + " has a second table, and its rows are cut");
    others = of_others(path, x, width, false);
    if (others)
      which = constant(made_from_others_, "from_others", inside, [cut = cut_] { return cut->from_others; });
  }
  b_.emit(OpKind::gather, path, {.m = inside, .n = width, .batch = 1},
          {View{}, x, constant(made_from_, "from", inside, from_), others, which}, {y});
}

void RowOrder::back(const std::string& path, const View& base, const View& y, const View& x, int64_t width,
                    const View& table2, const View& index2) {
  View others = table2, which = index2;
  if (cut_) {
    if (table2) throw std::logic_error(path + " has a second table, and its rows are cut");
    others = of_others(path, y, width, true);
    if (others)
      which = constant(made_to_others_, "to_others", outside, [cut = cut_] { return cut->to_others; });
  }
  b_.emit(OpKind::gather, path, {.m = outside, .n = width, .batch = 1},
          {base, y, constant(made_to_, "to", outside, to_), others, which}, {x});
}

// Rows of other ranks' x, one after another; absent where none come
View RowOrder::of_others(const std::string& path, const View& x, int64_t width, bool returns) {
  std::vector<int32_t> RowExchange::*const list = returns ? &RowExchange::returned : &RowExchange::sent;
  const std::vector<int64_t>&send = returns ? cut_->receive : cut_->send,
        &receive = returns ? cut_->send : cut_->receive;
  const DType type = b_.plan.buffers[x.buffer].dtype;
  Attrs a{.group = group_};
  int64_t arrive = 0;
  for (const int64_t rows : send) a.send.push_back(rows * width);
  for (const int64_t rows : receive) a.receive.push_back(rows * width), arrive += rows;
  const auto leave = static_cast<int64_t>(((*cut_).*list).size());
  const View leaving = b_.scratch(path + ".leaving", type, std::max<int64_t>(1, leave * width));
  const View arriving = b_.scratch(path + ".arriving", type, std::max<int64_t>(1, arrive * width));
  if (leave > 0)
    b_.emit(OpKind::gather, path + "/halo/pack", {.m = leave, .n = width, .batch = 1},
            {View{}, x,
             constant(returns ? made_returned_ : made_sent_, returns ? "returned" : "sent", leave,
                      [cut = cut_, list] { return (*cut).*list; }),
             View{}, View{}},
            {leaving});
  b_.emit(OpKind::all_to_all, path + "/halo", a, {leaving.slice(0, leave * width)},
          {arriving.slice(0, arrive * width)}, Lane::cp);
  return arrive > 0 ? arriving : View{};
}

}  // namespace isobar::aurora
