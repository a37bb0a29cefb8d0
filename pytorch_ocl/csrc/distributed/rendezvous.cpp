// SPDX-License-Identifier: MIT
#include "rendezvous.hpp"

#include <algorithm>

#include "board.hpp"

namespace pytorch_ocl::distributed {

namespace {

// What ranks tell each other: where their segment is, or why there is none.
struct Word {
  std::string host, bytes, place, secret, error;

  std::string text() const {
    std::string all;
    for (const std::string* field : {&host, &bytes, &place, &secret, &error}) all += *field + '\n';
    return all;
  }
  static Word of(const std::string& text) {
    Word word;
    std::size_t at = 0;
    for (std::string* field : {&word.host, &word.bytes, &word.place, &word.secret, &word.error}) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      *field = text.substr(std::min(at, end), end - std::min(at, end));
      at = end + 1;
    }
    return word;
  }
};

std::string first_error(const std::vector<Word>& words) {
  for (std::size_t rank = 0; rank < words.size(); rank++) {
    if (!words[rank].error.empty()) return "rank " + std::to_string(rank) + ": " + words[rank].error;
    if (words[rank].host != words[0].host) return "ranks on several hosts";
    if (words[rank].bytes != words[0].bytes) return "ranks with different PYTORCH_OCL_SHARED_PIECE";
  }
  return {};
}

std::vector<Word> words_of(const std::vector<std::string>& texts) {
  std::vector<Word> words;
  for (const std::string& text : texts) words.push_back(Word::of(text));
  return words;
}

// In one line.
std::string message(const c10::Error& error) {
  std::string text = error.what_without_backtrace();
  return text.substr(0, text.find('\n'));
}

// Tries one place for segments.
std::vector<SharedSegment> attempt(Board& board, int rank, std::size_t bytes, const std::string& folder,
                                   std::string& reason) {
  Word mine{host_identity(), std::to_string(bytes), {}, {}, {}};
  SharedSegment own;
  try {
    own = SharedSegment::make(bytes, folder);
    mine.place = own.place();
    mine.secret = own.secret();
  } catch (const c10::Error& error) {
    mine.error = message(error);
  }
  std::vector<Word> words = words_of(board.exchange(folder + "/made/", mine.text()));
  reason = first_error(words);
  if (!reason.empty()) return {};

  std::vector<SharedSegment> segments;
  Word opened;
  try {
    for (int i = 0; i < int(words.size()); i++)
      segments.push_back(i == rank ? std::move(own) : SharedSegment::open(bytes, words[i].place, words[i].secret));
  } catch (const c10::Error& error) {
    opened.error = message(error);
  }
  words = words_of(board.exchange(folder + "/opened/", opened.text()));
  reason = first_error(words);
  if (!reason.empty()) return {};
  segments[rank].remove_name();
  return segments;
}

}  // namespace

std::int64_t agreed_piece(c10d::Store& store, int rank, int size, std::int64_t proposal,
                          std::chrono::milliseconds timeout) {
  std::int64_t least = proposal;
  for (const std::string& text : Board(store, rank, size, timeout).exchange("/piece/", std::to_string(proposal))) {
    const std::int64_t other = std::stoll(text);
    if (other <= 0) return proposal;
    least = std::min(least, other);
  }
  return least;
}

bool are_alike(c10d::Store& store, int rank, int size, const std::string& trait, std::chrono::milliseconds timeout) {
  const std::vector<std::string> all = Board(store, rank, size, timeout).exchange("/trait/", trait);
  return !trait.empty() && std::ranges::all_of(all, [&](const std::string& other) { return other == trait; });
}

bool all_agree(c10d::Store& store, int rank, int size, bool yes, std::chrono::milliseconds timeout) {
  Board board(store, rank, size, timeout);
  if (yes)
    return std::ranges::all_of(board.exchange("/agrees/", "1"), [](const std::string& other) { return other == "1"; });
  board.post("/agrees/", "0");
  return false;
}

std::vector<SharedSegment> share_segments(c10d::Store& store, int rank, int size, std::size_t bytes,
                                          std::chrono::milliseconds timeout, std::string& reason) {
  Board board(store, rank, size, timeout);
  // Memory without a name first: it takes nothing of /dev/shm, which is small in containers.
  std::vector<SharedSegment> segments = attempt(board, rank, bytes, {}, reason);
  if (!segments.empty() || reason == "ranks on several hosts") return segments;
  std::string second;
  segments = attempt(board, rank, bytes, "/dev/shm", second);
  if (!segments.empty()) reason.clear();
  return segments;
}

}  // namespace pytorch_ocl::distributed
