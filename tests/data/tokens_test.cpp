// Files of tokens: each format, what is refused, and the samples that are made of them.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "model/base/error.h"
#include "model/data/files/npy.h"
#include "model/data/loader.h"
#include "model/data/tables/token_dataset.h"
#include "model/data/tables/token_file.h"
#include "tests/data/files.h"

namespace isobar::test {
namespace {

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

void write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::vector<int32_t> all_of(const data::TokenFile& file) {
  std::vector<int32_t> tokens(static_cast<size_t>(file.size()));
  file.read(0, file.size(), tokens.data());
  return tokens;
}

// llm.c: magic, version, tokens, and 253 more
std::string llmc(int32_t magic, int32_t tokens) {
  std::vector<int32_t> header(256, 0);
  header[0] = magic, header[1] = 1, header[2] = tokens;
  return bytes_of(header);
}

std::string megatron_index(uint8_t type, const std::vector<int32_t>& lengths) {
  std::string out("MMIDIDX\0\0", 9);
  const auto add = [&](auto x) { out.append(reinterpret_cast<const char*>(&x), sizeof x); };
  add(uint64_t{1}), add(type), add(static_cast<uint64_t>(lengths.size())), add(uint64_t{lengths.size() + 1});
  for (const int32_t n : lengths) add(n);
  for (size_t i = 0; i < lengths.size(); ++i) add(int64_t{0});  // byte offsets, which are not read
  for (size_t i = 0; i <= lengths.size(); ++i) add(static_cast<int64_t>(i));
  return out;
}

TEST(Tokens, OfEveryFormatAreTheSame) {
  const TempDir dir;
  const std::vector<int32_t> want = {5, 0, 299, 17, 4, 4, 250};
  const std::vector<uint16_t> narrow(want.begin(), want.end());
  const std::vector<int64_t> wide(want.begin(), want.end());
  write(dir / "nanogpt.bin", bytes_of(narrow));
  write(dir / "llmc.bin", llmc(20240520, 7) + bytes_of(narrow));
  write(dir / "llmc32.bin", llmc(20240801, 7) + bytes_of(want));
  write(dir / "wide.npy", data::npy_bytes("<i8", {7}, bytes_of(wide)));
  write(dir / "narrow.npy", data::npy_bytes("<u2", {7}, bytes_of(narrow)));
  write(dir / "megatron.bin", bytes_of(want));
  write(dir / "megatron.idx", megatron_index(4, {3, 4}));
  write(dir / "megatron16.bin", bytes_of(narrow));
  write(dir / "megatron16.idx", megatron_index(8, {7}));
  for (const char* name :
       {"nanogpt.bin", "llmc.bin", "llmc32.bin", "wide.npy", "narrow.npy", "megatron.bin", "megatron16.bin"})
    EXPECT_EQ(all_of(data::TokenFile(dir / name, "data.train", 300)), want) << name;
  // More words than 16 bits have
  write(dir / "large.bin", bytes_of(want));
  EXPECT_EQ(all_of(data::TokenFile(dir / "large.bin", "data.train", 128256)), want);
}

TEST(Tokens, AreReadAsTheyWereWritten) {
  const TempDir dir;
  const std::vector<int32_t> tokens = {65, 0, 65535, 299};
  for (const int64_t words : {65536, 65537}) {
    data::write_tokens(dir / "text.bin", tokens, words);
    EXPECT_EQ(std::filesystem::file_size(dir / "text.bin"), words == 65536 ? 8u : 16u);
    EXPECT_EQ(all_of(data::TokenFile(dir / "text.bin", "data.train", words)), tokens);
  }
}

void expect_refused(const std::string& path, const std::string& what, int64_t words = 300) {
  try {
    const data::TokenFile file(path, "data.train", words);
    all_of(file);
    ADD_FAILURE() << path << " is read";
  } catch (const ConfigError& e) {
    EXPECT_NE(std::string(e.what()).find(what), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("data.train"), std::string::npos) << e.what();
  }
}

TEST(Tokens, WhatIsNoneIsRefusedByName) {
  const TempDir dir;
  const std::vector<uint16_t> tokens = {5, 0, 299};
  write(dir / "text.txt", "words");
  expect_refused(dir / "text.txt", "no file of tokens");
  expect_refused(dir / "none.bin", "none.bin");
  write(dir / "short.bin", llmc(20240520, 4) + bytes_of(tokens));
  expect_refused(dir / "short.bin", "ends after 3 of its 4 tokens");
  const std::vector<int32_t> wide(40, static_cast<int32_t>(random_int(1, 299)));
  write(dir / "wide.bin", bytes_of(wide));
  expect_refused(dir / "wide.bin", "every second half is 0");
  write(dir / "above.bin", bytes_of(tokens));
  expect_refused(dir / "above.bin", "token 2 is word 299, and the net has 256 words", 256);
  write(dir / "floats.npy", data::npy_bytes("<f4", {2}, bytes_of(std::vector<float>{1, 2})));
  expect_refused(dir / "floats.npy", "no list of whole numbers");
  write(dir / "matrix.npy", data::npy_bytes("<i4", {1, 2}, bytes_of(std::vector<int32_t>{1, 2})));
  expect_refused(dir / "matrix.npy", "no list of whole numbers");
  write(dir / "negative.npy", data::npy_bytes("<i4", {2}, bytes_of(std::vector<int32_t>{1, -2})));
  expect_refused(dir / "negative.npy", "token 1 is word -2");
  write(dir / "other.bin", bytes_of(tokens));
  write(dir / "other.idx", std::string(40, 'x'));
  expect_refused(dir / "other.bin", "no index of Megatron's");
  write(dir / "other.idx", megatron_index(7, {3}));
  expect_refused(dir / "other.bin", "no whole numbers");
  write(dir / "other.idx", megatron_index(8, {3}).substr(0, 36));
  expect_refused(dir / "other.bin", "truncated");
}

std::vector<int32_t> words_in(const float* from, int64_t n) {
  std::vector<int32_t> words(static_cast<size_t>(n));
  std::memcpy(words.data(), from, words.size() * sizeof(int32_t));
  return words;
}

data::SampleShape shape_of(int64_t tokens, int64_t words) {
  data::SampleShape shape({1, 1, tokens});
  shape.words = words;
  return shape;
}

// 14 tokens make four samples of three; the last has no label in a file of 12. Two files are no one text.
TEST(Tokens, MakeSamplesWithTheWordsThatFollow) {
  const TempDir dir;
  std::vector<uint16_t> counted(14);
  for (size_t i = 0; i < counted.size(); ++i) counted[i] = static_cast<uint16_t>(i);
  write(dir / "a.bin", bytes_of(counted));
  write(dir / "b.bin", bytes_of(std::vector<uint16_t>{100, 101, 102, 103, 104}));
  DataSpec data;
  data.train = dir / "a.bin," + (dir / "b.bin");
  const auto set = data::open_tokens(data, data.train, data::Split::train, shape_of(3, 200));
  ASSERT_EQ(set->size(), 5);
  float words[3], labels[3];
  for (int64_t i = 0; i < 4; ++i) {
    set->read(i, words, labels);
    const auto first = static_cast<int32_t>(3 * i);
    EXPECT_EQ(words_in(words, 3), (std::vector<int32_t>{first, first + 1, first + 2}));
    EXPECT_EQ(words_in(labels, 3), (std::vector<int32_t>{first + 1, first + 2, first + 3}));
  }
  set->read(4, words, labels);
  EXPECT_EQ(words_in(labels, 3), (std::vector<int32_t>{101, 102, 103}));

  data.train_fraction = 0.6;
  EXPECT_EQ(data::open_tokens(data, data.train, data::Split::train, shape_of(3, 200))->size(), 3);
  const auto rest = data::open_tokens(data, "", data::Split::valid, shape_of(3, 200));
  ASSERT_EQ(rest->size(), 2);
  rest->read(0, words, labels);
  EXPECT_EQ(words_in(words, 3), (std::vector<int32_t>{9, 10, 11}));
  EXPECT_THROW(data::open_tokens(data, data.train, data::Split::train, shape_of(14, 200)), ConfigError);
  data.dt = 2;
  EXPECT_THROW(data::open_tokens(data, data.train, data::Split::train, shape_of(3, 200)), ConfigError);
}

TEST(Tokens, ComeInTheSameOrderAfterAResume) {
  const TempDir dir;
  std::vector<uint16_t> counted(2000);
  for (size_t i = 0; i < counted.size(); ++i) counted[i] = static_cast<uint16_t>(i);
  write(dir / "a.bin", bytes_of(counted));
  DataSpec data;
  data.train = dir / "a.bin";
  const auto set = data::open_tokens(data, data.train, data::Split::train, shape_of(9, 2000));
  const data::LoaderOptions options{
      .batch = 2, .per_step = 2, .dp = 2, .rank = 1, .seed = 3, .workers = 2, .prefetch = 1, .shuffle = true};
  data::Loader through(*set, options), resumed(*set, options);
  resumed.seek(30);
  for (int64_t i = 0; i < 60; ++i) {  // past the end of the epoch
    const std::vector<int32_t> all = words_in(through.next().at("labels"), 18);
    if (i >= 30) {
      EXPECT_EQ(words_in(resumed.next().at("labels"), 18), all) << i;
    }
  }
}

TEST(Tokens, MadeOnesCanBeLearnt) {
  const auto set = data::make_tokens(10, data::Split::train, shape_of(500, 50000));
  std::vector<float> words(500), labels(500);
  int64_t follow = 0;
  for (int64_t i = 0; i < 10; ++i) {
    set->read(i, words.data(), labels.data());
    const std::vector<int32_t> from = words_in(words.data(), 500), to = words_in(labels.data(), 500);
    for (size_t t = 0; t < 500; ++t) {
      EXPECT_TRUE(from[t] >= 0 && from[t] < 64);
      follow += to[t] == (5 * from[t] + 7) % 64 ? 1 : 0;
    }
  }
  EXPECT_GT(follow, 3500);
  EXPECT_LT(follow, 4200);
}

}  // namespace
}  // namespace isobar::test
