#include "bench/guest/other_host.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "bench/guest/command.h"
#include "bench/guest/run_guest.h"
#include "bench/sweep/run/process.h"
#include "model/base/system/files.h"
#include "model/base/system/shared_files.h"
#include "model/base/text/json.h"
#include "model/records/results.h"

namespace isobar::guest {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr double kHeard_s = 20;          // within which the first node has read of a failure
constexpr int64_t kMostWords = 1 << 14;  // bytes of a stream for the verdict

fs::path file_of(const fs::path& run_dir, int64_t node) {
  return run_dir / ("node-" + std::to_string(node) + ".json");
}

}  // namespace

double grace_of(const RunSpec& spec) {
  return spec.run.resume.empty() ? 5 : 10;
}

void write_flags(const RunSpec& spec) {
  if (const Flags f = flags_of(spec); !f.file.empty()) write_atomically(f.file, f.text);
}

std::optional<sweep::Verdict> told_failure(const fs::path& run_dir, const GuestHosts& hosts, int64_t k) {
  const json j = json_if_there(file_of(run_dir, k));
  // Another port is another start's.
  if (!j.is_object() || j.value("port", json()) != json(hosts.port)) return std::nullopt;
  const auto c = records::run_class(text_in(j, "class"));
  return sweep::Verdict{c.value_or(records::RunClass::crash),
                        "node " + std::to_string(k) + " (" + hosts.names[k] + "): " + text_in(j, "message")};
}

std::optional<sweep::Verdict> run_on_other_host(const RunSpec& spec, const GuestHosts& hosts, bool resume,
                                                const volatile std::sig_atomic_t* stop) {
  const fs::path dir = spec.run.out;
  fs::create_directories(dir);
  const std::string k = std::to_string(hosts.rank);
  const fs::path out = dir / ("output-" + k + ".txt"), err = dir / ("errors-" + k + ".txt");
  const auto last = resume ? sweep::checkpoint_of_command(spec, dir) : std::nullopt;
  const std::string command = guest_command(spec, hosts, last ? last->string() : "");
  sweep::WatchedProcess process(
      {.argv = {"/bin/sh", "-c", command}, .out = out, .err = err, .limits = {.grace_s = grace_of(spec)}});
  bool asked = false;
  while (!process.wait(0.05))
    if (!asked && *stop != 0) asked = true, process.cancel();
  const sweep::ProcessOutcome& o = process.outcome();
  if (o.end == sweep::ProcessEnd::exited && o.code == 0) return std::nullopt;
  // A code other than 0 would make the launcher end the first node's process, which may still write.
  if (asked) return std::nullopt;
  const sweep::Verdict v = verdict_of_guest(o, read_end(out, kMostWords), read_end(err, kMostWords),
                                            records::read_tail(dir / "result.jsonl").last_step);
  write_atomically(
      file_of(dir, hosts.rank),
      json_text(
          json({{"class", records::name_of(v.run_class)}, {"message", v.message}, {"port", hosts.port}})) +
          "\n");
  // The launcher ends the first node's process, too, once this one has ended.
  const auto begin = std::chrono::steady_clock::now();
  while (*stop == 0 &&
         std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < kHeard_s)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  return v;
}

}  // namespace isobar::guest
