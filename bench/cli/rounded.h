// Numbers with the digits that their interval supports, by the rule of the Particle Data Group (Review of
// Particle Physics, 5.3): two digits of the half-width where they are 10 to 35, else one.
//
//   rounded({15.357, 11.626, 20.284})    // "15"
//   with_interval({15.357, 11.626, 20.284})   // "15 (12 to 20)"
#pragma once
#include <string>

#include "model/base/interval.h"

namespace isobar {

/// The last significant decimal place: -2 is hundredths.
int last_place(const Interval& k);
std::string rounded(double value, int place);
std::string rounded(const Interval& k);
std::string with_interval(const Interval& k);
/// A part of a whole, rounded by the whole's relative uncertainty.
std::string rounded_part(double part, const Interval& whole);

}  // namespace isobar
