// Names of the tensors of a roll-out's steps; the first step's is the role alone.
//
//   step_tensor("target", 0)    // target
//   step_tensor("target", 2)    // target+2
#pragma once
#include <cstdint>
#include <string>

namespace isobar {

inline std::string step_tensor(const std::string& role, int64_t which) {
  return which == 0 ? role : role + "+" + std::to_string(which);
}

}  // namespace isobar
