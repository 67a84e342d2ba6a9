#include "model/data/files/netcdf/hdf5_array.h"

#include <hdf5.h>

#include <algorithm>
#include <cstring>

#include "model/base/error.h"
#include "model/data/files/netcdf/hdf5_handle.h"
#include "model/data/files/netcdf/hdf5_sources.h"

namespace isobar::data {

namespace {

struct Type {
  hid_t little, big;
  Element element;
};

/// IEEE half precision, for which HDF5 1.10 has no predefined type
hid_t half_type(hid_t of) {
  const hid_t type = H5Tcopy(of);
  H5Tset_fields(type, 15, 10, 5, 0, 10);
  H5Tset_size(type, 2);
  H5Tset_ebias(type, 15);
  return type;
}

/// Finds the element type; false for other number formats, such as odd bit widths.
bool known_type(hid_t type, Element& element, bool& swap) {
  const Handle little(half_type(H5T_IEEE_F32LE), H5Tclose), big(half_type(H5T_IEEE_F32BE), H5Tclose);
  const Type types[] = {{little.id, big.id, Element::f16},
                        {H5T_IEEE_F32LE, H5T_IEEE_F32BE, Element::f32},
                        {H5T_IEEE_F64LE, H5T_IEEE_F64BE, Element::f64},
                        {H5T_STD_I8LE, H5T_STD_I8BE, Element::i8},
                        {H5T_STD_U8LE, H5T_STD_U8BE, Element::u8},
                        {H5T_STD_I16LE, H5T_STD_I16BE, Element::i16},
                        {H5T_STD_U16LE, H5T_STD_U16BE, Element::u16},
                        {H5T_STD_I32LE, H5T_STD_I32BE, Element::i32},
                        {H5T_STD_U32LE, H5T_STD_U32BE, Element::u32},
                        {H5T_STD_I64LE, H5T_STD_I64BE, Element::i64},
                        {H5T_STD_U64LE, H5T_STD_U64BE, Element::u64}};
  for (const Type& t : types) {
    if (H5Tequal(type, t.little) <= 0 && H5Tequal(type, t.big) <= 0) continue;
    element = t.element;
    swap = size_of(t.element) > 1 && H5Tequal(type, t.big) > 0;
    return true;
  }
  return false;
}

hid_t native_type(Element e) {
  switch (e) {
    case Element::i8:
      return H5T_NATIVE_INT8;
    case Element::u8:
      return H5T_NATIVE_UINT8;
    case Element::i16:
      return H5T_NATIVE_INT16;
    case Element::u16:
      return H5T_NATIVE_UINT16;
    case Element::i32:
      return H5T_NATIVE_INT32;
    case Element::u32:
      return H5T_NATIVE_UINT32;
    case Element::i64:
      return H5T_NATIVE_INT64;
    case Element::u64:
      return H5T_NATIVE_UINT64;
    case Element::f32:
      return H5T_NATIVE_FLOAT;
    case Element::f64:
    case Element::f16:
      return H5T_NATIVE_DOUBLE;
  }
  return H5T_NATIVE_DOUBLE;
}

}  // namespace

Hdf5Array::Hdf5Array(const std::string& file, const std::string& name, std::shared_ptr<ChunkCache> cache)
    : file_(file), name_(name), cache_(std::move(cache)), input_(file) {
  const LibraryLock lock(file_);
  const Opened opened(file_, name_);
  require_own_bytes(opened.set.id, file_, name_);  // before H5Dget_space, which looks into what is mapped
  read_layout(opened.file.id, opened.set.id);
  if (!locked_because_.empty() && element_ == Element::f16)
    element_ = Element::f64;  // the type that H5Dread converts to
  if (offset_ < 0) return;
  const int64_t bytes = declared_product(dims_) * size_of(element_);
  if (offset_ <= input_.size() && bytes <= input_.size() - offset_) return;
  throw ArrayError("is truncated: '" + name_ + "' should end at byte " + std::to_string(offset_ + bytes),
                   "copy or download it again");
}

void Hdf5Array::read_layout(int64_t file, int64_t set) {
  Handle space(H5Dget_space(set), H5Sclose), type(H5Dget_type(set), H5Tclose);
  Handle dcpl(H5Dget_create_plist(set), H5Pclose), fcpl(H5Fget_create_plist(file), H5Pclose);
  if (space.id < 0 || type.id < 0 || dcpl.id < 0 || fcpl.id < 0) throw ArrayError(hdf5_message(), "");
  const int rank = H5Sget_simple_extent_ndims(space.id);
  std::vector<hsize_t> dims(std::max(rank, 0));
  if (rank > 0) H5Sget_simple_extent_dims(space.id, dims.data(), nullptr);
  dims_.assign(dims.begin(), dims.end());
  declared_product(dims_);

  const H5T_class_t kind = H5Tget_class(type.id);
  if (kind != H5T_FLOAT && kind != H5T_INTEGER)
    throw ArrayError("'" + name_ + "' does not hold plain numbers", "store it as 32-bit floats");
  if (!known_type(type.id, element_, swap_)) {
    element_ = Element::f64;
    locked_because_ = "number format";
  }

  read_fill(set, type.id, dcpl.id);
  hsize_t user_block = 0;
  H5Pget_userblock(fcpl.id, &user_block);
  switch (H5Pget_layout(dcpl.id)) {
    case H5D_CONTIGUOUS: {
      const haddr_t at = H5Dget_offset(set);
      if (at == HADDR_UNDEF && product(dims_) > 0) {
        require_fill("'" + name_ + "'");
        locked_because_ = "never written";
      }
      offset_ = locked_because_.empty() ? static_cast<int64_t>(at) : -1;
      break;
    }
    case H5D_CHUNKED: {
      std::vector<hsize_t> chunk(rank);
      H5Pget_chunk(dcpl.id, rank, chunk.data());
      chunk_.assign(chunk.begin(), chunk.end());
      for (int k = 0; k < rank; ++k) {
        if (chunk_[k] < 1) throw ArrayError("'" + name_ + "' is cut into chunks of no extent", kDamagedFile);
        grid_.push_back(dims_[k] / chunk_[k] + (dims_[k] % chunk_[k] != 0));
      }
      read_filters(set, dcpl.id);
      if (can_decode(filters_)) {
        const int64_t held = input_.size(), size = size_of(element_);
        if (fill_.empty()) require_held(name_, declared_product(dims_) * size, held, !filters_.empty());
        require_held("a chunk of " + name_, declared_product(chunk_) * size, held, !filters_.empty());
      }
      unsigned options = 0;
      H5Pget_chunk_opts(dcpl.id, &options);
      if (!can_decode(filters_)) {
        locked_because_ = "filter";
      } else if (options & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS) {
        locked_because_ = "unfiltered edge chunks";
      } else if (user_block) {
        locked_because_ = "user block";  // HDF5 1.10's chunk addresses ignore it
      }
      hsize_t written = 0;  // H5Dread returns the fill value for the others
      if (!locked_because_.empty() && H5Dget_num_chunks(set, space.id, &written) >= 0 &&
          static_cast<int64_t>(written) < product(grid_))
        require_fill("a chunk of '" + name_ + "'");
      break;
    }
    default:
      locked_because_ = "storage layout";
      require_all_of_compact(set, dcpl.id, static_cast<int64_t>(H5Tget_size(type.id)));
  }
}

// HDF5 1.10 copies as many bytes as the dataspace declares from a compact dataset, even beyond its end.
void Hdf5Array::require_all_of_compact(int64_t set, int64_t dcpl, int64_t element_bytes) const {
  if (H5Pget_layout(dcpl) != H5D_COMPACT) return;
  const auto held = static_cast<int64_t>(H5Dget_storage_size(set));
  if (declared_product(dims_) > held / std::max<int64_t>(element_bytes, 1))
    throw ArrayError("'" + name_ + "' declares " + std::to_string(declared_product(dims_)) + " numbers of " +
                         std::to_string(element_bytes) + " bytes and holds " + std::to_string(held) +
                         " bytes",
                     kDamagedFile);
}

namespace {

/// Filter numbers are those registered with The HDF Group
Filter filter_of(H5Z_filter_t id, const std::string& name) {
  switch (id) {
    case H5Z_FILTER_FLETCHER32:
      return {Filter::Kind::fletcher32, "fletcher32", 0};
    case 32000:
      return {Filter::Kind::lzf, "lzf", 0};
    case 32001:
      return {Filter::Kind::blosc, "blosc", 0};
    case 32004:
      return {Filter::Kind::lz4, "lz4", 0};
    case 32015:
      return {Filter::Kind::zstd, "zstd", 0};
    default:
      return {Filter::Kind::other, name, 0};
  }
}

}  // namespace

void Hdf5Array::read_filters(int64_t set, int64_t dcpl) {
  const int n = H5Pget_nfilters(dcpl);
  for (int i = 0; i < n; ++i) {
    unsigned flags = 0, values[16] = {}, config = 0;
    size_t count = 16;
    char name[64] = "";
    const H5Z_filter_t id = H5Pget_filter2(dcpl, i, &flags, &count, values, sizeof name, name, &config);
    if (id == H5Z_FILTER_DEFLATE) {
      filters_.push_back({Filter::Kind::deflate, "deflate " + std::to_string(values[0]), 0});
    } else if (id == H5Z_FILTER_SHUFFLE) {
      Handle type(H5Dget_type(set), H5Tclose);
      const auto size = count ? static_cast<int64_t>(values[0]) : static_cast<int64_t>(H5Tget_size(type.id));
      filters_.push_back({Filter::Kind::shuffle, "shuffle", size});
    } else {
      filters_.push_back(filter_of(id, *name ? name : "filter " + std::to_string(id)));
    }
  }
}

/// Without a fill value of its own a dataset reads as zeros, which are no data. NetCDF gives every variable
/// one, which of bytes may be data unless an attribute says that it is not.
void Hdf5Array::read_fill(int64_t set, int64_t type, int64_t dcpl) {
  H5D_fill_value_t given = H5D_FILL_VALUE_UNDEFINED;
  const size_t size = H5Tget_size(type);
  if (H5Pfill_value_defined(dcpl, &given) < 0 || given != H5D_FILL_VALUE_USER_DEFINED) return;
  if (size == 1 && H5Aexists(set, "_FillValue") <= 0) return;
  fill_.resize(size);
  if (H5Pget_fill_value(dcpl, type, fill_.data()) < 0) fill_.clear();
}

void Hdf5Array::require_fill(const std::string& what) const {
  if (fill_.empty())
    throw ArrayError(what + " was never written, and has no fill value", "make the file again");
}

bool Hdf5Array::has_attribute(const std::string& name) const {
  const LibraryLock lock(file_);
  const Opened opened(file_, name_);
  return H5Aexists(opened.set.id, name.c_str()) > 0;
}

std::vector<std::string> Hdf5Array::text_attribute(const std::string& name) const {
  const LibraryLock lock(file_);
  const Opened opened(file_, name_);
  if (H5Aexists(opened.set.id, name.c_str()) <= 0) return {};
  Handle attribute(H5Aopen(opened.set.id, name.c_str(), H5P_DEFAULT), H5Aclose);
  Handle type(H5Aget_type(attribute.id), H5Tclose), space(H5Aget_space(attribute.id), H5Sclose);
  if (H5Tget_class(type.id) != H5T_STRING) return {};
  const hssize_t points = H5Sget_simple_extent_npoints(space.id);
  const size_t length = H5Tget_size(type.id);
  if (points < 0 || points > (1 << 16) || length > (1 << 16) ||
      points * static_cast<hssize_t>(length) > (16 << 20))
    throw ArrayError("attribute '" + name + "' of '" + name_ + "' is larger than any list of names",
                     kDamagedFile);
  const auto n = static_cast<size_t>(points);
  std::vector<std::string> out;
  if (H5Tis_variable_str(type.id) > 0) {
    std::vector<char*> text(n);
    if (H5Aread(attribute.id, type.id, text.data()) < 0) return {};
    for (char* s : text) out.emplace_back(s ? s : "");
    H5Dvlen_reclaim(type.id, space.id, H5P_DEFAULT, text.data());
  } else {
    const size_t size = H5Tget_size(type.id);
    std::vector<char> text(n * size);
    if (H5Aread(attribute.id, type.id, text.data()) < 0) return {};
    for (size_t i = 0; i < n; ++i) out.emplace_back(&text[i * size], strnlen(&text[i * size], size));
  }
  return out;
}

StorageLayout Hdf5Array::layout() const {
  const bool other = locked_because_ == "storage layout";
  StorageLayout l{.element = name_of(element_),
                  .storage = !chunk_.empty() ? "chunked"
                             : other         ? "other"
                                             : "contiguous",
                  .big_endian = swap_,
                  .chunk = chunk_,
                  .locked_because = locked_because_};
  for (const Filter& f : filters_) l.filters.push_back(f.name);
  return l;
}

void Hdf5Array::read(const Index& start, const Index& count, void* out) const {
  require_inside(dims_, start, count);
  auto* bytes = static_cast<std::byte*>(out);
  if (!locked_because_.empty()) return read_locked(start, count, out);  // H5Dread swaps bytes itself
  if (chunk_.empty()) {
    read_box(input_.fd(), offset_, dims_, start, count, size_of(element_), bytes, strides_of(count));
  } else {
    read_chunks(start, count, bytes);
  }
  if (swap_) swap_bytes(out, product(count), size_of(element_));
}

void Hdf5Array::read_in_pieces(const Index& start, const Index& count, void* out,
                               const Arrived& arrived) const {
  const bool as_stored =
      locked_because_.empty() && filters_.empty() && (chunk_.empty() || in_one_chunk(chunk_, start, count));
  if (!as_stored) return RawArray::read_in_pieces(start, count, out, arrived);
  require_inside(dims_, start, count);
  const int64_t size = size_of(element_);
  auto* bytes = static_cast<std::byte*>(out);
  const BytesArrived on_piece = [&](const std::byte* at, int64_t n) {
    arrived((at - bytes) / size, n / size, swap_);
  };
  if (chunk_.empty()) {
    read_box(input_.fd(), offset_, dims_, start, count, size, bytes, strides_of(count), on_piece);
  } else {
    read_chunks(start, count, bytes, on_piece);
  }
}

void Hdf5Array::try_library(int64_t most_bytes, const std::function<void()>& alive) const {
  alive();
  if (locked_because_.empty() && !chunk_.empty()) walk_index();
  if (locked_because_.empty() || product(dims_) == 0) return;
  const int64_t n = dims_.empty() ? 1 : dims_[0], slab = product(dims_) / n * size_of(element_);
  const int64_t slabs = std::min(n, std::max<int64_t>(2, most_bytes / slab));
  Index start(dims_.size(), 0), count = dims_;
  if (!count.empty()) count[0] = 1;
  std::vector<std::byte> values(static_cast<size_t>(slab));
  for (int64_t i = 0; i < slabs; ++i) {
    alive();
    if (i > 0) start[0] = i * (n - 1) / (slabs - 1);
    read_locked(start, count, values.data());
  }
}

void Hdf5Array::read_locked(const Index& start, const Index& count, void* out) const {
  const LibraryLock lock(file_);
  const Opened opened(file_, name_);
  const std::vector<hsize_t> s(start.begin(), start.end()), c(count.begin(), count.end());
  Handle space(H5Dget_space(opened.set.id), H5Sclose);
  Handle memory(H5Screate_simple(static_cast<int>(c.size()), c.data(), nullptr), H5Sclose);
  if (H5Sselect_hyperslab(space.id, H5S_SELECT_SET, s.data(), nullptr, c.data(), nullptr) < 0 ||
      H5Dread(opened.set.id, native_type(element_), memory.id, space.id, H5P_DEFAULT, out) < 0)
    throw ArrayError("HDF5 cannot read '" + name_ + "': " + hdf5_message(),
                     "copy it again, or install the filter");
}

}  // namespace isobar::data
