#include "bench/logs/followed_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <utility>

#include "bench/logs/log_text.h"
#include "bench/logs/output_reader.h"

namespace isobar::logs {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTable = "csv:";
constexpr const char* kEvents = "tensorboard:";
constexpr int kDeepest = 8;             // folders below the named one
constexpr size_t kMostEntries = 20000;  // of folders; others are left out
constexpr double kClockSlack_s = 2;     // clocks of filesystems differ
constexpr double kLookEvery_s = 1;
constexpr size_t kLongestNote = 200;  // bytes of names

/// The cells of a line, without the quotes and blanks around them; a comma in quotes is one of the cell's.
std::vector<std::string_view> cells_in(std::string_view line) {
  std::vector<std::string_view> out;
  for (size_t at = 0; at <= line.size();) {
    size_t end = at;
    for (bool quoted = false; end < line.size() && (quoted || line[end] != ','); ++end)
      if (line[end] == '"') quoted = !quoted;
    std::string_view cell = line.substr(at, end - at);
    while (!cell.empty() && (cell.front() == ' ' || cell.front() == '"')) cell.remove_prefix(1);
    while (!cell.empty() && (cell.back() == ' ' || cell.back() == '"')) cell.remove_suffix(1);
    out.push_back(cell);
    at = end + 1;
  }
  return out;
}

bool is_events(const fs::path& file) {
  return file.filename().string().find("tfevents") != std::string::npos;
}

/// Files below a folder that `wanted` accepts, written since `begun`
std::vector<fs::path> files_below(const fs::path& dir, double begun, bool (*wanted)(const fs::path&)) {
  std::vector<fs::path> out;
  std::error_code error;
  size_t n = 0;
  for (fs::recursive_directory_iterator at(dir, fs::directory_options::skip_permission_denied, error), end;
       !error && at != end && n < kMostEntries; at.increment(error), ++n) {
    if (at.depth() >= kDeepest) at.disable_recursion_pending();
    if (wanted(at->path()) && written_at(at->path()) + kClockSlack_s >= begun) out.push_back(at->path());
  }
  return out;
}

}  // namespace

bool is_file_to_follow(const std::string& reads) {
  return reads.starts_with(kTable) || reads.starts_with(kEvents);
}

void FollowedTable::read(OutputReader& to, bool all) {
  const double written = written_at(file_);
  std::error_code error;
  const uintmax_t size = fs::file_size(file_, error);
  if (error || (written == written_ && size == size_ && !all)) return;
  written_ = written, size_ = size;
  std::ifstream in(file_, std::ios::binary);
  std::string line;
  if (!std::getline(in, line)) return;
  if (!line.empty() && line.back() == '\r') line.pop_back();
  if (line.starts_with("\xEF\xBB\xBF")) line.erase(0, 3);
  std::vector<std::optional<QuantityIn>> columns;
  const std::string head = line;
  const std::vector<std::string_view> names = cells_in(head);
  unread_.clear();
  for (const std::string_view name : names) {
    columns.push_back(quantity_of_key(name));
    if (!columns.back()) unread_.append(unread_.empty() ? "" : ", ").append(name);
  }
  for (size_t row = 0; std::getline(in, line) && (all || !in.eof()); ++row) {
    if (row < rows_) continue;
    const std::vector<std::string_view> cells = cells_in(line);
    if (in.eof() && cells.size() < columns.size()) break;  // a last line without \n may not be whole
    rows_ = row + 1;
    Quantities q;
    for (size_t i = 0; i < std::min(cells.size(), columns.size()); ++i)
      if (const auto v = columns[i] ? number_at(cells[i]) : std::nullopt) {
        if (columns[i]->quantity == LogQuantity::step)
          q.put_step(names[i], *v);
        else
          q[columns[i]->quantity] = columns[i]->factor * *v;
      }
    q.drop_impossible();
    const bool epoch =
        q.has(LogQuantity::epoch) && q.has(LogQuantity::loss) && q.has(LogQuantity::valid_loss);
    if (epoch || q.has(LogQuantity::step)) to.numbers(q, written, file_);
  }
}

FollowedFiles::FollowedFiles(const std::string& reads, const std::string& out, double begun) : begun_(begun) {
  for (size_t at = 0; at < reads.size();) {
    const size_t end = std::min(reads.find('\n', at), reads.size());
    const std::string one = reads.substr(at, end - at);
    at = end + 1;
    if (!is_file_to_follow(one)) continue;
    std::string path = one.substr(one.find(':') + 1);
    path.erase(0, std::min(path.find_first_not_of(' '), path.size()));
    for (size_t word = path.find("{out}"); word != std::string::npos; word = path.find("{out}"))
      path.replace(word, 5, out);
    named_.push_back({one, path, one.starts_with(kTable)});
  }
}

void FollowedFiles::look(const Named& n) {
  std::error_code error;
  std::vector<fs::path> files;
  if (fs::is_regular_file(n.path, error)) {
    if (written_at(n.path) + kClockSlack_s >= begun_) files = {n.path};
  } else if (n.table) {
    if (found_.contains(n.reads)) return;
    files = files_below(n.path, begun_, [](const fs::path& f) { return f.filename() == "metrics.csv"; });
    std::sort(files.begin(), files.end(),
              [](const fs::path& a, const fs::path& b) { return written_at(a) > written_at(b); });
    if (files.size() > 1) files.resize(1);
  } else {
    files = files_below(n.path, begun_, is_events);
    std::sort(files.begin(), files.end());
  }
  for (const fs::path& f : files) {
    found_.insert(n.reads);
    if (n.table)
      tables_.try_emplace(f, f);
    else
      events_.try_emplace(f, Events{records::EventReader(f), {}, std::nullopt, 0});
  }
}

void FollowedFiles::take(Events& e, OutputReader& to, bool all) {
  const auto flush = [&] {
    using enum LogQuantity;
    const bool trained =
        e.q[loss] || e.q[seconds] || e.q[samples_per_s] || e.q[steps_per_s] || e.q[tokens_per_s];
    if (e.step && (trained || e.q[valid_loss] || e.q[valid_accuracy])) to.numbers(e.q, e.at, "tensorboard");
    e.q = {}, e.step.reset();
  };
  for (const records::EventScalar& s : e.reader.more()) {
    const auto q = quantity_of_key(s.tag);
    if (!q || q->quantity == LogQuantity::step) continue;
    if (e.step != s.step) flush();
    if (!e.step) e.step = s.step, e.at = s.wall_time;
    // DeepSpeed's monitor counts samples.
    const bool samples = s.tag.find("/Samples/") != std::string::npos;
    e.q[samples ? LogQuantity::consumed_samples : LogQuantity::step] = static_cast<double>(s.step);
    e.q[q->quantity] = q->factor * s.value;
    e.q.drop_impossible();
  }
  if (all) flush();
}

void FollowedFiles::read(OutputReader& to, double now) {
  if (named_.empty()) return;
  if (now - looked_ >= kLookEvery_s) {
    looked_ = now;
    for (const Named& n : named_) look(n);
  }
  for (auto& [path, table] : tables_) table.read(to, false);
  for (auto& [path, events] : events_) take(events, to, false);
}

void FollowedFiles::end(OutputReader& to) {
  looked_ = -1;
  read(to, 0);
  for (auto& [path, table] : tables_) table.read(to, true);
  for (auto& [path, events] : events_) take(events, to, true);
}

std::vector<std::string> FollowedFiles::notes() const {
  std::vector<std::string> out;
  for (const Named& n : named_)
    if (!found_.contains(n.reads)) out.push_back("'" + n.reads + "' of run.reads: no such file was written");
  for (const auto& [path, table] : tables_)
    if (!table.unread().empty())
      out.push_back(path.string() + ": columns that are not read: " + table.unread().substr(0, kLongestNote));
  for (const auto& [path, events] : events_)
    if (events.reader.fault()) out.push_back(path.string() + ", " + *events.reader.fault());
  return out;
}

namespace {

constexpr size_t kMostAtOnce = 16 << 20;  // bytes of a call
constexpr size_t kMostOfALine = 1 << 16;  // bytes; the rest of a line is left out
constexpr size_t kLastWords = 1 << 14;    // bytes kept for the verdict
constexpr double kTick_s = 0.01;          // the longest of a kernel's clock (CONFIG_HZ=100)

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// When a file's last bytes were written, by its time and this one: files bear the time of the kernel's last
// tick. A clock ahead of ours is another machine's.
double end_of_tick(double written) {
  return std::max(written, std::min(now(), written + kTick_s));
}

}  // namespace

double written_at(const std::filesystem::path& file) {
  struct stat s {};
  if (::stat(file.c_str(), &s) != 0) return 0;
  return static_cast<double>(s.st_mtim.tv_sec) + 1e-9 * static_cast<double>(s.st_mtim.tv_nsec);
}

int64_t FollowedText::size() const {
  std::error_code error;
  const auto n = std::filesystem::file_size(file_, error);
  return error ? 0 : static_cast<int64_t>(n);
}

void FollowedText::split(std::string_view some, double written, const Use& use) {
  last_.append(some.substr(some.size() - std::min(some.size(), kLastWords)));
  if (last_.size() > 2 * kLastWords) last_.erase(0, last_.size() - kLastWords);
  while (!some.empty()) {
    const size_t end = some.find_first_of("\n\r");
    const std::string_view piece = some.substr(0, end);
    part_.append(piece.substr(0, kMostOfALine - std::min(kMostOfALine, part_.size())));
    if (end == std::string_view::npos) return;
    if (!part_.empty()) use(std::exchange(part_, ""), written);
    some.remove_prefix(end + 1);
  }
}

bool FollowedText::read(const Use& use) {
  const double written = end_of_tick(written_at(file_));
  std::ifstream in(file_, std::ios::binary);
  in.seekg(read_);
  std::array<char, 1 << 16> some;
  size_t n = 0;
  while (n < kMostAtOnce && (in.read(some.data(), some.size()), in.gcount() > 0)) {
    n += static_cast<size_t>(in.gcount());
    split({some.data(), static_cast<size_t>(in.gcount())}, written, use);
  }
  read_ += static_cast<int64_t>(n);
  return n > 0;
}

void FollowedText::end(const Use& use) {
  while (read(use)) {
  }
  if (!part_.empty()) use(std::exchange(part_, ""), end_of_tick(written_at(file_)));
}

}  // namespace isobar::logs
