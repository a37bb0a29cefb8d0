// SPDX-License-Identifier: MIT
#include "device_pieces.hpp"

#include <c10/util/Exception.h>
#include <dlprim/runtime/copy_queue.hpp>

#include <random>
#include <string>

#include "runtime/device.hpp"

namespace pytorch_ocl::distributed {

namespace {

// How long the owner, whose thread does nothing else, may take to give a file.
constexpr std::chrono::seconds patience{10};
constexpr std::size_t trial_bytes = 4096;  // at least

}  // namespace

DevicePieces::DevicePieces(c10::Device device, std::size_t piece_bytes)
    : device_(device), trial_(take(trial_bytes)), server_([this](std::uint32_t number) { return file(number); }) {
  std::random_device random;
  server_.name().copy(place_.socket.data(), place_.socket.size() - 1);
  const std::size_t unit = trial_.memory.bytes();  // others must know exactly how many a piece has
  place_.piece_bytes = (piece_bytes + unit - 1) / unit * unit;
  place_.trial_bytes = unit;
  place_.token = random() | std::uint64_t(random()) << 32;
  place_.of_device = trial_.memory.of_device();
  translated([&] {
    dlprim::Queue& queue = dlprim::copy_queue(pytorch_ocl::device(device_.index()));
    queue.write({trial_.buffer(), 0}, &place_.token, sizeof place_.token, true);
    queue.record().wait();
  });
}

DevicePieces::Piece DevicePieces::take(std::size_t bytes) const {
  return translated([&] {
    dlprim::Device& owner = pytorch_ocl::device(device_.index());
    Piece piece{dlprim::PeerMemory::take(owner, bytes), {}};
    piece.buffer = piece.memory.buffer(owner);
    return piece;
  });
}

void DevicePieces::make(std::uint32_t piece) {
  Piece made = take(place_.piece_bytes);
  TORCH_CHECK(made.memory.bytes() == place_.piece_bytes, "a device's memory comes in other units than before");
  std::lock_guard guard(mutex_);
  pieces_[piece] = std::move(made);
}

int DevicePieces::file(std::uint32_t number) const {
  std::lock_guard guard(mutex_);
  if (number == DevicePlace::trial) return trial_.memory.file();
  return number < PoolBoard::pieces ? pieces_[number].memory.file() : -1;
}

PeerPieces::PeerPieces(const DevicePlace& place, c10::Device device) : place_(place), device_(device) {
  const Piece trial = get(DevicePlace::trial, place.trial_bytes);
  std::uint64_t token = 0;
  translated([&] {
    dlprim::Queue& queue = dlprim::copy_queue(pytorch_ocl::device(device.index()));
    queue.read(&token, {trial.buffer(), 0}, sizeof token, true);
  });
  TORCH_CHECK(token == place.token, "another rank's memory holds something else");
}

PeerPieces::Piece PeerPieces::get(std::uint32_t number, std::size_t bytes) const {
  const FileReceiver receiver(place_.socket.data(), patience);
  receiver.ask(number);
  return translated([&] {
    Piece piece{dlprim::PeerMemory::adopt(receiver.receive(), bytes, place_.of_device != 0), {}};
    piece.buffer = piece.memory.buffer(pytorch_ocl::device(device_.index()));
    return piece;
  });
}

const cl::Buffer& PeerPieces::buffer(std::uint32_t piece) {
  std::lock_guard guard(mutex_);
  auto found = pieces_.find(piece);
  if (found == pieces_.end()) found = pieces_.emplace(piece, get(piece, place_.piece_bytes)).first;
  return found->second.buffer;
}

}  // namespace pytorch_ocl::distributed
