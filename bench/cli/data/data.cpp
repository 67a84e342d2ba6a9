#include "bench/cli/data/data.h"

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "model/base/text/json.h"
#include "model/data/statistics/stats.h"
#include "model/data/synthetic/synth.h"
#include "model/data/synthetic/synth_archive.h"
#include "model/data/synthetic/synth_classes.h"
#include "model/data/synthetic/synth_points.h"
#include "model/data/written/inspect.h"

namespace isobar::cli {

namespace {

void add_make(CLI::App& data) {
  struct Arguments {
    std::string dir;
    data::SyntheticOptions options;
    bool json = false;
  };
  auto a = std::make_shared<Arguments>();
  a->options.samples_per_year = 120;  // small by default: the full grid takes 20.7 MB a sample
  a->options.height = 32;
  a->options.width = 64;
  CLI::App* make = data.add_subcommand("make", "Write a synthetic atmosphere in the NERSC ERA5 layout");
  make->footer(
      "Writes DIR/train, DIR/valid and DIR/test with one HDF5 file a year (`fields` [time, channel, lat, "
      "lon]) and\n"
      "DIR/stats with global_means.npy, global_stds.npy and time_means.npy. Waves drift and grow as on a "
      "real\n"
      "planet, so a net can learn to beat persistence. Files of an interrupted call are kept.\n\n"
      "  isobar data make data/small                               16 MB a year\n"
      "  isobar data make data/era5 --height 360 --width 720 --samples-per-year 40     0.8 GB a year, ERA5's "
      "grid\n"
      "  isobar data make data/packed --deflate 4                  chunked and compressed");
  make->add_option("dir", a->dir, "Directory to write")->required();
  make->add_option("--samples-per-year", a->options.samples_per_year, "Six-hourly steps in each file")
      ->capture_default_str();
  make->add_option("--channels", a->options.channels, "Channels (FourCastNet's 20 come first)")
      ->capture_default_str();
  make->add_option("--height", a->options.height, "Rows (latitudes)")->capture_default_str();
  make->add_option("--width", a->options.width, "Columns (longitudes)")->capture_default_str();
  make->add_option("--train-years", a->options.train_years, "Yearly files to train on")
      ->capture_default_str();
  make->add_option("--valid-years", a->options.valid_years, "Yearly files to validate on")
      ->capture_default_str();
  make->add_option("--test-years", a->options.test_years, "Yearly files kept for tests")
      ->capture_default_str();
  make->add_option("--first-year", a->options.first_year, "Year of the first file")->capture_default_str();
  make->add_option("--seed", a->options.seed, "Another seed, another atmosphere")->capture_default_str();
  make->add_option("--deflate", a->options.deflate, "0 = contiguous; 1 to 9 = chunked, shuffled, deflated")
      ->capture_default_str();
  make->add_flag("--force", a->options.force, "Replace another synthetic set in DIR");
  make->add_flag("--json", a->json, "Print what was made as JSON");
  make->callback([a] {
    a->options.show_progress = !a->json;
    data::make_synthetic(a->dir, a->options);
    const nlohmann::json made = data::inspect(a->dir + "/train");
    if (a->json) {
      std::cout << json_text(nlohmann::json{{"dir", a->dir}, {"train", made}}, 2) << "\n";
      return;
    }
    std::cout << data::inspect_text(made) << "\nTrain on it with\n  --set data.train=" << a->dir << "/train";
    if (a->options.valid_years > 0) std::cout << " --set data.valid=" << a->dir << "/valid";
    std::cout << " \\\n  --set data.means=" << a->dir << "/stats/global_means.npy --set data.stds=" << a->dir
              << "/stats/global_stds.npy\n";
  });
}

void add_make_points(CLI::App& data) {
  struct Arguments {
    std::string dir;
    data::PointsOptions options;
    bool json = false;
  };
  auto a = std::make_shared<Arguments>();
  CLI::App* make = data.add_subcommand("make-points", "Write a synthetic ocean and atmosphere for an mlp");
  make->footer(
      "Writes DIR/ocean.nc and DIR/atmosphere.nc on one grid: the 14 inputs of an emulator of fluxes and the "
      "ice\n"
      "concentration `aice`, a smooth function of them with a little noise. Packed shorts, land missing, ice "
      "near the poles.\n\n"
      "  isobar data make-points data/points                       20 steps of 32 x 64 points: 1.3 MB\n"
      "  isobar data make-points data/degree --height 180 --width 360 --steps 40       78 MB");
  make->add_option("dir", a->dir, "Directory to write")->required();
  make->add_option("--steps", a->options.steps, "Six-hourly steps")->capture_default_str();
  make->add_option("--height", a->options.height, "Rows (latitudes)")->capture_default_str();
  make->add_option("--width", a->options.width, "Columns (longitudes)")->capture_default_str();
  make->add_option("--seed", a->options.seed, "Another seed, another pair")->capture_default_str();
  make->add_flag("--force", a->options.force, "Replace another pair in DIR");
  make->add_flag("--json", a->json, "Print what was made as JSON");
  make->callback([a] {
    a->options.show_progress = !a->json;
    data::make_points(a->dir, a->options);
    const std::string train = a->dir + "/ocean.nc," + a->dir + "/atmosphere.nc";
    const data::PointsOptions& o = a->options;
    if (a->json) {
      std::cout << json_text(nlohmann::json{{"train", train},
                                            {"inputs", data::points_inputs()},
                                            {"targets", {"aice"}},
                                            {"steps", o.steps},
                                            {"height", o.height},
                                            {"width", o.width}},
                             2)
                << "\n";
      return;
    }
    std::cout << o.steps << " steps of " << o.height << " x " << o.width << " points\nTrain on it with\n  "
              << "isobar train configs/models/mlp-ice.yaml --set data.train=" << train << "\n";
  });
}

void add_make_archive(CLI::App& data) {
  struct Arguments {
    std::string dir;
    data::ArchiveOptions options;
    bool json = false;
  };
  auto a = std::make_shared<Arguments>();
  CLI::App* make =
      data.add_subcommand("make-archive", "Write a synthetic archive of many variables and levels");
  make->footer(
      "Writes DIR/levels (z, u, v, t and q on 13 levels) and DIR/single (t2m, u10, v10, msl; sea ice and sea "
      "surface\n"
      "temperature, missing on land; lsm, ocean and orography without a time axis), on one six-hourly time "
      "axis.\n\n"
      "  isobar data make-archive data/archive                              23 MB of netCDF-4\n"
      "  isobar data make-archive data/archive --format zarr3 --height 181 --width 360 --steps 400     7.4 "
      "GB");
  make->add_option("dir", a->dir, "Directory to write")->required();
  make->add_option("--format", a->options.format, "netcdf4, netcdf3, zarr2 or zarr3")
      ->capture_default_str()
      ->check(CLI::IsMember({"netcdf4", "netcdf3", "zarr2", "zarr3"}));
  make->add_option("--steps", a->options.steps, "Six-hourly steps")->capture_default_str();
  make->add_option("--height", a->options.height, "Rows (latitudes)")->capture_default_str();
  make->add_option("--width", a->options.width, "Columns (longitudes)")->capture_default_str();
  make->add_option("--missing", a->options.missing, "Share of the sea whose temperature is missing at a step")
      ->capture_default_str();
  make->add_option("--seed", a->options.seed, "Another seed, another archive")->capture_default_str();
  make->add_flag("--force", a->options.force, "Replace another archive in DIR");
  make->add_flag("--json", a->json, "Print what was made as JSON");
  make->callback([a] {
    a->options.show_progress = !a->json;
    const data::ArchivePaths made = data::make_archive(a->dir, a->options);
    if (a->json) {
      data::FieldChoice gaps;
      gaps.mask = "missing";
      std::cout << json_text(nlohmann::json{{"levels", data::inspect(made.levels)},
                                            {"single", data::inspect(made.single, gaps)}},
                             2)
                << "\n";
      return;
    }
    const data::ArchiveOptions& o = a->options;
    std::cout << o.steps << " steps of " << o.height << " x " << o.width
              << " points\nTrain on some of it with\n  "
              << "--set data.train=" << made.levels << "," << made.single
              << " --set 'data.variables=[\"z@500,850\",t2m,sst]' \\\n  --set data.mask=missing --set "
                 "data.static_fields=[lsm,orography] --set net.in_channels=6 --set net.out_channels=4\n";
  });
}

void add_make_classes(CLI::App& data) {
  struct Arguments {
    std::string dir;
    data::ClassesOptions options;
    bool json = false;
  };
  auto a = std::make_shared<Arguments>();
  CLI::App* make = data.add_subcommand("make-classes", "Write a synthetic table of classes for an mlp");
  make->footer(
      "Writes DIR/train.nc, DIR/valid.nc and DIR/test.nc, 80, 10 and 10 % of the samples: columns x0, x1, … "
      "and "
      "the class\n"
      "`label`. Each class is a random pattern under noise.\n\n"
      "  isobar data make-classes data/classes                     10,000 samples of 784 features: 34 MB\n"
      "  isobar data make-classes data/few --samples 500 --features 16 --classes 3");
  make->add_option("dir", a->dir, "Directory to write")->required();
  make->add_option("--samples", a->options.samples, "Rows of all three files")->capture_default_str();
  make->add_option("--features", a->options.features, "Columns of numbers")->capture_default_str();
  make->add_option("--classes", a->options.classes, "Classes")->capture_default_str();
  make->add_option("--seed", a->options.seed, "Another seed, another table")->capture_default_str();
  make->add_flag("--force", a->options.force, "Replace other files in DIR");
  make->add_flag("--json", a->json, "Print what was made as JSON");
  make->callback([a] {
    a->options.show_progress = !a->json;
    data::make_classes(a->dir, a->options);
    const data::ClassesOptions& o = a->options;
    const std::string train = a->dir + "/train.nc", valid = a->dir + "/valid.nc",
                      inputs = "x0..x" + std::to_string(o.features - 1);
    if (a->json) {
      std::cout << json_text(nlohmann::json{{"train", train},
                                            {"valid", valid},
                                            {"test", a->dir + "/test.nc"},
                                            {"inputs", inputs},
                                            {"targets", {"label"}},
                                            {"samples", o.samples},
                                            {"classes", o.classes}},
                             2)
                << "\n";
      return;
    }
    std::cout
        << o.samples << " samples of " << o.features << " numbers in " << o.classes
        << " classes\nTrain on them with\n  isobar train configs/models/mlp-classifier.yaml --set data.train="
        << train << " \\\n    --set data.valid=" << valid << " --set 'data.inputs=[" << inputs
        << "]' --set net.in_features=" << o.features << " --set net.out_features=" << o.classes << "\n";
  });
}

void add_stats(CLI::App& data) {
  struct Arguments {
    std::string path, out;
    int64_t steps = 0, dt = 0;
    bool json = false;
  };
  auto a = std::make_shared<Arguments>();
  auto choice = std::make_shared<data::FieldChoice>();
  CLI::App* stats = data.add_subcommand("stats", "Compute mean and standard deviation of every channel");
  stats->footer(
      "Streams once over the data, in double precision. Give it the training part only, so that nothing "
      "leaks from\n"
      "the years that validate.\n\n"
      "  isobar data stats data/era5/train -o data/era5/stats      writes global_means.npy and "
      "global_stds.npy\n"
      "  isobar data stats era5.nc --json                          prints them\n"
      "  isobar data stats era5.nc --dt 6                          of the change over 6 steps");
  stats->add_option("path", a->path, "HDF5 files' directory, NetCDF, GRIB, Zarr; several with commas between")
      ->required();
  stats->add_option("-o,--out", a->out, "Directory for global_means.npy and global_stds.npy, [1,C,1,1]");
  add_field_options(*stats, choice);
  stats
      ->add_option("--dt", a->dt,
                   "Statistics of the change over this many steps; 0: of the fields themselves")
      ->check(CLI::Range(0, 1 << 20));
  stats->add_option("--steps", a->steps, "Use only this many steps, evenly spaced; 0: all")
      ->check(CLI::Range(0, 1 << 30));
  stats->add_flag("--json", a->json, "Print as JSON");
  stats->callback([a, choice] {
    const data::FileStatistics s = data::compute_statistics(a->path, *choice, a->steps, !a->json, a->dt);
    if (!a->out.empty()) data::write_statistics(a->out, s);
    if (a->json) {
      std::cout << json_text(
                       nlohmann::json{
                           {"path", a->path}, {"channels", s.channels}, {"mean", s.mean}, {"std", s.std}},
                       2)
                << "\n";
      return;
    }
    for (size_t c = 0; c < s.mean.size(); ++c)
      std::cout << s.channels[c] << "  mean " << s.mean[c] << "  std " << s.std[c]
                << (s.units.empty() ? "" : "  " + s.units[c]) << "\n";
  });
}

void add_inspect(CLI::App& data) {
  struct Arguments {
    std::string path;
    int64_t dt = 1;
    bool json = false;
  };
  auto a = std::make_shared<Arguments>();
  auto choice = std::make_shared<data::FieldChoice>();
  CLI::App* command = data.add_subcommand("inspect", "Show what a data set holds");
  command->footer(
      "Prints format, grid, channels with units and the range of the first step, time range, storage layout "
      "and\n"
      "whether loader workers can read them in parallel, and how many samples they make.\n\n"
      "  isobar data inspect era5.nc --dt 6\n"
      "  isobar data inspect data/era5/train --json");
  command
      ->add_option("path", a->path, "HDF5 files' directory, NetCDF, GRIB, Zarr; several with commas between")
      ->required();
  add_field_options(*command, choice);
  command->add_option("--dt", a->dt, "Steps between input and target")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  command->add_flag("--json", a->json, "Print as JSON");
  command->callback([a, choice] {
    const nlohmann::json j = data::inspect(a->path, *choice, a->dt);
    std::cout << (a->json ? json_text(j, 2) + "\n" : data::inspect_text(j));
  });
}

}  // namespace

void add_data_commands(CLI::App& app) {
  CLI::App* data = app.add_subcommand("data", "Make, measure and inspect data sets");
  data->require_subcommand(1);
  data->footer("Help on one:      isobar data stats --help");
  add_make(*data);
  add_make_points(*data);
  add_make_classes(*data);
  add_make_archive(*data);
  add_stats(*data);
  add_inspect(*data);
  add_convert(*data);
  add_tokens(*data);
}

}  // namespace isobar::cli
