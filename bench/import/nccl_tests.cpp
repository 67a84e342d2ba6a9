// The output of nccl-tests and rccl-tests: a header of ranks and devices, then a line for each size: size
// count type redop root time algbw busbw #wrong, out of place and in place; times in microseconds.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "bench/import/import.h"
#include "bench/logs/log_text.h"
#include "model/base/error.h"
#include "model/base/text/csv.h"
#include "model/base/text/printed.h"

namespace isobar::foreign {
namespace {

constexpr const char* kKnown[] = {"all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast"};
constexpr const char* kOthers[] = {"sendrecv_perf", "reduce_perf", "gather_perf", "scatter_perf",
                                   "hypercube_perf"};

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> out;
  for (std::string w; in >> w;) out.push_back(w);
  return out;
}

bool number_of(const std::string& s, double* v) {
  char* end = nullptr;
  *v = std::strtod(s.c_str(), &end);
  return !s.empty() && *end == '\0' && std::isfinite(*v);
}

std::string named_in(const std::string& text) {
  for (const char* name : kKnown)
    if (text.find(name) != std::string::npos) return name;
  return "";
}

/// The collective, or the program of nccl-tests that measures none of kKnown.
std::string program_in(const std::string& line) {
  if (const std::string known = named_in(line); !known.empty()) return known;
  for (const char* other : kOthers)
    if (line.find(other) != std::string::npos) return other;
  return "";
}

// The predictor's terms of a ring (perfmodel/step/collective.h) for one tier.
struct Link {
  double messages = 0, bytes = 0;  // sequential messages; bytes on a rank's link
  double other_s = 0;              // messages within hosts, at the machine's current price
};
Link ring_of(const CollectiveTime& c, const perf::Machine& m) {
  const auto n = static_cast<double>(c.ranks), h = static_cast<double>(c.hosts);
  const double passes = c.collective == "all_reduce" ? 2 : 1;
  const double share = passes * (n - 1) / n * c.bytes;
  if (c.hosts <= 1) return {passes * (n - 1), share, 0};
  return {passes * (h - 1), share * h / n, passes * (n - h) * m[perf::Coef::message_host].value};
}

/// "#  Rank  0 Group  0 Pid   1000 on  node00 device  0 [0x01] NVIDIA A100-SXM4-80GB"
struct RankLine {
  int64_t rank = 0, group = 0;
  std::string host, device, place;  // place: number and bus of the device, "0 [0x01]"
};

std::optional<RankLine> rank_in(const std::string& line, const std::vector<std::string>& words) {
  if (words.size() < 3 || words[1] != "Rank") return std::nullopt;
  RankLine out;
  double v = 0;
  if (!number_of(words[2], &v)) return std::nullopt;
  out.rank = std::llround(v);
  for (size_t i = 3; i + 1 < words.size(); ++i) {
    if (words[i] == "Group" && number_of(words[i + 1], &v)) out.group = std::llround(v);
    if (words[i] == "on") out.host = words[i + 1];
    if (words[i] == "device" && i + 3 < words.size()) {
      out.device = line.substr(line.find(words[i + 3], line.find("device")));
      out.place = words[i + 1] + " " + words[i + 2];
    }
  }
  return out;
}

/// The numbers of ranks and hosts of a communicator. Ranks must be 0 to n - 1, each once; groups
/// (NCCL_TESTS_SPLIT) must have equal sizes.
std::pair<int64_t, int64_t> world_of(const std::string& file, const std::vector<RankLine>& lines) {
  std::map<int64_t, const RankLine*> by_rank;
  std::map<int64_t, std::vector<const RankLine*>> groups;
  for (const RankLine& l : lines) {
    const auto [at, is_new] = by_rank.emplace(l.rank, &l);
    if (!is_new)
      throw ConfigError(
          file, "Rank",
          std::to_string(l.rank) + " is listed twice, on " + at->second->host + " and on " + l.host +
              ": these are programs that never met, or several outputs",
          "build nccl-tests with MPI=1 where several processes run, and give one output a file");
    groups[l.group].push_back(&l);
  }
  const auto ranks = static_cast<int64_t>(lines.size());
  if (ranks < 2)
    throw ConfigError(file, "Rank",
                      "stands in " + std::to_string(ranks) +
                          " lines '#  Rank  0 Group  0 Pid … on HOST device …', and a "
                          "collective is of two at least",
                      ranks == 0 ? "keep the header of the output" : "measure with several GPUs");
  if (by_rank.begin()->first != 0 || by_rank.rbegin()->first != ranks - 1)
    throw ConfigError(file, "Rank",
                      "goes from " + std::to_string(by_rank.begin()->first) + " to " +
                          std::to_string(by_rank.rbegin()->first) + " in " + std::to_string(ranks) + " lines",
                      "keep the whole header of the output");
  const auto& first = groups.begin()->second;
  std::set<std::string> hosts;
  for (const RankLine* l : first) hosts.insert(l->host);
  for (const auto& [group, members] : groups)
    if (members.size() != first.size())
      throw ConfigError(file, "Group",
                        std::to_string(group) + " has " + std::to_string(members.size()) +
                            " ranks, and the first " + std::to_string(first.size()),
                        "measure with groups of one size");
  return {static_cast<int64_t>(first.size()), static_cast<int64_t>(std::max<size_t>(1, hosts.size()))};
}

/// Throws ConfigError where two ranks of a host have one device: names of hosts that are alike, as in
/// containers, hide how many there are.
void refuse_shared_devices(const std::string& file, const std::vector<RankLine>& lines) {
  std::map<std::string, int64_t> by_place;
  for (const RankLine& l : lines) {
    if (l.place.empty()) continue;
    const auto [at, is_new] = by_place.emplace(l.host + " device " + l.place, l.rank);
    if (is_new) continue;
    throw ConfigError(file, "Rank",
                      std::to_string(l.rank) + " is on " + at->first + ", as rank " +
                          std::to_string(at->second) + ": its hosts have one name, or ranks share a GPU",
                      "give each host's own name in these lines, or measure with a GPU a rank");
  }
}

/// nccl-tests' factor from algbw to busbw.
double bus_factor(const std::string& collective, int64_t ranks) {
  const auto n = static_cast<double>(ranks);
  if (collective == "broadcast") return 1;
  return (collective == "all_reduce" ? 2 : 1) * (n - 1) / n;
}

/// Checks that bandwidths follow from size, time and ranks; otherwise the row is of another run or
/// collective.
void check_row(const std::string& file, const CollectiveTime& r, int line) {
  const std::string at = "line " + std::to_string(line);
  const auto differ = [](double a, double b) { return std::abs(a - b) > 0.011 + 0.01 * std::max(a, b); };
  const auto text = [](double v) { return printed("%.2f", v); };
  const double algbw = 1e-9 * r.bytes / r.seconds, factor = bus_factor(r.collective, r.ranks);
  if (differ(r.algbw, algbw))
    throw ConfigError(file, at,
                      "has algbw " + text(r.algbw) + " GB/s, and its size and time make " + text(algbw),
                      "give the output as it was printed, with times in microseconds");
  if (!differ(r.busbw, factor * algbw)) return;  // the printed algbw is rounded
  throw ConfigError(file, at,
                    "has busbw " + text(r.busbw) + " GB/s, and algbw " + text(r.algbw) + " of " +
                        r.collective + " over " + std::to_string(r.ranks) + " ranks makes " +
                        text(factor * algbw),
                    r.busbw == 0 ? "these ranks never met: build nccl-tests with MPI=1"
                                 : "check --collective, and that the header is of this table");
}

struct Table {
  size_t time_at = 5;         // column
  bool counts_wrong = false;  // has "#wrong" instead of the largest "error" (before 2.12)
};

/// Parses "# size count type redop root time ...", where the "#" shifts words by one column
void read_titles(const std::vector<std::string>& words, Table& t) {
  const auto at = std::find(words.begin(), words.end(), "time");
  if (at == words.end() || std::find(words.begin(), words.end(), "size") == words.end()) return;
  t.time_at = static_cast<size_t>(at - words.begin()) - 1;
  t.counts_wrong = std::find(words.begin(), words.end(), "#wrong") != words.end();
}

std::optional<CollectiveTime> row_in(const std::string& file, const std::vector<std::string>& words,
                                     const Table& t, int number) {
  double bytes = 0, us = 0, algbw = 0, busbw = 0, wrong = 0;
  if (!number_of(words[0], &bytes)) return std::nullopt;  // a launcher's line
  const std::string at = "line " + std::to_string(number);
  if (words.size() < t.time_at + 3 || !number_of(words[t.time_at], &us) ||
      !number_of(words[t.time_at + 1], &algbw) || !number_of(words[t.time_at + 2], &busbw))
    throw ConfigError(file, at, "is no line of nccl-tests' table", "give the output as it was printed");
  for (const size_t column : {t.time_at + 3, t.time_at + 7})  // out of place and in place
    if (t.counts_wrong && words.size() > column && number_of(words[column], &wrong) && wrong > 0)
      throw ConfigError(file, at, "has " + words[column] + " wrong values: the collective is broken",
                        "measure again where results are right");
  if (!(bytes > 0 && us > 0)) return std::nullopt;
  return CollectiveTime{"", 0, 0, bytes, us * 1e-6, algbw, busbw};
}

struct Header {
  std::string program;  // "all_reduce", "sendrecv_perf"; "" before version 2.17
  std::vector<RankLine> ranks;
  Table table;
};

/// Reads a line with a "#", at the begin or the end of the output.
void read_header(const std::string& file, const std::string& line, const std::vector<std::string>& words,
                 Header& to) {
  if (line.find("_perf") != std::string::npos || line.find("Collective") != std::string::npos)
    if (const std::string found = program_in(line); !found.empty()) to.program = found;
  if (line.find("Out of bounds values") != std::string::npos && line.find("FAILED") != std::string::npos)
    throw ConfigError(file, "Out of bounds values", "are there: the collective is broken",
                      "measure again where results are right");
  if (auto rank = rank_in(line, words)) to.ranks.push_back(std::move(*rank));
  read_titles(words, to.table);
}

/// The collective by the log, the option or the file's name, of which the first two must agree.
std::string name_in(const std::string& file, const Header& header, const std::string& option) {
  const std::string& own = header.program;
  if (own.ends_with("_perf"))
    throw ConfigError(file, "collective", "is that of " + own + ", which is not read",
                      "measure with all_reduce_perf, all_gather_perf or reduce_scatter_perf");
  if (!option.empty() && !own.empty() && own != option)
    throw ConfigError(file, "--collective", "is " + option + ", and " + own + " by the log",
                      "leave the option out");
  const std::string name = !own.empty()      ? own
                           : !option.empty() ? option
                                             : named_in(std::filesystem::path(file).filename().string());
  if (name.empty())
    throw ConfigError(file, "--collective", "is missing: the log does not name it",
                      "add e.g. --collective all_reduce");
  return name;
}

}  // namespace

bool is_nccl_tests(const std::string& text) {
  const auto has = [&](const char* words) { return text.find(words) != std::string::npos; };
  return has("algbw") && has("busbw") && (has("nThread") || has("redop"));
}

Collectives read_nccl_tests(const std::string& file, const std::string& collective) {
  Collectives out;
  out.file = file;
  Header header;
  std::vector<int> lines;  // line numbers of the rows
  int number = 0;
  for (const std::string& line : logs::log_lines(logs::log_text(file), logs::Times::taken_off)) {
    ++number;
    const std::vector<std::string> words = words_of(line);
    if (words.empty()) continue;
    if (words[0][0] == '#') {
      read_header(file, line, words, header);
    } else if (const auto row = row_in(file, words, header.table, number)) {
      out.rows.push_back(*row);
      lines.push_back(number);
    }
  }
  const std::string name = name_in(file, header, collective);
  const auto [world, hosts] = world_of(file, header.ranks);
  refuse_shared_devices(file, header.ranks);
  out.device = header.ranks.back().device;
  if (out.rows.empty())
    throw ConfigError(file, "size", "has no measured line", "give the output as it was printed");
  for (size_t i = 0; i < out.rows.size(); ++i) {
    CollectiveTime& r = out.rows[i];
    r.collective = name;
    r.ranks = world;
    r.hosts = hosts;
    check_row(file, r, lines[i]);
  }
  return out;
}

std::string to_csv(const Collectives& c) {
  std::string out =
      "source,row_id,system,gpu_type,intra_node_link,inter_node_link,nodes,gpus,gpus_per_node,collective,"
      "algo,bytes,"
      "time_us,algbw_GBs,busbw_GBs,in_place,tool,method,url_or_repo_path,split,notes\n";
  const std::string name = std::filesystem::path(c.file).stem().string();
  for (size_t i = 0; i < c.rows.size(); ++i) {
    const CollectiveTime& r = c.rows[i];
    std::string collective = r.collective;
    collective.erase(std::remove(collective.begin(), collective.end(), '_'), collective.end());
    const std::string numbers =
        printed("%ld,%ld,%ld,%s,,%.0f,%.9g,%.9g,%.9g", r.hosts, r.ranks, r.ranks / r.hosts,
                collective.c_str(), r.bytes, r.seconds * 1e6, r.algbw, r.busbw);
    out += csv_cell(name) + "," + csv_cell(name + "-" + std::to_string(i)) + "," + csv_cell(name) + "," +
           csv_cell(c.device) + ",,," + numbers + ",n,nccl-tests,measured(log)," + csv_cell(c.file) + ",,\n";
  }
  return out;
}

perf::Machine with_links(perf::Machine m, const Collectives& c) {
  if (c.rows.front().collective == "alltoall" || c.rows.front().collective == "broadcast")
    throw ConfigError(c.file, "collective", "tells little of latency and bandwidth",
                      "measure all_reduce, all_gather or reduce_scatter");
  // Fits time - other = latency * messages + bytes / bandwidth by least squares of relative errors, so that
  // small sizes, which determine the latency, weigh as much as large ones.
  double mm = 0, mb = 0, bb = 0, tm = 0, tb = 0;
  for (const CollectiveTime& r : c.rows) {
    const Link link = ring_of(r, m);
    const double x = link.messages / r.seconds, y = link.bytes / r.seconds, t = 1 - link.other_s / r.seconds;
    mm += x * x;
    mb += x * y;
    bb += y * y;
    tm += t * x;
    tb += t * y;
  }
  const double det = mm * bb - mb * mb;
  if (!(det > 1e-9 * mm * bb))
    throw ConfigError(c.file, "size", "does not vary enough to tell latency from bandwidth",
                      "measure from 8 B to 1 GB");
  const double latency = (tm * bb - tb * mb) / det, per_byte = (tb * mm - tm * mb) / det;
  if (!(latency > 0 && per_byte > 0))
    throw ConfigError(c.file, "time", "does not grow with messages and bytes",
                      "measure again on a quiet machine");
  double misfit = 0;
  for (const CollectiveTime& r : c.rows) {
    const Link link = ring_of(r, m);
    misfit +=
        std::pow(std::log((link.other_s + latency * link.messages + per_byte * link.bytes) / r.seconds), 2);
  }
  const double sigma = std::max(0.05, std::sqrt(misfit / static_cast<double>(c.rows.size())));
  const bool net = c.rows.front().hosts > 1;
  const std::vector<std::string> from = {"nccl-tests: " + std::filesystem::path(c.file).filename().string()};
  m[net ? perf::Coef::message_net : perf::Coef::message_host] = perf::Coefficient::make(latency, sigma, from);
  m[net ? perf::Coef::wire_net : perf::Coef::wire_host] = perf::Coefficient::make(per_byte, sigma, from);
  return m;
}

}  // namespace isobar::foreign
