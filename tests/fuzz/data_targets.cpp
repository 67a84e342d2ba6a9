// Data files: npy, HDF5 in every layout, netCDF in every format. They are read as in a run: first in a child
// process; a file that passes must not harm the process that then reads all of it.
#include <zip.h>

#ifdef ISOBAR_WITH_ECCODES
#include <eccodes.h>
#endif

#include <fstream>
#include <nlohmann/json.hpp>

#include "model/base/system/files.h"
#include "model/data/dataset.h"
#include "model/data/files/filters.h"
#include "model/data/files/foreign.h"
#include "model/data/files/npy.h"
#include "model/data/files/raw_array.h"
#include "model/data/statistics/stats.h"
#include "model/data/tables/table_cache.h"
#include "model/data/written/convert.h"
#include "model/data/written/inspect.h"
#include "tests/data/files.h"
#include "tests/fuzz/fuzz.h"

namespace isobar::fuzz {
namespace {

namespace fs = std::filesystem;
using test::Hdf5Options;
using test::NetcdfOptions;

void read_fields(const std::string& file) {
  data::require_fields(file, "data.train", {});
  const data::FieldFiles files = data::open_fields(file, "data.train", {});
  const data::FieldInfo& info = files[0]->info();
  const data::FieldShape crop{info.shape.channels, std::min<int64_t>(info.shape.height, 8),
                              std::min<int64_t>(info.shape.width, 8)};
  if (crop.size() > 1 << 20) return;
  std::vector<float> values(static_cast<size_t>(crop.size()));
  for (int64_t t = 0; t < std::min<int64_t>(info.steps, 8); ++t)
    files[0]->read(t, crop, nullptr, values.data());
  data::segments_of(files);
}

void read_as_run(const std::string& file) {
  if (std::hash<std::string>()(read_file(file)) % 4 == 0) {
    data::inspect(file);
    data::compute_statistics(file);
  }
  read_fields(file);
}

// Reads the columns that the seeds have, whatever the file contains.
void read_as_table(const std::string& file) {
  data::require_table(file, "data.train", {"a", "b"});
  data::read_table(file, "data.train", {"a", "b"});
}

std::vector<std::string> table_seeds(const std::string& at) {
  std::vector<std::string> out;
  for (const int format : {0, NC_NETCDF4}) {
    int nc = 0, row = 0, a = 0, b = 0;
    nc_create(at.c_str(), NC_CLOBBER | format, &nc);
    nc_def_dim(nc, "row", 5, &row);
    nc_def_var(nc, "a", NC_SHORT, 1, &row, &a);
    nc_def_var(nc, "b", NC_DOUBLE, 1, &row, &b);
    const double scale = 0.5;
    nc_put_att_double(nc, a, "scale_factor", NC_DOUBLE, 1, &scale);
    nc_enddef(nc);
    const short packed[5] = {1, 2, 3, 4, 5};
    const double values[5] = {0.1, 0.2, 0.3, 0.4, 0.5};
    nc_put_var_short(nc, a, packed);
    nc_put_var_double(nc, b, values);
    nc_close(nc);
    out.push_back(read_file(at));
  }
  return out;
}

using Members = std::vector<std::pair<const char*, std::string>>;

void write_zip(const std::string& at, const Members& members, int kind) {
  fs::remove(at);
  zip_t* zip = zip_open(at.c_str(), ZIP_CREATE, nullptr);
  for (const auto& [name, bytes] : members) {
    const zip_int64_t i = zip_file_add(zip, name, zip_source_buffer(zip, bytes.data(), bytes.size(), 0), 0);
    zip_set_file_compression(zip, static_cast<zip_uint64_t>(i), kind, 0);
  }
  zip_close(zip);
}

std::string npy_column(const std::string& descr, int64_t n, int64_t bytes) {
  return data::npy_bytes(descr, {n}, std::string(static_cast<size_t>(n * bytes), '\x3f'));
}

// Stored and deflated. Checksums protect the members that are read; a mutation of the other member is
// harmless, and the file is accepted.
std::vector<std::string> npz_seeds(const std::string& at) {
  std::vector<std::string> out;
  for (const int kind : {ZIP_CM_STORE, ZIP_CM_DEFLATE}) {
    write_zip(at,
              {{"spare.bin", std::string(512, 's')},
               {"a.npy", npy_column("<f8", 5, 8)},
               {"b.npy", npy_column("<i4", 5, 4)}},
              kind);
    out.push_back(read_file(at));
  }
  return out;
}

// Puts the mutated array into an intact zip
void read_as_array(const std::string& file) {
  const std::string array = read_file(file), zip = file + ".npz";
  write_zip(zip, {{"a.npy", array}, {"b.npy", npy_column("<f4", 5, 4)}}, ZIP_CM_STORE);
  read_as_table(zip);
}

std::vector<std::string> hdf5_seeds(const std::string& at) {
  const std::vector<Hdf5Options> layouts = {{},
                                            {.chunk = {1, 1, 4, 6}},
                                            {.chunk = {2, 2, 3, 4}, .shuffle = true, .deflate = 2},
                                            {.chunk = {1, 2, 4, 6}, .fletcher = true, .deflate = 1},
                                            {.type = H5T_IEEE_F64BE, .compact = true},
                                            {.type = H5T_STD_I16LE, .chunk = {5, 2, 4, 6}}};
  std::vector<std::string> out;
  const std::vector<float> data = test::random_floats(5 * 2 * 4 * 6);
  for (const Hdf5Options& o : layouts) {
    test::write_hdf5(at, {5, 2, 4, 6}, data, o);
    out.push_back(read_file(at));
  }
  // Chunks that inflate to far more than a chunk, with this program's decoder and the library's.
  const hid_t odd = H5Tcopy(H5T_STD_I32LE);
  H5Tset_precision(odd, 24);
  for (const hid_t type : {H5T_IEEE_F32LE, odd}) {
    test::write_hdf5(at, {5, 2, 4, 6}, data, {.type = type, .chunk = {1, 2, 4, 6}, .deflate = 1});
    test::replace_chunk(at, {1, 0, 0, 0}, test::deflated_zeros(16));
    out.push_back(read_file(at));
  }
  H5Tclose(odd);
  // A virtual dataset, an external link, and a cyclic soft link.
  const hsize_t dims[] = {5, 2, 4, 6};
  hid_t f = H5Fcreate(at.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t space = H5Screate_simple(4, dims, nullptr), plist = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_virtual(plist, space, ".", "field5", space);
  H5Dclose(H5Dcreate2(f, "fields", H5T_IEEE_F32LE, space, H5P_DEFAULT, plist, H5P_DEFAULT));
  H5Dclose(H5Dcreate2(f, "field5", H5T_IEEE_F32LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  H5Lcreate_external("mutated.h5", "fields", f, "away", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_soft("/round", f, "round", H5P_DEFAULT, H5P_DEFAULT);
  H5Pclose(plist), H5Sclose(space), H5Fclose(f);
  out.push_back(read_file(at));
  f = H5Fcreate(at.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);  // nested groups
  std::string group;
  for (int i = 0; i < 12; ++i)
    H5Gclose(H5Gcreate2(f, (group += "/g").c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  H5Lcreate_hard(f, "/g", f, (group + "/up").c_str(), H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_soft((group + "/fields").c_str(), f, "fields", H5P_DEFAULT, H5P_DEFAULT);
  H5Fclose(f);
  out.push_back(read_file(at));
  return out;
}

std::vector<std::string> netcdf_seeds(const std::string& at, const std::vector<int>& formats) {
  std::vector<std::string> out;
  for (const int format : formats)
    for (const bool unlimited : {false, true}) {
      NetcdfOptions o{.order = unlimited ? "tzyx" : "xyt",
                      .levels = unlimited ? 2 : 1,
                      .format = format,
                      .two = unlimited,
                      .unlimited = unlimited};
      if (format & NC_NETCDF4 && unlimited) o.deflate = 1;
      std::vector<test::Packed> values = {test::random_packed(o)};
      if (o.two) values.push_back(test::random_packed(o));
      test::write_netcdf(at, o, values);
      out.push_back(read_file(at));
    }
  return out;
}

// One mutated file of an otherwise intact Zarr group
struct ZarrSeed {
  std::string name, store, key;
  bool text = false;
};

void read_as_zarr(const std::string& file, const ZarrSeed& seed) {
  const std::string store = file + ".zarr";
  fs::remove_all(store);
  fs::copy(seed.store, store, fs::copy_options::recursive);
  fs::copy_file(file, store + "/" + seed.key, fs::copy_options::overwrite_existing);
  if (std::hash<std::string>()(read_file(file)) % 4 == 0) data::compute_statistics(store);
  read_fields(store);
}

/// An lz4 block of literals and, where there is room, a copy of its first bytes
std::string lz4_block(const std::string& bytes) {
  std::string out(1, static_cast<char>(0xf0));
  for (size_t left = bytes.size() - 15;; left -= 255) {
    out += static_cast<char>(std::min<size_t>(left, 255));
    if (left < 255) break;
  }
  return out + bytes;
}

/// A store with numcodecs' codecs under their Zarr 3 names
std::string numcodecs_store(const fs::path& folder, const std::string& source) {
  const std::string store = (folder / "zarr-numcodecs-seed").string();
  if (fs::exists(store)) return store;
  data::convert(source, {}, store, {.format = "zarr3", .chunks = {.rows = 3, .compressor = "none"}});
  auto about = nlohmann::json::parse(read_file(store + "/t/zarr.json"));
  const auto named = [](const char* name, const nlohmann::json& how) {
    return nlohmann::json{{"name", std::string("numcodecs.") + name}, {"configuration", how}};
  };
  about["codecs"] = {
      named("bitround", {{"keepbits", 10}}),
      named("delta", {{"dtype", "<f4"}}),
      named("fixedscaleoffset", {{"dtype", "<f4"}, {"astype", "<f4"}, {"scale", 2}, {"offset", 1}}),
      {{"name", "bytes"}, {"configuration", {{"endian", "little"}}}},
      named("shuffle", {{"elementsize", 4}}),
      named("lz4", {{"acceleration", 1}})};
  put(store + "/t/zarr.json", about.dump(1));
  for (const auto& entry : fs::recursive_directory_iterator(store + "/t/c")) {
    if (!entry.is_regular_file()) continue;
    const std::string raw = read_file(entry.path());
    const auto n = static_cast<uint32_t>(raw.size());
    put(entry.path(), std::string(reinterpret_cast<const char*>(&n), sizeof n) + lz4_block(raw));
  }
  return store;
}

std::vector<Target> zarr_targets(const fs::path& folder) {
  const std::string source = (folder / "seed.nc").string();
  const NetcdfOptions o{.order = "tyx"};
  test::write_netcdf(source, o, {test::random_packed(o)});
  std::vector<Target> out;
  for (const ZarrSeed& seed : {ZarrSeed{"zarr-2", "zarr2", "t/.zarray", true},
                               {"zarr-3", "zarr3", "t/zarr.json", true},
                               {"zarr-axis", "zarr3", "time/zarr.json", true},
                               {"zarr-blosc", "zarr2", "t/0.0.0"},
                               {"zarr-zstd", "zarr3", "t/c/1/0/0"}}) {
    const std::string store = (folder / (seed.name + "-seed")).string();
    if (!fs::exists(store))
      data::convert(source, {}, store,
                    {.format = seed.store,
                     .chunks = {.rows = 3, .compressor = seed.store == "zarr2" ? "blosc" : "zstd"}});
    out.push_back({seed.name,
                   "mutated-" + seed.name,
                   {read_file(store + "/" + seed.key)},
                   seed.text,
                   [=](const std::string& file) {
                     read_as_zarr(file, {seed.name, store, seed.key});
                   }});
  }
  const std::string store = numcodecs_store(folder, source);
  for (const ZarrSeed& seed :
       {ZarrSeed{"zarr-numcodecs", store, "t/zarr.json", true}, {"zarr-lz4", store, "t/c/0/0/0"}})
    out.push_back({seed.name,
                   "mutated-" + seed.name,
                   {read_file(store + "/" + seed.key)},
                   seed.text,
                   [=](const std::string& file) { read_as_zarr(file, seed); }});
  return out;
}

/// The bytes of a chunk encoded by each of HDF5's filters
void undo_filters(const std::string& file) {
  const std::string bytes = read_file(file);
  const auto* at = reinterpret_cast<const std::byte*>(bytes.data());
  const std::vector<std::byte> stored(at, at + bytes.size());
  using Kind = data::Filter::Kind;
  const std::vector<std::vector<data::Filter>> pipelines = {
      {{Kind::lz4, "lz4", 0}},
      {{Kind::lzf, "lzf", 0}},
      {{Kind::shuffle, "shuffle", 4}, {Kind::zstd, "zstd", 0}},
      {{Kind::blosc, "blosc", 0}},
      {{Kind::fletcher32, "fletcher32", 0}}};
  std::string why;
  bool taken = false;
  for (const auto& pipeline : pipelines) {
    std::vector<std::byte> out(96);
    try {
      data::decode_chunk(pipeline, 0, stored, out.data(), static_cast<int64_t>(out.size()));
      taken = true;
    } catch (const data::ArrayError& e) {
      why = e.what();
    }
  }
  if (!taken) throw ConfigError(file, "chunk", why, "copy it again");
}

std::vector<std::string> filter_seeds() {
  const std::string data = "0123456789abcdef0123456789abcdef" + std::string(64, 'x');
  const std::string block = lz4_block(data);
  std::string frame("\0\0\0\0\0\0\0\x60\0\0\0\x60\0\0\0", 15);
  frame += static_cast<char>(block.size());
  std::string lzf;
  for (size_t i = 0; i < data.size(); i += 32) lzf += '\x1f' + data.substr(i, 32);
  return {frame + block, lzf, lzf.substr(0, 34) + "\xe0\x36\x20"};
}

#ifdef ISOBAR_WITH_ECCODES
/// A message of one field, and one of two
std::vector<std::string> grib_seeds(const std::string& at) {
  std::vector<std::string> out;
  for (const size_t fields : {1, 2}) {
    std::FILE* const file = std::fopen(at.c_str(), "wb");
    codes_multi_handle* const multi = codes_grib_multi_handle_new(nullptr);
    for (size_t k = 0; k < fields; ++k) {
      codes_handle* const h = codes_grib_handle_new_from_samples(nullptr, "regular_ll_pl_grib2");
      codes_set_long(h, "Ni", 6), codes_set_long(h, "Nj", 4);
      codes_set_double(h, "longitudeOfLastGridPointInDegrees", 5);
      codes_set_double(h, "latitudeOfFirstGridPointInDegrees", 3);
      codes_set_double(h, "latitudeOfLastGridPointInDegrees", 0);
      codes_set_long(h, "parameterNumber", static_cast<long>(2 + k)),
          codes_set_long(h, "parameterCategory", 2);
      codes_set_long(h, "bitmapPresent", 1), codes_set_double(h, "missingValue", 1e30);
      std::vector<double> values(24, 7.5);
      values[3] = 9999;
      codes_set_double_array(h, "values", values.data(), values.size());
      codes_grib_multi_handle_append(h, k > 0 ? 4 : 0, multi);
      codes_handle_delete(h);
    }
    codes_grib_multi_handle_write(multi, file);
    codes_grib_multi_handle_delete(multi);
    std::fclose(file);
    out.push_back(read_file(at));
  }
  return out;
}
#endif

}  // namespace

std::vector<Target> data_targets(const fs::path& folder) {
  const std::string made = folder / "seed";
  test::rng().seed(1);  // deterministic inputs, except for times that HDF5 writes
  std::vector<std::string> npy;
  for (const int64_t n : {1, 20}) {
    data::write_npy(made, {1, n, 1, 1}, std::vector<float>(static_cast<size_t>(n), 1.5f));
    npy.push_back(read_file(made));
  }
  npy.push_back(
      "\x93NUMPY" + std::string("\x02\0\x48\0\0\0", 6) +
      "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }                \n1234567887654321");
  std::vector<Target> targets = {
      {"npy", "mutated.npy", npy, false, [](const auto& f) { data::read_statistics(f, f, 20); }},
      {"hdf5", "mutated.h5", hdf5_seeds(made), false, read_as_run},
      {"netcdf-3", "mutated3.nc", netcdf_seeds(made, {0, NC_64BIT_OFFSET, NC_CDF5}), false, read_as_run},
      {"netcdf-4", "mutated4.nc", netcdf_seeds(made, {NC_NETCDF4, NC_NETCDF4 | NC_CLASSIC_MODEL}), false,
       read_as_run},
      {"table",
       "mutated.csv",
       {"a,b\n1,2\n,3\n4e5,-0.6\n", "\"a\",c,b\r\n1,x,NaN\r\n2,\"y,z\",3\r\n"},
       true,
       read_as_table},
      {"table-nc", "mutated.nc", table_seeds(made), false, read_as_table},
      {"table-npz", "mutated.npz", npz_seeds(made), false, read_as_table},
      {"table-npz-array",
       "mutated-array.npy",
       {npy_column("<f8", 5, 8), npy_column(">f4", 5, 4), npy_column("|u1", 5, 1)},
       false,
       read_as_array}};
  for (Target& t : zarr_targets(folder)) targets.push_back(std::move(t));
  targets.push_back({"hdf5-filters", "mutated-chunk", filter_seeds(), false, undo_filters});
#ifdef ISOBAR_WITH_ECCODES
  targets.push_back({"grib", "mutated.grib2", grib_seeds(made), false, read_as_run});
#endif
  return targets;
}

}  // namespace isobar::fuzz
