// Points of gridded fields as samples: an ocean and an atmosphere file on one grid, packed, with land, ice
// and fill values. Expected rows come from a plain loop over the written values.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>

#include "model/base/system/files.h"
#include "model/data/choice/kept.h"
#include "model/data/choice/row_choice.h"
#include "model/data/dataset.h"
#include "model/data/tables/table_cache.h"
#include "model/data/tables/table_dataset.h"
#include "model/data/written/inspect.h"
#include "tests/data/files.h"

namespace isobar::test {
namespace {

constexpr short kFill = -32767;

struct FieldPair {  // of packed numbers, [step, row, column]
  int steps = 3, rows = 12, columns = 20;
  std::vector<short> sst, aice;
  std::vector<float> tair;
  double scale = 0.01, offset = 273.15, ice_scale = 0.0001;
  int points() const { return steps * rows * columns; }
  bool whole(int i) const { return sst[i] != kFill && aice[i] != kFill && std::isfinite(tair[i]); }
  double ice(int i) const { return aice[i] * ice_scale; }
};

FieldPair random_pair() {
  FieldPair p;
  for (int i = 0; i < p.points(); ++i) {
    const bool land = i % (p.rows * p.columns) % 7 == 0;
    p.sst.push_back(land ? kFill : static_cast<short>(random_int(-180, 3000)));
    p.aice.push_back(land ? kFill : static_cast<short>(random_int(0, 1) * random_int(0, 10000)));
    p.tair.push_back(random_int(0, 30) == 0 ? NAN : random_floats(1, 280, 10)[0]);
  }
  return p;
}

struct Written {
  std::vector<std::string> packed, plain;  // names of variables
  bool south_first = false;
  int steps = 0;  // 0 = all
};

// Writes the variables that `what` names, with the packed values of sst or of the ice.
void write_nc(const std::string& path, const FieldPair& p, const Written& what) {
  int file = 0, dims[3] = {}, id = 0, axis[3] = {};
  const int steps = what.steps ? what.steps : p.steps;
  ASSERT_EQ(nc_create(path.c_str(), NC_CLOBBER | NC_NETCDF4, &file), NC_NOERR);
  nc_def_dim(file, "time", steps, &dims[0]);
  nc_def_dim(file, "lat", p.rows, &dims[1]);
  nc_def_dim(file, "lon", p.columns, &dims[2]);
  const char* names[3] = {"time", "lat", "lon"};
  const char* units[3] = {"hours since 2020-01-01", "degrees_north", "degrees_east"};
  for (int k = 0; k < 3; ++k) {
    nc_def_var(file, names[k], NC_DOUBLE, 1, &dims[k], &axis[k]);
    nc_put_att_text(file, axis[k], "units", std::strlen(units[k]), units[k]);
  }
  for (const std::string& name : what.packed) {
    const bool ice = name == "aice";
    ASSERT_EQ(nc_def_var(file, name.c_str(), NC_SHORT, 3, dims, &id), NC_NOERR);
    nc_put_att_short(file, id, "_FillValue", NC_SHORT, 1, &kFill);
    nc_put_att_double(file, id, "scale_factor", NC_DOUBLE, 1, ice ? &p.ice_scale : &p.scale);
    if (!ice) nc_put_att_double(file, id, "add_offset", NC_DOUBLE, 1, &p.offset);
    ASSERT_EQ(nc_put_var_short(file, id, ice ? p.aice.data() : p.sst.data()), NC_NOERR);
  }
  for (const std::string& name : what.plain) {
    ASSERT_EQ(nc_def_var(file, name.c_str(), NC_FLOAT, 3, dims, &id), NC_NOERR);
    ASSERT_EQ(nc_put_var_float(file, id, p.tair.data()), NC_NOERR);
  }
  for (int k = 0; k < 3; ++k) {
    std::vector<double> at;
    const int n = k == 0 ? steps : k == 1 ? p.rows : p.columns;
    for (int i = 0; i < n; ++i) at.push_back(k == 1 && what.south_first ? -i : i);
    nc_put_var_double(file, axis[k], at.data());
  }
  ASSERT_EQ(nc_close(file), NC_NOERR);
}

class Points : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("ISOBAR_CACHE_DIR", (dir / "cache").c_str(), 1);
    pair = random_pair();
    write_nc(ocean, pair, {{"sst", "aice"}, {}});
    write_nc(air, pair, {{}, {"tair"}});
  }
  data::SampleTable read(const DataSpec& data = {}) const {
    return data::read_table(both, "data.train", {"tair", "sst"}, data::row_choice(data));
  }
  TempDir dir;
  FieldPair pair;
  std::string ocean = dir / "ocean.nc", air = dir / "air.nc", both = ocean + "," + air;
};

TEST_F(Points, WithoutAMissingValueAreRowsOfATable) {
  const data::SampleTable t = read();
  int64_t row = 0;
  for (int i = 0; i < pair.points(); ++i) {
    if (pair.sst[i] == kFill || !std::isfinite(pair.tair[i])) continue;
    ASSERT_LT(row, t.rows);
    EXPECT_EQ(t.values[row * 2], pair.tair[i]) << i;
    EXPECT_FLOAT_EQ(t.values[row * 2 + 1], static_cast<float>(pair.sst[i] * pair.scale + pair.offset)) << i;
    ++row;
  }
  EXPECT_EQ(t.rows, row);
  EXPECT_EQ(t.left_out.missing, pair.points() - row);
  EXPECT_EQ(t.left_out.masked + t.left_out.thinned, 0);
}

TEST_F(Points, AreMaskedByTheIceConcentration) {
  int64_t with = 0, without = 0;
  for (int i = 0; i < pair.points(); ++i)
    if (pair.whole(i)) ++(pair.ice(i) >= 0.3 ? with : without);
  ASSERT_GT(with, 10);
  ASSERT_GT(without, 10);
  DataSpec d;
  d.min_ice_concentration = 0.3;
  d.mask_mode = MaskMode::sea_ice;
  const data::SampleTable ice = read(d);
  EXPECT_EQ(ice.rows, with);
  EXPECT_EQ(ice.left_out.masked, without);
  EXPECT_EQ(static_cast<int64_t>(ice.values.size()), 2 * with);  // the mask is not a column
  d.mask_mode = MaskMode::ocean;
  EXPECT_EQ(read(d).rows, without);
  EXPECT_EQ(read(d).left_out.masked, with);
  d.ice_variable = "hi";
  expect_config_error([&] { read(d); }, {"no column 'hi'", "sst, aice, tair"});
}

TEST_F(Points, AreThinnedAndLimitedToAPartOfThem) {
  const data::SampleTable all = read();
  const auto rows_of = [](const data::SampleTable& t) {
    std::vector<std::pair<float, float>> rows;
    for (int64_t r = 0; r < t.rows; ++r) rows.emplace_back(t.values[2 * r], t.values[2 * r + 1]);
    return rows;
  };
  const auto every = rows_of(all);
  const auto is_part = [&](const data::SampleTable& t) {  // in the order of the whole
    auto at = every.begin();
    for (const auto& row : rows_of(t)) {
      at = std::find(at, every.end(), row);
      if (at++ == every.end()) return false;
    }
    return true;
  };
  DataSpec d;
  d.thin_fraction = 0.4;
  const data::SampleTable thin = read(d);
  const double share = static_cast<double>(thin.rows) / static_cast<double>(all.rows);
  EXPECT_NEAR(share, 0.4, 5 * std::sqrt(0.24 / static_cast<double>(all.rows)));
  EXPECT_TRUE(is_part(thin));
  EXPECT_EQ(thin.left_out.thinned, all.rows - thin.rows);
  EXPECT_EQ(read(d).values, thin.values);
  d.thin_fraction = 1;
  for (const int64_t most : {7, 100}) {
    d.max_patterns = most;
    const data::SampleTable few = read(d);
    EXPECT_EQ(few.rows, most);
    EXPECT_EQ(few.left_out.thinned, all.rows - most);
    EXPECT_TRUE(is_part(few));
  }
  d.max_patterns = all.rows + 1;
  EXPECT_EQ(read(d).values, all.values);
}

TEST_F(Points, OfFilesThatDisagreeAreOneErrorThatNamesBoth) {
  const std::string other = dir / "other.nc";
  const auto refused = [&](const std::vector<std::string>& says,
                           const std::vector<std::string>& names = {"sst", "tair"}) {
    expect_config_error([&] { data::read_table(ocean + "," + other, "data.train", names); }, says);
  };
  write_nc(other, pair, {{"sst"}, {"tair"}});
  refused({ocean, other, "'sst' is in"});
  write_nc(other, pair, {{}, {"tair"}, true});
  refused({ocean, other, "other coordinates along dimension 1"});
  write_nc(other, pair, {{}, {"tair"}, false, 2});
  refused({ocean, other, "3 steps", "has 2"});
  FieldPair wide = pair;
  wide.columns = 10, wide.steps = 6;
  write_nc(other, wide, {{}, {"tair"}});
  refused({ocean, other, "12 x 20", "12 x 10"});
  refused({other, "none of its variables is read"}, {"sst"});
  std::fill(pair.tair.begin(), pair.tair.end(), NAN);
  write_nc(other, pair, {{}, {"tair"}});
  refused({ocean, other, "'tair' holds no number"});
}

template <class Body>
std::string said_by(const Body& body) {
  testing::internal::CaptureStderr();
  body();
  return testing::internal::GetCapturedStderr();
}

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream in(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST_F(Points, AreGatheredOnceForAllWhoWantThem) {
  const auto map = [&] { return data::mapped_table(both, "data.train", {"tair", "sst"}); };
  std::vector<std::thread> ranks;
  std::vector<std::shared_ptr<const data::MappedTable>> got(4);
  for (auto& one : got) ranks.emplace_back([&] { one = map(); });
  for (std::thread& rank : ranks) rank.join();
  const data::SampleTable t = read();
  for (const auto& one : got) {
    ASSERT_EQ(one->rows(), t.rows);
    EXPECT_EQ(one->left_out().missing, t.left_out.missing);
    for (int64_t r = 0; r < t.rows; ++r) ASSERT_EQ(one->row(r)[1], t.values[2 * r + 1]);
  }
  const std::string log = dir / "cache/tables.jsonl";
  EXPECT_EQ(lines_of(log).size(), 1u);
  // Other rows, other columns and changed files give other tables.
  data::mapped_table(both, "data.train", {"sst", "tair"});
  EXPECT_EQ(lines_of(log).size(), 2u);
  data::mapped_table(both, "data.train", {"sst", "tair"}, {.thin_fraction = 0.5});
  EXPECT_EQ(lines_of(log).size(), 3u);
  fs::last_write_time(air, fs::last_write_time(air) + std::chrono::seconds(1));
  map();
  EXPECT_EQ(lines_of(log).size(), 4u);
  map();
  EXPECT_EQ(lines_of(log).size(), 4u);
}

TEST_F(Points, CutByAKillAreNotTakenForATable) {
  const auto map = [&] { return data::mapped_table(both, "data.train", {"tair", "sst"}); };
  map();
  std::string table;
  for (const auto& f : fs::directory_iterator(dir / "cache"))
    if (f.path().extension() == ".table") table = f.path();
  const std::string whole = read_file(table);
  fs::remove(table);
  std::ofstream(table + ".half") << whole.substr(0, whole.size() / 2);  // what a killed process leaves
  EXPECT_EQ(map()->rows(), read().rows);
  for (const size_t size : {whole.size() - 1, size_t{4096}, size_t{40}, size_t{0}}) {
    fs::resize_file(table, size);
    EXPECT_EQ(said_by([&] { EXPECT_EQ(map()->rows(), read().rows); }),
              "isobar: " + table + " is damaged (it was cut off, or is no table): gathered again\n");
    EXPECT_EQ(read_file(table), whole);
  }
}

// A flipped bit anywhere must be found: such tables were once used for training.
TEST_F(Points, WithAFlippedBitAreGatheredAgain) {
  const auto map = [&] { return data::mapped_table(both, "data.train", {"tair", "sst"}); };
  map();
  std::string table;
  for (const auto& f : fs::directory_iterator(dir / "cache"))
    if (f.path().extension() == ".table") table = f.path();
  const std::string whole = read_file(table);
  const data::SampleTable t = read();
  for (int n = 0; n < 60; ++n) {
    // The padding of the header is not covered by the digest.
    const size_t numbers = whole.size() - 4096, at = n < 20 ? rng()() % 120 : 4096 + rng()() % numbers;
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << (rng()() % 8)));
    std::ofstream(table, std::ios::binary) << bytes;
    std::vector<std::thread> ranks;
    const std::string said = said_by([&] {
      for (int rank = 0; rank < 3; ++rank)
        ranks.emplace_back([&] {
          const auto got = map();
          ASSERT_EQ(got->rows(), t.rows);
          for (int64_t r = 0; r < t.rows; ++r) ASSERT_EQ(got->row(r)[1], t.values[2 * r + 1]) << at;
        });
      for (std::thread& rank : ranks) rank.join();
    });
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
    EXPECT_NE(said.find("gathered again"), std::string::npos) << said;
    EXPECT_EQ(read_file(table), whole);
  }
}

// A replaced file of the same size and mtime once gave the old table.
TEST_F(Points, ReplacedWithTheSameSizeAndTimeAreOthers) {
  const std::string path = dir / "t.csv";
  std::ofstream(path) << "a\n1\n2\n";
  const auto then = fs::last_write_time(path);
  EXPECT_EQ(data::mapped_table(path, "data.train", {"a"})->row(1)[0], 2);
  std::ofstream(path) << "a\n1\n7\n";  // the same inode
  fs::last_write_time(path, then);
  EXPECT_EQ(data::mapped_table(path, "data.train", {"a"})->row(1)[0], 7);
  std::ofstream(dir / "other.csv") << "a\n1\n8\n";
  fs::last_write_time(dir / "other.csv", then);
  fs::rename(dir / "other.csv", path);
  EXPECT_EQ(data::mapped_table(path, "data.train", {"a"})->row(1)[0], 8);
}

// A process may be killed at any moment: the next one has the right numbers.
TEST_F(Points, KilledWhileTheyAreWrittenHarmNobody) {
  const std::string path = dir / "t.csv";
  {
    std::ofstream file(path);
    file << "a\n";
    for (int r = 0; r < 200000; ++r) file << r % 1000 << "\n";
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(150));  // a later change gets a different time
  for (int n = 0; n < 12; ++n) {
    fs::remove_all(dir / "cache");
    const pid_t pid = ::fork();
    if (pid == 0) {
      data::mapped_table(path, "data.train", {"a"});
      ::_exit(0);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(rng()() % 60000));
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    const auto table = data::mapped_table(path, "data.train", {"a"});
    ASSERT_EQ(table->rows(), 200000);
    for (int64_t r = 0; r < table->rows(); ++r) ASSERT_EQ(table->row(r)[0], static_cast<float>(r % 1000));
  }
}

// One process computes means and deviations and the others read them; they are removed with their table.
TEST_F(Points, HaveTheirStatisticsOnce) {
  DataSpec data;
  data.train = both;
  data.inputs = {"tair"};
  data.targets = {"sst"};
  const data::SampleShape shape{{1, 1, 1}, {1, 1, 1}};
  const auto open = [&] {
    return data::open_table(data, both, data::Split::train, shape, nullptr)->input_statistics();
  };
  const auto kept = [&] {
    std::vector<fs::path> files;
    for (const auto& e : fs::directory_iterator(dir / "cache"))
      if (e.path().extension().string().starts_with(".kept-statistics")) files.push_back(e.path());
    return files;
  };
  std::vector<std::thread> ranks;
  std::vector<data::Statistics> got(4);
  for (data::Statistics& one : got) ranks.emplace_back([&] { one = open(); });
  for (std::thread& rank : ranks) rank.join();
  const data::SampleTable t = read();
  double mean = 0;
  for (int64_t r = 0; r < t.rows; ++r) mean += t.values[2 * r] / static_cast<double>(t.rows);
  for (const data::Statistics& one : got) {
    EXPECT_NEAR(one.mean[0], mean, 1e-5 * std::abs(mean) + 1e-6);
    EXPECT_EQ(one.std, got[0].std);
  }
  ASSERT_EQ(kept().size(), 1u);
  nlohmann::json j = nlohmann::json::parse(read_file(kept()[0]));
  j["value"]["mean"][0] = 4.25;
  std::ofstream(kept()[0]) << j.dump();
  EXPECT_NE(said_by([&] { EXPECT_EQ(open().mean, got[0].mean); }).find("computed again"), std::string::npos);
  data::write_kept(kept()[0], j["value"]);
  EXPECT_EQ(open().mean[0], 4.25f) << "was computed again";
  data::write_kept(kept()[0], {{"mean", {1}}});  // of another table, with a valid digest
  EXPECT_NE(said_by([&] { EXPECT_EQ(open().mean, got[0].mean); }).find("computed again"), std::string::npos);
  std::ofstream(kept()[0]) << "{";  // cut by a full disk
  EXPECT_NE(said_by([&] { EXPECT_EQ(open().mean, got[0].mean); }).find("computed again"), std::string::npos);
  EXPECT_EQ(said_by([&] { EXPECT_EQ(open().mean, got[0].mean); }), "");
  data.train_fraction = 0.5;
  open();
  EXPECT_EQ(kept().size(), 2u) << "of other rows";
  ::setenv("ISOBAR_CACHE_GB", "0", 1);
  testing::internal::CaptureStderr();
  data::mapped_table(ocean, "data.train", {"sst"});
  testing::internal::GetCapturedStderr();
  ::unsetenv("ISOBAR_CACHE_GB");
  EXPECT_TRUE(kept().empty());
}

TEST_F(Points, CannotBeKeptWhereNothingCanBeWritten) {
  std::ofstream(dir / "file") << "in the way";
  ::setenv("ISOBAR_CACHE_DIR", (dir / "file/below").c_str(), 1);
  expect_config_error([&] { data::mapped_table(ocean, "data.train", {"sst"}); },
                      {dir / "file", "ISOBAR_CACHE_DIR"});
}

// The least recently used table is removed, unless a process has it mapped.
TEST(Cache, KeepsToItsSizeAndNeverTakesWhatIsMapped) {
  TempDir dir;
  const fs::path cache = dir / "cache";
  ::setenv("ISOBAR_CACHE_DIR", cache.c_str(), 1);
  ::setenv("ISOBAR_CACHE_GB", "0.0001", 1);  // 100 kB: two of these tables
  const auto table_of = [&](int i) {
    const std::string path = dir / ("t" + std::to_string(i) + ".csv");
    if (!fs::exists(path)) {
      std::ofstream file(path);
      file << "a\n";
      for (int r = 0; r < 10000; ++r) file << i << "\n";  // 44,096 bytes in the cache
    }
    return data::mapped_table(path, "data.train", {"a"});
  };
  const auto held = [&] {
    int64_t tables = 0;
    for (const auto& e : fs::directory_iterator(cache)) tables += e.path().extension() == ".table";
    return tables;
  };
  const auto age = [&](int hours) {  // of all tables present
    for (const auto& e : fs::directory_iterator(cache))
      if (e.path().extension() == ".table")
        fs::last_write_time(e.path(), fs::file_time_type::clock::now() - std::chrono::hours(hours));
  };
  const auto first = table_of(1);  // stays mapped
  age(3);
  table_of(2);
  EXPECT_EQ(held(), 2);
  testing::internal::CaptureStderr();
  table_of(3);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(held(), 2) << "the second, as the first is mapped";
  EXPECT_NE(said.find("removed 1 gathered tables"), std::string::npos) << said;
  EXPECT_NE(said.find("ISOBAR_CACHE_GB"), std::string::npos) << said;
  EXPECT_FALSE(first->removed());
  for (int64_t r = 0; r < first->rows(); ++r) ASSERT_EQ(first->row(r)[0], 1);
  EXPECT_EQ(table_of(2)->row(9999)[0], 2) << "gathered again";
  ::setenv("ISOBAR_CACHE_GB", "much", 1);
  expect_config_error([&] { table_of(4); }, {"ISOBAR_CACHE_GB", "much"});
  ::unsetenv("ISOBAR_CACHE_GB");
}

// Concurrent readers and evictions: every reader gets the written values.
TEST(Cache, MakingRoomHarmsNoReader) {
  TempDir dir;
  ::setenv("ISOBAR_CACHE_DIR", (dir / "cache").c_str(), 1);
  ::setenv("ISOBAR_CACHE_GB", "0.00001", 1);
  for (int i = 0; i < 4; ++i) {
    std::ofstream file(dir / ("t" + std::to_string(i) + ".csv"));
    file << "a\n";
    for (int r = 0; r < 3000; ++r) file << i << "\n";
  }
  testing::internal::CaptureStderr();
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int n = 0; n < 12; ++n) {
        const int i = (n * 7 + t) % 4;
        try {
          const auto table =
              data::mapped_table(dir / ("t" + std::to_string(i) + ".csv"), "data.train", {"a"});
          for (int64_t r = 0; r < table->rows(); ++r) wrong += table->row(r)[0] != static_cast<float>(i);
        } catch (const std::exception& e) {
          std::printf("%s\n", e.what());
          ++wrong;
        }
      }
    });
  for (std::thread& t : threads) t.join();
  testing::internal::GetCapturedStderr();
  EXPECT_EQ(wrong, 0);
  ::unsetenv("ISOBAR_CACHE_GB");
}

TEST(Inspect, ShowsFieldsWithLandAndTheShareThatIsMissing) {
  TempDir dir;
  const FieldPair p = random_pair();
  write_nc(dir / "ocean.nc", p, {.packed = {"sst", "aice"}});
  const nlohmann::json j = data::inspect(dir / "ocean.nc");
  const int points = p.rows * p.columns;
  int gone = 0;
  double low = 1e30, sum = 0;
  for (int i = 0; i < points; ++i) {
    if (p.sst[i] == kFill) {
      ++gone;
      continue;
    }
    const double x = p.sst[i] * p.scale + p.offset;
    low = std::min(low, x), sum += x;
  }
  const nlohmann::json& sst = j["fields"][0];
  EXPECT_EQ(sst["name"], "sst");
  EXPECT_NEAR(sst["missing"].get<double>(), static_cast<double>(gone) / points, 1e-12);
  EXPECT_NEAR(sst["min"].get<double>(), low, 1e-4);
  EXPECT_NEAR(sst["mean"].get<double>(), sum / (points - gone), 1e-3);
  EXPECT_NE(data::inspect_text(j).find("missing   (first step)"), std::string::npos) << data::inspect_text(j);
}

TEST(Inspect, ShowsFieldsOfSeveralFilesTogether) {
  TempDir dir;
  const FieldPair p = random_pair();
  write_nc(dir / "ocean.nc", p, {.packed = {"sst"}});
  write_nc(dir / "air.nc", p, {.packed = {"tair"}});
  const std::string both = (dir / "ocean.nc") + "," + (dir / "air.nc");
  const nlohmann::json one = data::inspect(dir / "ocean.nc"), other = data::inspect(dir / "air.nc"),
                       j = data::inspect(both);
  EXPECT_EQ(j["bytes"], one["bytes"].get<int64_t>() + other["bytes"].get<int64_t>());
  EXPECT_EQ(j["fields"].size(), one["fields"].size() + other["fields"].size()) << j;
}

}  // namespace
}  // namespace isobar::test
