// NVML for an emulated GPU: 1,410 of 1,980 MHz, 87 % busy at 61 degrees, 3 MiB/s in and 2 out, and 300 W,
// with energy in whole millijoules, only for the emulator's addresses.
#include <chrono>
#include <cstdio>
#include <cstring>

extern "C" {

constexpr int kInvalid = 2, kFine = 0;  // NVML_ERROR_INVALID_ARGUMENT, NVML_SUCCESS

int nvmlInit_v2() {
  return kFine;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** device) {
  unsigned number = 0;
  if (!bus || std::strlen(bus) != 12 || std::sscanf(bus, "0000:%02x:00.0", &number) != 1) return kInvalid;
  static char devices[256];
  *device = &devices[number & 0xff];
  return kFine;
}
int nvmlDeviceGetClockInfo(void* device, int which, unsigned* mhz) {
  if (!device || which != 1) return kInvalid;  // NVML_CLOCK_SM
  *mhz = 1410;
  return kFine;
}
int nvmlDeviceGetMaxClockInfo(void* device, int which, unsigned* mhz) {
  if (!device || which != 1) return kInvalid;
  *mhz = 1980;
  return kFine;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  if (!device) return kInvalid;
  *reasons = 0;
  return kFine;
}
int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  if (!device) return kInvalid;
  *milliwatts = 300000;
  return kFine;
}
int nvmlDeviceGetUtilizationRates(void* device, unsigned* gpu_and_memory) {
  if (!device) return kInvalid;
  gpu_and_memory[0] = 87, gpu_and_memory[1] = 40;
  return kFine;
}
int nvmlDeviceGetTemperature(void* device, int which, unsigned* celsius) {
  if (!device || which != 0) return kInvalid;  // NVML_TEMPERATURE_GPU
  *celsius = 61;
  return kFine;
}
int nvmlDeviceGetPcieThroughput(void* device, int which, unsigned* kib_s) {
  if (!device || which < 0 || which > 1) return kInvalid;  // sent, got
  *kib_s = which == 0 ? 2048 : 3072;
  return kFine;
}
int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* millijoules) {
  if (!device) return kInvalid;
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  *millijoules = static_cast<unsigned long long>(std::chrono::duration<double>(now).count() * 300e3);
  return kFine;
}
}
