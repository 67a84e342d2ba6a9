// The kinds of nets, each in files of its own: net.h and parts.h are answered by these.
#pragma once
#include <memory>
#include <vector>

#include "model/nets/layout/legal_layout.h"
#include "model/nets/net.h"
#include "model/nets/published/published.h"

namespace isobar::nets {

std::unique_ptr<Net> make_net(const VitSpec& n, Emission& e, const Sharding& at);
std::unique_ptr<Net> make_net(const UnetSpec& n, Emission& e, const Sharding& at);
std::unique_ptr<Net> make_net(const SwinSpec& n, Emission& e, const Sharding& at);
std::unique_ptr<Net> make_net(const AuroraSpec& n, Emission& e, const Sharding& at);
std::unique_ptr<Net> make_net(const GraphcastSpec& n, Emission& e, const Sharding& at);
std::unique_ptr<Net> make_net(const RegionalGnnSpec& n, Emission& e, const Sharding& at);
std::unique_ptr<Net> make_net(const MlpSpec& n, Emission& e, const Sharding& at);
std::unique_ptr<Net> make_net(const GptSpec& n, Emission& e, const Sharding& at);
std::unique_ptr<Net> make_net(const LlamaSpec& n, Emission& e, const Sharding& at);
std::unique_ptr<Net> make_net(const TracedSpec& n, Emission& e, const Sharding& at);

std::vector<plan::Part> parts_of(const VitSpec& n);
std::vector<plan::Part> parts_of(const UnetSpec& n);
std::vector<plan::Part> parts_of(const SwinSpec& n);
std::vector<plan::Part> parts_of(const AuroraSpec& n);
std::vector<plan::Part> parts_of(const GraphcastSpec& n);
std::vector<plan::Part> parts_of(const RegionalGnnSpec& n);
std::vector<plan::Part> parts_of(const MlpSpec& n);
std::vector<plan::Part> parts_of(const WordsSpec& n);
std::vector<plan::Part> parts_of(const LlamaSpec& n);
std::vector<plan::Part> parts_of(const TracedSpec& n);

NetLimits limits_of(const VitSpec& n);
NetLimits limits_of(const UnetSpec& n);
NetLimits limits_of(const SwinSpec& n);
NetLimits limits_of(const AuroraSpec& n);
NetLimits limits_of(const GraphcastSpec& n);
NetLimits limits_of(const RegionalGnnSpec& n);
NetLimits limits_of(const MlpSpec& n);
NetLimits limits_of(const WordsSpec& n);
NetLimits limits_of(const LlamaSpec& n);
NetLimits limits_of(const TracedSpec& n);

LlamaSpec distinct_parts(LlamaSpec n);
GraphcastSpec distinct_parts(GraphcastSpec n);
RegionalGnnSpec distinct_parts(RegionalGnnSpec n);
MlpSpec distinct_parts(MlpSpec n);
TracedSpec distinct_parts(TracedSpec n);

PublishedForm published_form(const AuroraSpec& n, const std::vector<plan::Tensor>& own);
PublishedForm published_form(const GptSpec& n, const std::vector<plan::Tensor>& own);
PublishedForm published_form(const LlamaSpec& n, const std::vector<plan::Tensor>& own);

}  // namespace isobar::nets
