# SPDX-License-Identifier: MIT
"""cmake/manylinux/: a program linked with it asks for no symbol newer than glibc 2.28's and libstdc++ 3.4.24's, and
what stands in for newer functions does what they do."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

FOLDER = pathlib.Path(__file__).parents[2] / "cmake/manylinux"
NEWEST = {"GLIBC": (2, 28), "GLIBCXX": (3, 4, 24), "CXXABI": (1, 3, 11)}
PROGRAM = """
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <limits>
#include <mutex>
#include <sstream>
#include <sys/stat.h>
#include <thread>

const int before_main = [] { return 7; }();

double read(const char* text, long length) {
  double value = -1;
  const auto result = std::from_chars(text, text + std::strlen(text), value);
  if (result.ptr != text + length) std::printf("%s: %ld characters\\n", text, long(result.ptr - text));
  return result.ec == std::errc() ? value : result.ec == std::errc::result_out_of_range ? 1e308 : -7;
}

int main() {
  int failures = before_main != 7;
  failures += read("1.5e3,", 5) != 1500 || read("-0.25", 5) != -0.25 || read("inf", 3) <= 1e308;
  failures += read("0x12", 1) != 0 || read(" 1", 0) != -7 || read("+1", 0) != -7 || read("", 0) != -7;
  failures += read("1e999", 5) != 1e308;
  for (float value : {0.1f, 16777217.0f, 1e-45f, -3.4028235e38f, 1.0f / 3}) {
    char text[32] = {};
    *std::to_chars(text, text + 31, value).ptr = 0;
    failures += std::strtof(text, nullptr) != value || std::strlen(text) > 15;
  }
  char little[2];
  failures += std::to_chars(little, little + 2, 0.125f).ec != std::errc::value_too_large;
  std::mutex mutex;
  std::condition_variable condition;
  bool ready = false;
  std::unique_lock<std::mutex> lock(mutex);
  const auto start = std::chrono::steady_clock::now();
  failures += condition.wait_for(lock, std::chrono::milliseconds(50), [&] { return ready; });
  failures += std::chrono::steady_clock::now() - start < std::chrono::milliseconds(45);
  std::thread other([&] { std::lock_guard<std::mutex> held(mutex); ready = true; condition.notify_one(); });
  condition.wait(lock, [&] { return ready; });
  lock.unlock();
  other.join();
  struct stat status;
  failures += stat("/", &status) != 0 || !S_ISDIR(status.st_mode);
  std::stringbuf text(std::ios_base::in | std::ios_base::out);
  text.sputn("42", 2);
  failures += text.str() != "42";
  return failures;
}
"""


@pytest.mark.skipif(
    sys.platform != "linux" or os.uname().machine != "x86_64" or not shutil.which("objdump"), reason="x86-64 Linux only"
)
def test_symbols_and_functions(tmp_path):
    (tmp_path / "main.cpp").write_text(PROGRAM)
    objects = []
    for source in (FOLDER / "glibc_2_28.c", FOLDER / "start.c", FOLDER / "libstdcxx_8.cpp", tmp_path / "main.cpp"):
        objects.append(tmp_path / f"{source.name}.o")
        compiler = ["g++", "-std=c++20"] if source.suffix == ".cpp" else ["gcc"]
        options = [] if source.name == "main.cpp" else ["-fno-builtin"]
        subprocess.run([*compiler, "-O2", "-fPIC", *options, "-c", source, "-o", objects[-1]], check=True)
    program = tmp_path / "program"
    subprocess.run(["g++", *objects, "-o", program, "-pthread", "-ldl"], check=True)
    symbols = subprocess.run(["objdump", "-T", program], check=True, capture_output=True, text=True).stdout
    versions = re.findall(r"\(?(GLIBC|GLIBCXX|CXXABI)_([\d.]+)\)?\s+(\S+)", symbols)
    assert versions
    newer = [v for v in versions if tuple(map(int, v[1].split("."))) > NEWEST[v[0]]]
    assert not newer
    assert subprocess.run([program]).returncode == 0
