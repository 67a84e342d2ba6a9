// The parts of validate(): each is a file of its own.
#pragma once
#include "model/base/spec/spec_check.h"

namespace isobar {

/// validate_data.cpp: the selection of fields, as far as files need not be opened; and the channels, against
/// the net's.
void validate_selection(const DataSpec& data, const SpecCheck& check);
void validate_channels(const RunSpec& spec, const SpecCheck& check);

/// validate_sizes.cpp: refuses sizes that no machine could hold, so that all counts fit into 64 bits
void refuse_astronomical(const RunSpec& spec, const SpecCheck& check);

}  // namespace isobar
