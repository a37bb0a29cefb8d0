// SPDX-License-Identifier: MIT
#pragma once
#include <dlprim/runtime/device.hpp>

#include <string>

namespace dlprim {

/// Memory that other processes of the host, and the devices that they use, may read and write as well, by a file
/// descriptor that they are sent. Copies and kernels of another device reach it over whatever links the two.
///
/// Of NVIDIA's GPUs it is the device's memory, taken through CUDA's driver, which is installed with OpenCL's, and brought
/// into OpenCL by cl_khr_external_memory. Of CPUs it is the host's. Other devices have none yet; nor has any but on Linux.
class PeerMemory {
 public:
  PeerMemory() = default;
  PeerMemory(PeerMemory&& other) noexcept { swap(other); }
  PeerMemory& operator=(PeerMemory&& other) noexcept { return swap(other), *this; }
  ~PeerMemory();

  /// Takes at least so many bytes for `device`. Throws NotImplementedError where it has no such memory and DeviceError
  /// where there is none left.
  static PeerMemory take(Device& device, std::size_t bytes);
  /// What another process sent: its descriptor, which this object closes, and its bytes(). `of_device`: it is a GPU's.
  static PeerMemory adopt(int file, std::size_t bytes, bool of_device);

  int file() const noexcept { return file_; }
  std::size_t bytes() const noexcept { return bytes_; }
  bool of_device() const noexcept { return of_device_; }
  /// Of what take() returned: the UUID of the GPU whose memory it is, in hexadecimal, or "host".
  const std::string& owner() const noexcept { return owner_; }
  /// As a buffer of a device of this process; it must not outlive this object. Throws DeviceError where the device does
  /// not reach it.
  cl::Buffer buffer(Device& device);
  /// Where the host has it, once there is a buffer of it; null where it is a GPU's.
  std::byte* host() const noexcept { return mapped_; }

 private:
  void swap(PeerMemory& other) noexcept;

  int file_ = -1;
  std::size_t bytes_ = 0;
  bool of_device_ = false;
  std::string owner_{};
  std::byte* mapped_ = nullptr;  // the host's
};

}  // namespace dlprim
