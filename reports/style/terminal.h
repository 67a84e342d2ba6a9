// Terminal output of commands that show progress: durations in words, truncated lines, curves.
//
//   for (const std::string& l : curve({{.points = losses}}, 72, 10))
//   std::puts(l.c_str());
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace isobar::report {

/// "42 s", "7 min", "3 h 05 min".
std::string duration_words(double s);
/// Width of UTF-8 text in columns.
size_t columns_of(const std::string& text);
/// The line, truncated with an ellipsis if it does not fit.
std::string fitted(const std::string& line, size_t width);

struct CurveLine {
  std::vector<std::pair<double, double>> points;  // x, y; x ascending
  bool marks = false;                             // draw an x at each point, not dots
};
/// Curves overlaid in Braille dots, 2 x 4 to a character; y is logarithmic if it spans more than a factor of
/// 20. Values that are not finite are skipped; empty if none is left.
std::vector<std::string> curve(const std::vector<CurveLine>& lines, size_t width, size_t height);

}  // namespace isobar::report
