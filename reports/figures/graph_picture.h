// SVG of a graph and its partition: nodes at their coordinates, coloured by rank; edges between ranks as dark
// lines.
//
//   write_atomically("cut.svg", graph_svg(graph_picture(spec.net, 4), "regional-gnn over cp 4, bands"));
#pragma once
#include <string>

#include "model/nets/graph/graph_cut.h"

namespace isobar::report {

/// Needs at least one node. Edges inside ranks are drawn only if few enough to see, and edges across 180 E
/// are left out because a straight line would circle the earth; the caption says both.
std::string graph_svg(const nets::GraphPicture& graph, const std::string& title);

}  // namespace isobar::report
