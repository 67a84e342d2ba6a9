// printf into a string.
//
//   text += printed("%zu runs, %.1f %%\n", runs, 100 * share);
#pragma once
#include <string>

namespace isobar {

__attribute__((format(printf, 1, 2))) std::string printed(const char* format, ...);

}  // namespace isobar
