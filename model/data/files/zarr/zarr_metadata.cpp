#include "model/data/files/zarr/zarr_metadata.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>

#include "model/base/dtype.h"
#include "model/base/text/json.h"

namespace isobar::data {

namespace {

using nlohmann::json;

constexpr const char* kMetadataMend = "the store is damaged, or none that Zarr wrote: copy it again";
constexpr size_t kMostMetadata = 16 << 20;  // bytes of JSON

/// Quotes numbers that Python's json writes and JSON does not have, as Zarr 3 writes them in fill_value.
std::string with_quotes(std::string_view text) {
  std::string out;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') quoted = !quoted;
    if (quoted && text[i] == '\\' && i + 1 < text.size()) out += text[i++];
    const std::string_view rest = text.substr(i);
    for (const std::string_view word : {"NaN", "Infinity", "-Infinity"})
      if (!quoted && rest.starts_with(word)) {
        out.append("\"").append(word).append("\"");
        i += word.size();
        break;
      }
    if (i < text.size()) out += text[i];
  }
  return out;
}

json json_at(const ZarrStore& store, const std::string& key) {
  std::vector<std::byte> bytes;
  if (!store.read(key, {}, bytes)) return nullptr;
  if (bytes.size() > kMostMetadata)
    throw ArrayError("'" + key + "' has " + std::to_string(bytes.size()) + " bytes, too many for metadata",
                     kMetadataMend);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (const std::string excess = json_excess(text); !excess.empty())
    throw ArrayError("'" + key + "' " + excess, kMetadataMend);
  json j = parse_json(with_quotes(text));
  if (!j.is_object()) throw ArrayError("'" + key + "' is no JSON object", kMetadataMend);
  return j;
}

/// Parses Zarr 2's dtype: "<f4", "|u1", "<M8[ns]"
void set_dtype(ZarrMetadata& m, const json& dtype) {
  m.type = dtype.is_string() ? dtype.get<std::string>() : "records";
  if (!dtype.is_string()) return;
  const auto text = dtype.get<std::string>();
  if (text.size() > 5 && text.compare(1, 3, "M8[") == 0 && text.back() == ']') {
    m.datetime = text.substr(4, text.size() - 5), m.element = Element::i64;
    m.swap = text[0] == '>';
    return;
  }
  const std::map<std::string, Element> known = {
      {"i1", Element::i8},  {"u1", Element::u8},  {"b1", Element::u8},  {"i2", Element::i16},
      {"u2", Element::u16}, {"i4", Element::i32}, {"u4", Element::u32}, {"i8", Element::i64},
      {"u8", Element::u64}, {"f2", Element::f16}, {"f4", Element::f32}, {"f8", Element::f64}};
  const auto found = text.size() == 3 ? known.find(text.substr(1)) : known.end();
  if (found == known.end()) return;
  m.element = found->second;
  m.swap = text[0] == '>';
}

void set_data_type(ZarrMetadata& m, const json& type) {
  m.type = type.is_string() ? type.get<std::string>() : type.value("name", std::string("records"));
  const json of = type.is_object() ? type.value("configuration", json::object()) : json::object();
  if (m.type == "numpy.datetime64") {
    m.datetime = std::to_string(of.value("scale_factor", int64_t{1})) + of.value("unit", std::string());
    m.element = Element::i64;
    return;
  }
  const std::map<std::string, Element> known = {
      {"int8", Element::i8},     {"uint8", Element::u8},    {"bool", Element::u8},
      {"int16", Element::i16},   {"uint16", Element::u16},  {"int32", Element::i32},
      {"uint32", Element::u32},  {"int64", Element::i64},   {"uint64", Element::u64},
      {"float16", Element::f16}, {"float32", Element::f32}, {"float64", Element::f64}};
  const auto found = of.empty() ? known.find(m.type) : known.end();
  if (found != known.end()) m.element = found->second;
}

void set_fill(ZarrMetadata& m, const json& fill) {
  std::optional<double> x = zarr_number(fill);
  if (!m.datetime.empty() && !x) x = static_cast<double>(std::numeric_limits<int64_t>::min());  // NaT
  m.fill = x.value_or(0);
  m.fill_is_missing = m.version == 2 && m.datetime.empty() && x && !std::isnan(*x);
}

/// Checks the properties of an array that its readers rely on.
void check(ZarrMetadata& m) {
  if (!m.unread.empty() || !m.element) return;
  const size_t rank = m.dims.size();
  const auto positive = [](const Index& v) {
    return std::all_of(v.begin(), v.end(), [](int64_t n) { return n > 0; });
  };
  Index sorted = m.order;
  std::sort(sorted.begin(), sorted.end());
  for (size_t k = 0; k < sorted.size(); ++k)
    if (sorted.size() != rank || sorted[k] != static_cast<int64_t>(k))
      m.unread = "has an impossible order of axes";
  if (m.chunk.size() != rank || !positive(m.chunk)) m.unread = "is cut into impossible chunks";
  if (!m.shard.empty() && (m.shard.size() != rank || !positive(m.shard)))
    m.unread = "is cut into impossible shards";
  for (size_t k = 0; k < rank && m.unread.empty() && !m.shard.empty(); ++k)
    if (m.shard[k] % m.chunk[k] != 0) m.unread = "has shards that are no whole number of chunks";
  if (m.separator != "." && m.separator != "/")  // a path of its own would lead out of the store
    m.unread = "has an impossible separator of chunks' names";
  if (!m.dimension_names.empty() && m.dimension_names.size() != rank)
    m.unread = "names " + std::to_string(m.dimension_names.size()) + " dimensions of " + std::to_string(rank);
}

void require_format(const json& metadata, int64_t version, const std::string& key) {
  if (const json said = metadata.value("zarr_format", json(version)); said != json(version))
    throw ArrayError("'" + key + "' is of zarr_format " + said.dump() + ", and " + std::to_string(version) +
                         " is read there",
                     "write it anew as Zarr 2 or 3");
}

ZarrMetadata version_2(const std::string& name, const json& array, const json& attributes) {
  ZarrMetadata m{.name = name, .version = 2};
  require_format(array, 2, name + "/.zarray");
  m.attributes = attributes.is_object() ? attributes : json::object();
  m.dims = array.at("shape").get<Index>();
  m.chunk = array.at("chunks").get<Index>();
  set_dtype(m, array.at("dtype"));
  set_fill(m, array.value("fill_value", json()));
  const json order = array.value("order", json("C"));
  if (order != "C" && order != "F") m.unread = "has an order of " + order.dump() + ", neither C nor F";
  if (order == "F")
    for (size_t k = m.dims.size(); k-- > 0;) m.order.push_back(static_cast<int64_t>(k));
  m.separator = array.value("dimension_separator", std::string("."));
  if (m.attributes.contains("_ARRAY_DIMENSIONS"))
    m.dimension_names = m.attributes.at("_ARRAY_DIMENSIONS").get<std::vector<std::string>>();
  try {
    m.codecs = zarr2_codecs(array.value("compressor", json()), array.value("filters", json()));
  } catch (const ArrayError& e) {
    m.unread = e.what();
  }
  return m;
}

void set_codecs(ZarrMetadata& m, const json& list) {
  const bool sharded = list.is_array() && list.size() == 1 && list[0].is_object() &&
                       list[0].value("name", std::string()) == "sharding_indexed";
  if (!sharded) {
    m.codecs = zarr3_codecs(list);
    return;
  }
  const json& c = list[0].at("configuration");
  m.shard = m.chunk;
  m.chunk = c.at("chunk_shape").get<Index>();
  m.codecs = zarr3_codecs(c.at("codecs"));
  m.index_codecs = zarr3_codecs(c.at("index_codecs"));
  m.index_first = c.value("index_location", std::string("end")) == "start";
  for (const ZarrCodec& codec : m.index_codecs.chain)
    if (codec.kind != ZarrCodec::Kind::checksum) m.unread = "has a compressed index of shards";
}

using MetadataKeys = std::vector<std::string_view>;
const MetadataKeys kGroupKeys = {"zarr_format", "node_type", "attributes", "consolidated_metadata"};
const MetadataKeys kArrayKeys = {
    "zarr_format", "node_type",  "attributes",         "shape",           "data_type",           "chunk_grid",
    "codecs",      "fill_value", "chunk_key_encoding", "dimension_names", "storage_transformers"};

/// The first key that is not known and must be understood, as Zarr 3 has it of keys that do not say otherwise
std::string extension_in(const json& metadata, const MetadataKeys& known) {
  for (const auto& [key, value] : metadata.items())
    if (std::find(known.begin(), known.end(), key) == known.end() &&
        !(value.is_object() && value.value("must_understand", json(true)) == json(false)))
      return key;
  return "";
}

ZarrMetadata version_3(const std::string& name, const json& array) {
  ZarrMetadata m{.name = name, .version = 3};
  require_format(array, 3, name + "/zarr.json");
  m.attributes = array.value("attributes", json::object());
  if (!m.attributes.is_object()) m.attributes = json::object();
  m.dims = array.at("shape").get<Index>();
  set_data_type(m, array.at("data_type"));
  set_fill(m, array.value("fill_value", json()));
  json encoding = array.value("chunk_key_encoding", json{{"name", "default"}});
  if (encoding.is_string()) encoding = {{"name", encoding}};
  const std::string encoded = encoding.value("name", std::string("default"));
  const bool as_v2 = encoded == "v2";
  m.prefix = as_v2 ? "" : "c";
  m.separator =
      encoding.value("configuration", json::object()).value("separator", std::string(as_v2 ? "." : "/"));
  const json names = array.value("dimension_names", json());
  if (names.is_array())
    for (const json& n : names) m.dimension_names.push_back(n.is_string() ? n.get<std::string>() : "");
  const json& grid = array.at("chunk_grid");
  const bool regular = grid.value("name", std::string()) == "regular";
  try {
    if (regular) m.chunk = grid.at("configuration").at("chunk_shape").get<Index>();
    set_codecs(m, array.at("codecs"));
  } catch (const ArrayError& e) {
    m.unread = e.what();
  }
  if (!regular) m.unread = "has chunks of unequal shape";
  if (!as_v2 && encoded != "default")
    m.unread = "names its chunks by '" + encoded + "' (chunk_key_encoding), which is not read";
  if (const std::string key = extension_in(array, kArrayKeys); !key.empty())
    m.unread = "has the extension '" + key + "', which is not read";
  if (const json change = array.value("storage_transformers", json()); change.is_array() && !change.empty())
    m.unread = "is stored with " + change.dump() + " (storage_transformers), which is not read";
  m.swap = m.codecs.big_endian;
  m.order = m.codecs.transpose;
  return m;
}

/// True for a name directly below the root that is not a metadata file
bool is_name(const std::string& name) {
  return !name.empty() && name[0] != '.' && name.find('/') == std::string::npos && name != "zarr.json";
}

std::vector<ZarrMetadata> arrays_2(const ZarrStore& store) {
  std::vector<ZarrMetadata> out;
  const json all = json_at(store, ".zmetadata");
  if (all.is_object() && all.contains("metadata")) {
    const json& of = all.at("metadata");
    for (const auto& [key, value] : of.items()) {
      constexpr std::string_view kEnd = "/.zarray";
      if (!key.ends_with(kEnd)) continue;
      const std::string name = key.substr(0, key.size() - kEnd.size());
      if (is_name(name)) out.push_back(version_2(name, value, of.value(name + "/.zattrs", json())));
    }
    return out;
  }
  for (const std::string& name : store.children()) {
    if (!is_name(name)) continue;
    const json array = json_at(store, name + "/.zarray");
    if (array.is_object()) out.push_back(version_2(name, array, json_at(store, name + "/.zattrs")));
  }
  return out;
}

std::vector<ZarrMetadata> arrays_3(const ZarrStore& store, const json& group) {
  if (group.value("node_type", std::string("group")) != "group")
    throw ArrayError("is a Zarr array, no group of them", "name the directory that holds the group");
  require_format(group, 3, "zarr.json");
  if (const std::string key = extension_in(group, kGroupKeys); !key.empty())
    throw ArrayError("has the extension '" + key + "' in zarr.json, which is not read",
                     "write it anew without it (xarray's to_zarr)");
  std::vector<ZarrMetadata> out;
  const auto take = [&](const std::string& name, const json& j) {
    if (is_name(name) && j.is_object() && j.value("node_type", std::string()) == "array")
      out.push_back(version_3(name, j));
  };
  const json all = group.value("consolidated_metadata", json());
  if (all.is_object()) {
    for (const auto& [name, j] : all.at("metadata").items()) take(name, j);
    return out;
  }
  for (const std::string& name : store.children())
    if (is_name(name)) take(name, json_at(store, name + "/zarr.json"));
  return out;
}

/// Adds a key such as "forecast/t" as array "t" of group "forecast".
void note_member(std::vector<CfGroup>& groups, const std::string& key) {
  const size_t slash = key.rfind('/');
  if (slash == std::string::npos || slash + 1 == key.size()) return;
  const std::string group = key.substr(0, slash), name = key.substr(slash + 1);
  auto at = std::find_if(groups.begin(), groups.end(), [&](const CfGroup& g) { return g.name == group; });
  if (at == groups.end()) at = groups.insert(groups.end(), {group, {}});
  at->variables.push_back(name);
}

/// Groups of all levels, from consolidated metadata
std::vector<CfGroup> listed_groups(const json& metadata, bool version_3) {
  constexpr std::string_view kEnd = "/.zarray";
  std::vector<CfGroup> out;
  for (const auto& [key, value] : metadata.items()) {
    if (version_3 && value.is_object() && value.value("node_type", std::string()) == "array")
      note_member(out, key);
    if (!version_3 && key.ends_with(kEnd)) note_member(out, key.substr(0, key.size() - kEnd.size()));
  }
  return out;
}

/// Groups of a store without consolidated metadata, from the metadata of each
std::vector<CfGroup> walked_groups(const ZarrStore& store, const std::vector<ZarrMetadata>& known,
                                   bool version_3) {
  std::vector<CfGroup> out;
  for (const std::string& name : store.children()) {
    const bool is_array =
        std::any_of(known.begin(), known.end(), [&](const ZarrMetadata& m) { return m.name == name; });
    if (!is_name(name) || is_array) continue;
    const json about = json_at(store, name + (version_3 ? "/zarr.json" : "/.zgroup"));
    if (!about.is_object() || (version_3 && about.value("node_type", std::string()) != "group")) continue;
    CfGroup group{.name = name};
    for (const std::string& below : store.children(name)) {
      if (!is_name(below)) continue;
      const json array = json_at(store, name + "/" + below + (version_3 ? "/zarr.json" : "/.zarray"));
      if (array.is_object() && array.value("node_type", std::string("array")) == "array")
        group.variables.push_back(below);
    }
    out.push_back(std::move(group));
  }
  return out;
}

[[noreturn]] void none_of_zarrs(const json::exception& e) {
  throw ArrayError(std::string("has metadata that are none of Zarr's: ") + e.what(), kMetadataMend);
}

}  // namespace

std::vector<CfGroup> zarr_groups(const ZarrStore& store, const std::vector<ZarrMetadata>& known) {
  try {
    const json root = json_at(store, "zarr.json");
    const bool version_3 = root.is_object();
    const json all = version_3 ? root.value("consolidated_metadata", json()) : json_at(store, ".zmetadata");
    if (all.is_object() && all.contains("metadata")) return listed_groups(all.at("metadata"), version_3);
    return walked_groups(store, known, version_3);
  } catch (const json::exception& e) {
    none_of_zarrs(e);
  }
}

std::optional<double> zarr_number(const json& value) {
  if (value.is_number()) return value.get<double>();
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  if (!value.is_string()) return std::nullopt;
  const auto word = value.get<std::string>();
  constexpr double inf = std::numeric_limits<double>::infinity();
  if (word == "NaN" || word == "nan") return std::nan("");
  if (word == "Infinity") return inf;
  if (word == "-Infinity") return -inf;
  if (!word.starts_with("0x")) return std::nullopt;  // Zarr 3's hexadecimal bits; their number gives the type
  const uint64_t bits = std::strtoull(word.c_str(), nullptr, 16);
  if (word.size() <= 6) return static_cast<double>(to_float(f16{static_cast<uint16_t>(bits)}));
  return word.size() > 10 ? std::bit_cast<double>(bits)
                          : static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits)));
}

std::vector<ZarrMetadata> zarr_arrays(const ZarrStore& store) {
  try {
    const json group = json_at(store, "zarr.json");
    std::vector<ZarrMetadata> arrays = group.is_object() ? arrays_3(store, group) : arrays_2(store);
    for (ZarrMetadata& m : arrays) check(m);
    return arrays;
  } catch (const json::exception& e) {
    none_of_zarrs(e);
  }
}

}  // namespace isobar::data
