// Numbers with the digits that their interval supports, by the rule of the Particle Data Group (Review of
// Particle Physics, 5.3): two digits of the half-width where they are 10 to 35, else one.
//
//   rounded({15.357, 11.626, 20.284})    // "15"
//   with_interval({15.357, 11.626, 20.284})   // "15 (12 to 20)"
#pragma once
#include <string>

namespace isobar {

struct Known {
  double value = 0, lower = 0, upper = 0;
  Known scaled(double by) const { return {value * by, lower * by, upper * by}; }
  /// The reciprocal: the ends change places.
  Known inverse(double of = 1) const { return {of / value, of / upper, of / lower}; }
};

/// The last significant decimal place: -2 is hundredths.
int last_place(const Known& k);
std::string rounded(double value, int place);
std::string rounded(const Known& k);
std::string with_interval(const Known& k);
/// A part of a whole, rounded by the whole's relative uncertainty.
std::string rounded_part(double part, const Known& whole);

}  // namespace isobar
