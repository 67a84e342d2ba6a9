// A GRIB 2 message may hold several fields: its sections 2 to 7, 3 to 7 or 4 to 7 are there again. ecCodes
// reads the first of them; each is made a message of its own here.
//
//   for (int64_t k = 0; k < grib_fields_of(message); ++k) … grib_field(message, k) …
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace isobar {

/// 1 for what is not of GRIB 2. Throws ArrayError where sections do not follow each other to the end.
int64_t grib_fields_of(const std::vector<std::byte>& message);

/// The message with that field alone.
std::vector<std::byte> grib_field(const std::vector<std::byte>& message, int64_t field);

}  // namespace isobar
