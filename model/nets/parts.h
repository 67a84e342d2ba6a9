// A net as a list of parts, before anything is planned: pure functions shared by plans and searches.
//
//   parts_of(net)          // embed, block00, block01, …, head
//   cuts_of(net, 4)        // first part of each of four pipeline stages, and the end
//   distinct_parts(net)    // the smallest net with the same distinct parts
#pragma once
#include <cstdint>
#include <vector>

#include "model/base/spec/spec.h"
#include "model/plan/plan.h"

namespace isobar::nets {

/// In forward order. The first and last are the net's ends: input and loss.
std::vector<plan::Part> parts_of(const NetSpec& net);

/// First part of each virtual stage, and the number of parts; `stages` is at most stages_fill's. The ends
/// weigh nothing. Equal parts are split evenly, the remainder going neither to the first stage (embedding)
/// nor the last (head); unequal parts are cut to minimise the heaviest stage's matrix FLOPs.
/// `given`: layout.stages, the parts of each stage between the ends; another number of stages is cut as
/// usual.
std::vector<int32_t> cuts_of(const NetSpec& net, int64_t stages, const std::vector<int64_t>& given = {});

/// The net with runs of equal parts cut to two or three, so that one of them has an equal neighbour.
NetSpec distinct_parts(NetSpec net);

/// Parameters of experts that a token does not go to.
int64_t idle_parameters(const NetSpec& net);

}  // namespace isobar::nets
