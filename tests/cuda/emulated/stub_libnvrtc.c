/* A compiler that compiles nothing: cuDNN sizes and names its plans without looking at what it made of their
 * source. With it a plan takes a millisecond instead of half a second. cuDNN from 9.20 on holds a compiler of
 * its own, and does without this. */
#include <stddef.h>
#include <string.h>

enum { kSuccess = 0, kBytes = 64 };
static int program;

static int size(void* p, size_t* bytes) {
  (void)p;
  *bytes = kBytes;
  return kSuccess;
}
static int zeros(void* p, char* code) {
  (void)p;
  memset(code, 0, kBytes);
  return kSuccess;
}

int nvrtcVersion(int* major, int* minor) {
  *major = 13, *minor = 0;
  return kSuccess;
}
const char* nvrtcGetErrorString(int error) {
  (void)error;
  return "this compiles nothing";
}
int nvrtcGetNumSupportedArchs(int* count) {
  *count = 3;
  return kSuccess;
}
int nvrtcGetSupportedArchs(int* archs) {
  archs[0] = 80, archs[1] = 90, archs[2] = 100;
  return kSuccess;
}
int nvrtcCreateProgram(void** made, const char* source, const char* name, int headers,
                       const char* const* text, const char* const* names) {
  (void)source, (void)name, (void)headers, (void)text, (void)names;
  *made = &program;
  return kSuccess;
}
/* cuDNN's own entrance */
int __nvrtcCPEx(void** made, const char* source, const char* name, int headers, const char* const* text,
                const char* const* names) {
  return nvrtcCreateProgram(made, source, name, headers, text, names);
}
int nvrtcDestroyProgram(void** made) {
  *made = NULL;
  return kSuccess;
}
int nvrtcCompileProgram(void* p, int count, const char* const* options) {
  (void)p, (void)count, (void)options;
  return kSuccess;
}
int nvrtcGetCUBINSize(void* p, size_t* bytes) {
  return size(p, bytes);
}
int nvrtcGetCUBIN(void* p, char* code) {
  return zeros(p, code);
}
int nvrtcGetPTXSize(void* p, size_t* bytes) {
  return size(p, bytes);
}
int nvrtcGetPTX(void* p, char* code) {
  return zeros(p, code);
}
int nvrtcGetLTOIRSize(void* p, size_t* bytes) {
  return size(p, bytes);
}
int nvrtcGetLTOIR(void* p, char* code) {
  return zeros(p, code);
}
int nvrtcGetProgramLogSize(void* p, size_t* bytes) {
  (void)p;
  *bytes = 1;
  return kSuccess;
}
int nvrtcGetProgramLog(void* p, char* log) {
  (void)p;
  log[0] = 0;
  return kSuccess;
}
int nvrtcAddNameExpression(void* p, const char* name) {
  (void)p, (void)name;
  return kSuccess;
}
int nvrtcGetLoweredName(void* p, const char* name, const char** lowered) {
  (void)p;
  *lowered = name;
  return kSuccess;
}
