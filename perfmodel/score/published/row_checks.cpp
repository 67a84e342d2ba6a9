#include <cmath>
#include <string>

#include "model/base/text/printed.h"
#include "perfmodel/score/counts/net_counts.h"
#include "perfmodel/score/counts/step_model.h"
#include "perfmodel/score/published/published_row.h"

namespace isobar::perf {
namespace {

constexpr double kRounding = 1.15;     // of times and rates of one row
constexpr double kFlopsFactor = 3;     // sources count attention and recomputation differently
constexpr double kCeiling = 0.97;      // of the least time that the peak allows: tables round
constexpr double kSlowest = 2000;      // times the least: milliseconds taken for seconds are beyond it
constexpr double kMemoryFactor = 1.2;  // GB, GiB and what drivers keep
constexpr double kParameters = 1.5;    // names are rounded, and embeddings tied

constexpr const char* kCounts[] = {"layers",     "hidden",       "ffn_hidden",  "heads",    "kv_heads",
                                   "vocab",      "seq_len",      "gpus",        "dp",       "tp",
                                   "cp",         "pp",           "vpp",         "ep",       "gpus_per_node",
                                   "experts",    "top_k",        "expert_ffn",  "params_b", "micro_batch",
                                   "zero_stage", "global_batch", "dense_layers"};
constexpr const char* kNumbers[] = {
    "params_b", "head_dim", "memory_gb", "step_time_s",          "tflops_per_gpu",
    "mfu_pct",  "hfu_pct",  "nic_gb_s",  "tokens_per_s_per_gpu", "samples_per_s"};

std::string in_short(double v) {
  return printed("%.4g", v);
}

std::string both(double a, double b) {
  return in_short(a) + " and " + in_short(b);
}

bool is_uneven(double whole, double by) {
  return std::abs(whole / by - std::round(whole / by)) > 1e-6;
}

void refuse_text(const CsvRow& row, const char* column) {
  const std::string& s = row.text(column);
  if (!s.empty() && s != "unknown" && std::isnan(row.number(column)))
    throw Refused(std::string(column) + " is no number", "'" + s.substr(0, 40) + "'");
}

/// A unit of the cell's last digit: some tables cut digits off.
double last_digit(const std::string& cell) {
  if (cell.find_first_of("eE") != std::string::npos) return 0;
  const size_t point = cell.find('.');
  return point == std::string::npos ? 1 : std::pow(10, -static_cast<double>(cell.size() - point - 1));
}

/// The step's time by the rate in another column, `amount` a second, beside that which counts.
void refuse_other_rate(const CsvRow& row, const char* column, double amount, double step_s, double factor) {
  const double rate = row.number(column), slack = last_digit(row.text(column));
  if (std::isnan(rate)) return;
  const double slow = rate > slack ? amount / (rate - slack) : INFINITY, fast = amount / (rate + slack);
  if (step_s < factor * slow && fast < factor * step_s) return;
  throw Refused(std::string(column) + " makes another time of a step than other columns",
                in_short(amount / rate) + " s and " + in_short(step_s) + " s");
}

/// Compares the step with metric_value, which is in the unit beside it.
void refuse_other_metric(const CsvRow& row, const PublishedRun& r) {
  const double value = row.number("metric_value"), tokens = r.global_batch * r.seq;
  const std::string &name = row.text("metric_name"), &unit = row.text("metric_unit");
  if (name == "step_time" && value > 0) {
    const double s = unit == "ms" ? 1e-3 * value : value;
    if (s > kRounding * r.step_s || r.step_s > kRounding * s)
      throw Refused("metric_value makes another time of a step than other columns",
                    in_short(s) + " s and " + in_short(r.step_s) + " s");
  }
  for (const auto& [known, amount] : {std::pair{"tokens/s/GPU", tokens / r.gpus},
                                      {"tokens/s (total)", tokens},
                                      {"samples/s", r.global_batch},
                                      {"samples/s/GPU", r.global_batch / r.gpus}})
    if (unit == known) refuse_other_rate(row, "metric_value", amount, r.step_s, kRounding);
  if (unit == "TFLOP/s/GPU")
    refuse_other_rate(row, "metric_value", 1e-12 * logged_flops(r) / r.gpus, r.step_s, kFlopsFactor);
}

}  // namespace

void refuse_foreign_cells(const CsvRow& row) {
  for (const char* column : kNumbers) refuse_text(row, column);
  for (const char* column : kCounts) {
    refuse_text(row, column);
    const double v = row.number(column, 0);
    if (std::string(column) != "params_b" && v != std::round(v))
      throw Refused(std::string(column) + " is no whole number", in_short(v));
  }
  for (const char* column : kNumbers)
    if (row.number(column, 0) < 0) throw Refused(std::string(column) + " is below 0");
  if (row.number("step_time_s", 1) == 0) throw Refused("step_time_s is 0");
}

void refuse_impossible_net(const CsvRow& row, const PublishedRun& r) {
  if (is_uneven(r.heads, r.kv_heads))
    throw Refused("its heads do not divide by kv_heads", both(r.heads, r.kv_heads));
  const bool latent = row.text("arch").ends_with("mla") || row.text("arch").ends_with("MLA");
  if (row.text("head_dim").empty() && !latent && is_uneven(r.hidden, r.heads))
    throw Refused("hidden does not divide by its heads, and head_dim is empty", both(r.hidden, r.heads));
  if (row.number("attended_tokens", 0) > r.seq)
    throw Refused("attended_tokens is above seq_len", in_short(row.number("attended_tokens")));
  const double said = 1e9 * row.number("params_b", 0), all = net_parameters(r);
  const auto near = [&](double of) { return said < kParameters * of && of < kParameters * said; };
  if (said > 0 && !near(all) && !near(used_parameters(r)))
    throw Refused("params_b is not that of its sizes",
                  in_short(1e-9 * said) + " and " + in_short(1e-9 * all) + " billion");
}

void refuse_impossible_layout(const CsvRow& row, const PublishedRun& r) {
  if (is_uneven(r.heads, r.tp)) throw Refused("its heads do not divide by tp", both(r.heads, r.tp));
  if (is_uneven(r.micro_batches(), 1))
    throw Refused("its micro-batches do not divide the batch of a replica",
                  both(r.micro_batch, r.global_batch / r.dp));
  if (r.zero > 3) throw Refused("zero_stage is above 3", in_short(r.zero));
  if (r.ep > 1 && is_uneven(r.experts, r.ep))
    throw Refused("its experts do not divide by ep", both(r.experts, r.ep));
  if (r.ep > 1 && r.experts == 0) throw Refused("ep is of a net without experts", in_short(r.ep));
  const double vpp = row.number("vpp", 1), layers = std::ceil(r.layers / r.pp);
  if (r.pp > 1 && vpp > 1 && vpp > layers)
    throw Refused("vpp is above the layers of a stage", both(vpp, layers));
}

void refuse_missing_precision(const PublishedRun& r) {
  const bool fp4 = r.precision == Precision::fp4, fp8 = r.precision == Precision::fp8;
  if ((fp4 && !(r.gpu->fp4 > 0)) || ((fp4 || fp8) && !(r.gpu->fp8 > r.gpu->half)))
    throw Refused(std::string("the chip has no ") + (fp4 ? "fp4" : "fp8"), r.gpu->name);
}

void refuse_contradictions(const CsvRow& row, const PublishedRun& r) {
  const double tokens = r.global_batch * r.seq, least = count_step(r).ceiling_s;
  if (r.step_s < kCeiling * least) throw Refused("faster than the chip's peak allows");
  if (!row.text("step_time_s").empty() && r.step_s > kSlowest * least)
    throw Refused(
        "step_time_s is over " + in_short(kSlowest) + " times what the chip's peak allows: check its unit",
        in_short(r.step_s) + " s");
  refuse_other_rate(row, "tokens_per_s_per_gpu", tokens / r.gpus, r.step_s, kRounding);
  refuse_other_rate(row, "samples_per_s", r.global_batch, r.step_s, kRounding);
  const double flops = logged_flops(r) / r.gpus;
  refuse_other_rate(row, "tflops_per_gpu", 1e-12 * flops, r.step_s, kFlopsFactor);
  for (const char* share : {"mfu_pct", "hfu_pct"})
    refuse_other_rate(row, share, 100 * flops / r.gpu->peak(r.precision), r.step_s, kFlopsFactor);
  refuse_other_metric(row, r);
  if (r.memory_gb * 1e9 > kMemoryFactor * r.gpu->memory_bytes)
    throw Refused("memory_gb is more than the chip has", in_short(r.memory_gb));
}

}  // namespace isobar::perf
