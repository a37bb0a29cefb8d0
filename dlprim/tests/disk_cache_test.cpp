// SPDX-License-Identifier: MIT
#include "disk_cache.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

namespace dlprim {
namespace {

class DiskCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("dlprim-test-" + std::to_string(std::random_device{}()));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path file() const { return folder_ / "programs.db"; }
  std::filesystem::path folder_;
};

TEST_F(DiskCacheTest, KeepsProgramsBetweenProcesses) {
  const std::string binary(100000, '\7');
  {
    DiskCache cache(folder_);
    EXPECT_FALSE(cache.load("key"));
    cache.store("key", binary);
    cache.store("other", "x");
    cache.store("choice|a device|a problem", "tiled");  // no program
  }
  DiskCache cache(folder_);
  EXPECT_EQ(cache.load("key"), binary);
  EXPECT_EQ(cache.summary().programs, 2);
  cache.erase("key");
  EXPECT_FALSE(cache.load("key"));
  cache.clear();
  EXPECT_EQ(cache.summary().programs, 0);
}

TEST_F(DiskCacheTest, OneBuildsAProgram) {
  DiskCache cache(folder_);
  cache.store("a program", "binary");  // the folder is there
  std::atomic<int> builders = 0, at_once = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; i++)
    threads.emplace_back([&] {
      DiskCache own(folder_);
      const PlaceLock alone = own.building("a program"), other = own.building(std::to_string(i));
      at_once = std::max(at_once.load(), ++builders);
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
      builders--;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(at_once, 1);
}

TEST_F(DiskCacheTest, ABuilderThatStoppedIsNotWaitedForLong) {
  std::filesystem::create_directories(folder_);
  const PlaceLock stopped(folder_ / "builds.lock", 7, std::chrono::milliseconds(0));
  const auto start = std::chrono::steady_clock::now();
  const PlaceLock next(folder_ / "builds.lock", 7, std::chrono::milliseconds(50));
  const PlaceLock nowhere(folder_ / "no folder" / "builds.lock", 7, std::chrono::hours(1));
  const auto waited = std::chrono::steady_clock::now() - start;
  EXPECT_GE(waited, std::chrono::milliseconds(50));
  EXPECT_LT(waited, std::chrono::seconds(20));
}

TEST_F(DiskCacheTest, ReplacesGarbage) {
  std::filesystem::create_directories(folder_);
  std::ofstream(file()) << std::string(5000, 'g');
  DiskCache cache(folder_);
  cache.store("key", "binary");
  EXPECT_EQ(cache.load("key"), "binary");
}

TEST_F(DiskCacheTest, SurvivesTruncation) {
  for (const double part : {0.1, 0.3, 0.5, 0.9}) {
    {
      DiskCache cache(folder_);
      for (int i = 0; i < 50; i++) cache.store("key" + std::to_string(i), std::string(20000, char('a' + i % 20)));
    }
    std::filesystem::resize_file(file(), std::uintmax_t(double(std::filesystem::file_size(file())) * part));
    DiskCache cache(folder_);
    for (int i = 0; i < 50; i++) {
      const auto found = cache.load("key" + std::to_string(i));
      if (found) EXPECT_EQ(*found, std::string(20000, char('a' + i % 20)));
    }
    cache.store("new", "binary");
    DiskCache again(folder_);
    again.store("new", "binary");
    EXPECT_EQ(again.load("new"), "binary");
  }
}

// What one process puts in the place of a damaged file must survive the others, which still have the damaged one open.
TEST_F(DiskCacheTest, ANewFileSurvivesTheRecoveryOfOthers) {
  {
    DiskCache cache(folder_);
    for (int i = 0; i < 50; i++) cache.store("key" + std::to_string(i), std::string(20000, 'a'));
  }
  DiskCache first(folder_), second(folder_);
  EXPECT_TRUE(first.load("key0"));
  EXPECT_TRUE(second.load("key0"));
  for (const char* suffix : {"", "-wal"}) {
    const std::string name = file().string() + suffix;
    const auto size = std::filesystem::exists(name) ? std::filesystem::file_size(name) : 0;
    if (size) std::ofstream(name, std::ios::binary | std::ios::in) << std::string(std::size_t(size), 'g');
  }
  const auto use_all = [](DiskCache& cache) {
    for (int i = 0; i < 50; i++) cache.load("key" + std::to_string(i));
  };
  use_all(first);  // notices, and starts anew
  first.store("new", "binary");
  EXPECT_EQ(DiskCache(folder_).load("new"), "binary");
  use_all(second);  // notices later
  EXPECT_EQ(DiskCache(folder_).load("new"), "binary");
  EXPECT_EQ(second.load("new"), "binary");
  first.store("newer", "binary");
  EXPECT_EQ(second.load("newer"), "binary");
}

TEST_F(DiskCacheTest, NoticesAlteredBinaries) {
  {
    DiskCache cache(folder_);
    cache.store("key", std::string(3000, 'b'));
  }
  std::string data;
  {
    std::ifstream in(file(), std::ios::binary);
    data.assign(std::istreambuf_iterator<char>(in), {});
  }
  const auto at = data.find("bbbbbbbb");
  ASSERT_NE(at, std::string::npos);
  data[at + 4] = 'c';
  std::ofstream(file(), std::ios::binary) << data;
  DiskCache cache(folder_);
  EXPECT_FALSE(cache.load("key"));
}

TEST_F(DiskCacheTest, DoesWithoutAFolderItCannotWrite) {
  std::ofstream(folder_.string()) << "a file where the folder should be";
  DiskCache cache(folder_ / "inside");
  cache.store("key", "binary");
  EXPECT_FALSE(cache.load("key"));
}

TEST_F(DiskCacheTest, ServesManyAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; t++)
    threads.emplace_back([this, t] {
      DiskCache cache(folder_);
      for (int i = 0; i < 50; i++) {
        cache.store("key" + std::to_string(i), std::string(1000, char('a' + i % 26)));
        const auto found = cache.load("key" + std::to_string((i * 7 + t) % (i + 1)));
        if (found) EXPECT_EQ(found->size(), 1000u);
      }
    });
  for (auto& thread : threads) thread.join();
  DiskCache cache(folder_);
  EXPECT_EQ(cache.summary().programs, 50);
}

}  // namespace
}  // namespace dlprim
