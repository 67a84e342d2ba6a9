// Checks of data keys: channels, selections of fields, rows of tables.
#include "model/base/classes.h"
#include "model/base/spec/validate_parts.h"

namespace isobar {
namespace {

/// A size of a net, and its key
struct Sized {
  int64_t value;
  const char* key;
};

// Channels of files named by the user: as many as the net has, each once.
void validate_channels(const DataSpec& d, const Sized& in, const Sized& out, const SpecCheck& check) {
  const auto named = [&](const std::vector<std::string>& names, const Sized& net, const char* key) {
    if (names.empty()) return;
    check.that(!d.train.empty(), key, "names channels of files, and without data.train there are none",
               "set data.train, or leave it out");
    for (size_t i = 0; i < names.size(); ++i)
      check.that(std::find(names.begin(), names.begin() + i, names[i]) == names.begin() + i, key,
                 "names '" + names[i] + "' twice", "name it once");
    const std::string count = std::to_string(names.size());
    check.that(static_cast<int64_t>(names.size()) == net.value, key,
               "names " + count + ", and " + net.key + " is " + std::to_string(net.value),
               "name " + std::to_string(net.value) + ", or set " + net.key + " to " + count);
  };
  named(d.inputs, in, "data.inputs");
  named(d.targets, out, "data.targets");
  const bool inputs_alone = !d.static_fields.empty() || !d.forcings.empty();
  check.that(d.train.empty() || !d.targets.empty() || in.value == out.value || inputs_alone, "data.targets",
             std::string("is needed: ") + out.key + " = " + std::to_string(out.value) + " differs from " +
                 in.key + " = " + std::to_string(in.value),
             "name the " + std::to_string(out.value) + " that the net predicts");
}

void validate_channels(const Images& n, const DataSpec& d, const SpecCheck& check) {
  const RunSpec& s = check.s;
  const int64_t fixed = s.net.fixed_channels(), times = std::max<int64_t>(1, s.history());
  const Sized in{(n.in_channels - fixed) / times + fixed,
                 s.net.own_history() > 0 ? "the number of a step's fields and of static ones"
                 : times == 1            ? "net.in_channels"
                                         : "net.in_channels / data.history"};
  check.that(s.net.own_history() == 0 || d.forcings.empty(), "data.forcings",
             "computes inputs, and " + s.net.kind() + " reads the time by codes of its own", "leave it out");
  validate_channels(d, in, {n.out_channels, "net.out_channels"}, check);
}

// Selection of rows as samples: a key that would have no effect is an error.
void validate_rows(const DataSpec& d, const SpecCheck& check) {
  const DataSpec usual;
  const auto needs = [&](bool met, bool said, const char* key, const char* what, const char* mend) {
    check.that(met || !said, key, what, mend);
  };
  const bool masks = d.mask_mode != usual.mask_mode;
  for (auto [said, key] : {std::pair{masks, "data.mask_mode"},
                           {d.thin_fraction != usual.thin_fraction, "data.thin_fraction"},
                           {d.max_patterns != usual.max_patterns, "data.max_patterns"}})
    needs(!d.train.empty(), said, key, "chooses rows of files, and without data.train there are none",
          "set data.train, or leave it out");
  for (auto [said, key] :
       {std::pair{d.ice_variable != usual.ice_variable, "data.ice_variable"},
        {d.min_ice_concentration != usual.min_ice_concentration, "data.min_ice_concentration"}})
    needs(masks, said, key, "is for a mask, and data.mask_mode is both: ocean with and without ice",
          "set data.mask_mode to ocean or sea_ice, or leave it out");
  needs(!masks, d.ice_variable.empty(), "data.ice_variable", "is empty, and data.mask_mode needs it",
        "name the ice concentration");
}

void validate_channels(const MlpSpec& n, const DataSpec& d, const SpecCheck& check) {
  const bool classes = classifies(check.s);
  check.that(!classes || d.train.empty() || d.targets.size() == 1, "data.targets",
             "names " + std::to_string(d.targets.size()) +
                 ", and train.loss cross_entropy has one target, the class",
             "name the column of classes; net.out_features is their number");
  const Sized in{n.in_features, "net.in_features"}, out{n.out_features, "net.out_features"};
  validate_channels(d, in, classes ? Sized{1, "the number of targets"} : out, check);
  validate_rows(d, check);
}
void validate_channels(const TracedSpec&, const DataSpec& d, const SpecCheck& check) {
  check.that(d.train.empty(), "data.train", "is given, and a traced net is priced, not run", "leave it out");
}
void validate_channels(const WordsSpec&, const DataSpec& d, const SpecCheck& check) {
  check.that(d.inputs.empty() && d.targets.empty(), d.inputs.empty() ? "data.targets" : "data.inputs",
             "names channels, and this net reads words", "leave it out");
}

}  // namespace

void validate_selection(const DataSpec& d, const SpecCheck& check) {
  check.that(d.region.empty() || d.region.size() == 4, "data.region",
             "has " + std::to_string(d.region.size()) + " numbers",
             "give north, west, south and east in degrees, e.g. [60, -10, 50, 2]");
  if (d.region.size() == 4)
    check.that(d.region[0] <= 90 && d.region[2] >= -90 && d.region[0] >= d.region[2] &&
                   std::abs(d.region[1]) <= 360 && std::abs(d.region[3]) <= 360,
               "data.region", "is no region: north, west, south, east in degrees",
               "north is not below south; west may be east of east, over the date line: [60, 170, 40, -150]");
  for (auto [dates, key] : {std::pair{&d.dates, "data.dates"}, std::pair{&d.valid_dates, "data.valid_dates"}})
    check.that(dates->empty() || dates->size() == 2, key, "has " + std::to_string(dates->size()) + " dates",
               "give the first and the last, e.g. [2019-03-01, 2019-03-25], or years: [2010, 2015]");
  check.that(d.valid_dates.empty() || d.train_fraction == 1, "data.train_fraction",
             "splits what data.valid_dates has split", "leave one of them out");
  check.that(d.static_file.empty() || !d.static_fields.empty() || (d.masks() && d.mask != "missing"),
             "data.static_file", "is given, and nothing of it is used",
             "name what it holds in data.static_fields or data.mask, or leave it out");
  check.that(!d.masks() || (check.s.train.rollout == 1 && check.s.train.replay_capacity == 0), "data.mask",
             "leaves points out, and a roll-out or a replay buffer reads what is predicted there",
             "set train.rollout to 1 and train.replay_capacity to 0, or data.mask to fill");
  if (!d.train.empty()) return;
  const DataSpec usual;
  for (auto [said, key] : {std::pair{!d.region.empty(), "data.region"},
                           {d.stride != usual.stride, "data.stride"},
                           {!d.dates.empty(), "data.dates"},
                           {!d.valid_dates.empty(), "data.valid_dates"},
                           {d.time_step != usual.time_step, "data.time_step"},
                           {!d.channel_names.empty(), "data.channel_names"},
                           {!d.static_fields.empty(), "data.static_fields"},
                           {!d.forcings.empty(), "data.forcings"},
                           {!d.mask.empty(), "data.mask"}})
    check.that(!said, key, "chooses from files, and without data.train there are none",
               "set data.train, or leave it out");
}

void validate_channels(const RunSpec& s, const SpecCheck& check) {
  s.net.visit([&](const auto& n) { validate_channels(n, s.data, check); });
}

}  // namespace isobar
