// Effect of node numbering on a graph net: the irregular ops of a step on the multi-mesh (row gathers by
// sender, sums by receiver, sums by sender in backward) with nodes ordered from north to south as in
// model/nets/graph/globe_mesh.h, along a Hilbert curve, by METIS parts, and at random.
//
//   build/numbering_benchmark --benchmark_filter=mesh6/w512       # bytes_per_second: of the rows themselves
#include <benchmark/benchmark.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <string>

#include "model/backend/cpu/isa/kernels.h"
#include "model/nets/graph/globe_graph.h"
#include "model/nets/graph/globe_mesh.h"
#include "model/nets/graph/partition.h"

namespace isobar::micro {
namespace {

// Index along a Hilbert curve through 2^16 x 2^16 cells
uint64_t along_curve(uint32_t x, uint32_t y) {
  uint64_t d = 0;
  for (uint32_t s = 1U << 15; s > 0; s /= 2) {
    const uint32_t rx = (x & s) > 0, ry = (y & s) > 0;
    d += static_cast<uint64_t>(s) * s * ((3 * rx) ^ ry);
    if (ry == 0) {
      if (rx == 1) x = 0xffffU - x, y = 0xffffU - y;
      std::swap(x, y);
    }
  }
  return d;
}

nets::Partition by_key(const std::vector<uint64_t>& keys) {
  nets::Partition p{.parts = {static_cast<int64_t>(keys.size())}};
  p.order.resize(keys.size());
  std::iota(p.order.begin(), p.order.end(), 0);
  std::stable_sort(p.order.begin(), p.order.end(), [&](int32_t a, int32_t b) {
    return keys[static_cast<size_t>(a)] < keys[static_cast<size_t>(b)];
  });
  return p;
}

std::map<std::string, nets::Partition> numberings(const nets::GlobeMesh& mesh, const nets::EdgeSet& edges) {
  std::map<std::string, nets::Partition> out;
  const auto nodes = static_cast<int64_t>(mesh.nodes().size());
  out["north_to_south"] = {.parts = {nodes}};
  std::vector<uint64_t> curve, chance;
  std::mt19937_64 random(1);
  for (const nets::Point3& p : mesh.nodes()) {
    curve.push_back(along_curve(static_cast<uint32_t>((std::atan2(p.y, p.x) / M_PI + 1) / 2 * 0xffff),
                                static_cast<uint32_t>((p.z + 1) / 2 * 0xffff)));
    chance.push_back(random());
  }
  out["hilbert"] = by_key(curve);
  out["random"] = by_key(chance);
  if (nets::has_metis()) {
    out["metis_parts"] =
        nets::metis_partition({nodes}, {{0, std::vector<int64_t>(static_cast<size_t>(nodes), 1)}},
                              {{&edges, 0, 0}}, std::max<int64_t>(2, nodes / 256))[0];
    out["metis_parts"].parts = {nodes};
  }
  return out;
}

void add(const std::string& name, int64_t bytes, const std::function<void()>& op) {
  benchmark::RegisterBenchmark(name.c_str(),
                               [bytes, op](benchmark::State& state) {
                                 for (auto _ : state) op();
                                 state.SetBytesProcessed(bytes * static_cast<int64_t>(state.iterations()));
                               })
      ->UseRealTime()
      ->Unit(benchmark::kMillisecond);
}

void register_mesh(int64_t level, int64_t width) {
  GraphcastSpec n;
  n.mesh_level = level, n.img_height = 91, n.img_width = 180;
  const nets::EdgeSet all = nets::globe_graph(n)->mesh;
  const nets::GlobeMesh mesh(level);
  const auto nodes = static_cast<int64_t>(mesh.nodes().size()),
             edges = static_cast<int64_t>(all.senders.size());
  const auto rows = std::make_shared<std::vector<float>>(static_cast<size_t>(nodes * width), 1.0f),
             messages = std::make_shared<std::vector<float>>(static_cast<size_t>(edges * width), 1.0f);
  for (const auto& [name, order] : numberings(mesh, all)) {
    const auto e = std::make_shared<nets::EdgeSet>(nets::renumbered(all, order, order));
    const std::string at = "mesh" + std::to_string(level) + "/w" + std::to_string(width) + "/";
    const int64_t bytes = 2 * edges * width * static_cast<int64_t>(sizeof(float));
    add(at + "gather/" + name, bytes, [=] {
      cpu::gather({1, edges, width, nodes, 0, DType::f32, DType::f32}, nullptr, rows->data(),
                  e->senders.data(), nullptr, nullptr, messages->data());
    });
    const cpu::SegmentSum sum{1, edges, width, nodes, DType::f32};
    add(at + "sum_by_receiver/" + name, bytes,
        [=] { cpu::segment_sum(sum, messages->data(), e->receiver_offsets.data(), nullptr, rows->data()); });
    add(at + "sum_by_sender/" + name, bytes, [=] {
      cpu::segment_sum(sum, messages->data(), e->sender_offsets.data(), e->by_sender.data(), rows->data());
    });
  }
}

}  // namespace
}  // namespace isobar::micro

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  omp_set_num_threads(1);
  isobar::micro::register_mesh(5, 256);
  isobar::micro::register_mesh(6, 512);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
