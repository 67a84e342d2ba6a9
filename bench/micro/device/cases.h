// Google Benchmark cases on an NVIDIA GPU, from the same op descriptors and with the same names and counters
// as the CPU's (bench/micro/cases.h); perfmodel/fitting/calibrate.h reads them.
//
// Ops are timed within the steps of small nets, and all cases while the card is busy with what is timed,
// after its clock has settled (timer.h): a training runs at its power limit, a cold card faster. Each case
// has the clock and the power at which it was timed, clock_mhz and watts.
//
//   const DeviceTimer timer;                       // the calling thread's device
//   register_device_op_cases({spec}, timer);  register_device_peak_cases(timer);
//   add_device_context(timer);   nlohmann::json j = run_registered("device");
#pragma once
#include <vector>

#include "bench/micro/device/timer.h"
#include "model/base/spec/spec.h"
#include "model/comm/comm.h"

namespace isobar::micro {

/// Every distinct op of the specs' steps. Repetitions go over all steps in turn.
void register_device_op_cases(const std::vector<RunSpec>& specs, const DeviceTimer& timer);
/// Attention by head size, forward and backward: its kernels pad heads and choose tiles by that.
void register_device_attention_cases(const DeviceTimer& timer);
/// Large products by type and a device-to-device copy: the two ceilings; and a copy from the host.
void register_device_peak_cases(const DeviceTimer& timer);
/// A whole step of a tiny net as the engine runs it, and the host's time to launch one.
void register_device_step_cases(const DeviceTimer& timer);
/// Collectives over all ranks, one device a rank; busbw as nccl-tests defines it. Every rank registers and
/// runs the same cases. With ranks that share a GPU the names end in /shared-gpu, a correctness mode whose
/// times say nothing about a network.
void register_nccl_cases(const comm::Mpi& mpi);
void add_device_context(const DeviceTimer& timer);

}  // namespace isobar::micro
