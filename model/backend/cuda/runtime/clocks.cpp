#include "model/backend/cuda/runtime/clocks.h"

#include <stdexcept>

#include "model/backend/cuda/runtime/device.h"
#include "model/backend/cuda/runtime/library.h"

namespace isobar {

// NVML's header is not in the toolkit's packages; these are its documented, versioned entry points.
struct Clocks::Nvml {
  using Device = void*;
  cuda::Library lib{"libnvidia-ml.so.1"};
  int (*init)() = lib.function<int (*)()>("nvmlInit_v2");
  int (*by_bus)(const char*,
                Device*) = lib.function<int (*)(const char*, Device*)>("nvmlDeviceGetHandleByPciBusId_v2");
  int (*clock)(Device, int,
               unsigned*) = lib.function<int (*)(Device, int, unsigned*)>("nvmlDeviceGetClockInfo");
  int (*max_clock)(Device, int,
                   unsigned*) = lib.function<int (*)(Device, int, unsigned*)>("nvmlDeviceGetMaxClockInfo");
  int (*reasons)(Device, unsigned long long*) =
      lib.function<int (*)(Device, unsigned long long*)>("nvmlDeviceGetCurrentClocksThrottleReasons");
  int (*milliwatts)(Device, unsigned*) = lib.function<int (*)(Device, unsigned*)>("nvmlDeviceGetPowerUsage");
  struct Rates {
    unsigned gpu, memory;  // per cent
  };
  int (*rates)(Device, Rates*) = lib.function<int (*)(Device, Rates*)>("nvmlDeviceGetUtilizationRates");
  int (*temperature)(Device, int,
                     unsigned*) = lib.function<int (*)(Device, int, unsigned*)>("nvmlDeviceGetTemperature");
  int (*pcie)(Device, int,
              unsigned*) = lib.function<int (*)(Device, int, unsigned*)>("nvmlDeviceGetPcieThroughput");
  int (*millijoules)(Device, unsigned long long*) =
      lib.function<int (*)(Device, unsigned long long*)>("nvmlDeviceGetTotalEnergyConsumption");
};

namespace {
constexpr int kMultiprocessors = 1;  // NVML_CLOCK_SM
constexpr int kChip = 0;             // NVML_TEMPERATURE_GPU
constexpr int kSent = 0, kGot = 1;   // NVML_PCIE_UTIL_TX_BYTES, NVML_PCIE_UTIL_RX_BYTES
// nvmlClocksEventReason…: HwSlowdown, SwThermalSlowdown, HwThermalSlowdown, HwPowerBrakeSlowdown
constexpr uint64_t kHeldDown = 0x8 | 0x20 | 0x40 | 0x80;
}  // namespace

bool throttled(const std::optional<ClockState>& state) {
  if (!state) return false;
  return (state->reasons & kHeldDown) != 0 || 2 * state->mhz < state->max_mhz;
}

std::string bus_of(int device) {
  char bus[32] = {};
  ISOBAR_CUDA(cudaDeviceGetPCIBusId(bus, sizeof bus, device));
  return bus;
}

Clocks::Clocks(const std::string& bus) {
  try {
    nvml_ = std::make_unique<Nvml>();
  } catch (const std::runtime_error& e) {
    why_ = e.what();
    return;
  }
  if (nvml_->init() != 0 || nvml_->by_bus(bus.c_str(), &device_) != 0 || !read()) {
    why_ = "NVML does not tell the clocks of " + bus;
    nvml_.reset();
  }
}

Clocks::~Clocks() = default;

std::optional<ClockState> Clocks::read() const {
  if (!nvml_) return std::nullopt;
  ClockState s;
  unsigned long long reasons = 0;
  if (nvml_->clock(device_, kMultiprocessors, &s.mhz) != 0 ||
      nvml_->max_clock(device_, kMultiprocessors, &s.max_mhz) != 0 || nvml_->reasons(device_, &reasons) != 0)
    return std::nullopt;
  s.reasons = reasons;
  if (unsigned power = 0; nvml_->milliwatts(device_, &power) == 0) s.watts = power * 1e-3;
  return s;
}

std::optional<DeviceLoad> Clocks::load() const {
  Nvml::Rates rates{};
  unsigned celsius = 0, sent = 0, got = 0;
  if (!nvml_ || nvml_->rates(device_, &rates) != 0 || nvml_->temperature(device_, kChip, &celsius) != 0)
    return std::nullopt;
  if (nvml_->pcie(device_, kSent, &sent) != 0 || nvml_->pcie(device_, kGot, &got) != 0) return std::nullopt;
  return DeviceLoad{0.01 * rates.gpu, static_cast<double>(celsius), 1024.0 * got, 1024.0 * sent};
}

std::optional<double> Clocks::joules() const {
  unsigned long long millijoules = 0;
  if (!nvml_ || nvml_->millijoules(device_, &millijoules) != 0) return std::nullopt;
  return static_cast<double>(millijoules) * 1e-3;
}

}  // namespace isobar
