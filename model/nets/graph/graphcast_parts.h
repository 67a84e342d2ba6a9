// The parts of a graphcast net between its ends (graphcast.h): messages from grid to mesh, on the mesh, and
// back.
#pragma once
#include <memory>
#include <string>

#include "model/nets/graph/message_passing.h"
#include "model/nets/net.h"

namespace isobar::nets {

/// Constructor arguments shared by all of them.
struct GlobeNet {
  Emission& e;
  const Sharding& at;
  int64_t latent;
  MlpShape shape;
  int64_t grid, mesh;                // nodes of one sample
  EdgeConstants &up, &level, &down;  // from grid to mesh, on the mesh, from mesh to grid
};

/// grid, mesh -> grid, mesh, edges
std::unique_ptr<NetPart> globe_encode(int index, const GlobeNet& net);
/// mesh, edges -> mesh, edges; the last step: mesh only
std::unique_ptr<NetPart> globe_step(int index, const std::string& path, const std::string& name,
                                    const GlobeNet& net, bool last);
/// grid, mesh -> grid
std::unique_ptr<NetPart> globe_decode(int index, const GlobeNet& net);

}  // namespace isobar::nets
