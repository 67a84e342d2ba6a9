#include "model/data/written/inspect.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "model/base/error.h"
#include "model/data/cf/dates.h"
#include "model/data/files/foreign.h"
#include "model/data/tables/table.h"

namespace isobar::data {

using nlohmann::json;

namespace {

// Range and mean of the finite values; `missing`: the share of missing ones, such as land
json range_of(const float* x, int64_t n) {
  float low = std::numeric_limits<float>::infinity(), high = -low;
  double sum = 0;
  int64_t there = 0, infinite = 0;
  for (int64_t i = 0; i < n; ++i) {
    infinite += std::isinf(x[i]);
    if (!std::isfinite(x[i])) continue;
    low = std::min(low, x[i]), high = std::max(high, x[i]);
    sum += static_cast<double>(x[i]);
    ++there;
  }
  json range{{"missing", static_cast<double>(n - there - infinite) / static_cast<double>(n)}};
  if (infinite > 0) range["infinite"] = infinite;
  if (there > 0) range.update({{"min", low}, {"max", high}, {"mean", sum / static_cast<double>(there)}});
  return range;
}

json storage_json(const StorageLayout& l) {
  json j{{"element", l.element}, {"storage", l.storage}, {"big_endian", l.big_endian},
         {"chunk", l.chunk},     {"filters", l.filters}, {"parallel", l.parallel()}};
  if (!l.parallel()) j["locked_because"] = l.locked_because;
  return j;
}

std::string time_text(const FieldInfo& info, int64_t t) {
  if (info.times.empty()) return "";
  const std::string iso = iso_time(info.times[t], info.time_units, info.calendar);
  return iso.empty() ? std::to_string(info.times[t]) + " " + info.time_units : iso;
}

std::string number(const json& x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.5g", x.get<double>());
  return text;
}

std::string padded(std::string s, size_t width) {
  s.resize(std::max(s.size() + 1, width), ' ');
  return s;
}

/// The size of a file, of all files of a store, or of several with commas between
uintmax_t bytes_at(const std::string& path) {
  namespace fs = std::filesystem;
  uintmax_t bytes = 0;
  if (const std::vector<std::string> parts = files_of_table(path); parts.size() > 1) {
    for (const std::string& part : parts) bytes += bytes_at(part);
    return bytes;
  }
  if (!fs::is_directory(path)) return fs::file_size(path);
  for (const auto& entry : fs::recursive_directory_iterator(path))
    if (entry.is_regular_file()) bytes += entry.file_size();
  return bytes;
}

json describe(const std::string& path, const FieldFiles& files, int64_t dt) {
  const auto segments = segments_of(files);
  const FieldInfo &first = files.front()->info(), &last = files.back()->info();
  const bool hdf5 = first.format.starts_with("HDF5");
  json j{{"path", showable(path)},
         {"format", first.format},
         {"files", field_paths(path, "").size()},
         {"channels", first.shape.channels},
         {"height", first.shape.height},
         {"width", first.shape.width},
         {"layout", storage_json(first.layout)},
         {"steps_per_chunk", first.steps_per_chunk},
         {"dt", dt}};
  int64_t steps = 0, pairs = 0, samples = 0;
  uintmax_t bytes = 0;
  j["steps_per_file"] = json::array();
  for (const auto& f : files) {
    steps += f->info().steps;
    j["steps_per_file"].push_back(f->info().steps);
    bytes += bytes_at(f->info().path);
  }
  for (const TimeSegment& s : segments) {
    const int64_t here = std::max<int64_t>(0, s.steps - dt);
    pairs += here;
    samples += hdf5 && here > 0 ? s.steps : here;
  }
  j["steps"] = steps;
  j["bytes"] = bytes;
  j["segments"] = segments.size();
  j["pairs"] = pairs;      // distinct (t, t + dt) within segments
  j["samples"] = samples;  // length of an epoch: the NERSC layout repeats a few pairs
  if (!first.times.empty()) {
    j["first_time"] = time_text(first, 0);
    j["last_time"] = time_text(last, last.steps - 1);
    j["time_units"] = first.time_units;
    if (first.steps > 1) j["time_step"] = first.times[1] - first.times[0];
  }
  if (!first.time_unread.empty()) j["time_unread"] = first.time_unread;
  if (!first.latitude.empty()) j["latitude"] = {first.latitude.front(), first.latitude.back()};
  if (!first.longitude.empty()) j["longitude"] = {first.longitude.front(), first.longitude.back()};
  if (!first.area.empty()) {
    j["latitude"] = {first.area[0], first.area[1]}, j["longitude"] = {first.area[2], first.area[3]};
    j["area_of"] = first.area_of;
  }
  if (!first.no_degrees.empty()) j["no_degrees"] = first.no_degrees;
  if (!first.remark.empty()) j["remark"] = first.remark;
  j["left_out"] = first.left_out;

  std::vector<float> fields(first.shape.size());
  files[0]->read_with_gaps(0, first.shape, fields.data());
  const int64_t plane = first.shape.height * first.shape.width;
  for (int64_t c = 0; c < first.shape.channels; ++c) {
    json channel = range_of(fields.data() + c * plane, plane);
    channel["name"] = first.channels[c];
    channel["units"] = first.units.empty() ? "" : first.units[c];
    j["fields"].push_back(channel);
  }
  if (first.steps_per_chunk > 1 && !first.layout.filters.empty())
    j["advice"] = "each chunk holds " + std::to_string(first.steps_per_chunk) +
                  " time steps, all decoded to read one: rechunk to one step (nccopy -c time/1,…) for speed";
  return j;
}

}  // namespace

json inspect(const std::string& path, const FieldChoice& choice, int64_t dt) {
  const auto work = [&](const FieldFiles& files, const ChildProgress&) {
    const auto bytes = json::to_cbor(describe(path, files, dt));
    return std::string(bytes.begin(), bytes.end());
  };
  return json::from_cbor(read_foreign(path, "", choice, work));
}

std::string inspect_text(const json& j) {
  std::string out;
  const auto line = [&](const std::string& name, const std::string& value) {
    out += padded(name, 12) + value + "\n";
  };
  const auto count = [&](const char* key) { return std::to_string(j[key].get<int64_t>()); };
  line("path", j["path"]);
  char size[32];
  std::snprintf(size, sizeof size, "%.1f MB", j["bytes"].get<double>() / 1e6);
  line("format", j["format"].get<std::string>() + ", " + count("files") +
                     (j["files"] == 1 ? " file, " : " files, ") + size);
  line("grid",
       count("height") + " rows x " + count("width") + " columns, " + count("channels") + " channels");
  if (j.contains("latitude") && j.contains("longitude"))
    line("area",
         "latitude " + number(j["latitude"][0]) + " to " + number(j["latitude"][1]) + ", longitude " +
             number(j["longitude"][0]) + " to " + number(j["longitude"][1]) +
             (j.contains("area_of") ? ", of a grid that bends: " + j["area_of"].get<std::string>() : ""));
  if (j.contains("no_degrees"))
    line("degrees", j["no_degrees"].get<std::string>() +
                        "; refused where degrees matter (region, forcings, weights by area)");
  if (j.contains("remark")) line("columns", j["remark"]);
  std::string when = count("steps") + " steps";
  if (j.contains("first_time"))
    when += ", " + j["first_time"].get<std::string>() + " to " + j["last_time"].get<std::string>();
  if (j.contains("time_unread"))
    when += "; not understood: " + j["time_unread"].get<std::string>() + ", so that no pairs are made";
  else if (!j.contains("first_time"))
    when += ", without times: taken as equally spaced";
  else if (j["segments"] > j["steps_per_file"].size())
    when += ", with gaps";
  line("time", when);
  line("samples", count("samples") + " (" + count("pairs") + " different pairs) at dt = " + count("dt"));
  const json& l = j["layout"];
  std::string storage = l["storage"].get<std::string>() + " " + l["element"].get<std::string>();
  if (!l["chunk"].empty()) storage += ", chunk " + l["chunk"].dump();
  for (const auto& f : l["filters"]) storage += ", " + f.get<std::string>();
  storage += l["parallel"].get<bool>()
                 ? "; read in parallel"
                 : "; read one at a time (" + l["locked_because"].get<std::string>() + ")";
  line("storage", storage);
  if (j.contains("advice")) line("advice", j["advice"]);
  for (const json& one : j["left_out"]) line("left out", one);
  bool gaps = false;
  for (const json& f : j["fields"]) gaps |= f["missing"] > 0;
  out += "\n" + padded("channel", 12) + padded("units", 14) + padded("min", 13) + padded("mean", 13) +
         padded("max", 13) + (gaps ? "missing   (first step)\n" : "(first step)\n");
  for (const json& f : j["fields"]) {
    out += padded(f["name"], 12) + padded(f["units"], 14);
    for (const char* key : {"min", "mean", "max"}) out += padded(f.contains(key) ? number(f[key]) : "-", 13);
    char share[32];
    std::snprintf(share, sizeof share, "%.1f %%", 100 * f["missing"].get<double>());
    out += gaps ? std::string(share) + "\n" : "\n";
  }
  if (gaps)
    out +=
        "\nPoints are missing: data.mask: missing trains a net of fields on those that are there, and an mlp "
        "(net.kind: mlp) takes them as rows.\n";
  for (const json& f : j["fields"])
    if (f.contains("infinite"))
      out += "\n'" + f["name"].get<std::string>() + "' has infinite values in the first step (" +
             f["infinite"].dump() + "), which no run reads: correct them, or store them as missing.\n";
  return out;
}

}  // namespace isobar::data
