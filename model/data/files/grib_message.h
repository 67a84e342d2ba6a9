// Splits GRIB 2 messages of several fields, which repeat sections 2 to 7, 3 to 7 or 4 to 7, into messages of
// one field, because ecCodes reads only the first.
//
//   for (int64_t k = 0; k < grib_fields_of(message); ++k) … grib_field(message, k) …
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace isobar::data {

/// The number of fields; 1 when the message is not GRIB 2. Throws ArrayError when its sections are not
/// contiguous to the end.
int64_t grib_fields_of(const std::vector<std::byte>& message);

/// A message with only that field.
std::vector<std::byte> grib_field(const std::vector<std::byte>& message, int64_t field);

}  // namespace isobar::data
