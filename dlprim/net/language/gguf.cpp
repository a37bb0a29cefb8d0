// SPDX-License-Identifier: MIT
#include "gguf.hpp"

#include <dlprim/error.hpp>

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>

#include "../../runtime/system.hpp"
#include "../checked.hpp"

namespace dlprim {

namespace {

static_assert(std::endian::native == std::endian::little, "files are read as they lie in memory");

constexpr std::uint64_t largest_header = std::uint64_t(512) << 20;
constexpr int deepest_array = 8;
constexpr std::uint32_t most_dims = 4;

// Kinds of values in metadata, by their numbers.
enum Kind : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64, kinds };
constexpr std::uint64_t least_bytes[kinds] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};

[[noreturn]] void wrong(const std::string& message) { throw ValidationError("[gguf] " + message); }

}  // namespace

// Numbers and texts one after the other, from a buffer that moves along the file.
class GgufFile::Reader {
 public:
  explicit Reader(const RegularFile& file) : file_(file) {}

  std::uint64_t at() const noexcept { return at_; }
  std::uint64_t rest() const noexcept { return std::min(file_.size(), largest_header) - at_; }

  template <class T>
  T number() {
    T value;
    take(std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }

  std::string text(const char* what, std::uint64_t most) {
    const auto length = number<std::uint64_t>();
    if (length > std::min(most, rest()))
      wrong(std::string(what) + " of " + std::to_string(length) + " bytes, with " + std::to_string(rest()) +
            " left, at byte " + std::to_string(at_));
    std::string result(std::size_t(length), '\0');
    take(std::as_writable_bytes(std::span(result)));
    return result;
  }

  // How many things of at least `each` bytes follow.
  std::uint64_t count(const char* what, std::uint64_t number, std::uint64_t each) const {
    if (number > rest() / each)
      wrong(std::to_string(number) + " " + what + " do not fit the " + std::to_string(rest()) + " bytes that follow");
    return number;
  }

  template <class To, class From>
  std::vector<To> numbers(std::uint64_t count) {
    std::vector<To> result(static_cast<std::size_t>(count));
    for (To& value : result) value = To(number<From>());  // NOLINT(bugprone-signed-char-misuse): an int8 keeps its sign
    return result;
  }

  // Moves on over an array's elements.
  void pass(std::uint32_t kind, std::uint64_t length, int depth);

 private:
  void take(std::span<std::byte> to) {
    if (to.size() > rest()) wrong("the file is cut off at byte " + std::to_string(at_));
    while (!to.empty()) {
      if (at_ < begin_ || at_ - begin_ >= buffer_.size()) {
        begin_ = at_;
        buffer_.resize(std::size_t(std::min<std::uint64_t>(file_.size() - at_, std::uint64_t(1) << 20)));
        file_.read(at_, buffer_);
      }
      const std::size_t from = std::size_t(at_ - begin_), count = std::min(to.size(), buffer_.size() - from);
      std::memcpy(to.data(), buffer_.data() + from, count);
      to = to.subspan(count), at_ += count;
    }
  }

  const RegularFile& file_;
  std::vector<std::byte> buffer_;
  std::uint64_t begin_ = 0, at_ = 0;
};

void GgufFile::Reader::pass(std::uint32_t kind, std::uint64_t length, int depth) {
  if (depth > deepest_array) wrong("arrays lie more than " + std::to_string(deepest_array) + " deep in each other");
  for (std::uint64_t i = 0; i < length; i++) {
    if (kind == string) {
      text("a text", rest());
    } else if (kind == array) {
      const auto inner = number<std::uint32_t>();
      if (inner >= kinds) wrong("an array of kind " + std::to_string(inner));
      pass(inner, count("elements of an array", number<std::uint64_t>(), least_bytes[inner]), depth + 1);
    } else {
      for (std::uint64_t b = 0; b < least_bytes[kind]; b++) number<std::uint8_t>();
    }
  }
}

namespace {

// Numbers above int64's range are kept as double.
GgufValue whole(std::uint64_t value) {
  if (value >> 63) return double(value);
  return std::int64_t(value);
}

template <class Reader>
GgufValue read_array(Reader& r) {
  const auto kind = r.template number<std::uint32_t>();
  if (kind >= kinds) wrong("an array of kind " + std::to_string(kind));
  const std::uint64_t n = r.count("elements of an array", r.template number<std::uint64_t>(), least_bytes[kind]);
  switch (kind) {
    case u8:
    case boolean: return r.template numbers<std::int64_t, std::uint8_t>(n);
    case i8: return r.template numbers<std::int64_t, std::int8_t>(n);
    case u16: return r.template numbers<std::int64_t, std::uint16_t>(n);
    case i16: return r.template numbers<std::int64_t, std::int16_t>(n);
    case u32: return r.template numbers<std::int64_t, std::uint32_t>(n);
    case i32: return r.template numbers<std::int64_t, std::int32_t>(n);
    case u64:
    case i64: return r.template numbers<std::int64_t, std::int64_t>(n);
    case f32: return r.template numbers<double, float>(n);
    case f64: return r.template numbers<double, double>(n);
    case string: {
      std::vector<std::string> texts;
      for (std::uint64_t i = 0; i < n; i++) texts.push_back(r.text("a text", r.rest()));
      return texts;
    }
    default: r.pass(kind, n, 1); return std::monostate();
  }
}

template <class Reader>
GgufValue read_value(Reader& r) {
  const auto kind = r.template number<std::uint32_t>();
  switch (kind) {
    case u8: return std::int64_t(r.template number<std::uint8_t>());
    case i8: return std::int64_t(r.template number<std::int8_t>());
    case u16: return std::int64_t(r.template number<std::uint16_t>());
    case i16: return std::int64_t(r.template number<std::int16_t>());
    case u32: return std::int64_t(r.template number<std::uint32_t>());
    case i32: return std::int64_t(r.template number<std::int32_t>());
    case u64: return whole(r.template number<std::uint64_t>());
    case i64: return r.template number<std::int64_t>();
    case f32: return double(r.template number<float>());
    case f64: return r.template number<double>();
    case boolean: return r.template number<std::uint8_t>() != 0;
    case string: return r.text("a text", r.rest());
    case array: return read_array(r);
    default: wrong("a value of kind " + std::to_string(kind) + " at byte " + std::to_string(r.at()));
  }
}

std::filesystem::path followed(const std::string& path) {  // users may name links
  std::error_code error;
  std::filesystem::path target = std::filesystem::canonical(path, error);
  if (error) wrong("cannot read '" + path + "': " + error.message());
  return target;
}

}  // namespace

GgufFile::GgufFile(const std::string& path) : WeightFile("gguf") {
  files_.push_back(std::make_unique<RegularFile>(followed(path)));
  try {
    Reader reader(*files_[0]);
    if (files_[0]->size() < 24 || reader.number<std::uint32_t>() != 0x46554747u) wrong("this is no GGUF file");
    const auto version = reader.number<std::uint32_t>();
    if (version != 2 && version != 3)
      wrong((version & 0xffff) == 0 && version ? std::string("files in big endian are not supported")
                                               : "expected version 2 or 3, got " + std::to_string(version));
    // A tensor takes 32 bytes at least, a value 13.
    const std::uint64_t tensors = reader.count("tensors", reader.number<std::uint64_t>(), 32);
    const std::uint64_t values = reader.count("values", reader.number<std::uint64_t>(), 13);
    read_values(reader, values);
    read_tensors(reader, tensors);
    const std::int64_t alignment = checked_range(integer("general.alignment").value_or(32), 1, 1 << 20, "an alignment");
    const std::uint64_t data = std::uint64_t(divide_up(std::int64_t(reader.at()), alignment) * alignment);
    for (const WeightTensor& t : tensors_)
      if (t.begin % std::uint64_t(alignment))
        wrong(t.text() + " begins at " + std::to_string(t.begin) + ", which is not aligned to " +
              std::to_string(alignment));
    place(data);
  } catch (const ValidationError& problem) {
    const std::string message = problem.what();
    throw ValidationError((message.starts_with("[gguf]") ? "" : "[gguf] ") + message + ", in '" + path + "'");
  }
}

void GgufFile::read_values(Reader& reader, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; i++) {
    const std::string key = reader.text("a key", 65535);
    if (!values_.emplace(key, read_value(reader)).second) wrong("the key '" + key + "' is there twice");
  }
}

void GgufFile::read_tensors(Reader& reader, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; i++) {
    WeightTensor t;
    t.name = reader.text("a tensor's name", 1024);
    const auto dims = reader.number<std::uint32_t>();
    if (dims < 1 || dims > most_dims)
      wrong("'" + t.name + "': expected 1 to " + std::to_string(most_dims) + " dimensions, got " +
            std::to_string(dims));
    for (std::uint32_t d = 0; d < dims; d++) {
      const auto size = reader.number<std::uint64_t>();
      if (size < 1 || size > std::uint64_t(1) << 40) wrong("'" + t.name + "': a size of " + std::to_string(size));
      t.sizes.insert(t.sizes.begin(), std::int64_t(size));
    }
    const auto type = reader.number<std::uint32_t>();
    if (type >= std::uint32_t(WeightType::u8)) wrong("'" + t.name + "': elements of type " + std::to_string(type));
    t.type = WeightType(type);
    t.begin = reader.number<std::uint64_t>();
    try {
      layout_of(t.type);
    } catch (const ValidationError& problem) {
      throw ValidationError(problem.what() + std::string(", for '") + t.name + "'");
    }
    add(std::move(t));
  }
}

template <class T>
const T* GgufFile::value(const std::string& key, const char* kind) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return nullptr;
  const T* result = std::get_if<T>(&found->second);
  if (!result) wrong("'" + key + "': expected " + kind);
  return result;
}

std::optional<std::int64_t> GgufFile::integer(const std::string& key) const {
  const auto* found = value<std::int64_t>(key, "an integer");
  return found ? std::optional(*found) : std::nullopt;
}

std::optional<double> GgufFile::real(const std::string& key) const {
  const auto found = values_.find(key);
  if (found != values_.end() && std::holds_alternative<std::int64_t>(found->second))
    return double(std::get<std::int64_t>(found->second));
  const auto* number = value<double>(key, "a number");
  return number ? std::optional(*number) : std::nullopt;
}

std::optional<bool> GgufFile::flag(const std::string& key) const {
  const auto* found = value<bool>(key, "true or false");
  return found ? std::optional(*found) : std::nullopt;
}

const std::string* GgufFile::text(const std::string& key) const { return value<std::string>(key, "a text"); }

const std::vector<std::int64_t>* GgufFile::integers(const std::string& key) const {
  return value<std::vector<std::int64_t>>(key, "an array of integers");
}

const std::vector<double>* GgufFile::reals(const std::string& key) const {
  return value<std::vector<double>>(key, "an array of numbers");
}

const std::vector<std::string>* GgufFile::texts(const std::string& key) const {
  return value<std::vector<std::string>>(key, "an array of texts");
}

}  // namespace dlprim
