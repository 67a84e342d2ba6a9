#include "reports/live/data_wait.h"

#include <algorithm>
#include <cmath>

#include "perfmodel/step/reading.h"
#include "reports/tables/tables.h"

namespace isobar::report {
namespace {

std::string threads_text(int64_t n) {
  return std::to_string(n) + (n == 1 ? " loader thread" : " loader threads");
}

// Share of reading time that is decompression, by measured prices; "" if none was measured.
std::string spent_on(const records::RunRecord& r, const perf::Machine* predictor) {
  if (!predictor || !predictor->coefficients[perf::index_of(perf::Coef::read_decode)].measured()) return "";
  const perf::Counts counts = perf::count_read(r.spec, 1);
  double all = 0;
  for (size_t i = 0; i < perf::kCoefs; ++i) all += counts[i] * predictor->coefficients[i].value;
  const double decode =
      counts[perf::index_of(perf::Coef::read_decode)] * (*predictor)[perf::Coef::read_decode].value;
  if (!(decode > 0)) return "";
  return "; decompressing is " + significant(100 * decode / all, 2).text + " % of reading";
}

}  // namespace

bool waits_for_data(const records::RunRecord& r) {
  return r.step_s.median > 0 && r.data_wait_s > kWaitsForData * r.step_s.median;
}

std::string why_it_waits(const records::RunRecord& r, const perf::Machine* predictor) {
  const double step = r.step_s.median, busy = std::max(step - r.data_wait_s, 1e-3 * step);
  const int64_t workers = r.spec.data.workers;
  if (workers == 0)
    return "the training thread reads its samples itself, which data.workers=1 and more would do beside it" +
           spent_on(r, predictor);
  const perf::Counts counts = perf::count_read(r.spec, 1);
  double bytes = 0;
  for (const perf::Coef c : {perf::Coef::read_noise, perf::Coef::read_hdf5, perf::Coef::read_netcdf,
                             perf::Coef::read_zarr, perf::Coef::read_table})
    bytes += counts[perf::index_of(c)];
  const double rate =
      static_cast<double>(r.spec.train.global_batch) / static_cast<double>(r.spec.layout.dp) / step;
  std::string s = "the " + threads_text(workers) + " of a rank deliver " + significant(rate, 3).text +
                  " samples/s, " + significant(1e-9 * bytes * rate / static_cast<double>(workers), 2).text +
                  " GB/s each";
  const auto enough = static_cast<int64_t>(std::ceil(static_cast<double>(workers) * step / busy));
  const int64_t all_cores = r.provenance.value("cores", int64_t{0}),
                taken = r.on_gpu ? r.ranks_on_host : r.ranks_on_host * r.threads,
                free = all_cores - taken - r.ranks_on_host * workers;
  s += "; " + std::to_string(enough) + " would keep up (data.workers)";
  if (all_cores > 0 && r.ranks_on_host * (enough - workers) > free)
    s += ", for which the " + std::to_string(all_cores) +
         " cores are too few: data that cost less to read would help (isobar data convert, chunks of one "
         "step, "
         "--compressor none or blosc)";
  return s + spent_on(r, predictor);
}

}  // namespace isobar::report
