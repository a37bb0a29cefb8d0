// SPDX-License-Identifier: MIT
#include "cpus.hpp"

#include <dlprim/runtime/environment.hpp>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <random>
#ifdef __linux__
#include <sched.h>
#endif

namespace dlprim {
namespace {

class Cpus : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove_all(root_); }
  void write(const std::string& file, const std::string& text) {
    std::filesystem::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text << "\n";
  }
  std::filesystem::path root_ =
      std::filesystem::temp_directory_path() / ("dlprim-groups-" + std::to_string(std::random_device{}()));
};

TEST_F(Cpus, SecondVersionOfControlGroups) {
  EXPECT_EQ(control_group_cpus("0::/a/b\n", root_), 0u);
  write("a/cpu.max", "max 100000");
  EXPECT_EQ(control_group_cpus("0::/a/b\n", root_), 0u);
  write("a/b/cpu.max", "350000 100000");
  EXPECT_EQ(control_group_cpus("0::/a/b\n", root_), 4u);
  write("a/cpu.max", "150000 100000");
  EXPECT_EQ(control_group_cpus("0::/a/b\n", root_), 2u) << "a group is bound by those it lies in";
  write("cpu.max", "100000 100000");  // as a container sees its own
  EXPECT_EQ(control_group_cpus("0::/docker/0123\n", root_), 1u);
  EXPECT_EQ(control_group_cpus("0::/\n", root_), 1u);
}

TEST_F(Cpus, FirstVersionOfControlGroups) {
  const char* membership = "12:pids:/x\n4:cpu,cpuacct:/docker/0123\n3:cpuset:/y\n0::/\n";
  EXPECT_EQ(control_group_cpus(membership, root_), 0u);
  write("cpu,cpuacct/cpu.cfs_quota_us", "-1");
  write("cpu,cpuacct/cpu.cfs_period_us", "100000");
  EXPECT_EQ(control_group_cpus(membership, root_), 0u);
  write("cpu,cpuacct/cpu.cfs_quota_us", "50000");
  EXPECT_EQ(control_group_cpus(membership, root_), 1u);
}

TEST_F(Cpus, NonsenseIsNoLimit) {
  write("cpu.max", "some text");
  for (const char* membership : {"", "0", "::", "0::/", "garbage\n\n:::"})
    EXPECT_EQ(control_group_cpus(membership, root_), 0u) << membership;
}

TEST_F(Cpus, AtLeastOneAndNoMoreThanMayBeUsed) {
  EXPECT_GE(available_cpus(), 1u);
#ifdef __linux__
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) EXPECT_LE(available_cpus(), unsigned(CPU_COUNT(&set)));
#endif
}

#ifndef _WIN32
TEST_F(Cpus, ProcessesOfAJobShareThem) {
  const char* set = environment::raw("LOCAL_WORLD_SIZE");
  const std::string before = set ? set : "";
  auto share = [](const std::string& processes) {
    setenv("LOCAL_WORLD_SIZE", processes.c_str(), 1);
    environment::reread();
    return share_of_cpus();
  };
  EXPECT_EQ(share(""), available_cpus());
  EXPECT_EQ(share("1"), available_cpus());
  EXPECT_EQ(share("2"), std::max(1u, available_cpus() / 2));
  EXPECT_EQ(share("1000000000000"), 1u);
  EXPECT_EQ(share("many"), available_cpus());
  share(before);
}
#endif

}  // namespace
}  // namespace dlprim
