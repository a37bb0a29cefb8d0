// SPDX-License-Identifier: MIT
#include "arrangement.hpp"

#include <dlprim/error.hpp>

#include <algorithm>
#include <cstring>

namespace dlprim {

namespace {

constexpr std::int64_t group = 32;  // numbers of MXFP4 that share an exponent, in 16 bytes

[[noreturn]] void fail(const WeightTensor& tensor, const std::string& expected) {
  throw ValidationError("[safetensors] expected " + expected + ", got " + tensor.text());
}

// The stored row, counted through all matrices, that is the part's row i.
std::int64_t stored_row(const Arrangement& a, std::int64_t i) {
  return (i / a.run * a.step + a.first) * a.run + i % a.run;
}

// Bytes of the stored rows from `first` on, of which there are `rows` in all.
std::vector<std::byte> stored_rows(const WeightTensor& stored, std::int64_t rows, std::int64_t first,
                                   std::int64_t count, const ReadStored& read) {
  const std::uint64_t row = stored.bytes / std::uint64_t(rows);
  std::vector<std::byte> result(std::size_t(count) * row);
  read(stored, std::uint64_t(first) * row, result);
  return result;
}

// A byte of the file has two numbers that follow each other; one of a GGUF block those of number i and i + 16.
void join_mxfp4(const std::byte* numbers, const std::byte* scales, std::int64_t groups, std::byte* to) {
  for (std::int64_t g = 0; g < groups; g++, numbers += group / 2) {
    const auto number = [&](std::int64_t i) { return (numbers[i / 2] >> (i % 2 * 4)) & std::byte(15); };
    *to++ = scales[g];
    for (std::int64_t i = 0; i < group / 2; i++) *to++ = number(i) | number(i + group / 2) << 4;
  }
}

void read_rows(const WeightTensor& tensor, std::uint64_t offset, std::span<std::byte> to, const ReadStored& read) {
  const Arrangement& a = *tensor.arrangement;
  const bool packed = !a.scales.name.empty();
  const std::int64_t row = packed ? tensor.sizes.back() / group * 17 : std::int64_t(tensor.bytes) / a.rows;
  const std::int64_t begin = std::int64_t(offset) / row, count = std::int64_t(to.size()) / row;
  if (count == 0) return;
  const std::int64_t first = stored_row(a, begin), span = stored_row(a, begin + count - 1) - first + 1;
  const std::vector<std::byte> rows = stored_rows(a.stored, a.rows * a.step, first, span, read);
  const std::vector<std::byte> scales =
      packed ? stored_rows(a.scales, a.rows * a.step, first, span, read) : std::vector<std::byte>();
  const std::int64_t from = std::int64_t(rows.size()) / span, groups = std::int64_t(scales.size()) / span;
  for (std::int64_t i = 0; i < count; i++) {
    const std::int64_t at = stored_row(a, begin + i) - first;
    if (packed) join_mxfp4(&rows[std::size_t(at * from)], &scales[std::size_t(at * groups)], groups, &to[i * row]);
    else std::memcpy(&to[std::size_t(i * row)], &rows[std::size_t(at * from)], std::size_t(row));
  }
}

// Columns of a matrix [k, columns] become rows, from `begin` on.
template <class Element>
void transpose(const Arrangement& a, const std::byte* matrix, std::int64_t k, std::int64_t columns, std::int64_t begin,
               std::int64_t count, std::byte* to) {
  for (std::int64_t i = 0; i < count; i++) {
    const std::byte* column = matrix + stored_row(a, begin + i) * std::int64_t(sizeof(Element));
    for (std::int64_t j = 0; j < k; j++, to += sizeof(Element))
      std::memcpy(to, column + j * columns * std::int64_t(sizeof(Element)), sizeof(Element));
  }
}

// Matrix by matrix.
void read_transposed(const WeightTensor& tensor, std::uint64_t offset, std::span<std::byte> to,
                     const ReadStored& read) {
  const Arrangement& a = *tensor.arrangement;
  const std::int64_t k = tensor.sizes.back(), n = tensor.sizes[tensor.sizes.size() - 2], columns = n * a.step;
  const std::int64_t item = layout_of(tensor.type).bytes, row = k * item;
  for (std::int64_t at = std::int64_t(offset) / row, end = at + std::int64_t(to.size()) / row; at < end;) {
    const std::int64_t matrix = at / n, begin = at % n, count = std::min(n - begin, end - at);
    const std::vector<std::byte> whole = stored_rows(a.stored, a.stored.elements() / columns, matrix * k, k, read);
    (item == 4 ? transpose<std::uint32_t> : transpose<std::uint16_t>)(a, whole.data(), k, columns, begin, count,
                                                                      to.data());
    to = to.subspan(std::size_t(count * row)), at += count;
  }
}

}  // namespace

WeightTensor arranged(const Part& part, const std::string& name, const WeightTensor& stored, const WeightTensor* scales,
                      std::int64_t run) {
  WeightTensor result = stored;
  std::vector<std::int64_t>& sizes = result.sizes;
  result.name = name;
  const std::size_t axis = std::size_t(part.axis), dims = sizes.size();
  if (axis >= dims || (part.transposed && (axis == 0 || axis + 1 != dims)))
    fail(stored, "another number of dimensions");
  if (sizes[axis] % (run * part.step)) fail(stored, "whole groups of " + std::to_string(run * part.step) + " rows");
  Arrangement a{.stored = stored, .run = run, .step = part.step, .first = part.first, .transposed = part.transposed};
  sizes[axis] /= part.step;
  if (part.scales) {
    if (stored.type != WeightType::u8 || dims != axis + 3 || sizes.back() != group / 2)
      fail(stored, "bytes in groups of 16");
    if (!scales || scales->type != WeightType::u8 ||
        !std::equal(scales->sizes.begin(), scales->sizes.end(), stored.sizes.begin(), stored.sizes.end() - 1))
      fail(scales ? *scales : stored, "bytes of scales for each of these groups");
    a.scales = *scales, result.type = WeightType::mxfp4;
    sizes.pop_back(), sizes.back() *= group;
  } else if (stored.type == WeightType::u8) {
    fail(stored, "floating point numbers");
  }
  if (part.transposed) std::swap(sizes[dims - 1], sizes[dims - 2]);
  a.rows = 1;
  for (std::size_t i = 0; i <= axis; i++) a.rows *= i == axis ? stored.sizes[i] / part.step : stored.sizes[i];
  const WeightLayout& layout = layout_of(result.type);
  result.bytes = std::uint64_t(result.elements() / layout.elements * layout.bytes);
  result.arrangement = std::make_shared<const Arrangement>(std::move(a));
  return result;
}

void read_arranged(const WeightTensor& tensor, std::uint64_t offset, std::span<std::byte> to, const ReadStored& read) {
  (tensor.arrangement->transposed ? read_transposed : read_rows)(tensor, offset, to, read);
}

}  // namespace dlprim
