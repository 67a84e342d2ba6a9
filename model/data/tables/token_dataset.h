// Tokens as samples: seq_length words and, as labels, the words that follow each. Adjacent samples of a file
// share one token; data.train may name several files with commas between, and no sample lies in two.
//
//   auto set = open_tokens(data, path, Split::train, sample_shape(spec));
#pragma once
#include <memory>

#include "model/data/dataset.h"

namespace isobar::data {

/// data.train or data.valid (`path` empty: the end of data.train). Throws ConfigError.
std::unique_ptr<Dataset> open_tokens(const DataSpec& data, const std::string& path, Split split,
                                     const SampleShape& want);

/// Samples of a language that a net can learn, for runs without data.train: of the first few words each
/// follows from the one before in three of four cases, and is drawn in the fourth.
std::unique_ptr<Dataset> make_tokens(int64_t samples, Split split, const SampleShape& want);

}  // namespace isobar::data
