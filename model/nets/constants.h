// Constants of a plan (Plan::constants) from lists: indices, and numbers in the type that products read.
//
//   View order = indices(b, "order", rows, [=] { return order_of(net); });   // made when a device is filled
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "model/plan/builder.h"

namespace isobar {

/// A list of another count than was planned is a std::logic_error.
View indices(Builder& b, const std::string& name, int64_t count, std::function<std::vector<int32_t>()> make);
View numbers(Builder& b, const std::string& name, DType t, int64_t count,
             std::function<std::vector<float>()> make);

/// `from`, rounded to t, to `to`
void fill_as(DType t, const std::vector<float>& from, void* to);

}  // namespace isobar
