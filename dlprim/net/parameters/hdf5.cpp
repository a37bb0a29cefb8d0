// SPDX-License-Identifier: MIT
#include <dlprim/error.hpp>

#include "format.hpp"

#ifdef DLPRIM_HDF5
#include <hdf5.h>

#include <cstring>

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

herr_t collect(hid_t, const char* name, const H5L_info_t*, void* names) {
  static_cast<std::vector<std::string>*>(names)->push_back(name);
  return 0;
}

Tensor read_dataset(hid_t file, const std::string& name) {
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
  if (numel * double(H5Tget_size(type)) > double(H5Dget_storage_size(set)) && numel > 0)
    fail("'" + name + "' of shape " + shape.text() + " is not stored in full");
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
  std::vector<std::string> names;
  if (H5Literate(file, H5_INDEX_NAME, H5_ITER_INC, nullptr, collect, &names) < 0) fail("'" + path + "' is damaged");
  NamedTensors result;
  for (const std::string& name : names) result.emplace(name, read_dataset(file, name));
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
