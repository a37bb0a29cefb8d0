// SPDX-License-Identifier: MIT
#include "windows.hpp"

#include <dlprim/runtime/copy_queue.hpp>
#include <dlprim/runtime/memory.hpp>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <optional>
#include <random>
#include <string_view>
#include <thread>

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
  std::uint64_t bytes = 0, token = 0;
  std::array<char, 40> device{};  // whose memory it is, "host" for the host's

  bool of_device() const { return std::string_view(device.data()) != "host"; }
  std::string text() const {
    std::array<char, 160> line{};
    std::snprintf(line.data(), line.size(), "%s %" PRIu64 " %" PRIu64 " %s", socket.data(), bytes, token,
                  device.data());
    return line.data();
  }
  static std::optional<Word> of(const std::string& text) {
    Word word;
    if (std::sscanf(text.c_str(), "%63s %" SCNu64 " %" SCNu64 " %39s", word.socket.data(), &word.bytes, &word.token,
                    word.device.data()) != 4)
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

std::unique_ptr<Own> make(dlprim::Device& device, int ranks) {
  auto own = std::make_unique<Own>();
  own->memory = dlprim::PeerMemory::take(device, dlprim::PeerExchange::window_bytes(ranks));
  own->buffer = own->memory.buffer(device);
  Word& word = own->word;
  std::random_device random;
  word.bytes = own->memory.bytes();
  word.token = random() | std::uint64_t(random()) << 32;
  own->sender.name().copy(word.socket.data(), word.socket.size() - 1);
  own->memory.owner().copy(word.device.data(), word.device.size() - 1);
  dlprim::Queue& queue = device.default_queue();
  dlprim::PeerExchange::clear(queue, {own->buffer(), 0});
  queue.write({own->buffer(), 0}, &word.token, sizeof word.token, true);
  queue.record().wait();
  return own;
}

// Whether kernels of all ranks can run at once and reach each other.
bool are_apart(const std::vector<std::optional<Word>>& words) {
  for (std::size_t i = 0; i < words.size(); i++) {
    if (!words[i] || words[i]->bytes < dlprim::PeerExchange::window_bytes(int(words.size()))) return false;
    for (std::size_t j = 0; j < i; j++)
      if (words[i]->of_device() && std::strcmp(words[i]->device.data(), words[j]->device.data()) == 0) return false;
  }
  return true;
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
          dlprim::PeerMemory::adopt(receivers[next++].receive(), words[i]->bytes, words[i]->of_device()));
  }
  return memories;
}

// Exchanges what the windows begin with.
void try_out(dlprim::PeerExchange& peers, dlprim::Device& device, const cl::Buffer& own,
             const std::vector<std::optional<Word>>& words) {
  dlprim::Queue& queue = queue_for_exchanges(device);
  const std::size_t each = sizeof(std::uint64_t);
  const dlprim::Workspace arrived(queue, each * words.size());
  peers.run(queue, {{own(), 0}, 0, each}, {arrived.data(), each, each}, ~0u, true, 0, {});
  const dlprim::Event end = queue.record();
  const auto limit = std::chrono::steady_clock::now() + passing;
  while (!end.reached() && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  if (!end.reached()) peers.abort(dlprim::copy_queue(device));
  std::vector<std::uint64_t> tokens(words.size());
  queue.read(tokens.data(), arrived.data(), each * words.size(), true);
  for (std::size_t i = 0; i < words.size(); i++)
    TORCH_CHECK(tokens[i] == words[i]->token, "another rank's memory holds something else");
}

}  // namespace

dlprim::Queue& queue_for_exchanges(dlprim::Device& device) {
  return device.info().cpu ? device.queue(dlprim::first_copy_queue - 1) : device.pooled_queue();
}

std::unique_ptr<Windows> Windows::share(c10d::Store& store, int rank, int size, c10::DeviceIndex where, bool wanted,
                                        std::chrono::milliseconds timeout) {
  Board board(store, rank, size, timeout);
  const auto all_say = [&](const std::string& name, bool mine) {
    const std::vector<std::string> said = board.exchange(name, mine ? "yes" : "none");
    return std::ranges::find(said, "none") == said.end();
  };
  // Whoever fails says so; what follows is done by all or none.
  const auto succeeds = [](const auto& attempt) {
    try {
      translated(attempt);
      return true;
    } catch (const c10::Error&) {
      return false;
    }
  };
  std::unique_ptr<Own> own;
  if (wanted && size <= dlprim::PeerExchange::most_ranks)
    succeeds([&] {
      if (dlprim::PeerExchange::runs_on(device(where).info())) own = make(device(where), size);
    });
  std::vector<std::optional<Word>> words;
  for (const std::string& text : board.exchange("/window/", own ? own->word.text() : "none"))
    words.push_back(Word::of(text));
  if (!are_apart(words)) return nullptr;

  std::unique_ptr<Windows> windows;
  std::optional<dlprim::PeerExchange> peers;
  const bool reached = succeeds([&] {
    windows.reset(new Windows(pass(*own, rank, words)));
    peers = windows->peers(where, rank);
  });
  if (!all_say("/reached/", reached)) return nullptr;
  const bool works = succeeds([&] { try_out(*peers, device(where), own->buffer, words); });
  return all_say("/works/", works) ? std::move(windows) : nullptr;
}

dlprim::PeerExchange Windows::peers(c10::DeviceIndex index, int rank) {
  return translated([&] {
    std::vector<cl::Buffer> buffers;
    for (dlprim::PeerMemory& memory : memories_) buffers.push_back(memory.buffer(device(index)));
    return dlprim::PeerExchange(std::move(buffers), rank, memories_[std::size_t(rank)].host());
  });
}

}  // namespace pytorch_ocl::distributed
