// Search paths of programs and libraries must not include the working directory.
#include "model/base/names/search_paths.h"
#include "bench/doctor/check.h"

namespace isobar::doctor {

Check examine_search_paths() {
  std::string names;
  for (const std::string& name : relative_search_paths()) names += (names.empty() ? "" : ", ") + name;
  if (names.empty()) return {"search paths", "absolute folders only"};
  return {"search paths", "the working directory is in " + names, Health::look,
          "take empty and relative parts out of it, as a colon at its end: programs and libraries that lie "
          "beside data would run; isobar starts others without these parts"};
}

}  // namespace isobar::doctor
