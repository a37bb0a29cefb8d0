// SPDX-License-Identifier: MIT
#include <dlprim/primitives/index.hpp>
#include <dlprim/runtime/settings.hpp>

#include <array>

#include "testing.hpp"

namespace dlprim {
namespace {

using testing::DeviceVector;
using testing::queue;

std::vector<std::int64_t> indices(std::size_t count, std::int64_t below) {
  std::mt19937 engine(3);
  std::vector<std::int64_t> result(count);
  for (auto& i : result) i = std::int64_t(engine() % std::uint64_t(below));
  return result;
}

TEST(Index, SelectsRowsOfAnyWidth) {
  for (const std::int64_t width : {1, 3, 4, 7, 64}) {
    const auto host = testing::random_floats(std::size_t(50 * width));
    const auto rows = indices(77, 50);
    DeviceVector<float> source(host), out(std::size_t(77 * width));
    DeviceVector<std::int64_t> index(rows);
    index_select(queue(), {out.data(), DataType::float32, {77, width}}, {source.data(), DataType::float32, {50, width}},
                 0, {index.data(), DataType::int64, {77}});
    const auto result = out.read();
    for (std::size_t i = 0; i < result.size(); i++)
      ASSERT_EQ(result[i], host[std::size_t(rows[i / std::size_t(width)] * width) + i % std::size_t(width)]);
  }
}

// Ten index tensors, of which a kernel takes eight.
TEST(Index, ReadsAndWritesAtManyIndices) {
  constexpr int count = 10;
  const auto host = testing::random_floats(std::size_t(1) << count);
  DeviceVector<float> source(host), out(77), written(std::vector<float>(host.size(), 0));
  std::vector<std::vector<std::int64_t>> at;
  std::vector<DeviceVector<std::int64_t>> memory;
  std::vector<IndexedDim> dims;
  for (int k = 0; k < count; k++) {
    at.push_back(indices(77, 2 + k));
    for (auto& i : at.back()) i = i % 2 - (k == 9 ? 2 : 0);
    memory.emplace_back(at.back());
    dims.push_back({{memory.back().data(), DataType::int64, {77}}, 2, std::int64_t(1) << k});
  }
  IndexOptions options;
  options.wrap = true;
  const std::int64_t size[] = {77}, still[] = {0};
  indexed_read(queue(), {out.data(), DataType::float32, {77}}, {source.data(), DataType::float32, size, still}, dims,
               options);
  indexed_write(queue(), {written.data(), DataType::float32, size, still}, {out.data(), DataType::float32, {77}}, dims,
                Update::add, options);
  const auto result = out.read();
  std::vector<double> sums(host.size());
  for (std::size_t i = 0; i < result.size(); i++) {
    std::size_t position = 0;
    for (int k = 0; k < count; k++) position += std::size_t((at[std::size_t(k)][i] + (k == 9 ? 2 : 0))) << k;
    ASSERT_EQ(result[i], host[position]) << i;
    sums[position] += result[i];
  }
  const auto totals = written.read();
  for (std::size_t i = 0; i < totals.size(); i++) ASSERT_NEAR(totals[i], sums[i], 1e-4) << i;
}

// So many elements that work-items of a GPU read several, the last one not all of them.
TEST(Index, ReadsManyElements) {
  const std::size_t count = 4 * 2048 * std::size_t(testing::device().info().compute_units) + 35;
  const auto host = testing::random_floats(1000);
  auto at = indices(count, 1000);
  at[count / 2] = -1, at[count - 1] = -1000;
  DeviceVector<float> source(host), out(count);
  DeviceVector<std::int64_t> index(at);
  IndexOptions options;
  options.wrap = true;
  const std::int64_t size[] = {std::int64_t(count)}, still[] = {0};
  const TensorView addressed{source.data(), DataType::float32, size, still};
  const IndexedDim dims[] = {{{index.data(), DataType::int64, {std::int64_t(count)}}, 1000, 1}};
  indexed_read(queue(), {out.data(), DataType::float32, {std::int64_t(count)}}, addressed, dims, options);
  const auto result = out.read();
  for (std::size_t i = 0; i < count; i++) ASSERT_EQ(result[i], host[std::size_t((at[i] + 1000) % 1000)]) << i;
}

TEST(Index, GathersAlongTheMiddle) {
  const auto host = testing::random_floats(4 * 9 * 5);
  const auto at = indices(4 * 6 * 5, 9);
  DeviceVector<float> source(host), out(at.size());
  DeviceVector<std::int64_t> index(at);
  gather(queue(), {out.data(), DataType::float32, {4, 6, 5}}, {source.data(), DataType::float32, {4, 9, 5}}, 1,
         {index.data(), DataType::int64, {4, 6, 5}});
  const auto result = out.read();
  for (std::size_t i = 0; i < result.size(); i++)
    ASSERT_EQ(result[i], host[(i / 30 * 9 + std::size_t(at[i])) * 5 + i % 5]);
}

template <class T>
void scatters(DataType type, Update update, T start, T (*combine)(T, T)) {
  const auto at = indices(1000, 10);
  std::vector<T> expected(10, start), given(1000);
  for (std::size_t i = 0; i < given.size(); i++) given[i] = T(i % 5 + 1);
  for (std::size_t i = 0; i < given.size(); i++) {
    T& e = expected[std::size_t(at[i])];
    e = combine(e, given[i]);
  }
  DeviceVector<T> destination(std::vector<T>(10, start)), values(given);
  DeviceVector<std::int64_t> index(at);
  scatter(queue(), {destination.data(), type, {10}}, 0, {index.data(), DataType::int64, {1000}},
          {values.data(), type, {1000}}, update);
  EXPECT_EQ(destination.read(), expected) << name(type);
}

TEST(Index, UpdatesOneElementManyTimes) {
  scatters<float>(DataType::float32, Update::add, 1, [](float a, float b) { return a + b; });
  scatters<std::int32_t>(DataType::int32, Update::add, 1, [](std::int32_t a, std::int32_t b) { return a + b; });
  scatters<std::int16_t>(DataType::int16, Update::add, 1,
                         [](std::int16_t a, std::int16_t b) { return std::int16_t(a + b); });
  scatters<std::int8_t>(DataType::int8, Update::multiply, 1,
                        [](std::int8_t a, std::int8_t b) { return std::int8_t(a * b); });
  scatters<std::uint8_t>(DataType::uint8, Update::maximum, 1,
                         [](std::uint8_t a, std::uint8_t b) { return std::max(a, b); });
  scatters<float>(DataType::float32, Update::minimum, 3, [](float a, float b) { return std::min(a, b); });
  if (testing::device().info().int64_atomics)
    scatters<std::int64_t>(DataType::int64, Update::add, 1, [](std::int64_t a, std::int64_t b) { return a + b; });
}

// Each shape is shared among a CPU's work-items in another way; with the atomic form besides.
void expect_updates(std::array<std::int64_t, 3> shape, std::int64_t inside, int dim, Update update, bool full) {
  const std::int64_t count = shape[0] * shape[1] * shape[2], length = shape[std::size_t(dim)];
  auto target = shape;
  target[std::size_t(dim)] = inside;
  const std::int64_t places = target[0] * target[1] * target[2];
  std::vector<std::int32_t> values(static_cast<std::size_t>(count)), expected(std::size_t(places), 3);
  for (std::size_t i = 0; i < values.size(); i++) values[i] = std::int32_t(i % 7) - 2;
  const auto at = indices(std::size_t(full ? count : length), inside);
  for (std::int64_t i = 0; i < count; i++) {
    std::int64_t c[3] = {i / (shape[1] * shape[2]), i / shape[2] % shape[1], i % shape[2]};
    c[dim] = at[std::size_t(full ? i : c[dim])];
    auto& place = expected[std::size_t((c[0] * target[1] + c[1]) * target[2] + c[2])];
    const std::int32_t value = values[std::size_t(i)];
    place = update == Update::add ? place + value : std::max(place, value);
  }
  DeviceVector<std::int32_t> to(std::vector<std::int32_t>(std::size_t(places), 3)), from(values);
  DeviceVector<std::int64_t> index(at);
  const TensorView destination{to.data(), DataType::int32, target}, given{from.data(), DataType::int32, shape};
  if (full) scatter(queue(), destination, dim, {index.data(), DataType::int64, shape}, given, update);
  else index_update(queue(), destination, dim, {index.data(), DataType::int64, {length}}, given, update);
  EXPECT_EQ(to.read(), expected) << shape[0] << " x " << shape[1] << " x " << shape[2] << " along " << dim
                                 << (full ? ", an index an element" : "");
}

TEST(Index, UpdatesOfEveryShape) {
  const std::array<std::int64_t, 3> shapes[] = {{1, 1, 500}, {70, 3, 5}, {5, 40, 100}, {300, 1, 1}, {9, 1, 2}};
  for (const bool gpu : {false, true})
    for (const auto& shape : shapes)
      for (const int dim : {0, 1, 2})
        for (const bool full : {false, true}) {
          settings.gpu_forms = gpu;
          expect_updates(shape, 11, dim, Update::add, full);
          if (dim == 0) expect_updates(shape, 200, dim, Update::maximum, full);
        }
  settings.gpu_forms = false;
}

TEST(Index, ReportsAnIndexOutOfRange) {
  DeviceVector<float> source(std::vector<float>(10)), out(2);
  DeviceVector<std::int64_t> index(std::vector<std::int64_t>{3, 10});
  gather(queue(), {out.data(), DataType::float32, {2}}, {source.data(), DataType::float32, {10}}, 0,
         {index.data(), DataType::int64, {2}});
  try {
    queue().finish();
    FAIL() << "expected an IndexError";
  } catch (const IndexError& error) {
    EXPECT_STREQ(error.what(), "index 10 is out of bounds");
  }
  EXPECT_NO_THROW(queue().finish());
}

TEST(Index, WrapsAndIgnores) {
  const std::vector<float> host{1, 2, 3, 4};
  DeviceVector<float> source(host), out(std::vector<float>{-1, -1, -1});
  DeviceVector<std::int32_t> index(std::vector<std::int32_t>{-1, 2, 0});
  IndexOptions options;
  options.wrap = true, options.ignore = 2;
  gather(queue(), {out.data(), DataType::float32, {3}}, {source.data(), DataType::float32, {4}}, 0,
         {index.data(), DataType::int32, {3}}, options);
  EXPECT_EQ(out.read(), (std::vector<float>{4, -1, 1}));
}

TEST(Index, OrderedUpdates) {
  IndexOptions options;
  options.ordered = true;
  for (const Update update : {Update::add, Update::assign, Update::maximum}) {
    DeviceVector<float> to(std::vector<float>(4, 1)), values(std::vector<float>{4, 2, 3});
    DeviceVector<std::int64_t> index(std::vector<std::int64_t>{2, 0, 2});
    scatter(queue(), {to.data(), DataType::float32, {4}}, 0, {index.data(), DataType::int64, {3}},
            {values.data(), DataType::float32, {3}}, update, options);
    const std::vector<float> expected = update == Update::add      ? std::vector<float>{3, 1, 8, 1}
                                        : update == Update::assign ? std::vector<float>{2, 1, 3, 1}
                                                                   : std::vector<float>{2, 1, 4, 1};
    EXPECT_EQ(to.read(), expected);
  }
}

TEST(Index, OrderedUpdatesOfStridedRowsRoundOnce) {
  const std::size_t n = 1000;
  DeviceVector<std::uint16_t> to(std::vector<std::uint16_t>(12, 0));  // bfloat16, every second column
  DeviceVector<std::uint16_t> one(std::vector<std::uint16_t>{0x3f80});  // 1, broadcast
  DeviceVector<std::int64_t> index(std::vector<std::int64_t>(n, 1));
  IndexOptions options;
  options.ordered = true;
  const std::int64_t sizes[] = {3, 2}, strides[] = {4, 2}, shape[] = {std::int64_t(n), 2}, none[] = {0, 0};
  index_update(queue(), {to.data(), DataType::bfloat16, sizes, strides}, 0,
               {index.data(), DataType::int64, {std::int64_t(n)}}, {one.data(), DataType::bfloat16, shape, none},
               Update::add, options);
  const std::uint16_t thousand = 0x447a;
  EXPECT_EQ(to.read(), (std::vector<std::uint16_t>{0, 0, 0, 0, thousand, 0, thousand, 0, 0, 0, 0, 0}));
}

// Rows that no index varies along, at the end, in front, in the middle, of other strides than their sizes' product.
TEST(Index, OrderedUpdatesOfRows) {
  IndexOptions options;
  options.ordered = true;
  const std::int64_t given = 6;
  for (const std::int64_t length : {4, 300})
    for (const int dim : {0, 1, 2})
      for (const std::int64_t padding : {0, 3})
        for (const Update update : {Update::add, Update::assign, Update::maximum}) {
          const std::int64_t sizes[] = {3, 5, length}, line = length + padding, strides[] = {5 * line, line, 1};
          std::vector<float> host(std::size_t(3 * 5 * line), 1);
          std::int64_t shape[] = {3, 5, length};
          shape[dim] = given;
          std::vector<float> values(std::size_t(shape[0] * shape[1] * shape[2]));
          for (std::size_t i = 0; i < values.size(); i++) values[i] = float(i * 37 % 101);
          std::vector<std::int64_t> index;
          for (std::int64_t i = 0; i < given; i++) index.push_back(i * 5 % 4 % sizes[dim]);
          DeviceVector<float> to(host), from(values);
          DeviceVector<std::int64_t> where(index);
          index_update(queue(), {to.data(), DataType::float32, sizes, strides}, dim,
                       {where.data(), DataType::int64, {given}}, {from.data(), DataType::float32, shape}, update,
                       options);
          for (std::int64_t i = 0; i < std::int64_t(values.size()); i++) {
            std::int64_t at[] = {i / shape[2] / shape[1], i / shape[2] % shape[1], i % shape[2]};
            at[dim] = index[std::size_t(at[dim])];
            float& element = host[std::size_t(at[0] * strides[0] + at[1] * strides[1] + at[2])];
            const float value = values[std::size_t(i)];
            if (update == Update::add) element += value;
            else if (update == Update::assign || value > element) element = value;
          }
          EXPECT_EQ(to.read(), host) << length << " " << dim << " " << padding << " " << int(update);
        }
}

// Nothing may be written anywhere, whatever the index and what memory held before.
TEST(Index, WritesNothingOutOfRange) {
  for (const std::int64_t bad : {std::int64_t(4), std::int64_t(-1), std::int64_t(1) << 40, INT64_MIN, INT64_MAX})
    for (const bool ordered : {false, true})
      for (const Update update : {Update::assign, Update::add, Update::maximum}) {
        DeviceVector<float> to(std::vector<float>(4, 1)), values(std::vector<float>{5, 6});
        DeviceVector<std::int64_t> index(std::vector<std::int64_t>{bad, 2});
        IndexOptions options;
        options.ordered = ordered;
        scatter(queue(), {to.data(), DataType::float32, {4}}, 0, {index.data(), DataType::int64, {2}},
                {values.data(), DataType::float32, {2}}, update, options);
        EXPECT_THROW(queue().finish(), IndexError) << bad;
        EXPECT_EQ(to.read(), (std::vector<float>{1, 1, update == Update::add ? 7.0f : 6.0f, 1}));
      }
}

TEST(Index, ReadsZeroOutOfRange) {
  DeviceVector<float> source(std::vector<float>{1, 2}), out(std::vector<float>{7, 7});
  DeviceVector<std::int64_t> index(std::vector<std::int64_t>{1, INT64_MIN});
  gather(queue(), {out.data(), DataType::float32, {2}}, {source.data(), DataType::float32, {2}}, 0,
         {index.data(), DataType::int64, {2}});
  EXPECT_THROW(queue().finish(), IndexError);
  EXPECT_EQ(out.read(), (std::vector<float>{2, 0}));
}

TEST(Index, RefusesOtherIndexTypes) {
  DeviceVector<float> source(4), out(4);
  EXPECT_THROW(gather(queue(), {out.data(), DataType::float32, {4}}, {source.data(), DataType::float32, {4}}, 0,
                      {source.data(), DataType::float32, {4}}),
               ValidationError);
}

}  // namespace
}  // namespace dlprim
