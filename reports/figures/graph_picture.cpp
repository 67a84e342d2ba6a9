#include "reports/figures/graph_picture.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>
#include <utility>
#include <vector>

#include "reports/style/palette.h"
#include "reports/tables/tables.h"

namespace isobar::report {
namespace {

constexpr double kWidth = 1200, kMargin = 12, kText = 22, kLegend = 72;
constexpr size_t kMostInside = 20000;  // more edges inside ranks would be a solid area

// Maps degrees to page coordinates (plate carree)
class Page {
 public:
  explicit Page(const std::vector<nets::GraphPicture::Node>& nodes) {
    for (const auto& n : nodes) {
      west_ = std::min(west_, n.longitude), east_ = std::max(east_, n.longitude);
      south_ = std::min(south_, n.latitude), north_ = std::max(north_, n.latitude);
    }
    scale_ = (kWidth - 2 * kMargin) / std::max(1e-3, east_ - west_);
    height_ = std::max(60.0, scale_ * (north_ - south_) + 2 * kMargin);
    radius_ =
        std::clamp(0.35 * kWidth / std::sqrt(static_cast<double>(nodes.size()) * kWidth / height_), 0.5, 6.0);
  }
  double x(const nets::GraphPicture::Node& n) const { return kMargin + scale_ * (n.longitude - west_); }
  double y(const nets::GraphPicture::Node& n) const {
    return 3 * kText + kMargin + scale_ * (north_ - n.latitude);
  }
  double height() const { return height_ + 3 * kText; }
  double radius() const { return radius_; }

 private:
  double west_ = 1e9, east_ = -1e9, south_ = 1e9, north_ = -1e9, scale_ = 1, height_ = 0, radius_ = 1;
};

template <class... Values>
void put(std::string& svg, const char* format, Values... values) {
  char text[256];
  std::snprintf(text, sizeof text, format, values...);
  svg += text;
}

void put_text(std::string& svg, double y, const std::string& text) {
  put(svg, "<text x=\"%.0f\" y=\"%.0f\" fill=\"%s\">", kMargin, y, palette::kInk);
  svg += html_escape(text) + "</text>\n";
}

}  // namespace

std::string graph_svg(const nets::GraphPicture& g, const std::string& title) {
  const Page page(g.nodes);
  int64_t ranks = 0;
  for (const auto& n : g.nodes) ranks = std::max(ranks, n.rank + 1);
  std::vector<std::string> names;
  for (int64_t r = 0; r < ranks; ++r) names.push_back("rank " + std::to_string(r));
  const nlohmann::json colours = palette::run_scale(names).at("range");

  std::set<std::pair<int32_t, int32_t>> inside, between;  // each pair of nodes once
  size_t left_out = 0;
  for (const auto& [a, b] : g.edges) {
    const auto &from = g.nodes[static_cast<size_t>(a)], &to = g.nodes[static_cast<size_t>(b)];
    if (std::abs(from.longitude - to.longitude) > 180)
      ++left_out;
    else
      (from.rank == to.rank ? inside : between).insert(std::minmax(a, b));
  }
  const bool draws_inside = inside.size() <= kMostInside;

  std::string svg;
  put(svg,
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" font-family=\"sans-serif\" "
      "font-size=\"14\">\n",
      kWidth, page.height());
  put(svg, "<rect width=\"100%%\" height=\"100%%\" fill=\"%s\"/>\n", palette::kPaper);
  put_text(svg, 0.8 * kText, title);
  std::string caption = std::to_string(g.nodes.size()) + " nodes; " + std::to_string(inside.size()) +
                        " pairs with edges inside ranks" + (draws_inside ? "" : " (too many to draw)") +
                        ", " + std::to_string(between.size()) + " between ranks";
  if (left_out > 0) caption += "; " + std::to_string(left_out) + " edges over 180 E left out";
  put_text(svg, 1.7 * kText, caption);
  for (int64_t r = 0; r < ranks; ++r)
    put(svg, "<text x=\"%.0f\" y=\"%.0f\" fill=\"%s\">&#9679; %s</text>\n",
        kMargin + kLegend * static_cast<double>(r), 2.6 * kText,
        colours.at(static_cast<size_t>(r)).get<std::string>().c_str(), names[static_cast<size_t>(r)].c_str());
  const auto lines = [&](const std::set<std::pair<int32_t, int32_t>>& edges, const char* colour,
                         double width) {
    put(svg, "<g stroke=\"%s\" stroke-width=\"%.2f\">\n", colour, width);
    for (const auto& [a, b] : edges) {
      const auto &from = g.nodes[static_cast<size_t>(a)], &to = g.nodes[static_cast<size_t>(b)];
      put(svg, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", page.x(from), page.y(from),
          page.x(to), page.y(to));
    }
    svg += "</g>\n";
  };
  if (draws_inside) lines(inside, palette::kGrid, 0.3 * page.radius());
  for (int64_t r = 0; r < ranks; ++r) {
    put(svg, "<g fill=\"%s\">\n", colours.at(static_cast<size_t>(r)).get<std::string>().c_str());
    for (const auto& n : g.nodes)
      if (n.rank == r)
        put(svg, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.2f\"%s/>\n", page.x(n), page.y(n), page.radius(),
            n.receives ? "" : " fill-opacity=\"0.45\"");
    svg += "</g>\n";
  }
  lines(between, palette::kInk, 0.25 * page.radius());
  return svg + "</svg>\n";
}

}  // namespace isobar::report
