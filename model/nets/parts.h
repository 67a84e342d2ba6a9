// A net as a list of parts, before anything is planned: pure functions that plans and searches call alike.
//
//   parts_of(net)          // embed, block00, block01, …, head
//   cuts_of(net, 4)        // first part of each of four pipeline stages, and the end
//   distinct_parts(net)    // a net with the same distinct parts that is as small as can be
#pragma once
#include <cstdint>
#include <vector>

#include "model/base/spec.h"
#include "model/plan/plan.h"

namespace isobar {

/// In forward order. The first and the last are its ends: the input, and the loss.
std::vector<Part> parts_of(const NetSpec& net);

/// First part of each virtual stage, and the number of parts. The ends weigh nothing; between them, parts
/// that are all alike are dealt out as evenly as can be: what is left over goes to the stages after the
/// first, which has the embedding, and before the last, which has the head. Unequal parts are cut where the
/// matrix FLOPs of the heaviest stage are fewest. `stages` is at most their number (stages_fill).
std::vector<int32_t> cuts_of(const NetSpec& net, int64_t stages);

/// The same net with runs of parts that are alike cut down to three, so that the one in the middle has
/// neighbours like all the others.
NetSpec distinct_parts(NetSpec net);

}  // namespace isobar
