#include "perfmodel/step/checkpoint.h"

#include <algorithm>
#include <cmath>

#include "model/base/spec/traced_net.h"
#include "model/base/text/printed.h"

namespace isobar::perf {
namespace {

constexpr double kF32 = 4;
// Log sigma without measured runs: a benchmark has the disk to itself, runs do not.
constexpr double kUnfitted = 0.6;
// Rate of all hosts together if unknown: between a rack's NFS server (0.1 TB/s) and the largest parallel file
// systems (10 TB/s).
constexpr double kFilesystem = 1e12, kFilesystemFactor = 10;

// Includes the moving average, which is kept like the moments
double moments_of(const RunSpec& s) {
  return (s.train.optimizer == OptimizerKind::sgd ? 1 : 2) + (s.train.ema > 0 ? 1 : 0);
}

// The largest tensor of a Swin U-Net, in elements
template <class Net>
double of_coarsest(const Net& n) {
  const auto width = static_cast<double>(n.embed_dim << (n.encoder_depths.size() - 1));
  return static_cast<double>(n.mlp_ratio) * width * width;
}

// In elements, on one rank: the least that one rank writes.
double largest_tensor(const RunSpec& s) {
  const auto up = [](const auto& n) {
    return static_cast<double>(n.embed_dim) * static_cast<double>(n.hidden());
  };
  struct Largest {
    decltype(up)& of_mlp;
    double operator()(const VitSpec& n) const { return of_mlp(n); }
    double operator()(const UnetSpec& n) const { return 4 * of_mlp(n); }  // on its coarse grid
    double operator()(const GptSpec& n) const { return std::max(of_mlp(n), table(n)); }
    double operator()(const LlamaSpec& n) const {
      const int64_t hidden = n.dense_blocks() > 0 ? n.hidden() : n.expert_hidden();
      return std::max(2 * static_cast<double>(n.embed_dim * hidden), table(n));  // gate and up
    }
    double operator()(const MlpSpec& n) const {
      int64_t largest = 0, in = n.in_features;
      for (const int64_t width : n.hidden) largest = std::max(largest, in * width), in = width;
      return static_cast<double>(std::max(largest, in * n.out_features));
    }
    double operator()(const RegionalGnnSpec& n) const {
      return static_cast<double>(std::max({n.in_channels, n.latent_size, n.mlp_hidden_size}) *
                                 std::max(n.mlp_hidden_size, n.latent_size));
    }
    double operator()(const AuroraSpec& n) const { return of_coarsest(n); }
    double operator()(const SwinSpec& n) const { return of_coarsest(n); }
    double operator()(const GraphcastSpec& n) const {
      const int64_t read = n.in_channels + 3;  // a point's fields and position
      return static_cast<double>(std::max({read, n.out_channels, n.latent_size, n.mlp_hidden_size}) *
                                 std::max(n.mlp_hidden_size, n.latent_size));
    }
    double operator()(const TracedSpec& n) const {
      int64_t largest = 0;
      for (const TracedNet::Parameter& p : n.net()->parameters) largest = std::max(largest, p.count());
      return static_cast<double>(largest);
    }
    static double table(const WordsSpec& n) {
      return static_cast<double>(n.embed_dim) * static_cast<double>(n.vocab_size);
    }
  };
  return s.net.visit(Largest{up}) / static_cast<double>(s.layout.tp);
}

std::string rate(double bytes_per_s) {
  return printed("%.3g GB/s", 1e-9 * bytes_per_s);
}

}  // namespace

double checkpoint_bytes(const RunSpec& s, double parameters) {
  return parameters * (1 + moments_of(s)) * kF32;
}

CheckpointWork checkpoint_work(const RunSpec& s, double parameters, int64_t ranks_on_host) {
  const LayoutSpec& l = s.layout;
  CheckpointWork w{.bytes = checkpoint_bytes(s, parameters),
                   .hosts = std::ceil(static_cast<double>(l.world()) / static_cast<double>(ranks_on_host))};
  double host = w.bytes / w.hosts;
  // ZeRO's shards are cut anywhere; without them a tensor has one writer.
  if (s.policy.zero == 0 && w.hosts > 1)
    host = std::max(host, std::min(w.bytes, checkpoint_bytes(s, largest_tensor(s))));
  w.counts[index_of(Coef::commit)] = 1;
  w.counts[index_of(Coef::checkpoint)] = host;
  return w;
}

double checkpoint_seconds(const CheckpointWork& w, const Counts& k, const Storage& storage) {
  const size_t c = index_of(Coef::commit), b = index_of(Coef::checkpoint);
  const double all = storage.filesystem_bandwidth > 0 ? storage.filesystem_bandwidth : kFilesystem;
  const double host = w.counts[b] * k[b];
  return w.counts[c] * k[c] + (w.hosts > 1 ? std::max(host, w.bytes / all) : host);
}

CheckpointCost checkpoint_cost(const RunSpec& s, double parameters, const Machine& m, int64_t ranks_on_host) {
  const CheckpointWork w = checkpoint_work(s, parameters, ranks_on_host);
  const double commit = m[Coef::commit].value;
  const double host = w.counts[index_of(Coef::checkpoint)] * m[Coef::checkpoint].value;
  const bool rate_known = m.storage.filesystem_bandwidth > 0;
  const double filesystem = w.bytes / (rate_known ? m.storage.filesystem_bandwidth : kFilesystem);
  CheckpointCost c{.bytes = w.bytes, .seconds = checkpoint_seconds(w, m.values(), m.storage)};
  const bool known = m.fit && m.fit->spread.contains("checkpoint");
  const double spread = known ? m.fit->spread.at("checkpoint") : kUnfitted;
  // The ends of the hosts' own rate and of the file system's are taken together.
  const double together = commit + host;
  double variance = spread * spread;  // of the logarithm
  variance += std::pow(commit / together * m[Coef::commit].log_sigma(), 2) +
              std::pow(host / together * m[Coef::checkpoint].log_sigma(), 2);
  const double width = std::exp(kNormal80 * std::sqrt(variance));
  const double other = std::exp(std::hypot(rate_known ? 0 : std::log(kFilesystemFactor), kNormal80 * spread));
  const auto slower = [&](double a, double b) { return w.hosts > 1 ? std::max(a, b) : a; };
  c.lower = slower(together / width, (commit + filesystem) / other);
  c.upper = slower(together * width, (commit + filesystem) * other);
  if (s.train.checkpoint_every != 0) c.per_step = c.seconds / static_cast<double>(s.train.checkpoint_steps());
  if (m.storage.host_bandwidth == 0 && !m[Coef::checkpoint].measured())
    c.assumed.push_back(rate(1 / m[Coef::checkpoint].value) + " a host (storage.host_bandwidth)");
  if (w.hosts > 1 && !rate_known)
    c.assumed.push_back(rate(kFilesystem) + " of the whole file system (storage.filesystem_bandwidth)");
  return c;
}

std::string text_of(const CheckpointCost& c, const RunSpec& s, double step_s) {
  std::string out = printed("checkpoint: %.3g GB, written in %.3g s (80 %% interval %.3g to %.3g)",
                            1e-9 * c.bytes, c.seconds, c.lower, c.upper);
  if (c.per_step > 0)
    out += printed("; every %ld steps: %.3g ms a step, %.2f %% of it", s.train.checkpoint_steps(),
                   1e3 * c.per_step, 100 * c.per_step / step_s);
  for (size_t i = 0; i < c.assumed.size(); ++i)
    out +=
        (i == 0 ? "\n  assumed bandwidth of the storage (not in the machine file): " : ", ") + c.assumed[i];
  return out;
}

}  // namespace isobar::perf
