#include "bench/guest/record_loop.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <system_error>

#include "bench/guest/guest_log.h"
#include "bench/guest/hosts.h"
#include "bench/sweep/run/classify.h"
#include "model/base/error.h"
#include "model/base/text/json.h"
#include "model/records/files/result_file.h"

namespace isobar::guest {
namespace {

using nlohmann::json;

constexpr const char* kLines = "standard input";
constexpr size_t kLongest = 1 << 20;  // bytes of a line

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Ranks of the fullest node of this job; all of them outside of jobs.
int64_t ranks_on_host(int64_t ranks) {
  const auto nodes = std::max<int64_t>(1, static_cast<int64_t>(nodes_of_job(::getenv).size()));
  return (ranks + nodes - 1) / nodes;
}

records::RunClass class_of(const std::string& message) {
  const auto said = sweep::failure_said_in(message);
  return said ? said->run_class : records::RunClass::crash;
}

/// Whole lines of a descriptor. They also end when the process that started this one has: its children may
/// hold the other end of a pipe open.
class Lines {
 public:
  explicit Lines(int descriptor) : descriptor_(descriptor), parent_(::getppid()) {}
  std::optional<std::string> next() {
    for (;;) {
      if (const size_t end = kept_.find('\n'); end != std::string::npos) {
        std::string line = kept_.substr(0, end);
        kept_.erase(0, end + 1);
        return line;
      }
      if (kept_.size() > kLongest)
        throw ConfigError(kLines, "", "has a line of more than 1 MiB", "write one record a line");
      if (!more()) return std::nullopt;  // a torn last line is no record
    }
  }

 private:
  bool more() {
    pollfd waited{.fd = descriptor_, .events = POLLIN, .revents = 0};
    int ready = 0;
    while ((ready = ::poll(&waited, 1, 500)) <= 0) {
      if (ready < 0 && errno != EINTR) throw std::system_error(errno, std::generic_category(), kLines);
      if (::getppid() != parent_) return false;
    }
    std::array<char, 1 << 14> some;
    const ssize_t n = ::read(descriptor_, some.data(), some.size());
    if (n < 0 && errno == EINTR) return true;
    if (n < 0) throw std::system_error(errno, std::generic_category(), kLines);
    kept_.append(some.data(), static_cast<size_t>(n));
    return n > 0;
  }
  const int descriptor_;
  const pid_t parent_;
  std::string kept_;
};

class Loop {
 public:
  Loop(const RunSpec& spec, const json& about, const std::function<void(const std::string&)>& tell)
      : spec_(spec), tell_(tell), log_(spec) {
    json all = {{"command", "a loop of its own"}};
    if (!about.is_null()) all["about"] = about;
    answer(log_.begin(all, ranks_on_host(spec.layout.world())));
  }

  records::EndRecord operator()(Lines lines) {
    while (!end_) {
      try {
        ++line_;
        const std::optional<std::string> text = lines.next();
        if (!text) break;
        take(*text);
      } catch (const ConfigError& e) {
        close(log_.failed(records::RunClass::bad_config, e.what()));
        throw;
      }
      last_at_ = seconds_now();
      log_.heartbeat();
    }
    if (!end_)
      finish(log_.failed(records::RunClass::crash,
                         "the loop ended without a word after step " + std::to_string(last_step_)));
    return *end_;
  }

 private:
  [[noreturn]] void refuse(const std::string& key, const std::string& what, const std::string& how) const {
    throw ConfigError(kLines + (":" + std::to_string(line_)), key, what, how);
  }

  void take(const std::string& text) {
    json j = parse_json(text);
    if (!j.is_object()) refuse("", "is no JSON object: " + text.substr(0, 60), "write one record a line");
    const std::optional<double> samples = samples_of(j);
    const records::Record record = records::record_from_json(j, {.file = kLines, .line = line_});
    const bool step = std::holds_alternative<records::StepRecord>(record);
    const auto* end = std::get_if<records::EndRecord>(&record);
    if (!step && !end && !std::holds_alternative<records::ValidRecord>(record) &&
        !std::holds_alternative<records::CheckpointRecord>(record))
      refuse("event", "is '" + text_in(j, "event") + "', which no loop reports",
             "write step, valid, checkpoint or run_end");
    if (samples && !step) refuse("samples", "is of a step", "leave it out");
    if (!end && !j.contains("step")) refuse("step", "is missing", "count the optimizer steps from 1");
    refuse_unknown(j, record);
    if (end) return finish(ended(*end));
    if (!step) log_.write(record);
    answer(step ? take_step(std::get<records::StepRecord>(record), j, samples) : record);
  }

  /// Removes them from the line: samples, else tokens over those of a sample.
  std::optional<double> samples_of(json& j) const {
    std::optional<double> out;
    for (const char* key : {"samples", "tokens"}) {
      const auto at = j.find(key);
      if (at == j.end()) continue;
      if (!at->is_number() || !(at->get<double>() > 0))
        refuse(key, "is " + at->dump() + ", not a number above 0", "give those of this step, over all ranks");
      if (out) refuse(key, "says what samples does", "keep one of the two");
      const bool words = std::string(key) == "tokens";
      if (words && !spec_.net.words())
        refuse(key, "is of nets of tokens, and net.kind is " + spec_.net.kind(), "give samples");
      out = at->get<double>() / (words ? static_cast<double>(spec_.net.words()->seq_length) : 1);
      j.erase(at);
    }
    return out;
  }

  records::StepRecord take_step(records::StepRecord step, const json& j, std::optional<double> samples) {
    const auto batch = static_cast<double>(spec_.train.global_batch);
    if (step.step <= last_step_)
      refuse("step", "is " + std::to_string(step.step) + ", after " + std::to_string(last_step_),
             "count the steps up");
    if (samples && last_step_ < 0 && *samples != batch)
      refuse("samples",
             "is " + json(*samples).dump() + ", and train.global_batch is " +
                 std::to_string(spec_.train.global_batch),
             "set train.global_batch to the samples of a step, over all ranks");
    if (j.contains("samples_per_s"))
      refuse("samples_per_s", "follows from samples and seconds", "give those");
    if (!j.contains("seconds")) step.seconds = seconds_now() - last_at_;
    if (!(step.seconds > 0)) refuse("seconds", "is not above 0", "leave it out, or give the step's time");
    if (j.contains("loss") && j["loss"].is_null()) step.loss = std::nan("");
    step.samples_per_s = samples.value_or(batch) / step.seconds;
    log_.step(step);
    last_step_ = step.step;
    return step;
  }

  records::EndRecord ended(const records::EndRecord& said) const {
    if (said.status != "ok" && said.status != "failed")
      refuse("status", "is '" + said.status + "'", "write ok or failed");
    if (said.ok() && !log_.timed())
      return log_.failed(records::RunClass::bad_config, "the loop reported no step");
    records::EndRecord end = said.ok() ? log_.complete(last_step_) : said;
    if (!end.failure && !end.ok()) end.failure = records::name_of(class_of(said.message.value_or("")));
    if (!end.ok() && !records::run_class(*end.failure))
      refuse("class", "is '" + *end.failure + "', which is no class of a failure",
             "isobar sweep --help lists them");
    end.peak_rss_bytes = said.peak_rss_bytes;
    return end;
  }

  /// Keys that the record does not take over would be lost without a word.
  void refuse_unknown(const json& j, const records::Record& record) const {
    const json known = records::to_json(record);
    for (const auto& [key, value] : j.items())
      if (!known.contains(key) && !value.is_null())
        refuse(key, "is no key of a " + records::event_of(record), "model/records/README.md lists them");
  }

  void finish(const records::EndRecord& end) {
    close(end);
    answer(*end_);
  }

  void close(records::EndRecord end) {
    end.seconds = seconds_now() - began_;
    log_.end(end);
    end_ = end;
  }

  void answer(const records::Record& record) const { tell_(records::line_of(record)); }

  const RunSpec& spec_;
  const std::function<void(const std::string&)>& tell_;
  GuestLog log_;
  std::optional<records::EndRecord> end_;
  const double began_ = seconds_now();
  double last_at_ = began_;  // of the line before
  int64_t last_step_ = -1, line_ = 0;
};

}  // namespace

records::EndRecord record_loop(const RunSpec& spec, int descriptor, const json& about,
                               const std::function<void(const std::string&)>& answer) {
  return Loop(spec, about, answer)(Lines(descriptor));
}

}  // namespace isobar::guest
