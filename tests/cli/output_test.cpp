// Output that cannot be written is an error in every command.
#include "tests/cli/shell.h"

#include <vector>

namespace isobar::cli {
namespace {

namespace fs = std::filesystem;

class Output : public InDirectory {
 protected:
  void SetUp() override {
    InDirectory::SetUp();
    write_atomically(
        dir_ / "all_reduce.log",
        "# nThread 1 nGpus 1 minBytes 8\n#  Rank  0 Group  0 Pid 1 on a device  0 [0x00] NVIDIA A100\n"
        "#  Rank  1 Group  0 Pid 2 on a device  1 [0x00] NVIDIA A100\n"
        "#       size  count  type  redop  root  time  algbw  busbw\n"
        "1048576 262144 float sum -1 100.0 10.5 10.5 0 100.0 10.5 10.5 0\n");
  }

  // One of each kind of command that prints: tables, JSON, help.
  static std::vector<std::string> printers() {
    return {"plan base.yaml",
            "plan base.yaml --totals --json",
            "train base.yaml",
            "train base.yaml --json",
            "predict base.yaml --machine " + shipped("machines/example-2core.yaml"),
            "predict base.yaml --json --machine " + shipped("machines/example-2core.yaml"),
            "search " + shipped("models/llama3-70b.yaml") + " --gpus 64 --machine " +
                shipped("machines/dgx-h100.yaml"),
            "sweep sweep.yaml --dry-run",
            "sweep sweep.yaml --dry-run --json",
            "import all_reduce.log",
            "doctor --json",
            "data make made --samples-per-year 4 --height 16 --width 16 --channels 2 --train-years 1 "
            "--valid-years 0 --test-years 0 --force",
            "--help",
            "predict --help"};
  }
};

TEST_F(Output, AFullDiskUnderStdoutIsAnErrorOfEveryCommand) {
  for (const std::string& words : printers()) {
    const Answer a = shell(at(isobar_command() + " " + words + " 2>&1 >/dev/full"));
    EXPECT_EQ(a.code, 1) << words << ": " << a.out;
    EXPECT_NE(a.out.find("standard output: cannot be written"), std::string::npos) << words << ": " << a.out;
    EXPECT_EQ(a.out.find("standard output"), a.out.rfind("standard output")) << "once: " << a.out;
  }
}

TEST_F(Output, AClosedStdoutIsAnErrorAndNoFileTakesItsPlace) {
  const std::vector<std::string> all = printers();
  for (const std::string& words : {all[0], all[3], all[4]}) {
    const Answer a = shell(at("{ " + isobar_command() + " " + words + " 2>&3 >&-; } 3>&1"));
    EXPECT_EQ(a.code, 1) << words << ": " << a.out;
    EXPECT_NE(a.out.find("standard output: cannot be written"), std::string::npos) << words << ": " << a.out;
  }
}

TEST_F(Output, AReaderThatGoesEndsACommandQuietly) {
  for (const std::string& words : {std::string("plan base.yaml"), std::string("plan base.yaml --json"),
                                   std::string("sweep sweep.yaml --dry-run --json")}) {
    // The reader is gone before anything is printed.
    const Answer a = shell(at("set -o pipefail; { sleep 0.3; exec " + isobar_command() + " " + words +
                              " 2>errors; } | true; echo $?"));
    EXPECT_EQ(a.out, "141\n") << words;
    EXPECT_EQ(read_file(dir_ / "errors"), "") << words;
  }
}

TEST_F(Output, AFullDiskUnderAnOutputFileIsAnErrorAndDevicesStayDevices) {
  const Answer full = shell(at(isobar_command() + " import all_reduce.log -o /dev/full 2>&1"));
  EXPECT_EQ(full.code, 1) << full.out;
  EXPECT_NE(full.out.find("/dev/full: No space left"), std::string::npos) << full.out;
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
  // Anything but a regular file is written to, not replaced.
  const Answer a = shell(at(isobar_command() + " import all_reduce.log -o /dev/stdout | head -n 1"));
  EXPECT_EQ(a.out.rfind("source,row_id", 0), 0u) << a.out;
}

}  // namespace
}  // namespace isobar::cli
