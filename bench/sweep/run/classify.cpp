#include "bench/sweep/run/classify.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <vector>

#include "model/base/system/signal_name.h"
#include "model/base/text/printed.h"
#include "model/records/results.h"

namespace isobar::sweep {
namespace {

constexpr size_t kLongestQuote = 500;  // bytes

struct FailureWords {
  records::RunClass run_class;
  const char* title;
  std::vector<const char*> words;
};

// In the order in which they count. Connections that end are mostly what another rank's failure causes.
const std::vector<FailureWords>& failures() {
  static const std::vector<FailureWords> kAll = {
      {records::RunClass::oom_device,
       "out of device memory",
       {"CUDA out of memory", "torch.OutOfMemoryError", "torch.cuda.OutOfMemoryError", "HIP out of memory",
        "XPU out of memory", "CUDA error: out of memory", "Cuda failure 'out of memory'",
        "Cuda failure 2 'out of memory'", "RESOURCE_EXHAUSTED: Out of memory",
        "RESOURCE_EXHAUSTED: Failed to allocate", "OOM when allocating tensor",
        "Ran out of memory in memory space hbm", "cudaErrorMemoryAllocation", "CUDA_ERROR_OUT_OF_MEMORY",
        "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED", "hipErrorOutOfMemory"}},
      {records::RunClass::oom_host,
       "out of memory",
       {"std::bad_alloc", "Cannot allocate memory", "DefaultCPUAllocator: can't allocate memory",
        "DefaultCPUAllocator: not enough memory", "MemoryError", "Unable to allocate",
        "out of shared memory"}},
      {records::RunClass::oom_host,
       "killed, as it is when memory runs out",
       {"oom-kill", "oom_kill event", ": Out Of Memory", "OOM Killed", "is killed by signal: Killed",
        "Signal 9 (SIGKILL) received by PID", " Killed ", "\nKilled\n"}},
      {records::RunClass::numeric,
       "the loss is not a number",
       {"FloatingPointError", "Loss is nan", "loss is nan", "Loss is NaN", "loss is NaN", "NaN loss",
        "loss is nan or inf", "returned nan values in its", "found NaN in local", "Unexpected result nan",
        ": Invalid loss, terminating training", "Current loss scale already at minimum",
        "stopping training: nan"}},
      {records::RunClass::hang,
       "a collective operation waited too long",
       {"collective operation timeout", "Timed out waiting", "operations have failed or timed out",
        "wait timeout after"}},
      {records::RunClass::bad_config,
       "refused its arguments",
       {"error: unrecognized arguments:", "error: the following arguments are required:", "error: argument ",
        "hydra.errors.", "omegaconf.errors.", "Could not override '", "is not in struct",
        "Error: No such option", "Error: Invalid value for"}},
      {records::RunClass::launch_fail,
       "has no driver or GPU",
       {"Found no NVIDIA driver", "CUDA driver version is insufficient", "No CUDA GPUs are available",
        "no CUDA-capable device is detected", "Torch not compiled with CUDA enabled"}},
      {records::RunClass::launch_fail,
       "lacks a module",
       {"ModuleNotFoundError: No module named", "ImportError: ", "cannot open shared object file"}},
      {records::RunClass::crash,
       "a connection between ranks was lost",
       {"Connection closed by peer", "Connection reset by peer", "ncclRemoteError", "Broken pipe"}}};
  return kAll;
}

std::string line_at(const std::string& text, size_t at) {
  const size_t last = text.find_last_of("\n\r", at);
  const size_t begin = text[at] == '\n' ? at + 1 : last == std::string::npos ? 0 : last + 1;
  const size_t end = std::min(text.find_first_of("\n\r", begin), text.size());
  return text.substr(begin, std::min(end - begin, kLongestQuote));
}

std::optional<size_t> place_of(const FailureWords& f, const std::string& text) {
  for (const char* words : f.words)
    if (const size_t at = text.find(words); at != std::string::npos) return at;
  return std::nullopt;
}

/// True if the text names a failure of this class.
bool says_failure(records::RunClass run_class, const std::string& text) {
  const auto names_it = [&](const FailureWords& f) { return f.run_class == run_class && place_of(f, text); };
  return std::any_of(failures().begin(), failures().end(), names_it);
}

std::string where(const records::ResultTail& tail) {
  if (!tail.started) return "before run_start";
  std::string text =
      tail.last_step >= 0 ? "after step " + std::to_string(tail.last_step) : "before the first step";
  if (!tail.last_op.empty()) text += ", last op " + tail.last_op;
  return text;
}

// The last non-empty line of the error output.
std::string last_words(const std::string& err) {
  size_t end = err.find_last_not_of(" \t\r\n");
  if (end == std::string::npos) return "";
  const size_t begin = err.find_last_of('\n', end);
  return err
      .substr(begin == std::string::npos ? 0 : begin + 1,
              end - (begin == std::string::npos ? 0 : begin + 1) + 1)
      .substr(0, 500);
}

std::string with_words(const std::string& text, const std::string& err) {
  const std::string words = last_words(err);
  return words.empty() ? text : text + ": " + words;
}

std::string seconds(double s) {
  return printed("%.1f s", s);
}

// Recognises assertions of glibc and libstdc++.
bool says_assertion(const std::string& err) {
  return (err.find("Assertion `") != std::string::npos || err.find("Assertion '") != std::string::npos) &&
         err.find("failed") != std::string::npos;
}

bool says_storage_failed(const std::string& text) {
  for (const int code : {ENOSPC, EDQUOT, EROFS, ESTALE})
    if (text.find(std::strerror(code)) != std::string::npos) return true;
  return false;
}

Verdict of_signal(int signal, const ProcessOutcome& o, const records::ResultTail& tail,
                  const std::string& err) {
  const std::string name = signal_name(signal);
  if (signal == SIGKILL && o.oom_kills > 0)
    return {records::RunClass::oom_host, "killed by the kernel's out-of-memory killer " + where(tail)};
  if (signal == SIGABRT && says_failure(records::RunClass::oom_device, err))
    return {records::RunClass::oom_device, with_words("out of device memory " + where(tail), err)};
  if (signal == SIGABRT && says_assertion(err))
    return {records::RunClass::assertion, with_words("a check failed " + where(tail), err)};
  if (signal == SIGABRT && says_failure(records::RunClass::oom_host, err))
    return {records::RunClass::oom_host, "out of memory (" + name + ") " + where(tail)};
  if (signal == SIGTERM || signal == SIGINT || signal == SIGHUP || signal == SIGUSR1)
    return {records::RunClass::interrupted, "stopped by " + name + " from outside " + where(tail)};
  return {records::RunClass::crash, with_words(name + " " + where(tail), err)};
}

Verdict of_exit(int code, const ProcessOutcome& o, const records::ResultTail& tail, const std::string& err) {
  switch (code) {
    case 0:
      return {records::RunClass::crash, "ended without a result " + where(tail)};
    case 2:
      return {records::RunClass::bad_config, last_words(err)};
    case 3:
      return {records::RunClass::numeric, with_words("numeric failure " + where(tail), err)};
    case 4:
      if (says_failure(records::RunClass::oom_device, err))
        return {records::RunClass::oom_device, with_words("out of device memory " + where(tail), err)};
      return {records::RunClass::oom_host, with_words("out of memory " + where(tail), err)};
    case 126:
    case 127:
      return {records::RunClass::launch_fail,
              with_words("could not be started (exit code " + std::to_string(code) + ")", err)};
    default:
      break;
  }
  if (says_failure(records::RunClass::oom_device, err))
    return {records::RunClass::oom_device, with_words("out of device memory " + where(tail), err)};
  if (says_assertion(err))
    return {records::RunClass::assertion, with_words("a check failed " + where(tail), err)};
  if (says_failure(records::RunClass::oom_host, err))
    return {records::RunClass::oom_host, with_words("out of memory " + where(tail), err)};
  if (code > 128 && code <= 128 + SIGRTMAX)
    return of_signal(code - 128, o, tail, err);  // 128 + signal, as mpiexec and shells report it
  const std::string text = "exit code " + std::to_string(code) + " " + where(tail);
  return {tail.started ? records::RunClass::crash : records::RunClass::launch_fail, with_words(text, err)};
}

std::string how_it_ended(const ProcessOutcome& o) {
  switch (o.end) {
    case ProcessEnd::exited:
      return o.code == 0 ? "" : "exit code " + std::to_string(o.code) + " after its end";
    case ProcessEnd::signalled:
      return signal_name(o.code) + " after its end";
    default:
      return "had to be stopped after its end";
  }
}

}  // namespace

Verdict classify(const ProcessOutcome& o, const records::ResultTail& tail, const std::string& err) {
  // A complete result counts, however the process exited afterwards.
  if (tail.ended && tail.status == "ok") return {records::RunClass::ok, how_it_ended(o)};
  if (o.end == ProcessEnd::not_started)
    return {records::RunClass::launch_fail, std::string("could not be started: ") + std::strerror(o.code)};
  if (o.end == ProcessEnd::cancelled)
    return {records::RunClass::interrupted, "the sweep was stopped " + where(tail)};
  if (o.end == ProcessEnd::lost)
    return {records::RunClass::interrupted, "its supervisor was killed " + where(tail)};
  if (o.end == ProcessEnd::memory)
    return {records::RunClass::oom_host, "took more than its memory limit (" +
                                             std::to_string(o.peak_private_bytes / 1'000'000) +
                                             " MB resident) " + where(tail)};
  if (says_storage_failed(err) || says_storage_failed(tail.message))
    return {records::RunClass::interrupted,
            with_words("its results could not be written " + where(tail), err), true, true};
  // The run's own failure class comes next, except "interrupted", which only echoes a signal sent by a limit.
  if (tail.ended)
    if (const auto own = records::run_class(tail.failure);
        own && *own != records::RunClass::interrupted && *own != records::RunClass::ok)
      return {*own, tail.message.empty() ? where(tail) : tail.message};
  // A run that never started cannot hang: its launcher failed, for example because a node's daemon is gone.
  if (!tail.started && (o.end == ProcessEnd::timeout || o.end == ProcessEnd::hang))
    return {records::RunClass::launch_fail, with_words("had not begun after " + seconds(o.wall_s), err)};
  if (o.end == ProcessEnd::timeout)
    return {records::RunClass::timeout,
            "stopped by the time limit, " + seconds(o.wall_s) + " " + where(tail)};
  if (o.end == ProcessEnd::hang) return {records::RunClass::hang, "no progress " + where(tail)};
  if (o.end == ProcessEnd::signalled) return of_signal(o.code, o, tail, err);
  return of_exit(o.code, o, tail, err);
}

std::optional<Verdict> verdict_of_words(const std::string& words, const records::ResultTail& tail) {
  const auto said = failure_said_in(words, tail.last_step >= 0);
  if (!said) return std::nullopt;
  return Verdict{said->run_class, std::string(said->title) + " " + where(tail) + ": " + said->line};
}

std::optional<Verdict> verdict_from_results(const records::ResultTail& tail) {
  if (!tail.ended) return std::nullopt;
  if (tail.status == "ok") return Verdict{records::RunClass::ok, ""};
  if (says_storage_failed(tail.message)) return std::nullopt;
  const auto own = records::run_class(tail.failure);
  if (own == records::RunClass::numeric || own == records::RunClass::bad_config ||
      own == records::RunClass::oom_host || own == records::RunClass::oom_device ||
      own == records::RunClass::wrong_result || own == records::RunClass::assertion)
    return Verdict{*own, tail.message};
  return std::nullopt;
}

Verdict doubted(Verdict v, const StepStats& step_s, const Plausibility& p) {
  const double measured = step_s.of(kStatistic);
  if (v.run_class != records::RunClass::ok || measured <= 0) return v;
  if (p.least_step_s > 0 && measured < p.least_step_s)
    return {records::RunClass::implausible,
            printed("a step took %.3g s (%s), and the machine's peaks allow no less than %.3g s", measured,
                    title_of(kStatistic), p.least_step_s)};
  const double scatter = step_s.spread();
  if (p.noise_limit > 0 && scatter > p.noise_limit)
    return {records::RunClass::noisy,
            printed("p10 to p90 of the steps is %.0f %% of their median, above the %.0f %% allowed",
                    100 * scatter, 100 * p.noise_limit)};
  return v;
}

Verdict verdict_of_job(const std::string& state, const std::string& job) {
  const std::string said = " (job " + job + ": " + state + ")";
  const auto is = [&](const char* word) { return state.starts_with(word); };
  if (is("NODE_FAIL") || is("BOOT_FAIL"))
    return {records::RunClass::node_fail, "its node went down" + said, true};
  if (is("PREEMPTED") || is("REQUEUED"))
    return {records::RunClass::preempted, "its job had to give way" + said, true};
  if (is("TIMEOUT") || is("DEADLINE"))
    return {records::RunClass::timeout, "the job's time limit came first" + said, true};
  if (is("OUT_OF_MEMORY")) return {records::RunClass::oom_host, "the job ran out of memory" + said};
  if (is("CANCELLED")) return {records::RunClass::interrupted, "its job was cancelled" + said};
  return {records::RunClass::interrupted, "its job ended without a word about it" + said, true};
}

std::optional<SaidFailure> failure_said_in(const std::string& text, bool trained) {
  for (const FailureWords& f : failures()) {
    const bool of_start =
        f.run_class == records::RunClass::launch_fail || f.run_class == records::RunClass::bad_config;
    if (trained && of_start) continue;
    if (const auto at = place_of(f, text)) return SaidFailure{f.run_class, f.title, line_at(text, *at)};
  }
  return std::nullopt;
}

}  // namespace isobar::sweep
