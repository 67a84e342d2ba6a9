// Archives that a run cannot read: exit code 2 and one line with file and fix.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "model/data/written/convert.h"
#include "tests/cli/shell.h"
#include "tests/data/files.h"

namespace isobar::cli {
namespace {

using test::NetcdfOptions;
using test::random_packed;
using test::write_netcdf;

class Archives : public InDirectory {
 protected:
  void SetUp() override {
    InDirectory::SetUp();
    write_netcdf(dir_ / "t.nc", options_, {random_packed(options_)});
    NetcdfOptions later = options_;
    later.times = {0, 1, 2, 3, 4, 5, 6, 7.5, 8, 9, 10, 11};
    write_netcdf(dir_ / "later.nc", later, {random_packed(later), random_packed(later)});
  }
  Answer train(const std::string& more) {
    return shell(at(isobar_command() +
                    " train base.yaml --set net.img_height=16 --set net.img_width=16 --set "
                    "net.patch_size=8 --set net.in_channels=1 --set net.out_channels=1 --set "
                    "train.global_batch=2 --set run.out=run --set data.workers=0 " +
                    more + " 2>&1"));
  }
  void expect_refused(const std::string& more, const std::vector<std::string>& parts) {
    const Answer a = train(more);
    EXPECT_EQ(a.code, 2) << a.out;
    const size_t error = a.out.find(" -> ");
    ASSERT_NE(error, std::string::npos) << a.out;
    const size_t line = a.out.rfind('\n', error) + 1;
    const std::string said = a.out.substr(line, a.out.find('\n', error) - line);
    for (const std::string& part : parts)
      EXPECT_NE(said.find(part), std::string::npos) << part << "\n" << a.out;
    EXPECT_EQ(a.out.find(" -> ", error + 1), std::string::npos) << "more than one error:\n" << a.out;
  }
  NetcdfOptions options_{.steps = 12, .rows = 16, .columns = 16};
};

TEST_F(Archives, ThatAreWholeTrain) {
  const Answer a = train("--set data.train=t.nc");
  EXPECT_EQ(a.code, 0) << a.out;
}

TEST_F(Archives, ATornChunkIsNamed) {
  for (const char* compressor : {"none", "zstd"}) {
    const std::string store = std::string(compressor) + ".zarr";
    data::convert(dir_ / "t.nc", {}, dir_ / store, {.format = "zarr3", .chunks = {.compressor = compressor}});
    const std::filesystem::path chunk = dir_ / store / "t/c/5/0/0";
    ASSERT_TRUE(std::filesystem::exists(chunk));
    std::filesystem::resize_file(chunk, std::filesystem::file_size(chunk) / 2);
    expect_refused("--set data.train=" + store,
                   {store, "data.train", "time step 5, channel 't'", "t/c/5/0/0"});
  }
}

TEST_F(Archives, AnAbsentVariableIsNamed) {
  expect_refused("--set data.train=t.nc --set 'data.variables=[u10]'",
                 {"t.nc", "data.variables", "no field 'u10'", "the fields are: t"});
}

TEST_F(Archives, UnequalTimeAxesAreNamed) {
  expect_refused(
      "--set data.train=t.nc,later.nc --set 'data.variables=[t,q]' --set net.in_channels=2 --set "
      "net.out_channels=2",
      {"later.nc", "2019-03-01T07"});
}

}  // namespace
}  // namespace isobar::cli
