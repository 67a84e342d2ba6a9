#include "model/nets/layout/net_streams.h"

#include "model/nets/layout/chunk.h"

namespace isobar::nets {

std::vector<NetStream> net_streams(RunSpec spec) {
  spec.layout.pp = spec.layout.vpp = 1;
  plan::Builder builder(0, static_cast<int>(spec.layout.world()), {});
  Emission emission(builder, spec);
  const Sharding at(builder, spec, 0, spec.net.tokens());
  const std::unique_ptr<Net> net = make_net(emission, at);
  const std::vector<int> same = shared_gradients(*net);
  std::vector<NetStream> out;
  for (size_t i = 0; i < net->streams().size(); ++i) {
    const plan::Stream& s = net->streams()[i];
    out.push_back({s.from, s.to, same[i], static_cast<double>(s.bytes())});
  }
  return out;
}

}  // namespace isobar::nets
