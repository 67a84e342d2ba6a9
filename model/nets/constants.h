// Constants of a plan (Plan::constants) from lists: indices, and numbers in the type that products read.
//
//   View order = indices(b, "order", rows, [=] { return order_of(net); });   // called to fill a device
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "model/plan/builder.h"

namespace isobar::nets {

/// Throws std::logic_error if the list's length is not `count`.
plan::View indices(plan::Builder& b, const std::string& name, int64_t count,
                   std::function<std::vector<int32_t>()> make);
plan::View numbers(plan::Builder& b, const std::string& name, DType t, int64_t count,
                   std::function<std::vector<float>()> make);

/// Writes `from`, rounded to t, to `to`
void fill_as(DType t, const std::vector<float>& from, void* to);

}  // namespace isobar::nets
