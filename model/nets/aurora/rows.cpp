#include "model/nets/aurora/rows.h"

namespace isobar::aurora {

View RowOrder::constant(View& made, const char* what, int64_t count, const Make& make) {
  if (!made) made = indices(b_, name_ + "." + what, count, make);
  return made;
}

void RowOrder::gather(const std::string& path, const View& x, const View& y, int64_t width,
                      const View& table2, const View& index2) {
  b_.emit(OpKind::gather, path, {.m = inside, .n = width, .batch = 1},
          {View{}, x, constant(made_from_, "from", inside, from_), table2, index2}, {y});
}

void RowOrder::back(const std::string& path, const View& base, const View& y, const View& x, int64_t width,
                    const View& table2, const View& index2) {
  b_.emit(OpKind::gather, path, {.m = outside, .n = width, .batch = 1},
          {base, y, constant(made_to_, "to", outside, to_), table2, index2}, {x});
}

}  // namespace isobar::aurora
