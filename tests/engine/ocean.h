// An archive of fields that are missing on land and occasionally at sea, for any image net.
//
//   const TestNet net = masked(two_channels(kVit));       // trains on one, with data.mask: missing
#pragma once
#include <netcdf.h>

#include <cmath>
#include <cstring>
#include <numbers>

#include "model/base/spec/spec.h"
#include "tests/data/files.h"
#include "tests/engine/command.h"

namespace isobar {

// Moving fields v00, v01 … and `ocean`, which is 1 at sea. On land the variables equal `land` if given, else
// they are missing; the first variable is also missing at some sea points and times.
struct Ocean {
  static constexpr int64_t kTimes = 40;
  static constexpr float kFill = -9e9f;
  int64_t channels, rows, columns;
  NetGrid grid{70, 100.0 / static_cast<double>(rows), 0, 360.0 / static_cast<double>(columns)};
  static std::string name(int64_t channel) { return (channel < 10 ? "v0" : "v") + std::to_string(channel); }
  bool here(int64_t y, int64_t x) const { return (x + 3 * y) % 7 > 1; }
  bool seen(int64_t t, int64_t c, int64_t y, int64_t x) const {
    return here(y, x) && (c > 0 || (t + x + 5 * y) % 11 > 0);
  }
  double value(int64_t t, int64_t c, int64_t y, int64_t x) const {
    const double turn = 2 * std::numbers::pi *
                        (static_cast<double>(t) / 12 + static_cast<double>(x) / static_cast<double>(columns));
    return 270 + 5 * static_cast<double>(c) + 8 * std::sin(turn + static_cast<double>(c)) +
           std::cos(3 * turn + static_cast<double>(y));
  }
  void write(const std::string& path, const float* land) const {
    int nc = -1, t = 0, y = 0, x = 0, v = 0;
    NC(nc_create(path.c_str(), NC_NETCDF4 | NC_CLOBBER, &nc));
    const auto axis = [&](const char* name, int64_t n, double first, double step, const char* units) {
      int d = -1;
      nc_def_dim(nc, name, static_cast<size_t>(n), &d);
      nc_def_var(nc, name, NC_DOUBLE, 1, &d, &v);
      nc_put_att_text(nc, v, "units", std::strlen(units), units);
      std::vector<double> at;
      for (int64_t i = 0; i < n; ++i) at.push_back(first + step * static_cast<double>(i));
      nc_put_var_double(nc, v, at.data());
      return d;
    };
    t = axis("time", kTimes, 0, 1, "hours since 2019-03-01 00:00:00");
    y = axis("latitude", rows, grid.north, -grid.row_step, "degrees_north");
    x = axis("longitude", columns, grid.west, grid.column_step, "degrees_east");
    for (int64_t c = 0; c < channels; ++c) {
      const int dims[3] = {t, y, x};
      NC(nc_def_var(nc, name(c).c_str(), NC_FLOAT, 3, dims, &v));
      const float fill = kFill;
      nc_put_att_float(nc, v, "_FillValue", NC_FLOAT, 1, &fill);
      std::vector<float> all;
      for (int64_t i = 0; i < kTimes; ++i)
        for (int64_t h = 0; h < rows; ++h)
          for (int64_t w = 0; w < columns; ++w)
            all.push_back(land && !here(h, w)                    ? *land + static_cast<float>(i * w)
                          : land == nullptr && !seen(i, c, h, w) ? kFill
                                                                 : static_cast<float>(value(i, c, h, w)));
      NC(nc_put_var_float(nc, v, all.data()));
    }
    const int dims[2] = {y, x};
    NC(nc_def_var(nc, "ocean", NC_FLOAT, 2, dims, &v));
    std::vector<float> ocean;
    for (int64_t i = 0; i < rows * columns; ++i)
      ocean.push_back(here(i / columns, i % columns) ? 1.0f : 0.0f);
    NC(nc_put_var_float(nc, v, ocean.data()));
    NC(nc_close(nc));
  }
};

/// `Net`: a configuration with its settings
template <class Net>
Ocean ocean_for(const Net& net) {
  const RunSpec spec = load_run_spec(net.config, net.set);
  const Images& i = *spec.net.images();
  Ocean sea{std::max(i.in_channels, i.out_channels), i.img_height, i.img_width};
  sea.grid = spec.net.grid().value_or(sea.grid);
  return sea;
}

/// The net on such an archive, which exists until the program ends
template <class Net>
Net masked(Net net) {
  static const Folder folder;
  static int count = 0;
  const std::string path = folder / ("ocean" + std::to_string(count++) + ".nc");
  const Ocean sea = ocean_for(net);
  sea.write(path, nullptr);
  const RunSpec spec = load_run_spec(net.config, net.set);
  const auto named = [&](const char* key, int64_t n) {
    std::string list;
    for (int64_t c = 0; c < n; ++c) list += (c > 0 ? "," : "") + Ocean::name(c);
    net.set.push_back(std::string(key) + "=[" + list + "]");
  };
  // Aurora reads two times of the predicted fields, and static fields once.
  const Images& images = *spec.net.images();
  const int64_t of_a_time =
      images.in_channels - (spec.net.kind() == AuroraSpec::kKind ? images.out_channels : 0);
  named("data.inputs", of_a_time), named("data.targets", spec.net.images()->out_channels);
  net.set.insert(net.set.end(), {"data.train=" + path, "data.mask=missing", "train.loss=mse",
                                 "train.latitude_weights=true", "data.train_fraction=0.7"});
  return net;
}

template <class Net>
Net two_channels(Net net) {
  net.set.insert(net.set.end(), {"net.in_channels=2", "net.out_channels=2"});
  return net;
}

}  // namespace isobar
