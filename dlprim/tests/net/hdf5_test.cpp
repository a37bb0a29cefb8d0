// SPDX-License-Identifier: MIT
// HDF5 files as other programs write them.
#ifdef DLPRIM_HDF5
#include <hdf5.h>

#include <cstring>
#include <filesystem>
#include <numeric>

#include "finite_differences.hpp"

namespace dlprim::testing {
namespace {

std::string temporary(const char* name) {
  return (std::filesystem::temp_directory_path() / (std::to_string(std::random_device()()) + name)).string();
}

struct File {
  std::string path = temporary("_dlprim.h5");
  hid_t id = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  ~File() { std::filesystem::remove(path); }

  /// A float32 dataset `w` of rows x 64, with a list of properties that is closed; written where there are values.
  void add(hsize_t rows, hid_t how, const std::vector<float>& values = {}) {
    const hsize_t sizes[] = {rows, 64};
    const hid_t space = H5Screate_simple(2, sizes, nullptr);
    const hid_t set = H5Dcreate2(id, "w", H5T_IEEE_F32LE, space, H5P_DEFAULT, how, H5P_DEFAULT);
    if (!values.empty()) H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
    H5Dclose(set), H5Sclose(space), H5Pclose(how);
  }
  NamedTensors read() {
    H5Fclose(id);
    return read_parameters(path);
  }
};

hid_t packed(hsize_t rows) {
  const hid_t how = H5Pcreate(H5P_DATASET_CREATE);
  const hsize_t chunk[] = {rows, 64};
  H5Pset_chunk(how, 2, chunk), H5Pset_shuffle(how), H5Pset_deflate(how, 9);
  return how;
}

TEST(HDF5, PackedDatasets) {
  std::vector<float> values(100 * 64);
  std::iota(values.begin(), values.end(), 0.f);
  File file;
  file.add(100, packed(7), values);
  const Tensor w = file.read().at("w");
  EXPECT_EQ(w.shape(), (Shape{100, 64}));
  std::vector<float> back(values.size());
  std::memcpy(back.data(), w.host().data(), back.size() * sizeof(float));
  EXPECT_EQ(back, values);
}

TEST(HDF5, ZerosUnpackAsFarAsTheFileIsLarge) {
  File file;
  file.add(1000, packed(1000), std::vector<float>(64000));
  EXPECT_EQ(file.read().at("w").numel(), 64000);
}

TEST(HDF5, PromisesOfSmallFiles) {
  File unwritten;
  unwritten.add(hsize_t(1) << 30, packed(16));
  EXPECT_THROW(unwritten.read(), ValidationError);
  File part;  // chunks that were never written
  part.add(16, packed(8));
  EXPECT_THROW(part.read(), ValidationError);
}

TEST(HDF5, ElementsOfOtherFiles) {
  const std::string secret = temporary("_secret");
  write_parameters(secret + ".h5", {{"w", Tensor::from_host(DataType::float32, {64}, std::vector<float>(64).data())}});
  File storage;
  const hid_t how = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_external(how, (secret + ".h5").c_str(), 0, 256);
  storage.add(1, how);
  EXPECT_THROW(storage.read(), ValidationError);
  File link;
  H5Lcreate_external((secret + ".h5").c_str(), "/w", link.id, "w", H5P_DEFAULT, H5P_DEFAULT);
  EXPECT_THROW(link.read(), ValidationError);
  File soft;
  H5Lcreate_soft("/w", soft.id, "w", H5P_DEFAULT, H5P_DEFAULT);
  EXPECT_THROW(soft.read(), ValidationError);
  std::filesystem::remove(secret + ".h5");
}

}  // namespace
}  // namespace dlprim::testing
#endif
