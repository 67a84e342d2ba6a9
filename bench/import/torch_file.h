// A checkpoint of PyTorch (torch.save: a zip archive of a pickle and storages), read without executing the
// pickle (torch_pickle.h). Takes the tensors under "state_dict" or "model" if there is one of these. Values
// become f32; each tensor reads only its span of a storage, after the archive's checksum of that was
// verified.
//
//   const auto in = open_torch_file("aurora-0.25-small-pretrained.ckpt");
//   in->shapes();  in->read("net.weight", values);
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "model/inference/weights/named_weights.h"

namespace isobar::foreign {

/// `left_out` gets the names of all that a training keeps beside its weights. Throws ConfigError.
std::unique_ptr<inference::NamedWeights> open_torch_file(const std::filesystem::path& file,
                                                         std::vector<std::string>* left_out = nullptr);

}  // namespace isobar::foreign
