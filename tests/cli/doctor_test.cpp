// `isobar doctor` in environments with one broken part each: it names the part and the fix.
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "bench/doctor/check.h"
#include "model/base/system/files.h"
#include "shell.h"
#include "tests/engine/command.h"
#include "tests/paths.h"

namespace isobar::cli {
namespace {

#ifdef ISOBAR_OPEN_MPI
const std::string kOwn = "mpiexec (OpenRTE) 4.1.4";
#else
const std::string kOwn = "HYDRA build details: Version 4.0.2";
#endif

class Doctor : public InDirectory {
 protected:
  struct Said {
    int code;
    nlohmann::json checks;
    std::string health, found, mend;  // of the part that was asked for
    bool required = false;
  };
  /// `before`: shell commands to run first; `words`: arguments of the command.
  Said of(const std::string& part, const std::string& before, const std::string& words = "") {
    const Answer a = shell(at(before + " " + isobar_command() + " doctor --json " + words + " 2>&1"));
    Said out{a.code, nlohmann::json::parse(a.out, nullptr, false), {}, {}, {}};
    if (out.checks.is_discarded()) {
      ADD_FAILURE() << a.out;
      return out;
    }
    for (const auto& c : out.checks["checks"])
      if (c["part"] == part)
        out.health = c["health"], out.found = c["found"], out.mend = c["mend"], out.required = c["required"];
    return out;
  }
  /// Makes a program of that name in a directory of its own, and returns the directory.
  std::string program(const std::string& name, const std::string& body) {
    std::filesystem::create_directories(dir_ / "bin");
    write_atomically(dir_ / "bin" / name, "#!/bin/sh\n" + body + "\n");
    ::chmod((dir_ / "bin" / name).c_str(), 0755);
    return (dir_ / "bin").string();
  }
};

TEST_F(Doctor, StartsTwoRanksAndSaysThatAllWorks) {
  const Said s = of("MPI", "", "base.yaml");
  EXPECT_EQ(s.code, 0) << s.checks.dump(1);
  EXPECT_EQ(s.health, "ok");
  EXPECT_NE(s.found.find("two ranks start and add up"), std::string::npos) << s.found;
  EXPECT_TRUE(s.checks["healthy"].get<bool>());
  for (const auto& c : s.checks["checks"]) EXPECT_NE(c["health"], "FAILED") << c.dump();
}

TEST_F(Doctor, NamesAnMpiexecThatStartsNothing) {
  const std::string bin =
      program("mpiexec", "[ \"$1\" = --version ] && echo '" + kOwn + "' && exit 0\nexit 1");
  const Said s = of("MPI", "PATH=" + bin + ":$PATH");
  EXPECT_EQ(s.code, 1);
  EXPECT_EQ(s.health, "FAILED");
  EXPECT_TRUE(s.required);
  EXPECT_NE(s.found.find("ends with exit code 1"), std::string::npos) << s.found;
  EXPECT_NE(s.found.find(bin), std::string::npos) << s.found;
  EXPECT_NE(s.mend.find("mpiexec -n 2 hostname"), std::string::npos) << s.mend;
}

TEST_F(Doctor, NamesTheMpiexecOfAnotherMpi) {
  const std::string bin = program("mpiexec", "echo 'mpiexec of some other MPI'");
  const Said s = of("MPI", "PATH=" + bin);
  EXPECT_EQ(s.code, 1);
  EXPECT_NE(s.found.find("has no mpiexec of "), std::string::npos) << s.found;
  EXPECT_NE(s.found.find(bin + "/mpiexec is of no MPI known here"), std::string::npos) << s.found;
  // Training says the same, and does not start.
  const Answer a = shell(at("PATH=" + bin + " " + isobar_command() + " train base.yaml --ranks 2 2>&1"));
  EXPECT_EQ(a.code, 2) << a.out;
  EXPECT_NE(a.out.find("has no mpiexec of "), std::string::npos) << a.out;
}

TEST_F(Doctor, NamesRanksThatDoNotFindEachOther) {
  const std::string bin =
      program("mpiexec", "[ \"$1\" = --version ] && echo '" + kOwn +
                             "' && exit 0\n"
                             "while [ \"$1\" != doctor ]; do last=\"$1\"; shift; done\n\"$last\" \"$@\"");
  const Said s = of("MPI", "PATH=" + bin + ":$PATH");
  EXPECT_EQ(s.code, 1);
  EXPECT_NE(s.found.find("do not find each other"), std::string::npos) << s.found;
}

TEST_F(Doctor, NamesMemoryThatCannotBeLocked) {
  const Said s = of("locked memory", "ulimit -l 16;");
  EXPECT_EQ(s.health, "look");
  EXPECT_EQ(s.found, "16 kB");
  EXPECT_NE(s.mend.find("ulimit -l unlimited"), std::string::npos) << s.mend;
}

TEST_F(Doctor, NamesFewOpenFiles) {
  const Said s = of("open files", "ulimit -n 512;");
  EXPECT_EQ(s.health, "look");
  EXPECT_EQ(s.found, "512");
}

TEST_F(Doctor, TimesTheCoresTheClockAndTheLink) {
  const Said s = of("link", "", "base.yaml");
  EXPECT_NE(s.found.find("two ranks of this host: "), std::string::npos) << s.found;
  std::map<std::string, std::string> found;
  for (const auto& c : s.checks["checks"]) found[c["part"]] = c["found"];
  double us = 0, gb_s = 0, gflop_s = 0, copies = 0, ns = 0;
  ASSERT_EQ(std::sscanf(s.found.c_str(), "two ranks of this host: %lf us a message, %lf GB/s", &us, &gb_s),
            2);
  ASSERT_EQ(std::sscanf(found["cores together"].c_str(), "fp32 products %lf GFLOP/s, copies %lf GB/s",
                        &gflop_s, &copies),
            2);
  ASSERT_EQ(std::sscanf(found["clock"].c_str(), "%*[^,], %lf ns a reading", &ns), 1) << found["clock"];
  EXPECT_GT(us, 0.01);
  EXPECT_GT(gb_s, 0.001);
  EXPECT_GT(gflop_s, 0.1);
  EXPECT_GT(copies, 0.01);
  EXPECT_GT(ns, 1);
  EXPECT_FALSE(found["frequency"].empty());
  EXPECT_FALSE(found["time of day"].empty());
}

// Copies of Linux' files on cores and control groups.
TEST_F(Doctor, TakesAThreadForEachCoreThatItMayUse) {
  const auto says = [&](const std::string& file, const std::string& text) {
    std::filesystem::create_directories((dir_ / file).parent_path());
    write_atomically(dir_ / file, text + "\n");
  };
  EXPECT_EQ(engine::cpu_places({0, 1, 2}, dir_).usable(), 3);  // without any files
  for (int c = 0; c < 8; ++c) {                                // two sockets of two cores of two threads each
    const std::string cpu = "sys/devices/system/cpu/cpu" + std::to_string(c);
    says(cpu + "/topology/thread_siblings_list", std::to_string(c % 4) + "," + std::to_string(c % 4 + 4));
    std::filesystem::create_directories(dir_ / cpu / (c % 4 < 2 ? "node0" : "node1"));
  }
  const auto places = [&](const std::vector<int>& cpus) { return engine::cpu_places(cpus, dir_); };
  EXPECT_EQ(places({0, 4}).usable(), 1);
  EXPECT_EQ(places({0, 1, 5}).usable(), 2);
  EXPECT_EQ(doctor::examine_threads(places({0, 1, 4, 5})).health, doctor::Health::ok);
  doctor::Check all = doctor::examine_threads(places({0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(all.found, "8 hardware threads of 4 cores in 2 NUMA nodes: runs use 4");
  EXPECT_EQ(all.health, doctor::Health::look);
  EXPECT_NE(all.mend.find("mpiexec -n 2 --map-by numa --bind-to numa"), std::string::npos) << all.mend;

  says("proc/self/cgroup", "0::/job/step");  // the smallest limit of a group and of those above it
  says("sys/fs/cgroup/job/step/cpu.max", "max 100000");
  EXPECT_EQ(places({0, 1, 2, 3}).usable(), 4);
  says("sys/fs/cgroup/job/cpu.max", "250000 100000");
  all = doctor::examine_threads(places({0, 1, 2, 3}));
  EXPECT_EQ(
      all.found,
      "4 hardware threads of 4 cores in 2 NUMA nodes, of which the control group allows 2.5: runs use 2");
  EXPECT_EQ(all.health, doctor::Health::look);
  says("proc/self/cgroup", "9:name=systemd:/\n2:cpu,cpuacct:/docker\n0::/");  // version 1 of control groups
  says("sys/fs/cgroup/cpu/docker/cpu.cfs_period_us", "100000");
  says("sys/fs/cgroup/cpu/docker/cpu.cfs_quota_us", "-1");
  EXPECT_EQ(places({0, 1, 2, 3}).usable(), 4);
  says("sys/fs/cgroup/cpu/docker/cpu.cfs_quota_us", "50000");
  EXPECT_EQ(places({0, 1, 2, 3}).usable(), 1);
}

// Copies of Linux' files on a group's memory: the smallest limit of the process's group and of those above
// it.
TEST_F(Doctor, SaysHowMuchMemoryItsControlGroupAllows) {
  const auto says = [&](const std::string& file, const std::string& text) {
    std::filesystem::create_directories((dir_ / file).parent_path());
    write_atomically(dir_ / file, text + "\n");
  };
  EXPECT_EQ(doctor::examine_memory(dir_).health, doctor::Health::ok);  // no group is named
  says("proc/self/cgroup", "0::/job/step");
  says("sys/fs/cgroup/job/step/memory.max", "max");
  EXPECT_EQ(doctor::examine_memory(dir_).health, doctor::Health::ok);
  says("sys/fs/cgroup/job/memory.max", std::to_string(3 << 29));
  says("sys/fs/cgroup/job/memory.current", std::to_string(1 << 29));
  const doctor::Check c = doctor::examine_memory(dir_);
  EXPECT_EQ(c.health, doctor::Health::look);
  EXPECT_NE(c.found.find("allows 1.5 GiB (0.5 GiB are in use)"), std::string::npos) << c.found;
  EXPECT_NE(c.mend.find("--mem"), std::string::npos) << c.mend;
  says("proc/self/cgroup", "7:memory:/docker\n2:cpu,cpuacct:/docker\n0::/");  // version 1 of control groups
  says("sys/fs/cgroup/memory/docker/memory.limit_in_bytes", "9223372036854771712");
  EXPECT_EQ(doctor::examine_memory(dir_).health, doctor::Health::ok);
  says("sys/fs/cgroup/memory/docker/memory.limit_in_bytes", std::to_string(1 << 30));
  EXPECT_NE(doctor::examine_memory(dir_).found.find("allows 1.0 GiB"), std::string::npos);
}

// A copy of Linux' files on the cores' frequencies.
TEST_F(Doctor, NamesCoresWhoseFrequencyIsHeldDown) {
  const auto core = [&](int n, const std::string& driver, const std::string& governor, int may) {
    const auto of = dir_ / "sys/devices/system/cpu" / ("cpu" + std::to_string(n)) / "cpufreq";
    std::filesystem::create_directories(of);
    write_atomically(of / "scaling_driver", driver + "\n");
    write_atomically(of / "scaling_governor", governor + "\n");
    write_atomically(of / "cpuinfo_max_freq", "3500000\n");
    write_atomically(of / "scaling_max_freq", std::to_string(may) + "\n");
    return doctor::examine_clocks(dir_ / "sys").front();
  };
  doctor::Check c = core(0, "intel_pstate", "powersave", 3500000);
  EXPECT_EQ(c.health, doctor::Health::ok) << c.found;
  EXPECT_EQ(c.found, "up to 3.50 GHz, governor powersave");
  c = core(0, "acpi-cpufreq", "powersave", 3500000);
  EXPECT_EQ(c.health, doctor::Health::look) << c.found;
  EXPECT_NE(c.mend.find("cpupower frequency-set -g performance"), std::string::npos) << c.mend;
  c = core(0, "acpi-cpufreq", "performance", 3500000);
  EXPECT_EQ(c.health, doctor::Health::ok) << c.found;
  c = core(1, "acpi-cpufreq", "performance", 2100000);
  EXPECT_EQ(c.health, doctor::Health::look) << c.found;
  EXPECT_NE(c.found.find("held to 60 % of that"), std::string::npos) << c.found;
}

#ifdef ISOBAR_OPEN_MPI
TEST_F(Doctor, NamesRanksOfOneHostThatTalkThroughTheNetwork) {
  const Said s = of("link", "OMPI_MCA_btl=tcp,self OMPI_MCA_pml=ob1");
  EXPECT_EQ(s.code, 0);
  EXPECT_EQ(s.health, "look") << s.found;
  EXPECT_NE(s.mend.find("OMPI_MCA_btl"), std::string::npos) << s.mend;
}
#endif

TEST_F(Doctor, NamesAFullDisk) {
  if (shell("unshare -m true").code != 0) GTEST_SKIP() << "may not mount";
  const Answer a = shell(at("mkdir full && unshare -m bash -c \"mount -t tmpfs -o size=2m none full && " +
                            isobar_command() + " doctor --results full\" 2>&1"));
  if (a.out.find("permission denied") != std::string::npos) GTEST_SKIP() << "may not mount";
  EXPECT_EQ(a.code, 1) << a.out;
  EXPECT_NE(a.out.find("FAILED   results"), std::string::npos) << a.out;
  EXPECT_NE(a.out.find("No space left on device"), std::string::npos) << a.out;
  EXPECT_NE(a.out.find("free some space"), std::string::npos) << a.out;
}

TEST_F(Doctor, NamesAResultsDirectoryThatIsNotThere) {
  const Said s = of("results", "", "--results nowhere");
  EXPECT_EQ(s.code, 1);
  EXPECT_NE(s.found.find("No such file"), std::string::npos) << s.found;
}

TEST_F(Doctor, NamesLocksThatAreNotThereAndThoseThatKeepNobodyOut) {
  for (const auto& [how, says] : std::vector<std::pair<std::string, std::string>>{
           {"absent", "Function not implemented"}, {"idle", "locks do not exclude other processes"}}) {
    const Said s =
        of("results", std::string("ISOBAR_NO_LOCKS=") + how + " LD_PRELOAD=" + preload("no_locks"));
    EXPECT_EQ(s.code, 1) << how;
    EXPECT_NE(s.found.find(says), std::string::npos) << s.found;
    EXPECT_NE(s.mend.find("flock"), std::string::npos) << s.mend;
  }
}

TEST_F(Doctor, NamesASchedulerThatDoesNotAnswer) {
  program("sbatch", "exit 1");
  const std::string bin =
      program("sinfo", "echo 'slurm_load_partitions: Unable to contact slurm controller' >&2; exit 1");
  const Said s = of("scheduler", "PATH=" + bin + ":$PATH");
  EXPECT_EQ(s.code, 0);  // nothing here needs it
  EXPECT_EQ(s.health, "look");
  EXPECT_NE(s.found.find("Unable to contact slurm controller"), std::string::npos) << s.found;
  program("sinfo", "echo 'debug* 2 up'");
  const Said alive = of("scheduler", "PATH=" + bin + ":$PATH");
  EXPECT_EQ(alive.health, "ok");
  EXPECT_EQ(alive.found, "Slurm answers: debug* 2 up");
}

TEST_F(Doctor, NamesDataThatDoNotOpen) {
  write_atomically(dir_ / "torn.nc", "CDF\x01 and no more");
  const Said s = of("data", "", "base.yaml --set data.train=torn.nc");
  EXPECT_EQ(s.code, 1);
  EXPECT_EQ(s.health, "FAILED");
  EXPECT_NE(s.found.find("torn.nc"), std::string::npos) << s.found;
}

TEST_F(Doctor, NamesASlowCore) {
  cpu_set_t set;
  ASSERT_EQ(::sched_getaffinity(0, sizeof set, &set), 0);
  if (CPU_COUNT(&set) < 2) GTEST_SKIP() << "one core has no others";
  int core = CPU_SETSIZE - 1;
  while (!CPU_ISSET(core, &set)) --core;
  std::vector<pid_t> busy;
  for (int i = 0; i < 24; ++i) {  // others may keep the other cores busy
    const pid_t child = ::fork();
    if (child == 0) {
      ::setsid();  // Linux shares a core among sessions (autogroups), not among processes
      CPU_ZERO(&set);
      CPU_SET(core, &set);
      ::sched_setaffinity(0, sizeof set, &set);
      for (volatile double x = 1;;) x = x * 0.999;
    }
    busy.push_back(child);
  }
  const Said s = of("cores", "");
  for (const pid_t child : busy) ::kill(child, SIGKILL), ::waitpid(child, nullptr, 0);
  EXPECT_EQ(s.health, "look") << s.found;
  EXPECT_NE(s.found.find("core " + std::to_string(core) + " at "), std::string::npos) << s.found;
  EXPECT_EQ(s.code, 0);
}

}  // namespace
}  // namespace isobar::cli
