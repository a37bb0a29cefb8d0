// SPDX-License-Identifier: MIT
#include "tables.hpp"

#include <bit>
#include <cmath>
#include <functional>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace dlprim::fft_detail {

namespace {

using Complex = std::complex<double>;
using Numbers = std::vector<Complex>;

Complex times(Complex a, Complex b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

// Stockham's algorithm on the host, for lengths of primes up to 5.
void transform(Numbers& x) {
  const std::size_t n = x.size();
  Numbers root(n), y(n);
  for (std::size_t m = 0; m < n; m++) root[m] = root_of_unity(m, n);
  for (std::size_t done = 1; done < n;) {
    const std::size_t rest = n / done, radix = rest % 4 == 0 ? 4 : rest % 2 == 0 ? 2 : rest % 3 == 0 ? 3 : 5;
    for (std::size_t b = 0; b < n / radix; b++) {
      const std::size_t k = b % done, first = b / done * done * radix + k;
      Complex in[5];
      for (std::size_t r = 0; r < radix; r++) in[r] = times(x[b + r * (n / radix)], root[r * k * (n / (done * radix))]);
      for (std::size_t q = 0; q < radix; q++) {
        Complex sum = in[0];
        for (std::size_t r = 1; r < radix; r++) sum += times(in[r], root[r * q % radix * (n / radix)]);
        y[first + q * done] = sum;
      }
    }
    x.swap(y), done *= radix;
  }
}

Complex chirp_at(std::uint64_t j, std::uint64_t n) { return root_of_unity(j * j % (2 * n), 2 * n); }

struct Key {
  int device;
  std::uint32_t kind;
  std::uint64_t n, padded;
  bool operator==(const Key&) const = default;
};

struct Hash {
  std::size_t operator()(const Key& key) const noexcept {
    return std::size_t(((key.n * 31 + key.padded) * 31 + key.kind) * 31 + std::uint64_t(key.device));
  }
};

// Tables in use, and those of the generation before, which goes when `most` bytes of the newer one are exceeded.
class Tables {
 public:
  Table get(Device& device, const Key& key, bool doubles, const std::function<Numbers()>& compute) {
    {
      std::lock_guard guard(mutex_);
      if (auto it = now_.find(key); it != now_.end()) return it->second;
      if (auto it = before_.find(key); it != before_.end()) return now_.emplace(key, it->second), it->second;
    }
    const Numbers numbers = compute();
    Table table;
    if (doubles) {
      table = std::make_shared<ConstantMemory>(device, numbers.data(), numbers.size() * sizeof numbers[0]);
    } else {
      const std::vector<std::complex<float>> floats(numbers.begin(), numbers.end());
      table = std::make_shared<ConstantMemory>(device, floats.data(), floats.size() * sizeof floats[0]);
    }
    std::unordered_map<Key, Table, Hash> old;
    std::lock_guard guard(mutex_);
    bytes_ += numbers.size() * (doubles ? 16 : 8);
    if (bytes_ > most) {
      // Launches that wait for their way to the driver may use what goes now.
      for (const auto& [unused, entry] : before_) Device::get(unused.device).synchronize();
      before_ = std::move(now_), now_.clear(), bytes_ = 0;
    }
    return now_.try_emplace(key, table).first->second;
  }

 private:
  static constexpr std::size_t most = std::size_t(256) << 20;
  std::mutex mutex_;
  std::size_t bytes_ = 0;
  std::unordered_map<Key, Table, Hash> now_, before_;
};

Table table(Device& device, int kind, std::uint64_t n, std::uint64_t padded, bool doubles,
            const std::function<Numbers()>& compute) {
  static auto& tables = *new Tables;  // drivers may be gone when static objects are destroyed
  return tables.get(device, {device.index(), std::uint32_t(kind * 2 + doubles), n, padded}, doubles, compute);
}

}  // namespace

Complex root_of_unity(std::uint64_t m, std::uint64_t n) {
  // Angles below an eighth of a turn, where cosine and sine are exact at the ends and symmetric.
  const std::uint64_t eighth = 8 * (m % n) / n, from = (eighth + 1) / 2;  // the nearest quarter
  const double angle = 2 * 3.14159265358979323846 * (double(4 * (m % n)) - double(from * n)) / (4 * double(n));
  const double c = std::cos(angle), s = std::sin(angle);
  switch (from % 4) {
    case 0: return {c, -s};
    case 1: return {-s, -c};
    case 2: return {-c, s};
    default: return {s, c};
  }
}

int turn_bits(std::uint64_t n) { return n <= 16384 ? 32 : (std::bit_width(n - 1) + 1) / 2; }

std::size_t stage_root_count(std::uint32_t radix, std::uint32_t done) {
  return std::size_t(std::bit_width(radix - 1)) * done;
}

Table stage_roots(Device& device, const PassShape& shape, bool doubles) {
  std::uint64_t radices = 0;
  for (int s = 0; s < shape.stages; s++) radices = radices * 33 + shape.radices[std::size_t(s)];
  return table(device, 1, shape.length, radices, doubles, [&] {
    Numbers numbers;
    std::uint32_t done = shape.radices[0];
    for (int s = 1; s < shape.stages; s++) {
      const std::uint32_t radix = shape.radices[std::size_t(s)];
      for (std::uint32_t power = 1; power < radix; power *= 2)
        for (std::uint32_t k = 0; k < done; k++)
          numbers.push_back(root_of_unity(std::uint64_t(power) * k, radix * done));
      done *= radix;
    }
    return numbers;
  });
}

Table turns(Device& device, std::uint64_t n, bool doubles) {
  return table(device, 0, n, 0, doubles, [&] {
    Numbers numbers;
    const std::uint64_t low = std::uint64_t(1) << turn_bits(n);
    if (low >= n) {
      for (std::uint64_t m = 0; m < n; m++) numbers.push_back(root_of_unity(m, n));
      return numbers;
    }
    for (std::uint64_t m = 0; m < low; m++) numbers.push_back(root_of_unity(m, n));
    for (std::uint64_t m = 0; m < n; m += low) numbers.push_back(root_of_unity(m, n));
    return numbers;
  });
}

Table chirp(Device& device, std::uint64_t n, bool doubles) {
  return table(device, 2, n, 0, doubles, [&] {
    Numbers numbers(n);
    for (std::uint64_t j = 0; j < n; j++) numbers[j] = chirp_at(j, n);
    return numbers;
  });
}

Table chirp_spectrum(Device& device, std::uint64_t n, std::uint64_t padded, bool doubles) {
  return table(device, 3, n, padded, doubles, [&] {
    Numbers numbers(padded);
    for (std::uint64_t j = 0; j < n; j++)
      numbers[j] = numbers[j ? padded - j : 0] = std::conj(chirp_at(j, n)) / double(padded);
    transform(numbers);
    return numbers;
  });
}

}  // namespace dlprim::fft_detail
