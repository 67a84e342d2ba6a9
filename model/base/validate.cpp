// Whether a spec makes sense by itself: the one error that a user gets names key and mend.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <tuple>

#include "model/base/activation.h"
#include "model/base/classes.h"
#include "model/base/error.h"
#include "model/base/named_factor.h"
#include "model/base/validate.h"

namespace isobar {
namespace {

struct Check {
  const RunSpec& s;
  void that(bool ok, const char* key, const std::string& what, const std::string& mend) const {
    if (!ok) throw ConfigError(s.file, key, what, mend);
  }
  void at_least(int64_t value, int64_t low, const char* key) const {
    that(value >= low, key, "is " + std::to_string(value) + ", below " + std::to_string(low),
         "give " + std::to_string(low) + " or more");
  }
  void at_most(int64_t value, int64_t high, const char* key) const {
    that(value <= high, key, "is " + std::to_string(value) + ", above " + std::to_string(high),
         "give " + std::to_string(high) + " or less");
  }
  void one_of(const std::string& value, const std::vector<std::string>& allowed, const char* key) const {
    if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return;
    std::string list;
    for (const auto& a : allowed) list += (list.empty() ? "" : ", ") + a;
    that(false, key, "'" + value + "' is unknown", "use one of " + list);
  }
  void divides(int64_t d, int64_t n, const char* key, const std::string& of) const {
    if (n % d == 0) return;
    int64_t below = 1,
            above = n;  // among divisors up to a million and their partners: any number may be typed
    for (int64_t i = 1; i <= std::min<int64_t>(n / i, 1'000'000); ++i)
      if (n % i == 0)
        for (const int64_t one : {i, n / i}) {
          if (one < d) below = std::max(below, one);
          if (one > d) above = std::min(above, one);
        }
    that(false, key, std::to_string(d) + " does not divide " + of + " = " + std::to_string(n),
         "the nearest that do are " + std::to_string(below) + " and " + std::to_string(above));
  }
};

// ---- a net's own keys, each for itself ----

constexpr int64_t kMostSize = 1 << 17;

struct Sized {
  int64_t value;
  const char* key;
};

void at_least_one(std::initializer_list<Sized> sizes, const Check& check) {
  for (const auto& [value, key] : sizes) {
    check.at_least(value, 1, key);
    check.at_most(value, kMostSize, key);
  }
}

void validate_images(const Images& n, const Check& check) {
  at_least_one({{n.img_height, "net.img_height"},
                {n.img_width, "net.img_width"},
                {n.in_channels, "net.in_channels"},
                {n.out_channels, "net.out_channels"}},
               check);
}

template <class Net>  // with the keys that all blocks have
void validate_blocks(const Net& n, const Check& check) {
  at_least_one(
      {{n.embed_dim, "net.embed_dim"}, {n.num_heads, "net.num_heads"}, {n.mlp_ratio, "net.mlp_ratio"}},
      check);
  check.that(n.norm_eps > 0, "net.norm_eps", "is not positive", "use 1e-6");
  if constexpr (requires { n.gelu; }) check.one_of(n.gelu, {"erf", "tanh"}, "net.gelu");
}

// Channels of files that are named: as many as the net has, each once.
void validate_channels(const DataSpec& d, const Sized& in, const Sized& out, const Check& check) {
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

void validate_channels(const Images& n, const DataSpec& d, const Check& check) {
  const int64_t times = std::max<int64_t>(1, d.history);
  const Sized in{n.in_channels / times, times == 1 ? "net.in_channels" : "net.in_channels / data.history"};
  validate_channels(d, in, {n.out_channels, "net.out_channels"}, check);
}
// What is taken of fields; what needs the files' own axes is checked where they are read.
void validate_selection(const DataSpec& d, const Check& check) {
  check.at_least(d.stride, 1, "data.stride");
  check.that(d.time_step >= 0 && std::isfinite(d.time_step), "data.time_step", "is negative",
             "hours, e.g. 6; 0 takes every step");
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
  for (const std::string& f : d.forcings)
    check.one_of(f, {"time_of_day", "day_of_year", "solar_zenith"}, "data.forcings");
  check.that(d.static_file.empty() || !d.static_fields.empty() || !(d.mask.empty() || d.mask == "fill"),
             "data.static_file", "is given, and nothing of it is used",
             "name what it holds in data.static_fields or data.mask, or leave it out");
  if (!d.train.empty()) return;
  const DataSpec usual;
  for (auto [said, key] : {std::pair{!d.region.empty(), "data.region"},
                           {d.stride != usual.stride, "data.stride"},
                           {!d.dates.empty(), "data.dates"},
                           {!d.valid_dates.empty(), "data.valid_dates"},
                           {d.time_step != usual.time_step, "data.time_step"},
                           {!d.static_fields.empty(), "data.static_fields"},
                           {!d.forcings.empty(), "data.forcings"},
                           {!d.mask.empty(), "data.mask"}})
    check.that(!said, key, "chooses from files, and without data.train there are none",
               "set data.train, or leave it out");
}

// Which rows are samples: nothing that is said of them may be without effect.
void validate_rows(const DataSpec& d, const Check& check) {
  const DataSpec usual;
  check.one_of(d.mask_mode, {"both", "ocean", "sea_ice"}, "data.mask_mode");
  check.that(d.thin_fraction > 0 && d.thin_fraction <= 1, "data.thin_fraction", "is not in (0, 1]",
             "e.g. 0.1 keeps a tenth");
  check.at_least(d.max_patterns, 0, "data.max_patterns");
  check.that(std::isfinite(d.min_ice_concentration), "data.min_ice_concentration", "is not a number",
             "e.g. 0.15");
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

void validate_channels(const MlpSpec& n, const DataSpec& d, const Check& check) {
  const bool classes = classifies(check.s);
  check.that(!classes || d.train.empty() || d.targets.size() == 1, "data.targets",
             "names " + std::to_string(d.targets.size()) +
                 ", and train.loss cross_entropy has one target, the class",
             "name the column of classes; net.out_features is their number");
  const Sized in{n.in_features, "net.in_features"}, out{n.out_features, "net.out_features"};
  validate_channels(d, in, classes ? Sized{1, "the number of targets"} : out, check);
  validate_rows(d, check);
}
void validate_channels(const WordsSpec&, const DataSpec& d, const Check& check) {
  check.that(d.inputs.empty() && d.targets.empty(), d.inputs.empty() ? "data.targets" : "data.inputs",
             "names channels, and this net reads words", "leave it out");
}

void validate_net(const VitSpec& n, const Check& check) {
  validate_blocks(n, check);
  at_least_one({{n.depth, "net.depth"}, {n.patch_size, "net.patch_size"}}, check);
  validate_images(n, check);
}

void validate_net(const UnetSpec& n, const Check& check) {
  validate_blocks(n, check);
  at_least_one({{n.encoder_depth, "net.encoder_depth"},
                {n.bottleneck_depth, "net.bottleneck_depth"},
                {n.decoder_depth, "net.decoder_depth"},
                {n.patch_size, "net.patch_size"}},
               check);
  validate_images(n, check);
}

template <class Net>
requires std::is_base_of_v<WordsSpec, Net>
void validate_net(const Net& n, const Check& check) {
  validate_blocks(n, check);
  at_least_one({{n.depth, "net.depth"}}, check);
  for (auto [value, low, key] : {std::tuple{n.seq_length, int64_t{1}, "net.seq_length"},
                                 {n.vocab_size, int64_t{1}, "net.vocab_size"},
                                 {n.num_kv_heads, int64_t{0}, "net.num_kv_heads"},
                                 {n.ffn_dim, int64_t{0}, "net.ffn_dim"}}) {
    check.at_least(value, low, key);
    check.at_most(value, 1 << 24, key);
  }
  check.that(n.dropout >= 0 && n.dropout < 1, "net.dropout", "is not in [0, 1)", "e.g. 0.1");
}

void validate_net(const MlpSpec& n, const Check& check) {
  at_least_one({{n.in_features, "net.in_features"}, {n.out_features, "net.out_features"}}, check);
  check.that(!n.hidden.empty(), "net.hidden", "names no hidden layer", "give a width or more, e.g. [64, 64]");
  check.that(n.blocks() <= 1024, "net.hidden", "has " + std::to_string(n.blocks()) + " widths, above 1024",
             "give fewer");
  for (const int64_t width : n.hidden) at_least_one({{width, "net.hidden"}}, check);
  check.one_of(n.activation, activation_names(), "net.activation");
  check.that(n.dropout >= 0 && n.dropout < 1, "net.dropout", "is not in [0, 1)", "e.g. 0.2");
}

void validate_net(const RegionalGnnSpec& n, const Check& check) {
  validate_images(n, check);
  at_least_one({{n.neighbors, "net.neighbors"},
                {n.boundary_neighbors, "net.boundary_neighbors"},
                {n.latent_size, "net.latent_size"},
                {n.num_gnn_layers, "net.num_gnn_layers"},
                {n.mlp_hidden_size, "net.mlp_hidden_size"},
                {n.mlp_num_hidden_layers, "net.mlp_num_hidden_layers"}},
               check);
  check.that(n.norm_eps > 0, "net.norm_eps", "is not positive", "use 1e-5");
  check.that(n.spacing >= 1e-4 && n.spacing <= 90, "net.spacing", "is not in [0.0001, 90]",
             "give the grid's step in degrees, e.g. 0.25");
  check.that(std::abs(n.north) <= 90, "net.north", "is not in [-90, 90]",
             "give the latitude of the grid's first row in degrees");
  check.that(std::abs(n.west) <= 360, "net.west", "is not in [-360, 360]",
             "give the longitude of the grid's first column in degrees");
}

void validate_net(const AuroraSpec& n, const Check& check) {
  validate_images(n, check);
  at_least_one({{n.history, "net.history"},
                {n.patch_size, "net.patch_size"},
                {n.embed_dim, "net.embed_dim"},
                {n.num_heads, "net.num_heads"},
                {n.mlp_ratio, "net.mlp_ratio"},
                {n.dec_mlp_ratio, "net.dec_mlp_ratio"}},
               check);
  for (const auto& [list, key] :
       {std::pair<const std::vector<int64_t>*, const char*>{&n.levels, "net.levels"},
        {&n.encoder_depths, "net.encoder_depths"},
        {&n.encoder_num_heads, "net.encoder_num_heads"},
        {&n.decoder_depths, "net.decoder_depths"},
        {&n.window, "net.window"}})
    for (const int64_t value : *list) at_least_one({{value, key}}, check);
  for (const auto& [names, key] :
       {std::pair<const std::vector<std::string>*, const char*>{&n.surf_vars, "net.surf_vars"},
        {&n.atmos_vars, "net.atmos_vars"}})
    check.that(!names->empty(), key, "names no variable", "name one or more");
  check.that(!n.levels.empty(), "net.levels", "has no pressure level", "give them in hPa");
  check.that(n.latent_levels >= 2, "net.latent_levels", "is below 2",
             "one is the surface's: give at least 2");
  check.that(n.window.size() == 3, "net.window", "has " + std::to_string(n.window.size()) + " sizes",
             "give latent levels, patches down and across, e.g. [2, 6, 12]");
  check.that(n.encoder_depths.size() >= 2 && n.encoder_depths.size() <= 8, "net.encoder_depths",
             "has " + std::to_string(n.encoder_depths.size()) + " resolutions", "give 2 to 8");
  check.that(n.norm_eps > 0, "net.norm_eps", "is not positive", "use 1e-5");
  check.that(n.lead_time > 0 && n.lead_time <= 504, "net.lead_time", "is not in (0, 504] hours", "e.g. 6");
  check.that(n.spacing >= 1e-4 && n.spacing <= 90, "net.spacing", "is not in [0.0001, 90]",
             "give the grid's step in degrees, e.g. 0.25");
  check.that(std::abs(n.north) <= 90, "net.north", "is not in [-90, 90]",
             "give the latitude of the grid's first row in degrees");
  check.that(n.west >= 0 && n.west < 360, "net.west", "is not in [0, 360)",
             "give the longitude of the grid's first column in degrees");
}

void validate_net(const GraphcastSpec& n, const Check& check) {
  validate_images(n, check);
  at_least_one({{n.latent_size, "net.latent_size"},
                {n.num_gnn_layers, "net.num_gnn_layers"},
                {n.mlp_hidden_size, "net.mlp_hidden_size"},
                {n.mlp_num_hidden_layers, "net.mlp_num_hidden_layers"}},
               check);
  check.that(n.img_height >= 2, "net.img_height", "has fewer rows than there are poles",
             "give the rows from pole to pole, both included, e.g. 721");
  check.that(n.mesh_level >= 0 && n.mesh_level <= 9, "net.mesh_level", "is not in [0, 9]",
             "give how often the icosahedron is split, e.g. 6");
  check.that(n.radius > 0 && n.radius <= 2, "net.radius", "is not in (0, 2]",
             "give a part of the mesh's longest edge, e.g. 0.6");
  check.that(n.norm_eps > 0, "net.norm_eps", "is not positive", "use 1e-5");
}

// ---- … and together ----

void validate_together(const AuroraSpec& n, const Check& check) {
  const auto same = [&](const std::vector<int64_t>& list, const char* key) {
    check.that(list.size() == n.encoder_depths.size(), key,
               "has " + std::to_string(list.size()) + " numbers, and net.encoder_depths " +
                   std::to_string(n.encoder_depths.size()),
               "give one a resolution");
  };
  same(n.encoder_num_heads, "net.encoder_num_heads");
  same(n.decoder_depths, "net.decoder_depths");
  check.that(
      n.img_height % n.patch_size == 0 && n.img_width % n.patch_size == 0, "net.patch_size",
      "does not divide the grid of " + std::to_string(n.img_height) + " x " + std::to_string(n.img_width),
      "crop the grid (net.img_height; the published model drops the southern row)");
  check.that(n.latent_levels % n.window[0] == 0, "net.latent_levels",
             "is no multiple of " + std::to_string(n.window[0]) + ", a window's levels (net.window)",
             "give a multiple");
  check.that(n.embed_dim % 4 == 0 && n.embed_dim % n.num_heads == 0, "net.embed_dim",
             "is not divided by 4 and by net.num_heads", "e.g. 256 with 8 heads");
  for (size_t i = 0; i < n.encoder_num_heads.size(); ++i)
    check.that((n.embed_dim << i) % n.encoder_num_heads[i] == 0, "net.encoder_num_heads",
               "does not divide the width " + std::to_string(n.embed_dim << i) + " of its resolution",
               "double the heads with the width, e.g. [4, 8, 16]");
  check.that(n.north - n.spacing * static_cast<double>(n.img_height - 1) >= -90 - 1e-6 * n.spacing,
             "net.img_height", "has rows beyond the pole", "give fewer, or a smaller net.spacing");
  check.that(n.west + n.spacing * static_cast<double>(n.img_width - 1) < 360, "net.img_width",
             "goes round the earth more than once", "give fewer columns");
  const int64_t in = n.history * n.fields() + n.static_fields();
  check.that(
      n.in_channels == in, "net.in_channels",
      "is " + std::to_string(n.in_channels) + ", and the variables come to " + std::to_string(in) +
          " (net.history steps of surface fields and of each upper-air one's levels, then static ones)",
      "give that");
  check.that(
      n.out_channels == n.fields(), "net.out_channels",
      "is " + std::to_string(n.out_channels) + ", and a step has " + std::to_string(n.fields()) + " fields",
      "give that");
  check.that(n.history * n.tokens() * n.embed_dim < (int64_t{1} << 40), "net.img_height",
             "and the other sizes come to more than can be counted", "make the grid smaller");
}

// Both regions lie on the grid, and every node has as many neighbours as it is to have.
void validate_together(const RegionalGnnSpec& n, const Check& check) {
  const double south = n.north - n.spacing * static_cast<double>(n.img_height - 1),
               east = n.west + n.spacing * static_cast<double>(n.img_width - 1), slack = 1e-6 * n.spacing;
  check.that(south >= -90 - slack, "net.img_height",
             "has rows beyond the pole: from net.north they go down to " + std::to_string(south),
             "give fewer, or a smaller net.spacing");
  check.that(east - n.west < 360, "net.img_width", "goes round the earth more than once",
             "give fewer columns, or a smaller net.spacing");
  char grid[128];
  std::snprintf(grid, sizeof grid, "the grid, which has latitudes %g to %g and longitudes %g to %g", south,
                n.north, n.west, east);
  for (const auto& [region, key] :
       {std::pair<const std::vector<double>&, const char*>{n.downstream, "net.downstream"},
        {n.upstream, "net.upstream"}}) {
    check.that(region.size() == 4, key, "has " + std::to_string(region.size()) + " numbers",
               "give south, north, west and east in degrees");
    check.that(region[0] <= region[1] && region[2] <= region[3], key, "ends before it begins",
               "give south, north, west and east in degrees, in this order");
    check.that(region[0] >= south - slack && region[1] <= n.north + slack && region[2] >= n.west - slack &&
                   region[3] <= east + slack,
               key, std::string("reaches beyond ") + grid, "make it smaller, or the grid larger");
    const GridBox box = n.box(region);
    check.that(box.rows >= 1 && box.columns >= 1, key, "lies between the grid's points", "make it larger");
    check.that(box.points() < (int64_t{1} << 31), key, "has more points than 32 bits count",
               "make it smaller");
  }
  check.that(n.boundary_longitude >= n.downstream[2] && n.boundary_longitude <= n.downstream[3] &&
                 n.boundary_columns() >= 1,
             "net.boundary_longitude", "leaves no downstream node at the boundary, or lies beyond the region",
             "give a longitude between net.downstream's west and east");
  const int64_t nodes = n.downstream_box().points(), sources = n.upstream_box().points();
  check.that(n.neighbors < nodes, "net.neighbors",
             "is " + std::to_string(n.neighbors) + ", and a downstream node has " +
                 std::to_string(nodes - 1) + " others",
             "give fewer");
  check.that(n.boundary_neighbors <= sources, "net.boundary_neighbors",
             "is " + std::to_string(n.boundary_neighbors) + ", and there are " + std::to_string(sources) +
                 " upstream nodes",
             "give fewer");
  check.that(n.intra_edges() < (int64_t{1} << 31) && n.boundary_edges() < (int64_t{1} << 31), "net.neighbors",
             "makes more edges than 32 bits count", "give fewer, or a smaller net.downstream");
}

void validate_together(const MlpSpec&, const Check&) {}

void validate_together(const GraphcastSpec& n, const Check& check) {
  check.that(n.pixels() < (int64_t{1} << 31) / 20, "net.img_width",
             "makes a grid of more points than 32 bits count the edges of", "give fewer");
}

template <class Net>
void validate_together(const Net& n, const Check& check) {
  check.divides(n.num_heads, n.embed_dim, "net.num_heads", "net.embed_dim");
  if constexpr (std::is_base_of_v<Images, Net>) {
    check.divides(n.patch_size, n.img_height, "net.patch_size", "net.img_height");
    check.divides(n.patch_size, n.img_width, "net.patch_size", "net.img_width");
  } else {
    check.divides(n.kv_heads(), n.num_heads, "net.num_kv_heads", "net.num_heads");
  }
  if constexpr (std::is_same_v<Net, UnetSpec>)
    for (auto [size, key] : {std::pair{n.img_height, "net.img_height"}, {n.img_width, "net.img_width"}})
      check.that(size / n.patch_size % 2 == 0, key,
                 std::to_string(size) + " is an odd number of patches, and a unet merges two by two",
                 "use a multiple of 2 * net.patch_size = " + std::to_string(2 * n.patch_size));
}

}  // namespace

// Each key for itself, whatever the others say.
void validate_values(const RunSpec& s) {
  const Check check{s};
  const auto str = [](int64_t v) { return std::to_string(v); };
  s.net.visit([&](const auto& n) { validate_net(n, check); });

  const DataSpec& d = s.data;
  check.at_least(d.dt, 1, "data.dt");
  check.at_least(d.workers, 0, "data.workers");
  check.at_most(d.workers, 1024, "data.workers");
  check.at_least(d.prefetch, 1, "data.prefetch");
  check.at_most(d.prefetch, 1024, "data.prefetch");
  check.at_least(d.limit_samples, 0, "data.limit_samples");
  check.at_least(d.limit_valid_samples, 0, "data.limit_valid_samples");
  check.that(d.train_fraction > 0 && d.train_fraction <= 1, "data.train_fraction", "is not in (0, 1]",
             "e.g. 0.8");
  validate_selection(d, check);

  const LayoutSpec& l = s.layout;
  for (auto [value, key] : {std::pair{l.dp, "layout.dp"},
                            {l.tp, "layout.tp"},
                            {l.cp, "layout.cp"},
                            {l.pp, "layout.pp"},
                            {l.vpp, "layout.vpp"}}) {
    check.at_least(value, 1, key);
    check.at_most(value, kMostRanks, key);
  }
  const TrainSpec& t = s.train;
  check.at_least(t.global_batch, 1, "train.global_batch");
  check.at_most(t.global_batch, 1 << 24, "train.global_batch");
  check.at_least(t.steps, 1, "train.steps");
  check.one_of(t.optimizer, {"adam", "adamw", "sgd"}, "train.optimizer");
  check.that(t.momentum >= 0 && t.momentum < 1, "train.momentum", "is not in [0, 1)", "e.g. 0.9");
  check.one_of(t.loss, {"relative-l2", "mae", "mse", "huber", "cross_entropy"}, "train.loss");
  for (const double w : t.loss_weights)
    check.that(w >= 0 && std::isfinite(w), "train.loss_weights", "has a negative number", "give 0 or more");
  check.that(t.huber_delta > 0 && std::isfinite(t.huber_delta), "train.huber_delta", "is not positive",
             "e.g. 1");
  for (const std::string& f : t.variable_weights)
    check.that(named_factor(f).has_value(), "train.variable_weights", "'" + f + "' is no name with a weight",
               "give name=number, e.g. z=3.5");
  for (const std::string& f : t.intensity)
    check.that(named_threshold(f).has_value(), "train.intensity",
               "'" + f + "' is no name with a threshold and a weight",
               "give name>number=number, e.g. tp>10=3");
  check.one_of(t.level_weights, {"none", "pressure"}, "train.level_weights");
  check.one_of(t.loss_weighting, {"channels", "mean", "aurora"}, "train.loss_weighting");
  for (const auto& [value, key] : {std::pair{t.surface_weight, "train.surface_weight"},
                                   {t.upper_weight, "train.upper_weight"},
                                   {t.data_weight, "train.data_weight"}})
    check.that(value >= 0 && std::isfinite(value), key, "is negative", "give 0 or more");
  for (const std::string& f : t.lr_factors)
    check.that(named_factor(f).has_value(), "train.lr_factors", "'" + f + "' is no name with a factor",
               "give pattern=number, e.g. head=0.1");
  check.that(t.ema >= 0 && t.ema < 1, "train.ema", "is not in [0, 1)", "e.g. 0.999");
  check.at_least(t.checkpoint_keep, 0, "train.checkpoint_keep");
  check.at_least(t.lora_rank, 0, "train.lora_rank");
  check.at_most(t.lora_rank, kMostSize, "train.lora_rank");
  check.that(t.lora_alpha >= 0 && std::isfinite(t.lora_alpha), "train.lora_alpha", "is negative",
             "give 0 (the rank) or more");
  for (const auto& [patterns, key] : {std::pair{&t.freeze, "train.freeze"},
                                      {&t.lora_targets, "train.lora_targets"},
                                      {&t.no_decay, "train.no_decay"}})
    for (const std::string& p : *patterns)
      check.that(!p.empty(), key, "has an empty pattern", "name parameters, e.g. blocks.*.attn");
  check.one_of(t.lr_schedule, {"cosine", "constant", "step", "plateau"}, "train.lr_schedule");
  check.that(t.lr_gamma > 0 && t.lr_gamma < 1, "train.lr_gamma", "is not in (0, 1)", "e.g. 0.1");
  check.at_least(t.lr_step_size, 0, "train.lr_step_size");
  check.at_least(t.lr_patience, 0, "train.lr_patience");
  check.at_least(t.lr_cooldown, 0, "train.lr_cooldown");
  check.that(t.lr_threshold >= 0 && t.lr_threshold < 1, "train.lr_threshold", "is not in [0, 1)",
             "e.g. 1e-4");
  check.that(t.lr_min >= 0 && std::isfinite(t.lr_min), "train.lr_min", "is negative", "give 0 or more");
  check.one_of(t.lr_scaling, {"none", "sqrt", "linear"}, "train.lr_scaling");
  check.that(t.lr > 0 && std::isfinite(t.lr), "train.lr", "is not positive", "e.g. 5e-4");
  check.that(t.lr_schedule != "cosine" || t.lr_min <= t.lr, "train.lr_min", "is above train.lr",
             "a cosine falls to it: give less");
  check.that(t.beta1 >= 0 && t.beta1 < 1, "train.beta1", "is not in [0, 1)", "e.g. 0.9");
  check.that(t.beta2 >= 0 && t.beta2 < 1, "train.beta2", "is not in [0, 1)", "e.g. 0.95");
  check.that(t.adam_eps > 0, "train.adam_eps", "is not positive", "e.g. 1e-8");
  check.that(t.weight_decay >= 0, "train.weight_decay", "is negative", "give 0 or more");
  check.that(t.grad_clip >= 0 && std::isfinite(t.grad_clip), "train.grad_clip", "is negative",
             "0 clips nothing");
  check.that(t.min_loss_scale > 0, "train.min_loss_scale", "is not positive", "e.g. 1");
  check.that(t.initial_loss_scale > 0 && t.initial_loss_scale <= 0x1p100, "train.initial_loss_scale",
             "is not above 0 and up to 2^100", "e.g. 65536");
  check.at_least(t.loss_scale_window, 1, "train.loss_scale_window");
  check.at_least(t.warmup, 0, "train.warmup");
  check.at_least(t.lr_base_batch, 1, "train.lr_base_batch");
  check.at_least(t.lr_steps, 0, "train.lr_steps");
  check.that(t.lr_steps == 0 || t.lr_schedule == "cosine", "train.lr_steps",
             "is the length of a cosine, and train.lr_schedule is " + t.lr_schedule,
             "set that to cosine, or leave it out");
  check.at_least(t.seed, 0, "train.seed");
  check.at_least(t.early_stopping_patience, 0, "train.early_stopping_patience");
  check.at_least(t.jacobian_samples, 0, "train.jacobian_samples");
  check.at_least(t.jacobian_window, 0, "train.jacobian_window");
  check.at_most(t.jacobian_window, 1 << 20, "train.jacobian_window");
  check.that(t.jacobian_window != 1, "train.jacobian_window", "is 1: one norm never changes", "e.g. 5");
  check.that(t.jacobian_tolerance > 0 && t.jacobian_tolerance < 1, "train.jacobian_tolerance",
             "is not in (0, 1)", "e.g. 1e-3");
  check.at_least(t.min_steps, 0, "train.min_steps");
  check.at_least(t.log_every, 1, "train.log_every");
  check.at_least(t.valid_every, 0, "train.valid_every");
  check.at_least(t.checkpoint_every, 0, "train.checkpoint_every");

  const PolicySpec& p = s.policy;
  check.one_of(p.amp, {"none", "tf32", "bf16", "fp16", "fp8"}, "policy.amp");
  check.one_of(p.main_grads_dtype, {"fp32", "bf16"}, "policy.main_grads_dtype");
  check.one_of(p.schedule, {"gpipe", "1f1b", "interleaved", "zb-h1"}, "policy.schedule");
  check.one_of(p.cp_kind, {"allgather", "ring", "ulysses"}, "policy.cp_kind");
  check.one_of(p.recompute, {"none", "selective", "full"}, "policy.recompute");
  check.one_of(p.recompute_method, {"uniform", "block"}, "policy.recompute_method");
  check.at_least(p.recompute_num_layers, 1, "policy.recompute_num_layers");
  check.one_of(p.attention, {"flash", "unfused"}, "policy.attention");
  check.at_least(p.micro_batch, 0, "policy.micro_batch");
  check.that(p.zero >= 0 && p.zero <= 3, "policy.zero", str(p.zero) + " is no ZeRO stage", "use 0 to 3");
  check.that(p.bucket_mb > 0 && std::isfinite(p.bucket_mb), "policy.bucket_mb", "is not positive", "e.g. 25");
  check.at_least(s.run.threads, 0, "run.threads");
  check.one_of(s.run.device, {"cpu", "cuda", "auto"}, "run.device");
  check.one_of(s.run.gemm_choice, {"heuristic", "timed"}, "run.gemm_choice");
  check.that(!s.run.deterministic_attention || s.run.device != "cpu", "run.deterministic_attention",
             "is for GPUs: the CPU's sums always go by a fixed order",
             "leave it out, or set run.device: cuda");
  check.that(s.run.hang_timeout > 0, "run.hang_timeout", "is not positive", "give seconds, e.g. 300");
}

namespace {

double real(int64_t v) {
  return static_cast<double>(v);
}

struct Numbers {  // roughly
  double weights;
  double sample;  // all activations of one
};

// Of blocks on `tokens` of this width, between ends that map each token to and from `ends` numbers
template <class Net>
Numbers numbers_of_blocks(const Net& n, double ends, bool unfused) {
  const double width = real(n.embed_dim), tokens = real(n.tokens()), depth = real(n.blocks());
  const double hidden = real(n.hidden());
  const double wide = std::is_same_v<Net, UnetSpec> ? 4 : 1;  // weights of blocks of twice the width
  const double scores = unfused ? real(n.num_heads) * tokens * tokens : 0;
  return {wide * depth * width * (4 * width + 3 * hidden) + width * (ends + tokens),
          tokens * (ends + depth * (8 * width + 3 * hidden)) + depth * scores};
}

template <class Net>
Numbers numbers_of(const Net& n, bool unfused) {
  if constexpr (std::is_base_of_v<Images, Net>)
    return numbers_of_blocks(
        n, 2 * real(std::max(n.in_channels, n.out_channels)) * real(n.pixels()) / real(n.tokens()), unfused);
  else
    return numbers_of_blocks(n, 2 * real(n.vocab_size), unfused);
}

Numbers numbers_of(const MlpSpec& n, bool) {
  Numbers all{};
  double in = real(n.in_features);
  for (const int64_t width : n.hidden) {
    all.weights += (in + 1) * real(width);
    all.sample += 4 * real(width);
    in = real(width);
  }
  all.weights += (in + 1) * real(n.out_features);
  return all;
}

Numbers numbers_of(const AuroraSpec& n, bool) {
  Numbers all{};
  double width = real(n.embed_dim), tokens = real(n.tokens());
  for (size_t i = 0; i < n.encoder_depths.size(); ++i, width *= 2, tokens /= 4) {
    const size_t mirrored = n.decoder_depths.size() - 1 - i;
    const double blocks = real(n.encoder_depths[i]) +
                          (mirrored < n.decoder_depths.size() ? real(n.decoder_depths[mirrored]) : 0);
    all.weights += blocks * (4 + 2 * real(n.mlp_ratio)) * width * width;
    all.sample += blocks * (10 + 3 * real(n.mlp_ratio)) * width * tokens;
  }
  all.sample +=
      real(n.patches()) * real(n.pressure_levels()) * real(n.embed_dim) * (20 + 4 * real(n.dec_mlp_ratio));
  return all;
}

Numbers numbers_of(const RegionalGnnSpec& n, bool) {
  const double D = real(n.latent_size), H = real(n.mlp_hidden_size), layers = real(n.mlp_num_hidden_layers);
  const double steps = real(n.num_gnn_layers), mlp = H * (D + (layers - 1) * H);
  const double down = real(n.downstream_box().points()), up = real(n.upstream_box().points());
  const double edges = real(n.intra_edges()) + real(n.boundary_edges());
  const double row = 3 * D + 2 * layers * H;  // of an MLP: what goes in, its layers, what comes out
  return {steps * (10 * D * H + 4 * mlp) + (2 * real(n.in_channels) + 6) * H + 5 * mlp,
          (steps + 1) * (edges + 2 * down + up) * row + real(n.in_channels) * (down + up)};
}

Numbers numbers_of(const GraphcastSpec& n, bool) {
  const double D = real(n.latent_size), H = real(n.mlp_hidden_size), layers = real(n.mlp_num_hidden_layers);
  const double steps = real(n.num_gnn_layers), mlp = H * (D + (layers - 1) * H);
  const double grid = real(n.pixels()), mesh = real(n.mesh_nodes()), row = 3 * D + 2 * layers * H;
  return {(steps + 2) * (5 * D * H + 2 * mlp) + 2 * (real(n.in_channels) + 9) * H +
              (real(n.out_channels) + 8 * D) * H,
          (steps * (real(n.mesh_edges()) + mesh) + 2 * (3 * grid + mesh) + 5 * grid) * row +
              2 * real(n.in_channels) * grid};
}

// Bytes that all tensors of a rank would hold if nothing were cut, roughly and in floating point. Whatever
// passes can be counted in 64 bits.
void refuse_astronomical(const RunSpec& s, const Check& check) {
  const auto [weights, sample] =
      s.net.visit([&](const auto& n) { return numbers_of(n, s.policy.attention == "unfused"); });
  const double read = real(s.net.sample_numbers()) / 2;
  const double batches = real(std::max<int64_t>(1, s.data.workers) * s.data.prefetch + 2);
  const double batch = real(s.train.global_batch) / real(s.layout.dp);
  const double bytes = 16 * weights + batch * (8 * sample + 8 * batches * read);
  constexpr double kMost = 0x1p60;
  if (bytes <= kMost) return;
  char text[96];
  std::snprintf(text, sizeof text, "needs about %.1e bytes of tensors, above %.1e (2^60)", bytes, kMost);
  const bool of_batch = 16 * weights + 8 * (sample + batches * read) <= kMost;
  check.that(false, of_batch ? "train.global_batch" : "net", text,
             of_batch ? "give a smaller batch" : "make the net or its samples smaller");
}

}  // namespace

// Each of so many times has the same channels, of which the net predicts the first ones.
void validate_rollout(const RunSpec& s, const Check& check) {
  if (!s.net.rolls_out()) return;
  const Images& n = *s.net.images();
  const TrainSpec& t = s.train;
  check.at_least(s.data.history, 1, "data.history");
  check.at_least(t.rollout, 1, "train.rollout");
  check.at_most(t.rollout, 256, "train.rollout");
  check.one_of(t.rollout_gradient, {"all", "last"}, "train.rollout_gradient");
  check.one_of(t.prediction, {"state", "increment"}, "train.prediction");
  check.that(t.rollout > 1 || t.rollout_gradient == "all", "train.rollout_gradient",
             "is for roll-outs, and train.rollout is 1", "set train.rollout to 2 or more, or leave it out");
  check.at_least(t.rollout_every, 0, "train.rollout_every");
  check.that(t.rollout_every == 0 || (t.rollout > 1 && t.rollout_gradient == "all"), "train.rollout_every",
             "lengthens roll-outs whose gradient goes through all steps",
             "set train.rollout to 2 or more and train.rollout_gradient to all, or leave it out");
  check.that((t.rollout - 1) * std::min(t.rollout_every, t.steps) < t.steps, "train.rollout_every",
             "is so large that the run ends before its roll-outs have train.rollout steps",
             "give less than train.steps / (train.rollout - 1)");
  check.divides(s.data.history, n.in_channels, "data.history", "net.in_channels");
  const int64_t of_a_time = n.in_channels / s.data.history;
  if (t.rollout == 1 && t.prediction == "state") return;
  check.that(n.out_channels <= of_a_time, "net.out_channels",
             "is " + std::to_string(n.out_channels) + ", and the net reads " + std::to_string(of_a_time) +
                 " channels of each time: what it predicts it has to read again",
             "set net.in_channels to data.history times what a time has");
}

void validate(const RunSpec& s) {
  validate_values(s);
  const Check check{s};
  const auto str = [](int64_t v) { return std::to_string(v); };
  s.net.visit([&](const auto& n) { validate_together(n, check); });
  s.net.visit([&](const auto& n) { validate_channels(n, s.data, check); });
  const LayoutSpec& l = s.layout;
  const double ranks = static_cast<double>(l.dp) * static_cast<double>(l.tp) * static_cast<double>(l.cp) *
                       static_cast<double>(l.pp);
  check.that(ranks <= static_cast<double>(kMostRanks), "layout",
             "dp * tp * cp * pp = " + str(l.dp) + " * " + str(l.tp) + " * " + str(l.cp) + " * " + str(l.pp) +
                 " are more ranks than " + str(kMostRanks),
             "make one of them smaller");
  const TrainSpec& t = s.train;
  const auto weights = static_cast<int64_t>(t.loss_weights.size());
  check.that(weights == 0 || t.loss != "relative-l2", "train.loss_weights",
             "are not for relative-l2, a quotient of norms over all channels", "use mae, mse or huber");
  check.that(weights == 0 || t.loss != "cross_entropy", "train.loss_weights",
             "are not for cross_entropy, which has one target", "use mae, mse or huber");
  const bool named =
                 !t.variable_weights.empty() || t.level_weights != "none" || t.loss_weighting != "channels",
             by_name = named || !t.intensity.empty();
  check.that(!by_name || weights == 0 || !named, "train.loss_weights",
             "are given beside weights by name, which make them", "leave out one of the two");
  check.that(!by_name || (t.loss != "relative-l2" && t.loss != "cross_entropy"),
             named ? "train.variable_weights" : "train.intensity", "and the like are not for " + t.loss,
             "use mae, mse or huber");
  check.that(
      !t.latitude_weights || (s.net.images() && t.loss != "relative-l2"), "train.latitude_weights",
      s.net.images() ? "are not for relative-l2, a quotient of norms" : "are for fields, which have rows",
      s.net.images() ? "use mae, mse or huber" : "leave it out");
  check.that(
      t.loss_weighting == "aurora" || (t.surface_weight == 0.25 && t.upper_weight == 1 && t.data_weight == 1),
      "train.surface_weight", "and the like are of train.loss_weighting: aurora",
      "set that, or leave them out");
  check.that(!s.net.images() || t.loss != "cross_entropy", "train.loss",
             "cross_entropy is for classes, and net.kind " + s.net.kind() + " predicts fields",
             "use relative-l2, mae, mse or huber, or net.kind: mlp");
  check.that(!classifies(s) || s.net.outputs() >= 2, "net.out_features",
             "is 1, and cross_entropy tells classes apart", "give the number of classes, 2 or more");
  const int64_t outputs = s.net.outputs();
  const bool features = s.net.kind() == MlpSpec::kKind;
  check.that(weights == 0 || weights == outputs, "train.loss_weights",
             "has " + str(weights) + " numbers, net.out_" + (features ? "features" : "channels") + " is " +
                 str(outputs),
             features ? "give one a feature" : "give one a channel");
  validate_rollout(s, check);
  check.that(t.no_decay.empty() || t.weight_decay > 0, "train.no_decay",
             "says what does not decay, and train.weight_decay is 0",
             "set train.weight_decay, or leave it out");
  check.that(!t.ema_valid || t.ema > 0, "train.ema_valid", "is of an average, and train.ema is 0",
             "set train.ema, e.g. 0.999");
  check.that(t.checkpoint_keep == 0 || t.checkpoint_every > 0 || t.checkpoint_best, "train.checkpoint_keep",
             "says how many checkpoints stay, and train.checkpoint_every is 0",
             "set train.checkpoint_every, or leave it out");
  check.that(t.lora_rank > 0 || (t.lora_targets.empty() && t.lora_alpha == 0),
             t.lora_targets.empty() ? "train.lora_alpha" : "train.lora_targets",
             "is of adapters, and train.lora_rank is 0", "set train.lora_rank, e.g. 8");
  check.that(t.lora_rank == 0 || !t.lora_targets.empty(), "train.lora_targets",
             "is empty: no linear has an adapter of train.lora_rank", "name some, e.g. [blocks.*.attn]");
  check.at_least(t.lr_step_size, t.lr_schedule == "step" ? 1 : 0, "train.lr_step_size");
  const bool validates = t.valid_every > 0 && s.data.validates();
  check.that(t.lr_schedule != "plateau" || validates, "train.lr_schedule",
             "plateau watches the validation loss, and this run has none before its end",
             "set train.valid_every, and data.valid or data.train_fraction");
  for (const auto& [set, key] : {std::pair{t.early_stopping_patience > 0, "train.early_stopping_patience"},
                                 {t.jacobian_samples > 0, "train.jacobian_samples"},
                                 {t.checkpoint_best, "train.checkpoint_best"}})
    check.that(!set || validates, key, "looks at validations, and this run has none before its end",
               "set train.valid_every, and data.valid or data.train_fraction");
  check.that(t.jacobian_samples == 0 || features, "train.jacobian_samples",
             "tracks whole Jacobians, which only an mlp's are small enough for",
             "take rows of a trained net's: isobar jacobian");
  check.that(t.jacobian_window == 0 || t.jacobian_samples > 0, "train.jacobian_window",
             "watches a Jacobian that is not tracked", "set train.jacobian_samples, e.g. 100");
  check.that(t.min_steps == 0 || t.early_stopping_patience > 0 || t.jacobian_window > 0, "train.min_steps",
             "is given, but nothing ends this run early",
             "set train.early_stopping_patience or train.jacobian_window");
  check.that(t.min_loss_scale <= t.initial_loss_scale, "train.min_loss_scale",
             "is above train.initial_loss_scale", "e.g. 1");
  check.that(t.global_batch % l.dp == 0, "train.global_batch",
             str(t.global_batch) + " cannot be shared by layout.dp = " + str(l.dp),
             "use a multiple, e.g. " + str((t.global_batch / l.dp + 1) * l.dp));

  const PolicySpec& p = s.policy;
  check.that(p.recompute == "full" || (p.recompute_method == "uniform" && p.recompute_num_layers == 1),
             p.recompute_num_layers == 1 ? "policy.recompute_method" : "policy.recompute_num_layers",
             "says which blocks full recomputation throws away, and policy.recompute is " + p.recompute,
             "leave it out, or set policy.recompute to full");
  check.that(!p.offload_parameters || p.zero == 3, "policy.offload_parameters",
             "is of ZeRO's stage 3, which gathers parameters before each use", "set policy.zero to 3");
  check.that(p.amp != "fp8" || s.net.words(), "policy.amp", "fp8 is for net.kind gpt and llama",
             "use one of none, tf32, bf16, fp16");
  check.that(p.attention != "unfused" || s.net.words(), "policy.attention",
             "unfused is for net.kind gpt and llama", "use flash");
  check.that(p.attention != "unfused" || l.cp == 1, "policy.attention",
             "unfused attention cannot be cut by layout.cp", "use flash, or set layout.cp to 1");
  if (p.micro_batch)
    check.divides(p.micro_batch, t.global_batch / l.dp, "policy.micro_batch", "the batch of one dp rank");
  refuse_astronomical(s, check);
}

}  // namespace isobar
