# SPDX-License-Identifier: MIT
"""cmake/manylinux/: a program linked with it asks for no symbol newer than glibc 2.28's and libstdc++ 3.4.24's, and
what stands in for newer functions does what they do; no library of ours asks for one that has no stand-in."""

import os
import pathlib
import platform
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
#include <future>
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
  std::__atomic_futex_unsigned<> state(0);  // what std::future waits for
  const auto until = [&](auto time) {
    return state._M_load_when_equal_until(1, std::memory_order_acquire, std::chrono::steady_clock::now() + time);
  };
  const auto begin = std::chrono::steady_clock::now();
  failures += until(std::chrono::milliseconds(50));
  failures += std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(45);
  std::thread giver([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    state._M_store_notify_all(1, std::memory_order_release);
  });
  failures += !until(std::chrono::minutes(1)) || std::chrono::steady_clock::now() - begin > std::chrono::seconds(30);
  giver.join();
  struct stat status;
  failures += stat("/", &status) != 0 || !S_ISDIR(status.st_mode);
  std::stringbuf text(std::ios_base::in | std::ios_base::out);
  text.sputn("42", 2);
  failures += text.str() != "42";
  return failures;
}
"""


pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.uname().machine != "x86_64" or not shutil.which("objdump"), reason="x86-64 Linux only"
)


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def objects(tmp_path_factory):
    """Those of the folder's sources and of the program."""
    folder, made = tmp_path_factory.mktemp("objects"), []
    (folder / "main.cpp").write_text(PROGRAM)
    for source in (FOLDER / "glibc_2_28.c", FOLDER / "start.c", FOLDER / "libstdcxx_8.cpp", folder / "main.cpp"):
        made.append(folder / f"{source.name}.o")
        compiler = ["g++", "-std=c++20"] if source.suffix == ".cpp" else ["gcc"]
        options = [] if source.name == "main.cpp" else ["-fno-builtin"]
        subprocess.run([*compiler, "-O2", "-fPIC", *options, "-c", source, "-o", made[-1]], check=True)
    return made


def newer_symbols(file):
    """Names that a library or program asks for in versions that are too new."""
    versions = re.findall(r"\(?(GLIBC|GLIBCXX|CXXABI)_([\d.]+)\)?\s+(\S+)", output_of("objdump", "-T", file))
    assert versions
    return {name for of, version, name in versions if tuple(map(int, version.split("."))) > NEWEST[of]}


def test_symbols_and_functions(objects, tmp_path):
    program = tmp_path / "program"
    subprocess.run(["g++", *objects, "-o", program, "-pthread", "-ldl"], check=True)
    assert not newer_symbols(program)
    assert subprocess.run([program]).returncode == 0


@pytest.mark.skipif(platform.libc_ver() > ("glibc", "2.36"), reason="stand-ins are those that Debian 12's glibc needs")
def test_libraries_ask_for_what_has_a_stand_in(objects):
    import pytorch_ocl

    libraries = list((pathlib.Path(pytorch_ocl.__file__).parent / "lib").glob("*.so"))
    assert libraries
    stand_ins = set(re.findall(r" [BDRTWi] (\S+)", output_of("nm", *objects[:3])))
    for library in libraries:
        assert newer_symbols(library) <= stand_ins
