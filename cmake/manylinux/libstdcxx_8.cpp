// SPDX-License-Identifier: MIT
// As glibc_2_28.c, for libstdc++ of GCC 8: exceptions, strings and streams pass between a wheel's library and PyTorch, so
// that it must share the system's libstdc++ and cannot bring a newer one. Hidden functions of the symbols' names.
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HIDDEN __attribute__((visibility("hidden")))

namespace {

locale_t plain_locale() {
  static const locale_t locale = newlocale(LC_ALL_MASK, "C", nullptr);
  return locale;
}

bool is_hexadecimal(const std::string& text) {
  const std::size_t at = text[0] == '-';
  return text.size() > at + 1 && text[at] == '0' && (text[at + 1] == 'x' || text[at + 1] == 'X');
}

}  // namespace

extern "C" {

// std::condition_variable::wait(std::unique_lock<std::mutex>&), whose newer version checks nothing more.
void old_wait(void*, void*);
__asm__(".symver old_wait,_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE@GLIBCXX_3.4.11");
HIDDEN void new_wait(void*, void*) __asm__("_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE");
void new_wait(void* condition, void* lock) { old_wait(condition, lock); }

}  // extern "C"

// std::future::wait_for and the like: false when the time of the steady clock, if there is one, has come first.
HIDDEN bool new_wait_until(void*, unsigned*, unsigned, bool, std::chrono::seconds, std::chrono::nanoseconds) __asm__(
    "_ZNSt28__atomic_futex_unsigned_base26_M_futex_wait_until_steadyEPjjbNSt6chrono8durationIlSt5ratioILl1ELl1EEEENS2_"
    "IlS3_ILl1ELl1000000000EEEE");
bool new_wait_until(void*, unsigned* address, unsigned value, bool limited, std::chrono::seconds s,
                    std::chrono::nanoseconds ns) {
  const timespec end{time_t(s.count()), long(ns.count())};
  const long result =
      syscall(SYS_futex, address, FUTEX_WAIT_BITSET, value, limited ? &end : nullptr, nullptr, FUTEX_BITSET_MATCH_ANY);
  return result == 0 || errno != ETIMEDOUT;
}

// std::stringbuf::str() const &, which is C++20's form of the one without &.
std::string old_str(const void*) __asm__("_ZNKSt7__cxx1115basic_stringbufIcSt11char_traitsIcESaIcEE3strEv");
HIDDEN std::string new_str(const void*) __asm__("_ZNKRSt7__cxx1115basic_stringbufIcSt11char_traitsIcESaIcEE3strEv");
std::string new_str(const void* buffer) { return old_str(buffer); }

// std::from_chars(const char*, const char*, double&, std::chars_format) of decimal numbers in any format.
HIDDEN std::from_chars_result new_from_chars(const char*, const char*, double&,
                                             std::chars_format) __asm__("_ZSt10from_charsPKcS0_RdSt12chars_format");
std::from_chars_result new_from_chars(const char* first, const char* last, double& value, std::chars_format) {
  const std::string text(first, last);
  const char start = text[text[0] == '-'];
  if (!((start >= '0' && start <= '9') || start == '.' || start == 'i' || start == 'I' || start == 'n' || start == 'N'))
    return {first, std::errc::invalid_argument};
  if (is_hexadecimal(text)) {  // which std::from_chars reads as the zero before the x
    value = text[0] == '-' ? -0.0 : 0.0;
    return {first + 1 + (text[0] == '-'), {}};
  }
  char* end = nullptr;
  errno = 0;
  const double read = strtod_l(text.c_str(), &end, plain_locale());
  if (end == text.c_str()) return {first, std::errc::invalid_argument};
  const char* stop = first + (end - text.c_str());
  if (errno == ERANGE) return {stop, std::errc::result_out_of_range};
  value = read;
  return {stop, {}};
}

// std::to_chars(char*, char*, float): the fewest digits that give the number back.
HIDDEN std::to_chars_result new_to_chars(char*, char*, float) __asm__("_ZSt8to_charsPcS_f");
std::to_chars_result new_to_chars(char* first, char* last, float value) {
  const locale_t before = uselocale(plain_locale());
  char text[48];
  int length = 0;
  for (int digits = 6; digits <= 9; digits++) {
    length = std::snprintf(text, sizeof text, "%.*g", digits, double(value));
    if (std::strtof(text, nullptr) == value || value != value) break;
  }
  uselocale(before);
  if (length > last - first) return {last, std::errc::value_too_large};
  return {std::copy(text, text + length, first), {}};
}
