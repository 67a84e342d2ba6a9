// The output of nccl-tests (and of rccl-tests, which prints the same): a header of ranks and devices, then a
// line a size: size count type redop root time algbw busbw #wrong, out of place and in place; times in
// microseconds.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>

#include "bench/import/import.h"
#include "model/base/csv.h"
#include "model/base/error.h"
#include "model/base/files.h"

namespace isobar {
namespace {

constexpr const char* kKnown[] = {"all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast"};

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

// What the predictor counts for a ring (perfmodel/step/collective.h), as far as the tier in question has to
// do with it.
struct Link {
  double messages = 0, bytes = 0;  // one after the other; of one rank's link
  double other_s = 0;              // messages inside the hosts, at the price that they have
};
Link ring_of(const CollectiveTime& c, const Machine& m) {
  const auto n = static_cast<double>(c.ranks), h = static_cast<double>(c.hosts);
  const double passes = c.collective == "all_reduce" ? 2 : 1;
  const double share = passes * (n - 1) / n * c.bytes;
  if (c.hosts <= 1) return {passes * (n - 1), share, 0};
  return {passes * (h - 1), share * h / n, passes * (n - h) * m[Coef::message_host].value};
}

}  // namespace

bool is_nccl_tests(const std::string& text) {
  return text.find("algbw") != std::string::npos && text.find("busbw") != std::string::npos &&
         text.find("nThread") != std::string::npos;
}

Collectives read_nccl_tests(const std::string& file, const std::string& collective) {
  Collectives out;
  out.file = file;
  std::string name = collective;
  std::set<std::string> hosts;
  int64_t ranks = 0;
  size_t time_at = 5;
  std::istringstream in(read_file(file, most::table));
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    const std::vector<std::string> words = words_of(line);
    if (words.empty()) continue;
    if (words[0][0] == '#') {
      if (collective.empty() &&
          (line.find("_perf") != std::string::npos || line.find("Collective") != std::string::npos))
        if (const std::string found = named_in(line); !found.empty()) name = found;
      for (size_t i = 0; i + 1 < words.size(); ++i) {
        if (words[i] == "Rank") ++ranks;
        if (words[i] == "on" && words[1] == "Rank") hosts.insert(words[i + 1]);
        if (words[i] == "device" && i + 3 < words.size() && words[1] == "Rank")
          out.device = line.substr(line.find(words[i + 3], line.find("device")));
      }
      // "# size count type redop root time ...": columns one to the left of the header's words
      if (const auto at = std::find(words.begin(), words.end(), "time");
          at != words.end() && std::find(words.begin(), words.end(), "size") != words.end())
        time_at = static_cast<size_t>(at - words.begin()) - 1;
      continue;
    }
    double bytes = 0, us = 0, algbw = 0, busbw = 0;
    if (!number_of(words[0], &bytes)) continue;  // what the launcher printed
    if (words.size() < time_at + 3 || !number_of(words[time_at], &us) ||
        !number_of(words[time_at + 1], &algbw) || !number_of(words[time_at + 2], &busbw))
      throw ConfigError(file, "line " + std::to_string(number), "is no line of nccl-tests' table",
                        "give the output as it was printed");
    if (bytes > 0 && us > 0) out.rows.push_back({"", 0, 0, bytes, us * 1e-6, algbw, busbw});
  }
  if (name.empty()) name = named_in(std::filesystem::path(file).filename().string());
  if (name.empty())
    throw ConfigError(file, "--collective", "is missing: the log does not name it",
                      "add e.g. --collective all_reduce");
  if (ranks < 2)
    throw ConfigError(file, "Rank", "lists fewer than two ranks", "keep the header of the output");
  if (out.rows.empty())
    throw ConfigError(file, "size", "has no measured line", "give the output as it was printed");
  for (CollectiveTime& r : out.rows) {
    r.collective = name;
    r.ranks = ranks;
    r.hosts = static_cast<int64_t>(std::max<size_t>(1, hosts.size()));
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
    char numbers[160];
    std::string collective = r.collective;
    collective.erase(std::remove(collective.begin(), collective.end(), '_'), collective.end());
    std::snprintf(numbers, sizeof numbers, "%ld,%ld,%ld,%s,,%.0f,%.9g,%.9g,%.9g", static_cast<long>(r.hosts),
                  static_cast<long>(r.ranks), static_cast<long>(r.ranks / r.hosts), collective.c_str(),
                  r.bytes, r.seconds * 1e6, r.algbw, r.busbw);
    out += csv_cell(name) + "," + csv_cell(name + "-" + std::to_string(i)) + "," + csv_cell(name) + "," +
           csv_cell(c.device) + ",,," + numbers + ",n,nccl-tests,measured(log)," + csv_cell(c.file) + ",,\n";
  }
  return out;
}

Machine with_links(Machine m, const Collectives& c) {
  if (c.rows.front().collective == "alltoall" || c.rows.front().collective == "broadcast")
    throw ConfigError(c.file, "collective", "tells little of latency and bandwidth",
                      "measure all_reduce, all_gather or reduce_scatter");
  // time - other = latency * messages + bytes / bandwidth by least squares of relative errors, so that small
  // sizes, which tell the latency, weigh as much as large ones.
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
  m[net ? Coef::message_net : Coef::message_host] = Coefficient::make(latency, sigma, from);
  m[net ? Coef::wire_net : Coef::wire_host] = Coefficient::make(per_byte, sigma, from);
  return m;
}

}  // namespace isobar
