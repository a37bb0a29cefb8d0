// SPDX-License-Identifier: MIT
#include "tensors.hpp"

#include <dlprim/error.hpp>

#include <algorithm>
#include <iterator>
#include <set>

#include "../../runtime/system.hpp"
#include "../checked.hpp"
#include "arrangement.hpp"

namespace dlprim {

namespace {

constexpr std::size_t most_dims = 4;

constexpr WeightLayout layouts[] = {{WeightType::f32, "F32", 1, 4},
                                    {WeightType::f16, "F16", 1, 2},
                                    {WeightType::bf16, "BF16", 1, 2},
                                    {WeightType::q4_0, "Q4_0", 32, 18},
                                    {WeightType::q4_1, "Q4_1", 32, 20},
                                    {WeightType::q5_0, "Q5_0", 32, 22},
                                    {WeightType::q5_1, "Q5_1", 32, 24},
                                    {WeightType::q8_0, "Q8_0", 32, 34},
                                    {WeightType::q2_k, "Q2_K", 256, 84},
                                    {WeightType::q3_k, "Q3_K", 256, 110},
                                    {WeightType::q4_k, "Q4_K", 256, 144},
                                    {WeightType::q5_k, "Q5_K", 256, 176},
                                    {WeightType::q6_k, "Q6_K", 256, 210},
                                    {WeightType::iq4_nl, "IQ4_NL", 32, 18},
                                    {WeightType::iq4_xs, "IQ4_XS", 256, 136},
                                    {WeightType::mxfp4, "MXFP4", 32, 17},
                                    {WeightType::u8, "U8", 1, 1}};

}  // namespace

const WeightLayout& layout_of(WeightType type) {
  for (const WeightLayout& layout : layouts)
    if (layout.type == type) return layout;
  std::string names;
  for (const WeightLayout& layout : layouts)
    if (layout.type != WeightType::u8) names += (names.empty() ? "" : ", ") + std::string(layout.name);
  throw ValidationError("[gguf] elements of type " + std::to_string(std::uint32_t(type)) +
                        " are not supported; expected " + names);
}

std::int64_t WeightTensor::elements() const noexcept {
  std::int64_t product = 1;
  for (std::int64_t size : sizes) product *= size;
  return product;
}

std::string WeightTensor::text() const {
  std::string result = "'" + name + "' " + layout_of(type).name + " [";
  for (std::size_t i = 0; i < sizes.size(); i++) result += (i ? ", " : "") + std::to_string(sizes[i]);
  return result + "]";
}

WeightFile::WeightFile(std::string format) : format_(std::move(format)) {}
WeightFile::~WeightFile() = default;

void WeightFile::fail(const std::string& message) const { throw ValidationError("[" + format_ + "] " + message); }

void WeightFile::add(WeightTensor t) {
  if (t.sizes.empty() || t.sizes.size() > most_dims)
    fail("'" + t.name + "': expected 1 to " + std::to_string(most_dims) + " dimensions, got " +
         std::to_string(t.sizes.size()));
  for (std::int64_t size : t.sizes)
    if (size < 1 || size > std::int64_t(1) << 40) fail("'" + t.name + "': a size of " + std::to_string(size));
  const WeightLayout& layout = layout_of(t.type);
  if (t.sizes.back() % layout.elements)
    fail(t.text() + ": rows are not whole blocks of " + std::to_string(layout.elements));
  t.bytes = std::uint64_t(checked_multiply(checked_product(t.sizes) / layout.elements, layout.bytes));
  t.file = files_.size() - 1;
  if (!places_.emplace(t.name, tensors_.size()).second) fail("the tensor '" + t.name + "' is there twice");
  tensors_.push_back(std::move(t));
}

void WeightFile::place(std::uint64_t data) {
  const std::uint64_t size = files_.back()->size(), room = size > data ? size - data : 0;
  std::vector<const WeightTensor*> order;
  for (WeightTensor& t : tensors_) {
    if (t.file + 1 != files_.size()) continue;
    if (t.bytes > room || t.begin > room - t.bytes)
      fail(t.text() + " is cut off: it begins at " + std::to_string(t.begin) + " and has " + std::to_string(t.bytes) +
           " bytes of " + std::to_string(room));
    t.begin += data;
    order.push_back(&t);
  }
  std::ranges::sort(order, {}, [](const WeightTensor* t) { return t->begin; });
  for (std::size_t i = 1; i < order.size(); i++)
    if (order[i]->begin < order[i - 1]->begin + order[i - 1]->bytes)
      fail(order[i]->text() + " overlaps " + order[i - 1]->text());
}

void WeightFile::replace(const std::vector<std::string>& stored, std::vector<WeightTensor> others) {
  const std::set<std::string> gone(stored.begin(), stored.end());
  std::erase_if(tensors_, [&](const WeightTensor& t) { return gone.contains(t.name); });
  std::ranges::move(others, std::back_inserter(tensors_));
  places_.clear();
  for (std::size_t i = 0; i < tensors_.size(); i++)
    if (!places_.emplace(tensors_[i].name, i).second) fail("the tensor '" + tensors_[i].name + "' is there twice");
}

const WeightTensor* WeightFile::find(const std::string& name) const noexcept {
  const auto found = places_.find(name);
  return found == places_.end() ? nullptr : &tensors_[found->second];
}

void WeightFile::read(const WeightTensor& tensor, std::uint64_t offset, std::span<std::byte> to) const {
  if (offset > tensor.bytes || to.size() > tensor.bytes - offset) fail(tensor.text() + " is read beyond its end");
  if (tensor.arrangement)
    return read_arranged(tensor, offset, to, [&](const WeightTensor& stored, std::uint64_t from, auto bytes) {
      read(stored, from, bytes);
    });
  files_[tensor.file]->read(tensor.begin + offset, to);
}

}  // namespace dlprim
