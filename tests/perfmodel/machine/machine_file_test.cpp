// Machines by name: search order, paths, and errors for unknown names.
#include "perfmodel/machine/shipped.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "model/base/error.h"
#include "model/base/system/files.h"
#include "perfmodel/machine/machine.h"
#include "tests/paths.h"

namespace isobar::perf {
namespace {

namespace fs = std::filesystem;

class MachineNames : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "isobar-machines-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
    before_ = fs::current_path();
    fs::current_path(dir_);
    ::unsetenv("ISOBAR_MACHINES");
  }
  void TearDown() override {
    ::unsetenv("ISOBAR_MACHINES");
    fs::current_path(before_);
    fs::remove_all(dir_);
  }
  static std::string refusal(const std::string& named) {
    try {
      return "took " + machine_file(named);
    } catch (const ConfigError& e) {
      return e.what();
    }
  }

  fs::path dir_, before_;
};

TEST_F(MachineNames, EveryShippedMachineIsFoundByItsName) {
  int found = 0;
  for (const auto& entry : fs::directory_iterator(source_dir() + "/configs/machines")) {
    const std::string file = machine_file(entry.path().stem().string());
    EXPECT_TRUE(fs::equivalent(file, entry.path())) << file;
    EXPECT_NO_THROW(load_machine(file));
    ++found;
  }
  EXPECT_GE(found, 20);
}

TEST_F(MachineNames, APathStaysAPath) {
  write_atomically(dir_ / "perlmutter", "name: mine\n");  // a file here takes precedence
  for (const std::string path : {"perlmutter", "no/such", "nosuch.yaml", "/dev/stdin", ""})
    EXPECT_EQ(machine_file(path), path);
  fs::create_directory(dir_ / "frontier");  // a folder is no machine file
  EXPECT_TRUE(machine_file("frontier").ends_with("frontier.yaml"));
}

TEST_F(MachineNames, ASitesOwnFoldersComeFirst) {
  fs::create_directories(dir_ / "one");
  fs::create_directories(dir_ / "two");
  write_atomically(dir_ / "two/perlmutter.yaml", "name: ours\n");
  write_atomically(dir_ / "two/our-cluster.yaml", "name: ours\n");
  ::setenv("ISOBAR_MACHINES", ((dir_ / "one").string() + ":" + (dir_ / "two").string()).c_str(), 1);
  EXPECT_EQ(machine_file("perlmutter"), dir_ / "two/perlmutter.yaml");
  EXPECT_EQ(machine_file("our-cluster"), dir_ / "two/our-cluster.yaml");
  EXPECT_TRUE(fs::equivalent(machine_file("aurora"), source_dir() + "/configs/machines/aurora.yaml"));
  ::setenv("ISOBAR_MACHINES", (dir_ / "gone").c_str(), 1);
  EXPECT_NE(refusal("perlmutter").find("ISOBAR_MACHINES"), std::string::npos);
}

TEST_F(MachineNames, AnUnknownNameListsTheNearest) {
  const std::string said = refusal("perlmuter");
  EXPECT_NE(said.find("--machine: 'perlmuter': is neither"), std::string::npos) << said;
  EXPECT_NE(said.find("the nearest names: perlmutter, "), std::string::npos) << said;
  EXPECT_NE(refusal("dgx-a10").find("dgx-a100"), std::string::npos);
}

// Prices whose logarithms have a spread that no price has would make forecasts of no number.
TEST_F(MachineNames, AnIntervalWithoutEndIsRefused) {
  const std::string shipped = read_file(machine_file("perlmutter"));
  for (const auto& [key, number] : {std::pair{"upper: ", "1e308"}, {"lower: ", "1e-320"}}) {
    std::string text = shipped;
    const size_t at = text.find(key, text.find("gemm.bf16")) + std::string(key).size();
    text.replace(at, text.find_first_of(",}", at) - at, number);
    write_atomically(dir_ / "m.yaml", text);
    try {
      load_machine(dir_ / "m.yaml");
      ADD_FAILURE() << key << number << " was taken";
    } catch (const ConfigError& e) {
      EXPECT_NE(std::string(e.what()).find("gemm.bf16"), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find("million"), std::string::npos) << e.what();
    }
  }
}

}  // namespace
}  // namespace isobar::perf
