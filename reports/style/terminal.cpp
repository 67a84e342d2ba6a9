#include "reports/style/terminal.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "model/base/text/printed.h"
#include "reports/tables/tables.h"

namespace isobar::report {
namespace {

bool continues(char c) {  // UTF-8 continuation byte
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

constexpr double kLogFrom = 20;  // ratio of largest to smallest from which the axis is logarithmic

struct Extremes {
  double low = INFINITY, high = -INFINITY;
  void take(double v) { low = std::min(low, v), high = std::max(high, v); }
  /// Index of v on an axis of n positions.
  size_t place(double v, size_t n) const {
    const double share = high > low ? (v - low) / (high - low) : 0.5;
    return static_cast<size_t>(std::clamp(share, 0.0, 1.0) * static_cast<double>(n - 1) + 0.5);
  }
};

std::string utf8(uint32_t c) {  // U+0800 to U+FFFF
  return {static_cast<char>(0xE0 | (c >> 12)), static_cast<char>(0x80 | ((c >> 6) & 0x3F)),
          static_cast<char>(0x80 | (c & 0x3F))};
}

}  // namespace

std::string duration_words(double s) {
  if (s < 90) return printed("%.0f s", s);
  if (s < 5400) return printed("%.0f min", s / 60);
  return printed("%.0f h %02.0f min", std::floor(s / 3600), std::floor(std::fmod(s, 3600) / 60));
}

size_t columns_of(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return !continues(c); }));
}

std::string fitted(const std::string& line, size_t width) {
  if (columns_of(line) <= width) return line;
  size_t taken = 0, i = 0;
  for (; i < line.size(); ++i) {
    if (continues(line[i])) continue;
    if (++taken == width) break;  // leave one column for the ellipsis
  }
  return line.substr(0, i) + "\u2026";
}

std::vector<std::string> curve(const std::vector<CurveLine>& lines, size_t width, size_t height) {
  constexpr size_t kAxis = 10;  // width of the axis labels
  constexpr uint32_t kDots[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
  Extremes x, y;
  for (const CurveLine& l : lines)
    for (const auto& [at, value] : l.points)
      if (std::isfinite(value)) x.take(at), y.take(value);
  if (!(y.low <= y.high) || width < kAxis + 8 || height < 2) return {};
  const bool log = y.low > 0 && y.high / y.low > kLogFrom;
  const Extremes shown = log ? Extremes{std::log(y.low), std::log(y.high)} : y;
  const size_t across = width - kAxis - 1, down = height - 1;
  std::vector<uint32_t> dots(across * down, 0);
  std::vector<bool> marked(across * down, false);
  for (const CurveLine& l : lines)
    for (const auto& [at, value] : l.points) {
      if (!std::isfinite(value)) continue;
      const size_t column = x.place(at, 2 * across);
      const size_t row = 4 * down - 1 - shown.place(log ? std::log(value) : value, 4 * down);
      const size_t cell = row / 4 * across + column / 2;
      dots[cell] |= kDots[row % 4][column % 2];
      if (l.marks) marked[cell] = true;
    }
  std::vector<std::string> out;
  for (size_t row = 0; row < down; ++row) {
    const double share = 1 - (static_cast<double>(row) + 0.5) / static_cast<double>(down);
    const double at = shown.low + share * (shown.high - shown.low);
    const bool labelled = row == 0 || row + 1 == down || row == down / 2;
    const std::string number = labelled ? significant(log ? std::exp(at) : at, 3).text : "";
    std::string line(kAxis - std::min(kAxis, columns_of(number)), ' ');
    line += number + " ";
    for (size_t c = 0; c < across; ++c) {
      const uint32_t d = dots[row * across + c];
      line += marked[row * across + c] ? "x" : d == 0 ? " " : utf8(0x2800 + d);
    }
    out.push_back(line.substr(0, line.find_last_not_of(' ') + 1));
  }
  const auto end = [](double v) {
    return v == std::round(v) ? integer(static_cast<int64_t>(v)).text : significant(v, 4).text;
  };
  const std::string left = end(x.low), right = end(x.high);
  const size_t between = across - std::min(across, left.size() + right.size());
  out.push_back(std::string(kAxis + 1, ' ') + left + std::string(between, ' ') + right);
  return out;
}

}  // namespace isobar::report
