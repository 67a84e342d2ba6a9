// How a device is loaded.
#pragma once

namespace isobar {

struct DeviceLoad {
  double busy = 0;     // share of time in which a kernel ran
  double celsius = 0;  // of readings together: the highest
  double pcie_in_bytes_s = 0, pcie_out_bytes_s = 0;
};

}  // namespace isobar
