// Distance between a host's cores: the round trip of a cache line that two cores write alternately, which is
// several times longer between core complexes or sockets than inside one. Every thread barrier costs such
// trips, so short steps depend on it.
//
//   core_round_trip_ns({0, 1})       // 65
//
// On bare metal it is a constant. A hypervisor may move virtual processors between core complexes at any
// time.
#pragma once
#include <optional>
#include <vector>

namespace isobar {

/// Nanoseconds from the first of these CPUs to the most distant one (up to 16, evenly spaced); each pair
/// takes its shortest of several tries, which excludes other load. Empty if the cores stay busy, there are
/// fewer than two, or threads cannot be bound.
std::optional<double> core_round_trip_ns(const std::vector<int>& cpus);

/// The same between the first thread of the caller's OpenMP team and up to 16 others, on their current cores;
/// each thread should have its own core. Empty for a team of one.
std::optional<double> team_round_trip_ns(int threads);

}  // namespace isobar
