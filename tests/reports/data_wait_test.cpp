// A report's explanation of a run whose steps wait for data.
#include "reports/live/data_wait.h"

#include <gtest/gtest.h>

#include "tests/perfmodel/support.h"

namespace isobar::report {
namespace {

records::RunRecord waiting(int64_t workers, double step, double wait) {
  records::RunRecord r;
  r.spec.train.global_batch = 16;
  r.spec.layout.dp = 2;
  r.spec.data.workers = workers;
  r.spec.data.train = "era5.zarr";
  r.ranks = r.ranks_on_host = 2;
  r.threads = 2;
  r.step_s.median = step;
  r.data_wait_s = wait;
  r.provenance = {{"cores", 16}};
  return r;
}

bool says(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}

TEST(DataWait, SaysWhatIsDeliveredAndHowManyThreadsWouldKeepUp) {
  EXPECT_FALSE(waits_for_data(waiting(2, 0.1, 0.001)));
  EXPECT_TRUE(waits_for_data(waiting(2, 0.1, 0.01)));
  // 8 samples a rank in a step of 0.1 s with 0.06 s of waiting: two threads need 0.1 s, so five need 0.04 s
  const std::string enough = why_it_waits(waiting(2, 0.1, 0.06), nullptr);
  EXPECT_TRUE(says(enough, "2 loader threads of a rank deliver 80.0 samples/s")) << enough;
  EXPECT_TRUE(says(enough, "5 would keep up")) << enough;
  EXPECT_FALSE(says(enough, "too few")) << enough;
  // 2 ranks x (2 + 10) threads on 16 cores
  const std::string short_of = why_it_waits(waiting(2, 0.1, 0.08), nullptr);
  EXPECT_TRUE(says(short_of, "10 would keep up")) << short_of;
  EXPECT_TRUE(says(short_of, "the 16 cores are too few")) << short_of;
  EXPECT_TRUE(says(why_it_waits(waiting(0, 0.1, 0.05), nullptr), "reads its samples itself"));
}

TEST(DataWait, TellsDecompressingApartWhereItsPriceWasMeasured) {
  perf::Machine m = test::machine();
  m[perf::Coef::read_zarr].value = 1e-10, m[perf::Coef::read_decode].value = 9e-10,
  m[perf::Coef::read_sample].value = 1e-12;
  m[perf::Coef::read_decode].provenance = {"spec"};
  EXPECT_FALSE(says(why_it_waits(waiting(2, 0.1, 0.05), &m), "decompressing"));
  m[perf::Coef::read_decode].provenance = {"read_decode/f32/own"};
  const std::string reported = why_it_waits(waiting(2, 0.1, 0.05), &m);
  EXPECT_TRUE(says(reported, "decompressing is 90 % of reading")) << reported;
  records::RunRecord hdf5 = waiting(2, 0.1, 0.05);
  hdf5.spec.data.train = "era5/train";
  EXPECT_FALSE(says(why_it_waits(hdf5, &m), "decompressing"));
}

}  // namespace
}  // namespace isobar::report
