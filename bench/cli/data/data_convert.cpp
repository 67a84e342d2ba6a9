#include <iostream>
#include <nlohmann/json.hpp>

#include "bench/cli/data/data.h"
#include "model/data/written/convert.h"
#include "model/data/written/inspect.h"

namespace isobar::cli {

void add_field_options(CLI::App& command, const std::shared_ptr<data::FieldChoice>& choice) {
  data::FieldChoice& c = *choice;
  command.add_option("--variables", c.variables, "Only these: t2m,z@500/850")->delimiter(',');
  command.add_option("--region", c.region, "North,west,south,east in degrees")->delimiter(',')->expected(4);
  command.add_option("--stride", c.stride, "Take every Nth row and column")->check(CLI::Range(1, 1 << 20));
  command.add_option("--dates", c.dates, "First,last: 2010,2015 or 2019-03-01,2019-03-25T18")
      ->delimiter(',')
      ->expected(2);
  command.add_option("--time-step", c.time_step, "Hours: times that are multiples of it")
      ->check(CLI::NonNegativeNumber);
  command.add_option("--static-fields", c.static_fields, "Variables without a time axis, as channels")
      ->delimiter(',');
  command.add_option("--static-file", c.static_file, "File that holds them and the mask");
  command.add_option("--forcings", c.forcings, "Computed channels: time_of_day,day_of_year,solar_zenith")
      ->delimiter(',')
      ->check(CLI::IsMember({"time_of_day", "day_of_year", "solar_zenith"}));
  command.add_option("--mask", c.mask,
                     "fill, missing, or a static variable that is below 0.5 where points do not count");
}

void add_convert(CLI::App& data) {
  struct Arguments {
    std::string path, out;
    data::ConvertOptions options;
    std::vector<int64_t> chunk;
  };
  auto a = std::make_shared<Arguments>();
  auto choice = std::make_shared<data::FieldChoice>();
  CLI::App* command =
      data.add_subcommand("convert", "Convert an archive, or a selection of it, to another format");
  command->footer(
      "Reads what a run reads and writes a variable for each channel. Training reads one step of all "
      "channels "
      "at\na time: chunks of one step are the quickest.\n\n"
      "  isobar data convert era5.nc era5.zarr                          Zarr 2, a chunk a field, zstd\n"
      "  isobar data convert single.nc,levels.zarr small.zarr --format zarr3 --region 60,-10,50,2 "
      "--variables t2m,z@500/850\n"
      "  isobar data convert era5.zarr train/2019.h5 --format hdf5      the NERSC layout");
  command->add_option("path", a->path, "What `isobar data inspect` reads; several with commas between")
      ->required();
  command->add_option("out", a->out, "What to write")->required();
  command->add_option("--format", a->options.format, "zarr2, zarr3, netcdf4, netcdf3 or hdf5")
      ->capture_default_str()
      ->check(CLI::IsMember({"zarr2", "zarr3", "netcdf4", "netcdf3", "hdf5"}));
  CLI::Option* chunk = command->add_option("--chunk", a->chunk, "Zarr: steps,rows,columns; 0 = all [1,0,0]")
                           ->delimiter(',')
                           ->expected(3)
                           ->check(CLI::Range(0, 1 << 25));
  CLI::Option* compressor =
      command->add_option("--compressor", a->options.chunks.compressor, "Zarr: zstd, blosc (lz4) or none")
          ->capture_default_str()
          ->check(CLI::IsMember({"zstd", "blosc", "none"}));
  add_field_options(*command, choice);
  command->callback([=] {
    if (!a->options.format.starts_with("zarr") && (*chunk || *compressor))
      throw CLI::ValidationError("--chunk and --compressor are for Zarr, and the format is " +
                                 a->options.format);
    if (*chunk)
      a->options.chunks.steps = a->chunk[0], a->options.chunks.rows = a->chunk[1],
      a->options.chunks.columns = a->chunk[2];
    a->options.show_progress = true;
    data::convert(a->path, *choice, a->out, a->options);
    std::cout << data::inspect_text(data::inspect(a->out));
  });
}

}  // namespace isobar::cli
