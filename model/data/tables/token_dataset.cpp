#include "model/data/tables/token_dataset.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>
#include <vector>

#include "model/base/error.h"
#include "model/base/rng.h"
#include "model/data/tables/token_file.h"

namespace isobar::data {
namespace {

using TokenFiles = std::vector<std::shared_ptr<const TokenFile>>;

class Tokens : public Dataset {
 public:
  explicit Tokens(const SampleShape& shape) : shape_(shape) {}
  SampleShape shape() const override { return shape_; }
  ChannelNames channels() const override { return {}; }
  void read(int64_t i, float* words, float* labels) const override {
    const int64_t n = shape_.input.size();
    thread_local std::vector<int32_t> tokens;
    tokens.resize(static_cast<size_t>(n + 1));
    read_words(i, tokens.data());
    std::memcpy(words, tokens.data(), static_cast<size_t>(n) * sizeof(int32_t));
    std::memcpy(labels, tokens.data() + 1, static_cast<size_t>(n) * sizeof(int32_t));
  }

 protected:
  virtual void read_words(int64_t i, int32_t* to) const = 0;  // one more than the sample's
  const SampleShape shape_;
};

// Samples of n tokens, each with the one that follows
int64_t samples_of(const TokenFile& file, int64_t n) {
  return std::max<int64_t>(0, file.size() - 1) / n;
}

class FileTokens : public Tokens {
 public:
  FileTokens(TokenFiles files, int64_t first, int64_t samples, const SampleShape& shape)
      : Tokens(shape), files_(std::move(files)), first_(first), samples_(samples) {}
  int64_t size() const override { return samples_; }

 private:
  void read_words(int64_t i, int32_t* to) const override {
    const int64_t n = shape_.input.size();
    int64_t at = first_ + i;
    size_t file = 0;
    for (; at >= samples_of(*files_[file], n); ++file) at -= samples_of(*files_[file], n);
    files_[file]->read(at * n, n + 1, to);
  }
  const TokenFiles files_;
  const int64_t first_, samples_;
};

class MadeTokens : public Tokens {
 public:
  MadeTokens(int64_t samples, Split split, const SampleShape& shape)
      : Tokens(shape), samples_(samples), seed_(split == Split::train ? 0x776f726473 : 0x76776f726473) {}
  int64_t size() const override { return samples_; }

 private:
  void read_words(int64_t i, int32_t* to) const override {
    constexpr float kDrawn = 0.25f;
    const auto words = static_cast<int32_t>(std::min<int64_t>(64, shape_.words));
    const auto sample = static_cast<uint64_t>(i);
    int32_t word = 0;
    for (int64_t t = 0; t <= shape_.input.size(); ++t) {
      const float x = uniform(seed_, sample, static_cast<uint64_t>(t)) / kDrawn;
      word = t == 0 || x < 1 ? static_cast<int32_t>((x - std::floor(x)) * static_cast<float>(words))
                             : (5 * word + 7) % words;
      to[t] = word;
    }
  }
  const int64_t samples_;
  const uint64_t seed_;
};

TokenFiles open_files(const std::string& paths, const std::string& key, int64_t words) {
  TokenFiles files;
  std::istringstream list(paths);
  for (std::string path; std::getline(list, path, ',');)
    if (!path.empty()) files.push_back(std::make_shared<const TokenFile>(path, key, words));
  return files;
}

void refuse_fields_keys(const DataSpec& d) {
  const DataSpec usual;
  for (const auto& [said, key] : {std::pair{!d.means.empty(), "data.means"},
                                  {!d.stds.empty(), "data.stds"},
                                  {!d.variables.empty(), "data.variables"},
                                  {d.dt != usual.dt, "data.dt"},
                                  {d.history != usual.history, "data.history"},
                                  {!d.dates.empty(), "data.dates"},
                                  {!d.valid_dates.empty(), "data.valid_dates"},
                                  {!d.region.empty(), "data.region"},
                                  {!d.forcings.empty(), "data.forcings"},
                                  {!d.mask.empty(), "data.mask"}})
    if (said)
      throw ConfigError("configuration", key, "is for fields, and this net reads words", "leave it out");
}

}  // namespace

std::unique_ptr<Dataset> open_tokens(const DataSpec& data, const std::string& path, Split split,
                                     const SampleShape& want) {
  refuse_fields_keys(data);
  const bool tail = split == Split::valid && path.empty();  // validates on the end of data.train
  const std::string key = split == Split::train || tail ? "data.train" : "data.valid";
  const std::string& from = tail ? data.train : path;
  TokenFiles files = open_files(from, key, want.words);
  int64_t all = 0, tokens = 0;
  for (const auto& file : files) {
    tokens += file->size();
    all += samples_of(*file, want.input.size());
  }
  if (all == 0)
    throw ConfigError(from, key,
                      "has " + std::to_string(tokens) + " tokens, and a sample has " +
                          std::to_string(want.input.size()) + " and the one that follows",
                      "lower net.seq_length, or give more text");
  const auto trained = static_cast<int64_t>(std::round(data.train_fraction * static_cast<double>(all)));
  const bool whole = split == Split::valid && !tail;
  if (!whole && (trained == 0 || (tail && trained == all)))
    throw ConfigError(data.train, "data.train_fraction",
                      "leaves no sample to " + std::string(trained == 0 ? "train" : "validate"),
                      trained == 0 ? "raise it" : "lower it, or name data.valid");
  const int64_t begin = tail ? trained : 0, end = split == Split::train ? trained : all;
  const int64_t limit = split == Split::train ? data.limit_samples : data.limit_valid_samples;
  const int64_t samples = limit > 0 ? std::min(limit, end - begin) : end - begin;
  return std::make_unique<FileTokens>(std::move(files), begin, samples, want);
}

std::unique_ptr<Dataset> make_tokens(int64_t samples, Split split, const SampleShape& want) {
  return std::make_unique<MadeTokens>(samples, split, want);
}

}  // namespace isobar::data
