// SPDX-License-Identifier: MIT
#include "windows.hpp"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <optional>
#include <random>

#include "board.hpp"
#include "file_passing.hpp"
#include "runtime/device.hpp"

namespace pytorch_ocl::distributed {

namespace {

// How long ranks that have said where their windows are wait for each other.
constexpr std::chrono::seconds passing{20};

// What a rank tells the others of its window, and writes at its beginning.
struct Word {
  std::array<char, 64> socket{};
  std::uint64_t asked = 0, bytes = 0, token = 0;  // asked: what its layout needs, which the device may round up
  int of_device = 0;

  std::string text() const {
    std::array<char, 160> line{};
    std::snprintf(line.data(), line.size(), "%s %" PRIu64 " %" PRIu64 " %" PRIu64 " %d", socket.data(), asked, bytes,
                  token, of_device);
    return line.data();
  }
  static std::optional<Word> of(const std::string& text) {
    Word word;
    if (std::sscanf(text.c_str(), "%63s %" SCNu64 " %" SCNu64 " %" SCNu64 " %d", word.socket.data(), &word.asked,
                    &word.bytes, &word.token, &word.of_device) != 5)
      return std::nullopt;
    return word;
  }
};

// This rank's window, and who hands it out.
struct Own {
  dlprim::PeerMemory memory{};
  cl::Buffer buffer{};
  FileSender sender{};
  Word word{};
};

std::uint64_t first_word(dlprim::Queue& queue, const cl::Buffer& buffer) {
  std::uint64_t word = 0;
  queue.read(&word, {buffer(), 0}, sizeof word, true);
  return word;
}

std::unique_ptr<Own> make(dlprim::Device& device, std::size_t bytes) {
  auto own = std::make_unique<Own>();
  own->memory = dlprim::PeerMemory::take(device, bytes);
  own->buffer = own->memory.buffer(device);
  Word& word = own->word;
  std::random_device random;
  word.asked = bytes;
  word.bytes = own->memory.bytes();
  word.of_device = own->memory.of_device();
  word.token = random() | std::uint64_t(random()) << 32;
  own->sender.name().copy(word.socket.data(), word.socket.size() - 1);
  dlprim::Queue& queue = device.default_queue();
  queue.write({own->buffer(), 0}, &word.token, sizeof word.token, true);
  queue.record().wait();
  return own;
}

// Sends this rank's window and gets the others'.
std::vector<dlprim::PeerMemory> pass(Own& own, int rank, const std::vector<std::optional<Word>>& words) {
  std::vector<FileReceiver> receivers;
  for (int i = 0; i < int(words.size()); i++)
    if (i != rank) receivers.emplace_back(words[i]->socket.data(), passing);
  own.sender.send(own.memory.file(), int(receivers.size()), passing);
  std::vector<dlprim::PeerMemory> memories;
  for (int i = 0, next = 0; i < int(words.size()); i++) {
    if (i == rank) memories.push_back(std::move(own.memory));
    else
      memories.push_back(
          dlprim::PeerMemory::adopt(receivers[next++].receive(), words[i]->bytes, words[i]->of_device != 0));
  }
  return memories;
}

}  // namespace

std::unique_ptr<Windows> Windows::share(c10d::Store& store, int rank, int size, c10::DeviceIndex where,
                                        std::size_t bytes, bool wanted, std::chrono::milliseconds timeout) {
  Board board(store, rank, size, timeout);
  std::unique_ptr<Own> own;
  // Whoever has no window says so; what follows is done by all or none.
  try {
    if (wanted) own = translated([&] { return make(device(where), bytes); });
  } catch (const c10::Error&) {
    own.reset();
  }
  std::vector<std::optional<Word>> words;
  for (const std::string& text : board.exchange("/window/", own ? own->word.text() : "none"))
    words.push_back(Word::of(text));
  // Ranks with pieces of different sizes would look for each other's in the wrong place.
  if (!std::ranges::all_of(words, [&](const auto& word) { return word && word->asked == words[0]->asked; }))
    return nullptr;

  std::unique_ptr<Windows> windows;
  try {
    windows.reset(new Windows(pass(*own, rank, words)));
    const std::vector<cl::Buffer> buffers = windows->buffers(where);
    translated([&] {
      for (int i = 0; i < size; i++)
        TORCH_CHECK(first_word(device(where).default_queue(), buffers[i]) == words[i]->token,
                    "another rank's memory holds something else");
    });
  } catch (const c10::Error&) {
    windows.reset();
  }
  const std::vector<std::string> reached = board.exchange("/windows/", windows ? "reached" : "none");
  if (std::ranges::find(reached, "none") != reached.end()) return nullptr;
  return windows;
}

std::vector<cl::Buffer> Windows::buffers(c10::DeviceIndex index) {
  return translated([&] {
    std::vector<cl::Buffer> found;
    for (dlprim::PeerMemory& memory : memories_) found.push_back(memory.buffer(device(index)));
    return found;
  });
}

}  // namespace pytorch_ocl::distributed
