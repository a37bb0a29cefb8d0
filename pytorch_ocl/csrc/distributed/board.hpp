// SPDX-License-Identifier: MIT
#pragma once
#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace pytorch_ocl::distributed {

/// A group's store, as its ranks, who call the same functions, tell each other something. Raises DistBackendError where
/// ranks do not come in time.
class Board {
 public:
  Board(c10d::Store& store, int rank, int size, std::chrono::milliseconds timeout)
      : store_(store), rank_(rank), size_(size), timeout_(timeout), end_(std::chrono::steady_clock::now() + timeout) {}

  /// Says something under a name, without waiting for the others.
  void post(const std::string& name, const std::string& text) { store_.set(name + std::to_string(rank_), text); }

  /// What every rank says under a name.
  std::vector<std::string> exchange(const std::string& name, const std::string& text) {
    post(name, text);
    return read_all(name);
  }

  /// The same for one who has posted.
  std::vector<std::string> read_all(const std::string& name) {
    std::vector<std::string> texts;
    for (int rank = 0; rank < size_; rank++) texts.push_back(read(name, rank));
    return texts;
  }

 private:
  // A store that waits for a key keeps other threads from using it: this one asks again and again.
  std::string read(const std::string& name, int rank) {
    const std::string key = name + std::to_string(rank);
    for (auto pause = std::chrono::microseconds(200);; pause = std::min(2 * pause, std::chrono::microseconds(10000))) {
      if (store_.check({key})) return store_.get_to_str(key);
      TORCH_CHECK_WITH(DistBackendError, std::chrono::steady_clock::now() < end_, "Timed out after ", timeout_.count(),
                       " ms waiting for rank ", rank, " of the group to take part in its first call on ocl");
      std::this_thread::sleep_for(pause);
    }
  }

  c10d::Store& store_;
  int rank_, size_;
  std::chrono::milliseconds timeout_;
  std::chrono::steady_clock::time_point end_;
};

}  // namespace pytorch_ocl::distributed
