// A stand-in for the trainer without training: reads the configuration, writes result.jsonl by the contract,
// and commits the fault that train.seed selects. With more than one rank it works in a child in its own
// process group and waits for it, as mpiexec does.
//
//   fake_train train CONFIG --ranks N --set run.out="DIR"
//
// FAKE_LOG=FILE gets a line at every start and end, so that tests count executions independently of the
// sweep; FAKE_STEP_MS is the time of a step; FAKE_MPI starts ranks with the real mpiexec; FAKE_SPEEDS makes
// the recorded times depend on the run, scaled by its value; FAKE_CONTENDED names a trial whose recorded
// steps scatter widely.
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fault.h"
#include "model/base/error.h"
#include "model/base/spec/spec.h"
#include "model/base/system/files.h"

using isobar::sweep::Fault;
using nlohmann::json;

namespace {

void log_line(const std::string& what) {
  if (const char* file = std::getenv("FAKE_LOG")) {
    const char* id = std::getenv("ISOBAR_TRIAL");
    isobar::append_line(file, what + " " + (id ? id : "?"));
  }
}

void pause_ms(long ms) {
  ::usleep(static_cast<useconds_t>(ms) * 1000);
}

[[noreturn]] void stay_forever() {
  ::signal(SIGTERM, SIG_IGN);
  for (;;) pause_ms(1000);
}

void leave_stray() {
  if (::fork() == 0) {
    ::setsid();
    stay_forever();
  }
}

void misbehave(Fault fault, const std::string& results) {
  switch (fault) {
    case Fault::segv:
      ::raise(SIGSEGV);
      break;
    case Fault::abort:
      ::abort();
    case Fault::hang:
      leave_stray();
      stay_forever();
    case Fault::exhaust: {
      std::vector<char*> kept;
      for (;;) {  // 16 MB at a time, touched
        char* block = static_cast<char*>(std::malloc(16 << 20));
        if (!block) throw std::bad_alloc();
        std::memset(block, static_cast<int>(kept.size()), 16 << 20);
        kept.push_back(block);
        pause_ms(2);
      }
    }
    case Fault::bad_alloc:
      throw std::bad_alloc();
    case Fault::numeric:
      isobar::append_line(results, json({{"event", "run_end"},
                                         {"status", "failed"},
                                         {"class", "numeric"},
                                         {"message", "loss is NaN at step 2"}})
                                       .dump());
      ::_exit(3);
    case Fault::slow:
      pause_ms(600'000);
      break;
    case Fault::silent_exit:
      ::_exit(0);
    case Fault::half_line:
      if (std::FILE* f = std::fopen(results.c_str(), "a")) {
        std::fputs("{\"event\":\"st", f);
        std::fclose(f);
      }
      ::raise(SIGKILL);
      break;
    default:
      break;
  }
}

// Recorded seconds of a step: less with ranks, micro-batches and bf16, plus a little noise.
double seconds_of(const isobar::RunSpec& spec, int64_t ranks, int64_t step) {
  const char* times = std::getenv("FAKE_SPEEDS");
  if (!times) return 0.001 * static_cast<double>(step);
  const double micro_batches = static_cast<double>(spec.train.global_batch) /
                               static_cast<double>(ranks * std::max<int64_t>(1, spec.policy.micro_batch));
  const double samples = static_cast<double>(spec.train.global_batch) / static_cast<double>(ranks);
  const double noise = 1 + 0.01 * static_cast<double>((step * 7919) % 13 - 6) / 6;
  return (2e-3 * samples * (spec.policy.amp == isobar::Amp::none ? 1.0 : 0.6) + 1e-3 * micro_batches + 5e-4) *
         noise * std::atof(times);
}

int train(const isobar::RunSpec& spec, const std::string& out, int64_t ranks) {
  const auto fault = static_cast<Fault>(spec.train.seed);
  const char* step_ms = std::getenv("FAKE_STEP_MS");
  const long ms = step_ms ? std::atol(step_ms) : 5;
  const std::string results = out + "/result.jsonl";
  if (fault == Fault::no_start) {
    std::fputs("no slots are available\n", stderr);
    return 1;
  }
  isobar::append_line(results, json({{"event", "run_start"},
                                     {"schema", 1},
                                     {"time_utc", "2024-01-01T00:00:00Z"},
                                     {"spec", isobar::to_json(spec)},
                                     {"ranks", ranks},
                                     {"threads", 1},
                                     {"plan_hash", "abc"},
                                     {"parameters", 1234},
                                     {"flops_forward_per_sample", 5e9},
                                     {"memory", {{"arena", 4096}, {"by_category", {{"params", 1024}}}}},
                                     {"provenance", {{"commit", "c0ffee"}, {"host", "fake"}}}})
                                   .dump());
  for (int64_t step = 1; step <= spec.train.steps || fault == Fault::crawl; ++step) {
    if (step == 2) misbehave(fault, results);
    pause_ms(fault == Fault::crawl ? 500 : ms);
    isobar::append_line(results, json({{"event", "step"},
                                       {"step", step},
                                       {"epoch", 0},
                                       {"loss", 1.0 / step},
                                       {"seconds", seconds_of(spec, ranks, step)},
                                       {"samples_per_s", 100},
                                       {"data_wait_s", 0.0001},
                                       {"rss_bytes", 1 << 20}})
                                     .dump());
  }
  // Fixed values that tests look for; with FAKE_SPEEDS, statistics of the steps above and no ops.
  const char *contended = std::getenv("FAKE_CONTENDED"), *id = std::getenv("ISOBAR_TRIAL");
  const bool wide = contended && id && std::strstr(contended, id);
  json step_s = {{"median", 0.003}, {"p10", 0.0025}, {"p90", wide ? 0.009 : 0.0035}, {"min", 0.002}};
  json ops = {{{"path", "block00/attn/qkv/forward"},
               {"kind", "matmul"},
               {"lane", "compute"},
               {"count", 4},
               {"seconds", 0.5},
               {"flops", 1e9},
               {"bytes", 1e6}}};
  if (std::getenv("FAKE_SPEEDS")) {
    std::vector<double> seconds;
    for (int64_t step = 3; step <= spec.train.steps; ++step) seconds.push_back(seconds_of(spec, ranks, step));
    std::sort(seconds.begin(), seconds.end());
    const auto at = [&](double share) {
      return seconds[static_cast<size_t>(share * static_cast<double>(seconds.size() - 1))];
    };
    step_s = {{"median", at(0.5)}, {"p10", at(0.1)}, {"p90", at(0.9)}, {"min", at(0)}};
    ops = json::array();
  }
  isobar::append_line(results, json({{"event", "run_end"},
                                     {"status", "ok"},
                                     {"steps", spec.train.steps},
                                     {"step_s", step_s},
                                     {"samples_per_s", 1000},
                                     {"peak_rss_bytes", 2 << 20},
                                     {"unattributed_share", 0.01},
                                     {"ops", ops}})
                                   .dump());
  if (fault == Fault::stray) leave_stray();
  if (fault == Fault::late_segv) ::raise(SIGSEGV);
  return 0;
}

// Runs the work of all ranks in one process with its own process group.
int in_own_group(const isobar::RunSpec& spec, const std::string& out, int64_t ranks) {
  const pid_t rank = ::fork();
  if (rank == 0) {
    ::setpgid(0, 0);
    int code = 1;
    try {
      code = train(spec, out, ranks);
    } catch (const std::bad_alloc&) {
      code = 4;
    }
    ::_exit(code);
  }
  int status = 0;
  ::waitpid(rank, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int under_mpiexec(char** argv, const std::string& ranks) {
  std::vector<std::string> words = {"mpiexec",
                                    "--allow-run-as-root",
                                    "--oversubscribe",
                                    "-n",
                                    ranks,
                                    std::filesystem::read_symlink("/proc/self/exe").string()};
  for (char** a = argv + 1; *a; ++a) words.emplace_back(*a);
  std::vector<char*> pointers;
  for (std::string& w : words) pointers.push_back(w.data());
  pointers.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::execvp(pointers[0], pointers.data());
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int mpi_rank(const isobar::RunSpec& spec, const std::string& out, int64_t ranks, int rank) {
  if (rank == 0) return train(spec, out, ranks);
  if (static_cast<Fault>(spec.train.seed) == Fault::hang) stay_forever();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7 || std::strcmp(argv[1], "train") != 0 || std::strcmp(argv[3], "--ranks") != 0) return 64;
  const std::string assignment = argv[6];  // run.out="DIR"
  const std::string out = json::parse(assignment.substr(assignment.find('=') + 1)).get<std::string>();
  const int64_t ranks = std::atol(argv[4]);
  try {
    const isobar::RunSpec spec = isobar::load_run_spec(argv[2]);
    if (const char* rank = std::getenv("OMPI_COMM_WORLD_RANK"))
      return mpi_rank(spec, out, ranks, std::atoi(rank));

    log_line("start");
    // The lock detects two concurrent trials.
    const char* log = std::getenv("FAKE_LOG");
    const int lock = ::open((std::string(log ? log : "/dev/null") + ".lock").c_str(), O_RDWR | O_CREAT, 0644);
    if (lock >= 0 && ::flock(lock, LOCK_EX | LOCK_NB) != 0) log_line("overlap");
    if (static_cast<Fault>(spec.train.seed) == Fault::bad_config)
      throw isobar::ConfigError(argv[2], "data.train", "there is no such file", "make it first");
    int code = 0;
    if (ranks == 1)
      code = train(spec, out, ranks);
    else
      code = std::getenv("FAKE_MPI") ? under_mpiexec(argv, argv[4]) : in_own_group(spec, out, ranks);
    log_line(code == 0 ? "end" : "fail");
    return code;
  } catch (const isobar::ConfigError& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 2;
  } catch (const std::bad_alloc&) {
    std::fputs("std::bad_alloc\n", stderr);
    return 4;
  }
}
