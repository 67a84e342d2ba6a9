// The C functions of isobar.h over a Forecaster. Nothing but a code leaves here: every failure is caught.
#include "model/inference/library/isobar.h"

#include <omp.h>

#include <algorithm>
#include <cfenv>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "model/base/denormals.h"
#include "model/base/error.h"
#include "model/inference/checkpoint.h"
#include "model/inference/forecaster.h"

struct isobar_net {
  isobar::CheckpointState state;
  int threads;
  std::unique_ptr<isobar::Forecaster> whole, rest;  // rest: of the last size that was no whole batch
  std::vector<float> input;                         // normalised
};

namespace {

using isobar::ConfigError;
using isobar::Forecaster;

std::string& last_error() {
  thread_local std::string text;
  return text;
}

int failed(int code, const char* text) noexcept {
  try {
    last_error() = text;
  } catch (...) {  // no memory for it: the code says enough
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
  } catch (const isobar::OutOfMemory& e) {
    return failed(ISOBAR_OUT_OF_MEMORY, e.what());
  } catch (const std::bad_alloc&) {
    return failed(ISOBAR_OUT_OF_MEMORY, "the host has no memory for this batch; use a smaller one");
  } catch (const std::exception& e) {
    return failed(ISOBAR_FAILED, e.what());
  } catch (...) {
    return failed(ISOBAR_FAILED, "an unknown failure");
  }
}

class Threads {  // for this call; the caller keeps its number of threads and what it does with denormals
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
  std::fenv_t numerics_;  // with the flags that flush denormals, which the kernels set
};

void check_channels(const isobar_net& net, const std::string& file) {
  const auto& c = net.state.channels;
  if (!c.known())
    throw ConfigError(file, "channels",
                      "is missing: this checkpoint does not say how its net's channels are normalised",
                      "resume the run for a step with this Isobar");
  if (static_cast<int64_t>(c.inputs.size()) != net.whole->input().channels ||
      static_cast<int64_t>(c.targets.size()) != net.whole->output().channels)
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
  const std::filesystem::path checkpoint = isobar::find_checkpoint(path, "");
  net->state = isobar::read_state(checkpoint);
  const std::string file = (checkpoint / "state.json").string();
  if (!net->state.checkable())
    throw ConfigError(file, "", "was written before checkpoints said what their net is",
                      "train it again, or resume it for a step");
  net->whole =
      std::make_unique<Forecaster>(checkpoint, net->state, o.batch > 0 ? o.batch : 256, net->threads);
  check_channels(*net, file);
  net->input.resize(net->whole->batch() * net->whole->input().size());
  return net;
}

void run_batch(isobar_net& net, Forecaster& forecast, const float* in, float* out) {
  const auto shape = forecast.output();
  const int64_t points = shape.height * shape.width;
  isobar::normalise(net.state.channels.inputs, points, forecast.batch(), in, net.input.data());
  forecast(net.input.data(), out);
  isobar::denormalise(net.state.channels.targets, points, forecast.batch(), out);
}

isobar_shape shape_of(const Forecaster::Shape& s) {
  return {s.channels, s.height, s.width};
}

const std::string* at(const std::vector<isobar::NetChannel>& channels, int64_t i,
                      std::string isobar::NetChannel::*what) {
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
  return letters(at(net->state.channels.inputs, i, &isobar::NetChannel::name));
}
const char* isobar_input_units(const isobar_net* net, int64_t i) {
  return letters(at(net->state.channels.inputs, i, &isobar::NetChannel::units));
}
const char* isobar_output_name(const isobar_net* net, int64_t i) {
  return letters(at(net->state.channels.targets, i, &isobar::NetChannel::name));
}
const char* isobar_output_units(const isobar_net* net, int64_t i) {
  return letters(at(net->state.channels.targets, i, &isobar::NetChannel::units));
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

const char* isobar_last_error(void) {
  return last_error().c_str();
}

const char* isobar_version(void) {
  return ISOBAR_VERSION;
}
