// SPDX-License-Identifier: MIT
// Operators of ONNX Runtime's domain on integers with scales and zero points, and products with weights of few bits.
#include "../checked.hpp"
#include "../contrib.hpp"
#include "../integer_product.hpp"

namespace dlprim::operators {

namespace {

// The numbers that input i stands for; scale and zero point, which may be missing, are the next inputs.
Tensor real(Call& call, int i) {
  const DataType type = call.input(i + 1).dtype();
  auto whole = [&](int at) {
    if (call.input(at).numel() != 1)
      call.fail("expected one scale and zero point, got " + call.input(at).shape().text());
    return reshape(call.queue(), call.input(at), {});
  };
  if (!call.has(i + 2)) return apply(call.queue(), "y0 = x0 * x1;", {call.input(i), whole(i + 1)}, {}, type, type);
  return apply(call.queue(), "y0 = (x0 - x2) * x1;", {call.input(i), whole(i + 1), whole(i + 2)}, {}, type, type);
}

// The result by the scale and zero point of inputs `scale` and `scale` + 1.
void give(Call& call, const Tensor& x, int scale) {
  Queue& queue = call.queue();
  const DataType type = call.has(scale + 1) ? call.input(scale + 1).dtype() : DataType::uint8;
  if (call.input(scale).numel() != 1) call.fail("expected one scale, got " + call.input(scale).shape().text());
  const Tensor zero = call.has(scale + 1) ? reshape(queue, call.input(scale + 1), {}) : filled(queue, type, {}, 0);
  call.set(0, quantized(call, x, reshape(queue, call.input(scale), {}), zero, type));
}

void q_add(Call& call) { give(call, apply(call.queue(), "y0 = x0 + x1;", {real(call, 0), real(call, 3)}), 6); }
void q_mul(Call& call) { give(call, apply(call.queue(), "y0 = x0 * x1;", {real(call, 0), real(call, 3)}), 6); }

void q_where(Call& call) { give(call, call.run("Where"_op, {call.input(0), real(call, 1), real(call, 4)})[0], 7); }

// ONNX's operator that the name says, on images whose channels may come last.
struct UnaryAttributes {
  explicit UnaryAttributes(const AttributeReader& reader)
      : op(type_of(reader).c_str(), plain(reader),
           reader.integer("opset", reader.node().type == "QLinearReduceMean" ? 11 : Inner::newest)),
        last(reader.integer("channels_last", 0)) {}
  Inner op;
  bool last;

 private:
  static std::string type_of(const AttributeReader& reader) { return reader.node().type.substr(7); }  // after QLinear
  static Inner::Attributes plain(const AttributeReader& reader) {
    Inner::Attributes attributes = reader.node().attributes;
    for (const char* name : {"channels_last", "opset"}) attributes.erase(name);
    return attributes;
  }
};

void q_unary(Call& call) {
  const auto& a = call.attributes<UnaryAttributes>();
  const Tensor x = real(call, 0), y = call.run(a.op, {a.last ? channels_second(x) : x})[0];
  give(call, a.last ? channels_behind(y) : y, 3);
}

struct ConcatAttributes {
  explicit ConcatAttributes(const AttributeReader& reader) : axis(reader.integer("axis", 0)) {}
  std::int64_t axis;
};

// Inputs: the result's scale and zero point, then tensors, each with its own.
void q_concat(Call& call) {
  std::vector<Tensor> parts;
  for (int i = 2; i + 2 < call.inputs(); i += 3) parts.push_back(real(call, i));
  if (parts.empty()) call.fail("expected tensors to join");
  give(call, concat(call.queue(), parts, parts[0].shape().axis(call.attributes<ConcatAttributes>().axis)), 0);
}

struct GemmAttributes {
  explicit GemmAttributes(const AttributeReader& reader)
      : transpose_a(reader.integer("transA", 0)), transpose_b(reader.integer("transB", 0)),
        alpha(reader.real("alpha", 1)) {}
  bool transpose_a, transpose_b;
  double alpha;
};

// Inputs: a, its scale and zero point, b, its, c, which has the scale of the product, the result's or none of it.
void q_gemm(Call& call) {
  Queue& queue = call.queue();
  const auto& a = call.attributes<GemmAttributes>();
  auto turned = [&](int i, bool transposed) {
    if (call.input(i).shape().size() != 2) call.fail("expected matrices, got " + call.input(i).shape().text());
    return transposed ? transpose(call.input(i)) : call.input(i);
  };
  Tensor product = call.run("MatMulInteger"_op,
                            {turned(0, a.transpose_a), turned(3, a.transpose_b), call.input(2), call.input(5)})[0];
  if (call.has(6)) product = apply(queue, "y0 = x0 + x1;", {product, call.input(6)});
  const Tensor scaled[] = {product, call.input(1), call.input(4)};
  const Scalar alpha[] = {a.alpha};
  const Tensor y = apply(queue, "y0 = x0 * x1 * x2 * w0;", scaled, alpha, DataType::float32, DataType::float32);
  if (call.has(7)) give(call, y, 7);
  else call.set(0, y);
}

void scaled_product(Call& call, const std::vector<Tensor>& integers, const Tensor& a_scale, const Tensor& b_scale,
                    int bias) {
  Tensor sums = integer_product(call.queue(), integers[0], integers[1], integers[2], integers[3],
                                call.attributes<IntegerProductAttributes>().kept.get());
  if (!sums.defined()) sums = call.run("MatMulInteger"_op, integers)[0];
  std::vector<Tensor> inputs{sums, a_scale, b_scale};
  if (call.has(bias)) inputs.push_back(call.input(bias));
  const char* code = call.has(bias) ? "y0 = x0 * x1 * x2 + x3;" : "y0 = x0 * x1 * x2;";
  call.set(0, apply(call.queue(), code, inputs, {}, a_scale.dtype(), a_scale.dtype()));
}

Tensor optional(Call& call, int i) { return call.has(i) ? call.input(i) : Tensor(); }

// Inputs: a in floating point, b, its scale and zero point, a bias.
void dynamic_mat_mul(Call& call) {
  const std::vector<Tensor> a = call.run("DynamicQuantizeLinear"_op, {call.input(0)}, 3);
  scaled_product(call, {a[0], call.input(1), a[2], optional(call, 3)}, a[1], call.input(2), 4);
}

// Inputs: a, b, the scales of both, their zero points, a bias.
void mat_mul_to_float(Call& call) {
  scaled_product(call, {call.input(0), call.input(1), optional(call, 4), optional(call, 5)}, call.input(2),
                 call.input(3), 6);
}

// The recurrent network with its weights as numbers; these lie transposed.
struct LstmAttributes {
  explicit LstmAttributes(const AttributeReader& reader) : lstm("LSTM", reader.node().attributes) {}
  Inner lstm;
};
void dynamic_lstm(Call& call) {
  std::vector<Tensor> inputs;
  for (int i = 0; i < 8; i++) inputs.push_back(optional(call, i));
  for (int i : {1, 2}) {
    const int scale = i == 1 ? 8 : 10;
    auto along = [&](const Tensor& t) {  // one for each direction, or for each of its columns
      return t.shape().size() == 2 ? unsqueeze(t, 1) : t.shape().size() == 1 ? unsqueeze(unsqueeze(t, 1), 1) : t;
    };
    const Tensor parts[] = {call.input(i), along(call.input(scale)), along(call.input(scale + 1))};
    if (parts[0].shape().size() != 3) call.fail("expected weights of directions, got " + parts[0].shape().text());
    inputs[std::size_t(i)] = transpose(
        apply(call.queue(), "y0 = (x0 - x2) * x1;", parts, {}, call.input(scale).dtype(), call.input(scale).dtype()));
  }
  const std::vector<Tensor> outputs = call.run(call.attributes<LstmAttributes>().lstm, inputs, 3);
  for (int i = 0; i < 3; i++) call.set(i, outputs[std::size_t(i)]);
}

struct NBitsAttributes {
  explicit NBitsAttributes(const AttributeReader& reader)
      : k(size(reader, "K", 1, std::int64_t(1) << 31)), n(size(reader, "N", 1, std::int64_t(1) << 31)),
        block(size(reader, "block_size", 2, std::int64_t(1) << 20)), bits(reader.integer("bits", 4)) {
    if (bits != 4 && bits != 8)
      throw ValidationError("weights of 4 and 8 bits are supported, got " + std::to_string(bits));
    if (block % 2) throw ValidationError("expected an even block_size");
    expect_attribute(reader, "weight_prepacked", 0);
    if (reader.given("constant_weights")) kept = std::make_shared<std::optional<FewBits>>();
  }
  std::int64_t k, n, block, bits;
  std::shared_ptr<std::optional<FewBits>> kept;  // of constant weights

 private:
  static std::int64_t size(const AttributeReader& reader, const char* name, std::int64_t least, std::int64_t most) {
    if (!reader.given(name)) throw ValidationError("attribute '" + std::string(name) + "' is missing");
    return checked_range(reader.integer(name, 0), least, most, name);
  }
};

// Zero points as numbers [N, blocks]: two of 4 bits lie in a byte.
Tensor zero_points(Call& call, std::int64_t blocks) {
  const auto& p = call.attributes<NBitsAttributes>();
  const Tensor& z = call.input(3);
  const bool packed = p.bits == 4 && !is_floating(z.dtype());
  if (!is_floating(z.dtype()) && size_of(z.dtype()) != 1) call.fail(std::string("zero points of ") + name(z.dtype()));
  const std::int64_t columns = packed ? divide_up(blocks, 2) : blocks;
  if (z.numel() != checked_multiply(p.n, columns)) call.fail("zero points do not fit N, K and block_size");
  const Tensor matrix = reshape(call.queue(), z, {p.n, columns});
  return packed ? unpacked(call, matrix, blocks) : matrix;
}

// Inputs: a, weights [N, blocks, bytes], scales [N, blocks], zero points as packed as weights or floating, order, bias.
void n_bits_product(Call& call) {
  Queue& queue = call.queue();
  const auto& p = call.attributes<NBitsAttributes>();
  const std::int64_t blocks = divide_up(p.k, p.block), row = checked_multiply(blocks, p.block);
  if (call.has(4)) call.fail("an order of groups is not supported");
  const Tensor& x = call.input(0);
  Shape shape = x.shape();
  const int last = shape.size() - 1;
  if (last < 0 || shape[last] != p.k) call.fail("expected rows of K, got " + shape.text());
  std::optional<FewBits> own;
  std::optional<FewBits>& weights = p.kept ? *p.kept : own;
  if (!weights)
    weights = few_bits(call, {p.n, row, p.block, p.bits, {}, {}, {}}, call.input(1), call.input(2),
                       call.has(3) ? zero_points(call, blocks) : Tensor());
  const std::int64_t rows = shape.product(0, last);
  Tensor matrix = reshape(queue, x, {rows, p.k});
  if (row > p.k) {  // what fills up the last block is multiplied by 0
    const Tensor padded[] = {matrix, filled(queue, x.dtype(), {rows, row - p.k}, 0)};
    matrix = concat(queue, padded, 1);
  }
  shape[last] = p.n;
  call.set(0, reshape(queue, few_bits_product(call, matrix, *weights, optional(call, 5)), shape));
}

struct GatherAttributes {
  explicit GatherAttributes(const AttributeReader& reader)
      : bits(reader.integer("bits", 4)), axis(reader.integer("gather_axis", 0)),
        blocks_axis(reader.integer("quantize_axis", 1)),
        block(checked_range(reader.integer("block_size", 128), 1, std::int64_t(1) << 20, "block_size")),
        widened(reader.integer("widened", 0)) {
    if (bits != 4 && bits != 8)
      throw ValidationError("numbers of 4 and 8 bits are supported, got " + std::to_string(bits));
  }
  std::int64_t bits, axis, blocks_axis, block;
  bool widened;  // the importer made bytes of a table of int4 or uint4
};

// Inputs: a table, as uint8 with two numbers of 4 bits in a byte; indices; scales of blocks along an axis; their zero
// points, as packed as the table. Without these, numbers of a packed table are above 0, their middle stands for 0.
void gather_quantized(Call& call) {
  Queue& queue = call.queue();
  const auto& a = call.attributes<GatherAttributes>();
  const int rank = call.input(0).shape().size(), axis = call.input(0).shape().axis(a.axis);
  const int along = call.input(0).shape().axis(a.blocks_axis);
  if (call.input(2).shape().size() != rank || along == axis) call.fail("scales do not fit the table");
  const bool bytes = !a.widened && size_of(call.input(0).dtype()) == 1;
  if (bytes && (axis != 0 || along != rank - 1)) call.fail("packed rows are gathered whole");
  auto gathered = [&](int i) { return call.run(inner<"Gather", "axis">(axis), {call.input(i), call.input(1)})[0]; };
  // The dimension of blocks in what is gathered.
  const int dim = along < axis ? along : along + call.input(1).shape().size() - 1;
  auto numbers = [&](const Tensor& x) {
    if (!bytes || a.bits == 8) return x;
    const Tensor halves[] = {unsqueeze(half_of(call, x, 0), dim + 1), unsqueeze(half_of(call, x, 1), dim + 1)};
    Shape shape = x.shape();
    shape[dim] *= 2;
    return reshape(queue, concat(queue, halves, dim + 1), shape);
  };
  const Tensor x = numbers(gathered(0)), scales = gathered(2);
  auto repeated = [&](const Tensor& t) {  // for each number the parameter of its block
    if (t.shape()[dim] != divide_up(x.shape()[dim], a.block)) call.fail("blocks " + t.shape().text() + " do not fit");
    Shape wide = t.shape(), joined = t.shape();
    wide.insert(dim + 1, a.block), joined[dim] = checked_multiply(joined[dim], a.block);
    return narrow(reshape(queue, expand(unsqueeze(t, dim + 1), wide), joined), dim, 0, x.shape()[dim]);
  };
  const DataType type = scales.dtype();
  if (call.has(3)) {
    const Tensor zeros = narrow(numbers(gathered(3)), dim, 0, scales.shape()[dim]);
    const Tensor parts[] = {x, repeated(scales), repeated(zeros)};
    return call.set(0, apply(queue, "y0 = (x0 - x2) * x1;", parts, {}, type, compute_type(type)));
  }
  const Tensor parts[] = {x, repeated(scales)};
  const Scalar middle[] = {bytes ? double(1 << (a.bits - 1)) : 0};
  call.set(0, apply(queue, "y0 = (x0 - w0) * x1;", parts, middle, type, compute_type(type)));
}

}  // namespace

void contrib_quantized(Registry& registry) {
  registry.add("QLinearAdd", q_add, "", contrib_domain);
  registry.add("QLinearMul", q_mul, "", contrib_domain);
  registry.add("QLinearWhere", q_where, "", contrib_domain);
  registry.add<ConcatAttributes>("QLinearConcat", q_concat, "axis", contrib_domain);
  registry.add<UnaryAttributes>("QLinearSigmoid", q_unary, "", contrib_domain);
  registry.add<UnaryAttributes>("QLinearLeakyRelu", q_unary, "alpha", contrib_domain);
  registry.add<UnaryAttributes>("QLinearSoftmax", q_unary, "axis opset", contrib_domain);
  registry.add<UnaryAttributes>("QLinearReduceMean", q_unary, "axes keepdims", contrib_domain);
  registry.add<UnaryAttributes>("QLinearGlobalAveragePool", q_unary, "channels_last", contrib_domain);
  registry.add<UnaryAttributes>("QLinearAveragePool", q_unary,
                                "channels_last auto_pad=NOTSET|VALID|SAME_UPPER|SAME_LOWER ceil_mode "
                                "count_include_pad kernel_shape pads strides",
                                contrib_domain);
  registry.add<GemmAttributes>("QGemm", q_gemm, "alpha transA transB", contrib_domain);
  registry.add<IntegerProductAttributes>("DynamicQuantizeMatMul", dynamic_mat_mul, "", contrib_domain);
  registry.add<IntegerProductAttributes>("MatMulIntegerToFloat", mat_mul_to_float, "", contrib_domain);
  registry.add<LstmAttributes>(
      "DynamicQuantizeLSTM", dynamic_lstm,
      "activation_alpha activation_beta activations clip direction=forward|reverse|bidirectional "
      "hidden_size input_forget",
      contrib_domain);
  registry.add<GatherAttributes>("GatherBlockQuantized", gather_quantized,
                                 "bits block_size gather_axis quantize_axis widened", contrib_domain);
  registry.add<NBitsAttributes>("MatMulNBits", n_bits_product, "K N bits block_size accuracy_level weight_prepacked",
                                contrib_domain);
}

}  // namespace dlprim::operators
