// Orders of rows in a plan: constants that gathers read, made when somebody first asks and shared by all
// parts.
//
//   RowOrder windows(b, "windows0", rows_inside, rows_outside, [=] { return order.from(); }, …);
//   windows.gather(path, x, y, D);        // rows outside -> inside; -1 in `from` gives zeros
//   windows.back(path, base, y, x, D);    // rows inside -> outside, added to base where that is there
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "model/nets/constants.h"
#include "model/nets/layers.h"

namespace isobar::aurora {

class RowOrder {
 public:
  using Make = std::function<std::vector<int32_t>()>;
  /// `from`: [inside] rows outside; `to`: [outside] rows inside.
  RowOrder(Builder& b, std::string name, int64_t inside, int64_t outside, Make from, Make to)
      : inside(inside),
        outside(outside),
        b_(b),
        name_(std::move(name)),
        from_(std::move(from)),
        to_(std::move(to)) {}
  RowOrder(const RowOrder&) = delete;
  RowOrder& operator=(const RowOrder&) = delete;

  const int64_t inside, outside;  // rows of a micro-batch

  void gather(const std::string& path, const View& x, const View& y, int64_t width, const View& table2 = {},
              const View& index2 = {});
  void back(const std::string& path, const View& base, const View& y, const View& x, int64_t width,
            const View& table2 = {}, const View& index2 = {});

 private:
  View constant(View& made, const char* what, int64_t count, const Make& make);
  Builder& b_;
  const std::string name_;
  const Make from_, to_;
  View made_from_, made_to_;
};

}  // namespace isobar::aurora
