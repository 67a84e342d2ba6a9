// The C functions of isobar.h, on a Forecaster. All exceptions are caught and become codes.
#include "model/inference/library/isobar.h"

#include <omp.h>

#include <algorithm>
#include <cfenv>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "model/base/classes.h"
#include "model/base/error.h"
#include "model/base/system/denormals.h"
#include "model/inference/forecaster.h"
#include "model/inference/jacobian.h"
#include "model/inference/weights/open_checkpoint.h"

struct isobar_net {
  isobar::inference::CheckpointState state;
  int threads;
  std::unique_ptr<isobar::inference::Forecaster> whole, rest;  // rest: for the last size of a remainder
  std::unique_ptr<isobar::inference::Jacobian> jacobian;       // made on first use
  std::vector<isobar::inference::NetChannel> outputs;          // a classifier's logits
};

namespace {

using isobar::ConfigError;
using isobar::inference::Forecaster;

std::string& last_error() {
  thread_local std::string text;
  return text;
}

int failed(int code, const char* text) noexcept {
  try {
    last_error() = text;
  } catch (...) {  // out of memory: only the code is left
    last_error().clear();
  }
  return code;
}

template <class Body>
int guarded(const Body& body) noexcept {
  try {
    body();
    return ISOBAR_OK;
  } catch (const ConfigError& e) {
    return failed(ISOBAR_BAD_INPUT, e.what());
  } catch (const isobar::inference::OutOfMemory& e) {
    return failed(ISOBAR_OUT_OF_MEMORY, e.what());
  } catch (const std::bad_alloc&) {
    return failed(ISOBAR_OUT_OF_MEMORY, "the host has no memory for this batch; use a smaller one");
  } catch (const std::exception& e) {
    return failed(ISOBAR_FAILED, e.what());
  } catch (...) {
    return failed(ISOBAR_FAILED, "an unknown failure");
  }
}

class Threads {  // sets threads for a call; restores the caller's threads and floating-point mode
 public:
  explicit Threads(int threads) : before_(omp_get_max_threads()) {
    std::fegetenv(&numerics_);
    isobar::flush_denormals();
    omp_set_num_threads(threads);
  }
  ~Threads() {
    omp_set_num_threads(before_);
    std::fesetenv(&numerics_);
  }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
  std::fenv_t numerics_;  // includes the flush-to-zero flags that the kernels set
};

void check_channels(const isobar_net& net, const std::string& file) {
  const auto& c = net.state.channels;
  if (!c.known())
    throw ConfigError(file, "channels",
                      "is missing: this checkpoint does not say how its net's channels are normalised",
                      "resume the run for a step with this Isobar");
  if (static_cast<int64_t>(c.inputs.size()) != net.whole->input().channels ||
      static_cast<int64_t>(c.targets.size()) !=
          (isobar::classifies(net.state.spec) ? 1 : net.whole->output().channels))
    throw ConfigError(file, "channels", "are not as many as the net's", "take another checkpoint");
}

std::unique_ptr<isobar_net> opened(const std::filesystem::path& path, const isobar_options& o) {
  if (o.threads < 0 || o.threads > 4096 || o.batch < 0 || o.batch > (1 << 20))
    throw ConfigError("isobar_open", o.threads < 0 || o.threads > 4096 ? "threads" : "batch",
                      "is out of range",
                      "use 1 to 4096 threads, 1 to 1048576 samples a batch, or 0 for the default");
  auto net = std::make_unique<isobar_net>();
  net->threads = o.threads > 0 ? o.threads : 1;
  const Threads threads(net->threads);
  const std::filesystem::path checkpoint = isobar::inference::find_checkpoint(path, "");
  net->state = isobar::inference::state_of(checkpoint);
  const std::string file = (checkpoint / "state.json").string();
  if (!net->state.checkable())
    throw ConfigError(file, "", "was written before checkpoints said what their net is",
                      "train it again, or resume it for a step");
  net->whole =
      std::make_unique<Forecaster>(checkpoint, net->state, o.batch > 0 ? o.batch : 256, net->threads);
  check_channels(*net, file);
  net->outputs = isobar::inference::outputs_of(net->state.channels, isobar::classes_of(net->state.spec));
  return net;
}

void run_batch(isobar_net& net, Forecaster& forecast, const float* in, float* out) {
  const auto shape = forecast.output();
  const int64_t points = shape.height * shape.width;
  forecast(
      [&](float* input, int64_t) {
        isobar::inference::normalise(net.state.channels.inputs, points, forecast.batch(), in, input);
      },
      out);
  isobar::inference::denormalise(net.outputs, points, forecast.batch(), out);
}

// Scales to physical units: std of the output over std of the input
void run_jacobian(isobar_net& net, const float* in, const std::vector<int64_t>& which, float* out) {
  const auto from = net.whole->input(), to = net.whole->output();
  const int64_t points = from.height * from.width, outputs = to.height * to.width;
  constexpr int64_t kRows = 32;  // most rows per pass
  if (!net.jacobian) {
    net.jacobian = std::make_unique<isobar::inference::Jacobian>(net.state.spec, std::min(to.size(), kRows),
                                                                 net.threads);
    net.jacobian->take_weights(*net.whole);
  }
  const auto& c = net.state.channels;
  std::vector<float> x(from.size());
  isobar::inference::normalise(c.inputs, points, 1, in, x.data());
  const std::vector<float> rows = net.jacobian->rows(x.data(), which);
  for (size_t r = 0; r < which.size(); ++r)
    for (int64_t i = 0; i < from.size(); ++i) {
      const auto at = static_cast<int64_t>(r) * from.size() + i;
      out[at] = rows[at] * (net.outputs[which[r] / outputs].std / c.inputs[i / points].std);
    }
}

isobar_shape shape_of(const Forecaster::Shape& s) {
  return {s.channels, s.height, s.width};
}

const std::string* at(const std::vector<isobar::inference::NetChannel>& channels, int64_t i,
                      std::string isobar::inference::NetChannel::*what) {
  return i >= 0 && i < static_cast<int64_t>(channels.size()) ? &(channels[i].*what) : nullptr;
}
const char* letters(const std::string* s) {
  return s ? s->c_str() : nullptr;
}

}  // namespace

int isobar_open(const char* checkpoint, const isobar_options* options, isobar_net** net) {
  return guarded([&] {
    if (!checkpoint || !net)
      throw ConfigError("isobar_open", checkpoint ? "net" : "checkpoint", "is NULL", "give an address");
    *net = opened(checkpoint, options ? *options : isobar_options{0, 0}).release();
  });
}

void isobar_close(isobar_net* net) {
  delete net;
}

isobar_shape isobar_input_shape(const isobar_net* net) {
  return shape_of(net->whole->input());
}
isobar_shape isobar_output_shape(const isobar_net* net) {
  return shape_of(net->whole->output());
}
const char* isobar_input_name(const isobar_net* net, int64_t i) {
  return letters(at(net->state.channels.inputs, i, &isobar::inference::NetChannel::name));
}
const char* isobar_input_units(const isobar_net* net, int64_t i) {
  return letters(at(net->state.channels.inputs, i, &isobar::inference::NetChannel::units));
}
const char* isobar_output_name(const isobar_net* net, int64_t i) {
  return letters(at(net->outputs, i, &isobar::inference::NetChannel::name));
}
const char* isobar_output_units(const isobar_net* net, int64_t i) {
  return letters(at(net->outputs, i, &isobar::inference::NetChannel::units));
}

int isobar_run(isobar_net* net, int64_t n, const float* in, float* out) {
  return guarded([&] {
    if (!net || n < 0 || (n > 0 && (!in || !out)))
      throw ConfigError("isobar_run",
                        !net    ? "net"
                        : n < 0 ? "n"
                        : !in   ? "in"
                                : "out",
                        n < 0 ? "is negative" : "is NULL", "give samples and where to put their forecasts");
    const Threads threads(net->threads);
    const int64_t batch = net->whole->batch();
    const int64_t inputs = net->whole->input().size(), outputs = net->whole->output().size();
    for (int64_t first = 0; first < n; first += batch) {
      const int64_t rows = std::min(batch, n - first);
      if (rows < batch && (!net->rest || net->rest->batch() != rows))
        net->rest = std::make_unique<Forecaster>(*net->whole, rows, net->threads);
      run_batch(*net, rows < batch ? *net->rest : *net->whole, in + first * inputs, out + first * outputs);
    }
  });
}

int isobar_jacobian(isobar_net* net, const float* in, int64_t rows, const int64_t* which, float* jacobian) {
  return guarded([&] {
    const bool null = !net || rows < 0 || (rows > 0 && (!in || !which || !jacobian));
    if (null)
      throw ConfigError("isobar_jacobian", rows < 0 ? "rows" : "net, in, which, jacobian",
                        rows < 0 ? "is negative" : "must not be NULL", "give a sample and where to put rows");
    const int64_t outputs = net->whole->output().size();
    for (int64_t r = 0; r < rows; ++r)
      if (which[r] < 0 || which[r] >= outputs)
        throw ConfigError("isobar_jacobian", "which", "names output " + std::to_string(which[r]),
                          "count from 0 to " + std::to_string(outputs - 1));
    if (rows == 0) return;
    const Threads threads(net->threads);
    run_jacobian(*net, in, std::vector<int64_t>(which, which + rows), jacobian);
  });
}

const char* isobar_last_error(void) {
  return last_error().c_str();
}

const char* isobar_version(void) {
  return ISOBAR_VERSION;
}
