// Work of the engine on a device beside the ops of a program, so that a trace names all of the device's time.
// time.
#pragma once
#include <cstdint>

namespace isobar::trace {

enum class EngineWork : uint8_t {
  upload,    // values that the host sets, to the device: a step's scalars, parameters of a checkpoint
  download,  // results, to the host: a step's metrics, parameters for a checkpoint
  program,   // programs other than the traced one: validation, first values
};
constexpr int kEngineWorks = 3;
constexpr const char* name_of(EngineWork w) {
  constexpr const char* kNames[kEngineWorks] = {"uploads", "downloads", "other programs"};
  return kNames[static_cast<int>(w)];
}

}  // namespace isobar::trace
