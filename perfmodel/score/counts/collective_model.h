// Collectives of published tables (nccl-tests): one operation of one size over ranks and nodes.
//
//   CollectiveTable t = collectives_from(read_csv("collectives.csv"));
//   CollectiveTraffic c = t.runs[0].traffic;
//
// Counted like the predictor's collectives (perfmodel/step/collective.h), and priced by a fit of how far
// foreign machines stay behind their links' rates. The faster of ring and tree counts.
#pragma once
#include <array>
#include <map>
#include <string>
#include <vector>

#include "model/base/text/csv_table.h"
#include "perfmodel/score/prices/prices.h"

namespace isobar::perf {

struct CollectiveTraffic {
  double ring_link_s = 0, ring_nic_s = 0;  // at spec-sheet rates
  double near_hops = 0, far_hops = 0;
  double tree_link_s = 0, tree_nic_s = 0;  // 0: no tree
  double tree_near_hops = 0, tree_far_hops = 0;
};

struct CollectiveRun {
  std::string id, system, tool, collective, source;
  double nodes = 1, ranks = 1, bytes = 0, seconds = 0;
  CollectiveTraffic traffic;
};

struct CollectiveTable {
  std::string name;
  std::vector<CollectiveRun> runs;
  std::map<std::string, int> refused;
};
CollectiveTable collectives_from(const CsvTable& csv);

/// The seconds of a CollectiveTraffic
extern const Quantity kCollectiveSeconds;

Sample sample_of(const CollectiveRun& run);

}  // namespace isobar::perf
