// SPDX-License-Identifier: MIT
#include <dlprim/error.hpp>

#include "format.hpp"

#ifdef DLPRIM_HDF5
#include <hdf5.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "../checked.hpp"

namespace dlprim {

namespace {

[[noreturn]] void fail(const std::string& message) { throw ValidationError("[HDF5] " + message); }

// An identifier with the function that closes it.
class Handle {
 public:
  Handle(hid_t id, herr_t (*close)(hid_t), const std::string& what) : id_(id), close_(close) {
    if (id < 0) fail("cannot open " + what);
  }
  Handle(const Handle&) = delete;
  ~Handle() { close_(id_); }
  operator hid_t() const noexcept { return id_; }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

// HDF5 prints errors of its own unless told not to.
void be_quiet() { H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr); }

struct Names {
  std::vector<std::string> datasets, links;
};

// Links to other files, or to names that may be such links, are not followed.
herr_t collect(hid_t, const char* name, const H5L_info_t* link, void* names) {
  Names& all = *static_cast<Names*>(names);
  (link->type == H5L_TYPE_HARD ? all.datasets : all.links).push_back(name);
  return 0;
}

// What is left of a file: datasets do not share what is stored, and what they unpack to is bounded.
struct Rest {
  std::uint64_t stored;
  Budget unpacked;
};

// Bytes that the dataset's elements take in the file, as they are stored there.
std::uint64_t stored_bytes(hid_t set, const std::string& name, Rest& rest) {
  const Handle how(H5Dget_create_plist(set), H5Pclose, "the layout of '" + name + "'");
  if (H5Pget_external_count(how) != 0 || H5Pget_layout(how) == H5D_VIRTUAL)
    fail("'" + name + "' keeps its elements in other files");
  const std::uint64_t stored = H5Dget_storage_size(set);
  if (stored > rest.stored) fail("'" + name + "' is not stored in full");
  rest.stored -= stored;
  return stored;
}

// Whether the elements are compressed; the filters that are read are those every HDF5 library has.
bool is_packed(hid_t set, const std::string& name) {
  const Handle how(H5Dget_create_plist(set), H5Pclose, "the layout of '" + name + "'");
  bool packed = false;
  for (int i = 0, count = H5Pget_nfilters(how); i < count; i++) {
    unsigned flags = 0, config = 0;
    std::size_t values = 0;
    const H5Z_filter_t filter = H5Pget_filter2(how, unsigned(i), &flags, &values, nullptr, 0, nullptr, &config);
    if (filter != H5Z_FILTER_DEFLATE && filter != H5Z_FILTER_SHUFFLE && filter != H5Z_FILTER_FLETCHER32)
      fail("'" + name + "' is packed by filter " + std::to_string(filter) + ", expected gzip, shuffle or fletcher32");
    packed |= filter == H5Z_FILTER_DEFLATE;
  }
  return packed;
}

// The elements of one chunk, which reading takes as a whole; 0 for other layouts.
double chunk_elements(hid_t set, const std::string& name) {
  const Handle how(H5Dget_create_plist(set), H5Pclose, "the layout of '" + name + "'");
  if (H5Pget_layout(how) != H5D_CHUNKED) return 0;
  hsize_t sizes[32];
  double elements = 1;
  for (int d = 0, rank = H5Pget_chunk(how, 32, sizes); d < rank; d++) elements *= double(sizes[d]);
  return elements;
}

Tensor read_dataset(hid_t file, const std::string& name, Rest& rest) {
  const Handle set(H5Dopen2(file, name.c_str(), H5P_DEFAULT), H5Dclose, "the dataset '" + name + "'");
  const Handle space(H5Dget_space(set), H5Sclose, "the shape of '" + name + "'");
  const Handle type(H5Dget_type(set), H5Tclose, "the type of '" + name + "'");
  if (H5Tget_class(type) != H5T_FLOAT) fail("'" + name + "' does not hold floating numbers");
  const int rank = H5Sget_simple_extent_ndims(space);
  if (rank < 0 || rank > 8) fail("'" + name + "' has " + std::to_string(rank) + " dimensions, expected at most 8");
  hsize_t sizes[8];
  H5Sget_simple_extent_dims(space, sizes, nullptr);
  Shape shape;
  double numel = 1;
  for (int d = 0; d < rank; d++) shape.push_back(std::int64_t(sizes[d])), numel *= double(sizes[d]);
  // A header may promise more than was stored, which HDF5 would fill with zeros.
  const bool wide = H5Tget_size(type) == sizeof(double);
  constexpr double most_packed = 1032;  // deflate makes at most so many bytes of one
  const double stored = double(stored_bytes(set, name, rest)) * (is_packed(set, name) ? most_packed : 1);
  const double bytes = std::max(numel, chunk_elements(set, name)) * double(H5Tget_size(type));
  if (numel > 0 && bytes > stored) fail("'" + name + "' of shape " + shape.text() + " is not stored in full");
  rest.unpacked.spend(std::uint64_t(std::min(bytes, stored)), "[HDF5] '" + name + "'");
  std::vector<std::byte> elements(std::size_t(numel) * (wide ? sizeof(double) : sizeof(float)));
  if (H5Dread(set, wide ? H5T_NATIVE_DOUBLE : H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, elements.data()) < 0)
    fail("'" + name + "' cannot be read");
  return Tensor::from_host(wide ? DataType::float64 : DataType::float32, shape, elements.data());
}

std::vector<float> floats(const std::string& name, const Tensor& tensor) {
  const std::vector<std::byte> bytes = tensor.host();
  std::vector<float> values(std::size_t(tensor.numel()));
  if (tensor.dtype() == DataType::float32) {
    if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  } else if (tensor.dtype() == DataType::float64) {
    for (std::size_t i = 0; i < values.size(); i++) {
      double value;
      std::memcpy(&value, bytes.data() + i * sizeof(double), sizeof(double));
      values[i] = float(value);
    }
  } else {
    fail("expected float32 or float64 for '" + name + "', got " + dlprim::name(tensor.dtype()));
  }
  return values;
}

}  // namespace

NamedTensors read_hdf5(const std::string& path) {
  be_quiet();
  const Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose, "'" + path + "'");
  Names names;
  if (H5Literate(file, H5_INDEX_NAME, H5_ITER_INC, nullptr, collect, &names) < 0) fail("'" + path + "' is damaged");
  if (!names.links.empty()) fail("'" + names.links[0] + "' is a link, expected a dataset of this file");
  const std::uint64_t size = std::filesystem::file_size(path);
  Rest rest{size, Budget(size)};
  NamedTensors result;
  for (const std::string& name : names.datasets) result.emplace(name, read_dataset(file, name, rest));
  return result;
}

void write_hdf5(const std::string& path, const NamedTensors& tensors) {
  be_quiet();
  const Handle file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), H5Fclose, "'" + path + "'");
  for (const auto& [name, tensor] : tensors) {
    const std::vector<hsize_t> sizes(tensor.shape().begin(), tensor.shape().end());
    const Handle space(
        sizes.empty() ? H5Screate(H5S_SCALAR) : H5Screate_simple(int(sizes.size()), sizes.data(), nullptr), H5Sclose,
        "a shape");
    const Handle set(H5Dcreate2(file, name.c_str(), H5T_IEEE_F32LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                     H5Dclose, "a dataset '" + name + "'");
    if (H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, floats(name, tensor).data()) < 0)
      fail("'" + name + "' cannot be written");
  }
}

}  // namespace dlprim

#else

namespace dlprim {

NamedTensors read_hdf5(const std::string&) {
  throw NotImplementedError("[HDF5] this build of dlprim reads no HDF5 files: CMake found no HDF5 library");
}

void write_hdf5(const std::string&, const NamedTensors&) {
  throw NotImplementedError("[HDF5] this build of dlprim writes no HDF5 files: CMake found no HDF5 library");
}

}  // namespace dlprim

#endif
