#include "model/data/fields/channels.h"

#include <algorithm>
#include <cctype>
#include <numeric>

#include "model/base/error.h"
#include "model/base/text/joined.h"

namespace isobar::data {

std::string earlier(const std::string& channel, int64_t before) {
  return before > 0 ? channel + "[-" + std::to_string(before) + "]" : channel;
}

namespace {

/// A unit in one spelling: powers behind their units, without blanks; "" for a pure number.
std::string plain_unit(const std::string& unit) {
  for (const char* none : {"1", "~", "(0 - 1)", "dimensionless", "Numeric", "Proportion"})
    if (unit == none) return "";
  std::string out;
  bool divides = false, digits = true;  // behind a "/"; the power is there
  size_t begin = 0;                     // of the unit behind the "/"
  const auto end_power = [&] {
    if (out.size() == begin) return;
    if (divides && !digits) out += "-1";
    divides = false, digits = true;
  };
  for (const char c : unit) {
    if (c == ' ' || c == '/' || c == '.') end_power();
    if (c == '/') divides = true, digits = false, begin = out.size();
    if (c == ' ' || c == '/' || c == '.' || c == '*' || c == '^') continue;
    if (divides && !digits && std::isdigit(static_cast<unsigned char>(c))) out += '-', digits = true;
    out += c;
  }
  end_power();
  return out;
}

std::vector<int64_t> find(const std::vector<std::string>& wanted, const FieldInfo& file, const char* key) {
  std::vector<int64_t> at;
  for (const std::string& name : wanted) {
    const auto found = std::find(file.channels.begin(), file.channels.end(), name);
    if (found == file.channels.end())
      throw ConfigError(file.path, key, "there is no channel '" + name + "'",
                        "the file has " + joined(file.channels));
    at.push_back(found - file.channels.begin());
  }
  return at;
}

void require(bool ok, const FieldInfo& file, const char* key, const char* net_key, int64_t have, int64_t want,
             const char* verb) {
  if (ok) return;
  const std::string count = std::to_string(have);
  throw ConfigError(file.path, net_key,
                    "the data have " + count + " channels to " + verb + " (" + joined(file.channels) +
                        "), the net " + std::to_string(want),
                    std::string("set ") + net_key + " to " + count + ", or name " + std::to_string(want) +
                        " of them in " + key +
                        (!file.format.starts_with("HDF5") ? ", or choose with data.variables" : ""));
}

}  // namespace

bool same_unit(const std::string& a, const std::string& b) {
  const std::string one = plain_unit(a), other = plain_unit(b);
  return one.empty() || other.empty() || one == other;
}

ChannelChoice choose_channels(const DataSpec& data, const FieldInfo& file, const SampleShape& want) {
  std::vector<int64_t> all(file.channels.size());
  std::iota(all.begin(), all.end(), 0);
  ChannelChoice chosen;
  chosen.inputs = data.inputs.empty() ? all : find(data.inputs, file, "data.inputs");
  // The last want.fixed inputs appear once, not once a time.
  const int64_t each = std::max<int64_t>(0, static_cast<int64_t>(chosen.inputs.size()) - want.fixed);
  const int64_t inputs = each * want.history + want.fixed;
  require(inputs == want.input.channels, file, "data.inputs", "net.in_channels", inputs, want.input.channels,
          "read");
  // By default targets are the inputs without static fields and forcings.
  const int64_t forecast = file.shape.channels - file.inputs_alone;
  chosen.targets = data.targets.empty() ? chosen.inputs : find(data.targets, file, "data.targets");
  if (data.targets.empty()) std::erase_if(chosen.targets, [&](int64_t c) { return c >= forecast; });
  chosen.fixed.assign(chosen.inputs.begin() + each, chosen.inputs.end());
  chosen.inputs.resize(static_cast<size_t>(each));
  const auto targets = static_cast<int64_t>(chosen.targets.size());
  require(targets == want.target.channels, file, "data.targets", "net.out_channels", targets,
          want.target.channels, "predict");
  for (int64_t before = want.history - 1; before >= 0; --before)
    for (const int64_t c : chosen.inputs) chosen.names.inputs.push_back(earlier(file.channels[c], before));
  for (const int64_t c : chosen.fixed) chosen.names.inputs.push_back(file.channels[c]);
  // A prediction replaces the input channel at its own position.
  for (size_t i = 0; want.feeds_back && i < chosen.targets.size(); ++i)
    if (chosen.targets[i] != chosen.inputs.at(i))
      throw ConfigError(file.path, "data.targets",
                        "the net's prediction is its next input, and its channel " + std::to_string(i) +
                            " is " + file.channels[chosen.targets[i]] + " of the targets and " +
                            file.channels[chosen.inputs[i]] + " of the inputs",
                        "name data.inputs with the targets first, in their order");
  for (const int64_t c : chosen.targets) chosen.names.targets.push_back(file.channels[c]);
  return chosen;
}

}  // namespace isobar::data
