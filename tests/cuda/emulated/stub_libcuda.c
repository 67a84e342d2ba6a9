/* A driver for machines without one: cuDNN builds its plans for a described GPU, loads their kernels "into"
 * this and asks of them what it must know. Nothing can be run. What is not here cuDNN does not need to plan
 * attention. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

enum { kSuccess = 0, kNotFound = 500 };
static void* some(void) { /* an opaque handle */
  static int thing;
  return &thing;
}

int cuInit(unsigned flags) {
  (void)flags;
  return kSuccess;
}
int cuDriverGetVersion(int* version) {
  *version = 13000;
  return kSuccess;
}
int cuLibraryLoadData(void** library, const void* code, void* jit, void* jit_values, unsigned n,
                      void* options, void* values, unsigned m) {
  (void)code, (void)jit, (void)jit_values, (void)n, (void)options, (void)values, (void)m;
  *library = some();
  return kSuccess;
}
int cuLibraryUnload(void* library) {
  (void)library;
  return kSuccess;
}
int cuLibraryGetKernel(void** kernel, void* library, const char* name) {
  (void)library, (void)name;
  *kernel = some();
  return kSuccess;
}
int cuKernelGetFunction(void** function, void* kernel) {
  (void)kernel;
  *function = some();
  return kSuccess;
}
int cuModuleLoadData(void** module, const void* image) {
  (void)image;
  *module = some();
  return kSuccess;
}
int cuModuleGetFunction(void** function, void* module, const char* name) {
  (void)module, (void)name;
  *function = some();
  return kSuccess;
}
int cuModuleUnload(void* module) {
  (void)module;
  return kSuccess;
}
int cuFuncSetAttribute(void* function, int attribute, int value) {
  (void)function, (void)attribute, (void)value;
  return kSuccess;
}
int cuFuncGetAttribute(int* value, int attribute, void* function) {
  (void)attribute, (void)function;
  *value = 0;
  return kSuccess;
}
int cuGetErrorString(int error, const char** text) {
  (void)error;
  *text = "there is no driver";
  return kSuccess;
}
int cuGetErrorName(int error, const char** name) {
  return cuGetErrorString(error, name);
}
int cuGetProcAddress_v2(const char* name, void** address, int version, unsigned long flags, int* found) {
  (void)version, (void)flags;
  *address = dlsym(RTLD_DEFAULT, name);
  if (found) *found = *address ? 0 : 1;
  return *address ? kSuccess : kNotFound;
}
int cuGetProcAddress(const char* name, void** address, int version, unsigned long flags) {
  return cuGetProcAddress_v2(name, address, version, flags, NULL);
}
int cuCtxGetCurrent(void** context) {
  *context = some();
  return kSuccess;
}
int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return kSuccess;
}
int cuGetExportTable(const void** table,
                     const void* id) { /* NVRTC asks for a driver's inside, and does without */
  (void)id;
  *table = NULL;
  return kNotFound;
}

/* cuDNN and NVRTC look these up when they start; for what is planned it is enough that they are there. */
#define ISOBAR_NOTHING(name) \
  int name(void) {           \
    return kSuccess;         \
  }
ISOBAR_NOTHING(cuCtxGetDevice)
ISOBAR_NOTHING(cuCtxGetLimit)
ISOBAR_NOTHING(cuCtxPopCurrent)
ISOBAR_NOTHING(cuCtxPushCurrent)
ISOBAR_NOTHING(cuDeviceGetAttribute)
ISOBAR_NOTHING(cuDeviceGetCount)
ISOBAR_NOTHING(cuDevicePrimaryCtxRelease)
ISOBAR_NOTHING(cuDevicePrimaryCtxReset)
ISOBAR_NOTHING(cuDevicePrimaryCtxRetain)
ISOBAR_NOTHING(cuKernelGetAttribute)
ISOBAR_NOTHING(cuKernelSetAttribute)
ISOBAR_NOTHING(cuLaunchCooperativeKernel)
ISOBAR_NOTHING(cuLaunchKernel)
ISOBAR_NOTHING(cuLaunchKernelEx)
ISOBAR_NOTHING(cuLibraryLoadFromFile)
ISOBAR_NOTHING(cuLinkAddData)
ISOBAR_NOTHING(cuLinkAddData_v2)
ISOBAR_NOTHING(cuLinkAddFile_v2)
ISOBAR_NOTHING(cuLinkComplete)
ISOBAR_NOTHING(cuLinkCreate)
ISOBAR_NOTHING(cuLinkCreate_v2)
ISOBAR_NOTHING(cuLinkDestroy)
ISOBAR_NOTHING(cuMemcpyDtoH_v2)
ISOBAR_NOTHING(cuModuleGetGlobal_v2)
ISOBAR_NOTHING(cuModuleLoadDataEx)
ISOBAR_NOTHING(cuModuleLoadFatBinary)
ISOBAR_NOTHING(cuOccupancyMaxActiveBlocksPerMultiprocessor)
ISOBAR_NOTHING(cuOccupancyMaxPotentialClusterSize)
ISOBAR_NOTHING(cuStreamGetCtx)
ISOBAR_NOTHING(cuStreamSynchronize)
ISOBAR_NOTHING(cuTensorMapEncodeIm2col)
ISOBAR_NOTHING(cuTensorMapEncodeTiled)
