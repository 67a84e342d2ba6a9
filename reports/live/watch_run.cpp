#include "reports/live/watch_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "model/base/error.h"
#include "model/base/spec/spec.h"
#include "model/base/step_stats.h"
#include "model/records/files/result_file.h"
#include "reports/style/terminal.h"
#include "reports/tables/tables.h"

namespace isobar::report {
namespace {

constexpr size_t kLately = 20;  // most recent steps that determine the pace
constexpr double kSilent = 20;  // seconds without output after which a run is reported as silent

double value_in(const nlohmann::json& spec, const char* section, const char* key) {
  const auto s = spec.find(section);
  if (s == spec.end() || !s->is_object()) return 0;
  const auto v = s->find(key);
  return v != s->end() && v->is_number() ? v->get<double>() : 0;
}

std::string word_in(const nlohmann::json& spec, const char* section, const char* key) {
  const auto s = spec.find(section);
  if (s == spec.end() || !s->is_object()) return "";
  const auto v = s->find(key);
  return v != s->end() && v->is_string() ? v->get<std::string>() : "";
}

std::string subject(const records::StartRecord& s) {
  std::string text = word_in(s.spec, "net", "kind");
  if (s.parameters) text += ", " + integer(*s.parameters).text + " parameters";
  text += ", " + std::to_string(s.ranks) + (s.ranks == 1 ? " rank" : " ranks");
  const auto batch = static_cast<int64_t>(value_in(s.spec, "train", "global_batch"));
  if (batch > 0) text += ", global batch " + std::to_string(batch);
  const std::string amp = word_in(s.spec, "policy", "amp");
  text += ", " + precision_name(amp.empty() ? name_of(Amp::none) : amp);
  if (s.memory)
    text += ", " + significant(1e-6 * static_cast<double>(s.memory->arena), 3).text + " MB a rank";
  return text;
}

// "loss 0.123 (lowest 0.120 at step 90), validation 0.140 at step 80"
std::string losses(const RunState& s) {
  std::string text;
  const records::StepRecord* lowest = nullptr;
  for (const records::StepRecord& r : s.steps)
    if (r.loss && std::isfinite(*r.loss) && (!lowest || *r.loss < *lowest->loss)) lowest = &r;
  if (!s.steps.empty() && s.steps.back().loss) text = "loss " + significant(*s.steps.back().loss, 4).text;
  if (lowest)
    text +=
        " (lowest " + significant(*lowest->loss, 4).text + " at step " + std::to_string(lowest->step) + ")";
  if (!s.valid.empty() && s.valid.back().loss)
    text += std::string(text.empty() ? "" : ", ") + "validation " +
            significant(*s.valid.back().loss, 4).text + " (x) at step " + std::to_string(s.valid.back().step);
  return text;
}

std::string pace(const RunState& s) {
  const records::StepRecord& last = s.steps.back();
  std::string text = significant(1e3 * s.step_s(), 4).text + " ms a step";
  if (s.step_s() > 0 && last.seconds > 0)
    text += ", " + significant(last.samples_per_s * last.seconds / s.step_s(), 4).text + " samples/s";
  if (last.data_wait_s && last.seconds > 0)
    text += ", " + significant(100 * *last.data_wait_s / last.seconds, 2).text + " % waiting for data";
  if (last.lr) text += ", learning rate " + significant(*last.lr, 3).text;
  if (last.skipped.value_or(false)) text += ", step skipped";
  return text;
}

std::string how_it_ended(const records::EndRecord& e) {
  if (!e.ok()) return "FAILED (" + e.failure.value_or("unknown") + "): " + e.message.value_or("");
  std::string text = "done";
  if (e.seconds) text += " in " + duration_words(*e.seconds);
  if (e.stopped) text += ", stopped early: " + *e.stopped;
  return text;
}

}  // namespace

int64_t RunState::wanted() const {
  return start ? static_cast<int64_t>(value_in(start->spec, "train", "steps")) : 0;
}

double RunState::step_s() const {
  std::vector<double> lately;
  for (size_t i = steps.size() - std::min(steps.size(), kLately); i < steps.size(); ++i)
    lately.push_back(steps[i].seconds);
  return step_stats(lately).of(Statistic::median);
}

double RunState::left_s() const {
  if (steps.empty() || end) return 0;
  return step_s() * static_cast<double>(std::max<int64_t>(0, wanted() - steps.back().step));
}

RunWatch::RunWatch(const std::filesystem::path& dir) {
  state_.dir = dir;
  if (!std::filesystem::exists(dir / "result.jsonl"))
    throw ConfigError(dir, "result.jsonl", "is not there, nor is sweep.json",
                      "name a run's directory (run.out), or the --results of an `isobar sweep`");
}

void RunWatch::take(const records::Record& r) {
  if (const auto* start = std::get_if<records::StartRecord>(&r)) {
    state_.start = *start;
    state_.advisor = records::advisor_of(*start);
    state_.end.reset();
    if (!start->resumed.value_or(false)) state_.steps.clear(), state_.valid.clear();
  } else if (const auto* resume = std::get_if<records::ResumeRecord>(&r)) {
    std::erase_if(state_.steps, [&](const records::StepRecord& s) { return s.step > resume->step; });
    std::erase_if(state_.valid, [&](const records::ValidRecord& v) { return v.step > resume->step; });
  } else if (const auto* step = std::get_if<records::StepRecord>(&r)) {
    state_.steps.push_back(*step);
    state_.advisor.step(*step);
  } else if (const auto* valid = std::get_if<records::ValidRecord>(&r)) {
    state_.valid.push_back(*valid);
  } else if (const auto* ranks = std::get_if<records::RanksRecord>(&r)) {
    state_.ranks = *ranks;
    state_.advisor.ranks(*ranks);
  } else if (const auto* checkpoint = std::get_if<records::CheckpointRecord>(&r)) {
    state_.checkpoint = *checkpoint;
  } else if (const auto* end = std::get_if<records::EndRecord>(&r)) {
    state_.end = *end;
  }
}

void RunWatch::refresh() {
  const std::filesystem::path file = state_.dir / "result.jsonl";
  read_ = records::for_each_new(file, read_, [this](const records::Record& r) { take(r); });
  std::error_code none;
  const auto grown = std::filesystem::last_write_time(file, none);
  const auto age = std::filesystem::file_time_type::clock::now() - grown;
  state_.age_s = none ? 0 : std::chrono::duration<double>(age).count();
}

std::vector<std::string> lines_of(const RunState& s) {
  std::vector<std::string> lines;
  const auto line = [&](const std::string& text) { lines.push_back(printable(text)); };
  const int64_t step = s.steps.empty() ? 0 : s.steps.back().step;
  std::string head = s.dir.string() + "  step " + std::to_string(step);
  if (s.wanted() > 0) head += " of " + std::to_string(s.wanted());
  if (s.end)
    head += ", " + how_it_ended(*s.end);
  else if (s.age_s > kSilent)
    head += ", silent for " + duration_words(s.age_s);
  else if (s.left_s() > 0)
    head += ", about " + duration_words(s.left_s()) + " left";
  line(head);
  if (s.start) line(subject(*s.start));
  if (!s.steps.empty()) line(pace(s));
  if (const std::string text = losses(s); !text.empty()) line(text);
  if (s.ranks)
    if (const std::string text = s.ranks->text(); !text.empty())
      line("ranks after step " + std::to_string(s.ranks->step) + ": " + text);
  for (const std::string& advice : s.advisor.given()) line("advice: " + advice);
  if (s.checkpoint)
    line("checkpoint at step " + std::to_string(s.checkpoint->step) + ": " + s.checkpoint->path);
  return lines;
}

std::string frame(const RunState& s, const FrameOptions& o) {
  std::vector<std::string> lines = lines_of(s);
  for (std::string& line : lines) line = fitted(line, o.width);
  CurveLine train, valid{{}, true};
  for (const records::StepRecord& r : s.steps)
    if (r.loss) train.points.emplace_back(static_cast<double>(r.step), *r.loss);
  for (const records::ValidRecord& v : s.valid)
    if (v.loss) valid.points.emplace_back(static_cast<double>(v.step), *v.loss);
  const size_t room = o.rows > lines.size() + 1 ? o.rows - lines.size() - 1 : 0;
  for (const std::string& l : curve({train, valid}, o.width, std::min<size_t>(room, 14))) lines.push_back(l);
  if (lines.size() > o.rows) lines.resize(o.rows);
  std::string out;
  for (size_t i = 0; i < lines.size(); ++i)
    out += o.colour && i == 0 ? "\x1b[1m" + lines[i] + "\x1b[0m\n" : lines[i] + "\n";
  return out;
}

}  // namespace isobar::report
