// What commands that show things as they go need of a terminal: times in words, lines that fit, curves.
//
//   for (const std::string& l : curve({{.values = losses}}, {.width = 72, .height = 10}))
//   std::puts(l.c_str());
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace isobar {

/// "42 s", "7 min", "3 h 05 min".
std::string duration_words(double s);
/// Columns that a text of UTF-8 takes.
size_t columns_of(const std::string& text);
/// The line, or as much of it as fits, with dots at its end.
std::string fitted(const std::string& line, size_t width);

struct CurveLine {
  std::vector<std::pair<double, double>> points;  // x, y; x growing
  bool marks = false;                             // an x at each point, not dots
};
struct CurveOptions {
  size_t width = 72, height = 10;  // columns and lines, axis included
};
/// Lines over one another in dots of Braille, two across and four down a character; y on a log scale where it
/// spans more than a factor of 20. Values that are no numbers are left out; empty without any.
std::vector<std::string> curve(const std::vector<CurveLine>& lines, const CurveOptions& options);

}  // namespace isobar
