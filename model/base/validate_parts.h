// The parts of validate(): each is a file of its own.
#pragma once
#include "model/base/spec_check.h"

namespace isobar {

/// validate_nets.cpp: a net's own keys, each for itself; and what of them fits together.
void validate_net(const NetSpec& net, const SpecCheck& check);
void validate_net_together(const NetSpec& net, const SpecCheck& check);

/// validate_data.cpp: what is read, each key for itself; and as many channels as the net has.
void validate_selection(const DataSpec& data, const SpecCheck& check);
void validate_channels(const RunSpec& spec, const SpecCheck& check);

/// validate_sizes.cpp: what no machine could hold, so that whatever passes can be counted in 64 bits
void refuse_astronomical(const RunSpec& spec, const SpecCheck& check);

}  // namespace isobar
