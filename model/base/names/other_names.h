// Names of keys and options in other training software, and what they are here: Lightning, Hugging Face,
// Megatron, torchtitan, DeepSpeed, accelerate, NERSC's tutorial.
//
//   named_elsewhere("per-device-train-batch-size", "8")->gives    // {"policy.micro_batch=8",
//   "@rank_batch=8"} named_elsewhere("precision", "16-mixed")->gives               // {"policy.amp=fp16"}
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace isobar {

struct NamedElsewhere {
  // Each is a key ("policy.amp=fp16"), an option of `isobar train` ("--ranks=2"), or a quantity that gives
  // keys only with others ("@devices=4"). "@file=NAME": a configuration.
  std::vector<std::string> gives;
  std::string note;      // what differs, or why nothing is to be set; ""
  bool refused = false;  // there is no equivalent
};

/// `name` with or without dashes and sections before it ("--micro-batch-size", "training.lr"); `value` "" for
/// a flag. Unset for a name that no row has.
std::optional<NamedElsewhere> named_elsewhere(const std::string& name, const std::string& value);

/// True if the name is an option that other software gives no value.
bool flag_elsewhere(const std::string& name);

/// The fix of an error about the key `name` with this value: "here it is policy.amp: fp16", or with `=` for
/// an assignment; "" for an unknown name.
std::string mend_of_other_name(const std::string& name, const std::string& value, bool assignment);

/// One meaning of a value of these names. A row of others without a value ("") takes any.
struct OtherName {
  const char* names;   // "lr learning_rate"
  const char* values;  // "16 16-mixed fp16"; (flag): true, or without one; "": any; "*.yaml": by its end
  const char*
      gives;  // "train.lr=*": * is the value, 1-* what it lacks of 1, *1 and *2 its elements; "-": refused
  const char* note = "";
};
const std::vector<OtherName>& other_names();

}  // namespace isobar
