// Splits of a data set without a step or pair, and channels that cannot be normalised.
#include <gtest/gtest.h>

#include <cmath>

#include "model/data/dataset.h"
#include "model/data/statistics/stats.h"
#include "tests/data/files.h"

namespace isobar::test {
namespace {

constexpr data::FieldShape kPartsShape{1, 4, 6};

class Parts : public testing::Test {
 protected:
  void SetUp() override {
    write_hdf5(dir_ / "2015.h5", {60, 1, 4, 6}, random_floats(60 * 24));
    data_.train = dir_ / "2015.h5";
  }
  std::unique_ptr<data::Dataset> open(data::Split split) const {
    return data::open_dataset(data_, split == data::Split::train ? data_.train : data_.valid, split,
                              kPartsShape);
  }
  TempDir dir_;
  DataSpec data_;
};

TEST_F(Parts, AnEmptyTrainingPartIsRefusedForBothSplits) {
  data_.train_fraction = 0.001;
  for (const data::Split split : {data::Split::train, data::Split::valid})
    expect_config_error([&] { open(split); },
                        {data_.train, "'data.train_fraction'", "0.001 of 60 steps", "training"});
  data_.valid = data_.train;  // statistics are still those of the training part
  expect_config_error([&] { open(data::Split::valid); }, {"'data.train_fraction'"});
}

TEST_F(Parts, AnEmptyValidationPartIsRefused) {
  data_.train_fraction = 1 - 1e-12;
  EXPECT_GT(open(data::Split::train)->size(), 0);
  expect_config_error([&] { open(data::Split::valid); },
                      {"'data.train_fraction'", "validation", "data.valid"});
}

TEST_F(Parts, ALeadLongerThanThePartNamesTheLead) {
  data_.dt = 60;
  expect_config_error([&] { open(data::Split::train); }, {"'data.dt'", "60 apart", "60 steps"});
  data_.dt = int64_t{1} << 62;
  expect_config_error([&] { open(data::Split::train); }, {"'data.dt'"});
  data_.dt = 59;
  EXPECT_GT(open(data::Split::train)->size(), 0);
  data_.train_fraction = 0.02;  // one step: none follows it
  data_.dt = 1;
  expect_config_error([&] { open(data::Split::train); }, {"'data.dt'", "stretch has 1 steps"});
}

TEST_F(Parts, ASampleAloneIsASet) {
  data_.limit_samples = 1;
  EXPECT_EQ(open(data::Split::train)->size(), 1);
}

TEST_F(Parts, NoStepHasNoStatistics) {
  EXPECT_THROW(data::compute_statistics(std::vector<data::TimeSegment>{}, kPartsShape),
               std::invalid_argument);
}

TEST_F(Parts, EqualNumbersHaveNoVarianceThoughTheirSumIsRounded) {
  for (const float x : {0.1f, 273.15f, -1e-30f, 3e38f, 1e-40f, 0.0f}) {
    SCOPED_TRACE(x);
    write_hdf5(data_.train, {60, 1, 4, 6}, std::vector<float>(60 * 24, x));
    const auto set = open(data::Split::train);
    EXPECT_EQ(set->flat_channels(), std::vector<std::string>{"c0"});
    EXPECT_EQ(set->input_statistics().std[0], 1);
  }
}

}  // namespace
}  // namespace isobar::test
