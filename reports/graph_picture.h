// A graph and its cut over ranks as a picture: nodes where they lie on the earth, coloured by rank, edges
// between ranks in ink.
//
//   write_atomically("cut.svg", graph_svg(graph_picture(spec.net, 4), "regional-gnn over cp 4, bands"));
#pragma once
#include <string>

#include "model/nets/graph_cut.h"

namespace isobar {

/// SVG, of a graph with at least one node. Edges inside ranks are drawn where they are few enough to be seen;
/// of those that cross 180 E a straight line would go round the earth: they are left out. The caption says
/// both.
std::string graph_svg(const GraphPicture& graph, const std::string& title);

}  // namespace isobar
