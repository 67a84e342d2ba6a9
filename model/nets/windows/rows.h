// Orders of rows in a plan: constants that gathers read, created on first use and shared by all parts. If
// bands of latitude are on several ranks, rows of other bands are exchanged first.
//
//   RowOrder windows(b, "windows0", rows_inside, rows_outside, [=] { return order.from(); }, …);
//   windows.gather(path, x, y, D);        // rows outside -> inside; -1 in `from` gives zeros
//   windows.back(path, base, y, x, D);    // rows inside -> outside, added to base if given
//
//   const View others = windows.fetch(path, x, D);   // in two steps: the exchange, which runs under
//   windows.take(path, x, {}, y, D, 0, own);         // … work on the rows inside that need none of it
//   windows.take(path, x, others, y, D, own, rest);
//   const View back = windows.give(path, y, D);      // once the shared rows are complete; then the rest
//   windows.back(path, base, y, x, D, back);
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "model/nets/constants.h"
#include "model/nets/layers.h"
#include "model/nets/windows/bands.h"

namespace isobar::nets {

class RowOrder {
 public:
  using Make = std::function<std::vector<int32_t>()>;
  /// `from`: [inside] rows outside; `to`: [outside] rows inside.
  RowOrder(plan::Builder& b, std::string name, int64_t inside, int64_t outside, Make from, Make to)
      : inside(inside),
        outside(outside),
        own(inside),
        b_(b),
        name_(std::move(name)),
        from_(std::move(from)),
        to_(std::move(to)) {}
  /// Cut over the ranks of `group`; takes no second table. The first own rows inside need no exchange.
  RowOrder(plan::Builder& b, std::string name, const std::shared_ptr<const RowExchange>& cut, int group)
      : inside(cut->inside),
        outside(cut->outside),
        own(cut->any ? cut->own : inside),
        b_(b),
        name_(std::move(name)),
        from_([cut] { return cut->tables().from_own; }),
        to_([cut] { return cut->tables().to_own; }),
        cut_(cut->any ? cut : nullptr),
        group_(group) {}
  RowOrder(const RowOrder&) = delete;
  RowOrder& operator=(const RowOrder&) = delete;

  const int64_t inside, outside;  // rows of a micro-batch
  const int64_t own;              // first rows inside, which need no exchange

  void gather(const std::string& path, const plan::View& x, const plan::View& y, int64_t width,
              const plan::View& table2 = {}, const plan::View& index2 = {});
  void back(const std::string& path, const plan::View& base, const plan::View& y, const plan::View& x,
            int64_t width);
  plan::View fetch(const std::string& path, const plan::View& x, int64_t width);
  plan::View give(const std::string& path, const plan::View& y, int64_t width);
  void take(const std::string& path, const plan::View& x, const plan::View& others, const plan::View& y,
            int64_t width, int64_t first, int64_t rows);
  void back(const std::string& path, const plan::View& base, const plan::View& y, const plan::View& x,
            int64_t width, const plan::View& others);

 private:
  plan::View of_others(const std::string& path, const plan::View& x, int64_t width, bool returns);
  plan::View from_others();
  plan::View constant(plan::View& made, const char* what, int64_t count, const Make& make);
  plan::Builder& b_;
  const std::string name_;
  const Make from_, to_;
  const std::shared_ptr<const RowExchange> cut_;  // absent: no row comes from another rank
  const int group_ = -1;
  plan::View made_from_, made_to_, made_from_others_, made_to_others_, made_sent_, made_returned_;
};

}  // namespace isobar::nets
