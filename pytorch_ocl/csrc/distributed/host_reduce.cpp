// SPDX-License-Identifier: MIT
#include "host_reduce.hpp"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <dlprim/runtime/parallel.hpp>

#include <algorithm>
#include <cmath>

#if defined(__GNUC__) && defined(__x86_64__)
#define OCL_INLINE [[gnu::always_inline]] inline
#define OCL_AVX2 [[gnu::target("avx2,f16c")]]
#else
#define OCL_INLINE inline
#endif

namespace pytorch_ocl::distributed {

namespace {

// Elements that stay in the first cache while all sources are added to them.
constexpr std::size_t block = 1024;
constexpr std::size_t grain = std::size_t(32) << 10;

// What a dtype is computed in.
template <class T>
struct Computed {
  using type = T;
};
template <>
struct Computed<c10::Half> {
  using type = float;
};
template <>
struct Computed<c10::BFloat16> {
  using type = float;
};
// Integers wrap around, as c10d's do: in unsigned numbers, where that is defined.
template <>
struct Computed<std::int32_t> {
  using type = std::uint32_t;
};
template <>
struct Computed<std::int64_t> {
  using type = std::uint64_t;
};

struct Sum {
  template <class T, class A>
  OCL_INLINE static A combine(A a, A b) {
    return A(a + b);
  }
};
struct Product {
  template <class T, class A>
  OCL_INLINE static A combine(A a, A b) {
    return A(a * b);
  }
};
// Both are branchless, and false for NaN: a NaN in `a` stays, one in `b` is taken.
struct Minimum {
  template <class T, class A>
  OCL_INLINE static A combine(A a, A b) {
    const bool takes = T(b) < T(a) || b != b;
    return takes && a == a ? b : a;
  }
};
struct Maximum {
  template <class T, class A>
  OCL_INLINE static A combine(A a, A b) {
    const bool takes = T(b) > T(a) || b != b;
    return takes && a == a ? b : a;
  }
};

struct Range {
  void* result;
  const void* const* sources;
  std::size_t ranks, begin, end;
  double divisor;  // of the result; 1 but for AVG
};

template <class T, class Op>
OCL_INLINE void reduce_blocks(const Range& range) {
  using A = typename Computed<T>::type;
  // The type in which MIN and MAX compare: signed integers as such.
  using Compared = std::conditional_t<std::is_integral_v<T>, T, A>;
  A sums[block];
  for (std::size_t at = range.begin; at < range.end; at += block) {
    const std::size_t count = std::min(block, range.end - at);
    const T* first = static_cast<const T*>(range.sources[0]) + at;
    for (std::size_t i = 0; i < count; i++) sums[i] = A(first[i]);
    for (std::size_t rank = 1; rank < range.ranks; rank++) {
      const T* next = static_cast<const T*>(range.sources[rank]) + at;
      for (std::size_t i = 0; i < count; i++) sums[i] = Op::template combine<Compared, A>(sums[i], A(next[i]));
    }
    T* result = static_cast<T*>(range.result) + at;
    if constexpr (std::is_floating_point_v<A>)
      if (range.divisor != 1)
        for (std::size_t i = 0; i < count; i++) sums[i] /= A(range.divisor);
    for (std::size_t i = 0; i < count; i++) result[i] = T(sums[i]);
  }
}

template <class T, class Op>
void reduce_plain(const Range& range) {
  reduce_blocks<T, Op>(range);
}

#ifdef OCL_AVX2
template <class T, class Op>
OCL_AVX2 void reduce_avx2(const Range& range) {
  reduce_blocks<T, Op>(range);
}
bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c"); }
#endif

using Kernel = void (*)(const Range&);

template <class T, class Op>
Kernel kernel() {
#ifdef OCL_AVX2
  static const bool fast = has_avx2();
  if (fast) return &reduce_avx2<T, Op>;
#endif
  return &reduce_plain<T, Op>;
}

template <class T>
Kernel kernel_of(Operation operation) {
  switch (operation) {
    case Operation::SUM:
    case Operation::AVG: return kernel<T, Sum>();
    case Operation::PRODUCT: return kernel<T, Product>();
    case Operation::MIN: return kernel<T, Minimum>();
    case Operation::MAX: return kernel<T, Maximum>();
    default: return nullptr;
  }
}

// Of true and false, SUM and MAX are "or", PRODUCT and MIN "and".
Kernel kernel_of_bool(Operation operation) {
  const bool any = operation == Operation::SUM || operation == Operation::MAX;
  return any ? kernel<std::uint8_t, Maximum>() : kernel<std::uint8_t, Minimum>();
}

Kernel kernel_of(c10::ScalarType type, Operation operation) {
  switch (type) {
    case c10::kFloat:
    case c10::kComplexFloat: return kernel_of<float>(operation);
    case c10::kDouble:
    case c10::kComplexDouble: return kernel_of<double>(operation);
    case c10::kHalf: return kernel_of<c10::Half>(operation);
    case c10::kBFloat16: return kernel_of<c10::BFloat16>(operation);
    case c10::kByte: return kernel_of<std::uint8_t>(operation);
    case c10::kChar: return kernel_of<std::int8_t>(operation);
    case c10::kInt: return kernel_of<std::int32_t>(operation);
    case c10::kLong: return kernel_of<std::int64_t>(operation);
    case c10::kBool: return kernel_of_bool(operation);
    default: return nullptr;
  }
}

}  // namespace

bool can_reduce(c10::ScalarType type, Operation operation) {
  if (operation == Operation::AVG) return c10::isFloatingType(type) && kernel_of(type, Operation::SUM) != nullptr;
  if (operation > Operation::MAX) return false;
  return (operation == Operation::SUM || !c10::isComplexType(type)) && kernel_of(type, operation) != nullptr;
}

void reduce(c10::ScalarType type, Operation operation, void* result, const std::vector<const void*>& sources,
            std::size_t count) {
  if (c10::isComplexType(type)) count *= 2;
  const Kernel run = kernel_of(type, operation);
  TORCH_INTERNAL_ASSERT(run);
  const double divisor = operation == Operation::AVG ? double(sources.size()) : 1.0;
  dlprim::parallel_ranges(count, grain, [&](std::size_t begin, std::size_t end) {
    run({result, sources.data(), sources.size(), begin, end, divisor});
  });
}

}  // namespace pytorch_ocl::distributed
