#include "model/nets/graph/edge_set.h"

#include <algorithm>
#include <stdexcept>

#include "model/nets/graph/edge_cut.h"

namespace isobar::nets {

void EdgeSet::list_by_sender(int64_t nodes) {
  sender_offsets.assign(static_cast<size_t>(nodes) + 1, 0);
  for (const int32_t s : senders) ++sender_offsets[static_cast<size_t>(s) + 1];
  for (size_t s = 1; s < sender_offsets.size(); ++s) sender_offsets[s] += sender_offsets[s - 1];
  std::vector<int32_t> next = sender_offsets;
  by_sender.resize(senders.size());
  for (size_t i = 0; i < senders.size(); ++i)
    by_sender[static_cast<size_t>(next[static_cast<size_t>(senders[i])]++)] = static_cast<int32_t>(i);
}

plan::View EdgeConstants::indices(int which, const char* what, int64_t count,
                                  std::vector<int32_t> EdgeSet::*list) {
  plan::View& made = made_[which];
  if (!made)
    made = b_.constant(name_ + "." + what, DType::i32, count, [of = of_, list, count](void* to) {
      const std::vector<int32_t>& from = of().*list;
      if (static_cast<int64_t>(from.size()) != count) throw std::logic_error("a graph of another size");
      std::copy(from.begin(), from.end(), static_cast<int32_t*>(to));
    });
  return made;
}

plan::View EdgeConstants::exchanged(int which, const char* what, std::vector<int32_t> EdgeCut::*list) {
  plan::View& made = made_[which];
  if (!made)
    made = b_.constant(name_ + "." + what, DType::i32, static_cast<int64_t>(((*cut_).*list).size()),
                       [cut = cut_, list](void* to) {
                         std::copy(((*cut).*list).begin(), ((*cut).*list).end(), static_cast<int32_t*>(to));
                       });
  return made;
}

plan::View EdgeConstants::sent() {
  return exchanged(5, "sent", &EdgeCut::sent);
}
plan::View EdgeConstants::returned_offsets() {
  return exchanged(6, "returned_offsets", &EdgeCut::returned_offsets);
}
plan::View EdgeConstants::returned_rows() {
  return exchanged(7, "returned_rows", &EdgeCut::returned_rows);
}

int64_t EdgeConstants::table() const {
  return cut_ ? cut_->table() : senders;
}

plan::View EdgeConstants::features(DType t) {
  if (!features_)
    features_ = b_.constant(name_ + ".features", t, edges * width,
                            [of = of_, t](void* to) { fill_as(t, of().features, to); });
  return features_;
}

}  // namespace isobar::nets
