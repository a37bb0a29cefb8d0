// SPDX-License-Identifier: MIT
// Gradients of the operators that update elements at positions given by indices. Updates of one position are reduced
// with what is there, so the gradient is that of a reduction whose results are gathered for each update.
#include "../gradient.hpp"

namespace dlprim::gradients {

namespace {

// The operator itself with each reduction, and the one that reads the same positions.
struct ScatterAttributes {
  explicit ScatterAttributes(const AttributeReader& reader)
      : reduction(reader.text("reduction", "none")),
        gather(reader.node().type == "ScatterND" ? "GatherND" : "GatherElements", with(reader, nullptr)),
        assign(reader.node().type.c_str(), with(reader, nullptr)),
        multiply(reader.node().type.c_str(), with(reader, "mul")),
        add(reader.node().type.c_str(), with(reader, "add")) {}
  static Inner::Attributes with(const AttributeReader& reader, const char* reduction) {
    Inner::Attributes attributes = reader.node().attributes;
    attributes.erase("reduction");
    if (reduction) attributes["reduction"] = std::string(reduction);
    return attributes;
  }
  std::string reduction;
  Inner gather, assign, multiply, add;
};

const ScatterAttributes& attributes_of(const Call& call) { return call.attributes<ScatterAttributes>(); }

class Scattering {
 public:
  explicit Scattering(GradientCall& call) : call_(call), attributes_(attributes_of(call)) {}

  void run() {
    const std::string& how = attributes_.reduction;
    if (how == "none") assign();
    else if (how == "add") call_.add(0, call_.gradient()), gathered(call_.gradient());
    else if (how == "mul") product();
    else extreme();
  }

 private:
  Tensor at_places(const Tensor& x) { return call_.run(attributes_.gather, {x, call_.input(1)})[0]; }
  Tensor updated(const Inner& update, const Tensor& x, const Tensor& updates) {
    return call_.run(update, {x, call_.input(1), updates})[0];
  }
  void gathered(const Tensor& dy) {
    if (call_.needs(2)) call_.add(2, at_places(dy));
  }

  // What is overwritten gets no gradient.
  void assign() {
    const Tensor dy = call_.gradient();
    if (call_.needs(0))
      call_.add(0, updated(attributes_.assign, dy, filled(call_.queue(), dy.dtype(), call_.shape(2), 0)));
    gathered(dy);
  }

  // `code` gives an operand's gradient from that of the result x0, the operand x1 and what its position holds: x2, x3.
  void operands(const char* code, const Tensor& a, const Tensor& b) {
    const Tensor dy = call_.gradient();
    if (call_.needs(0)) call_.add(0, apply(call_.queue(), code, {dy, call_.input(0), a, b}));
    if (call_.needs(2))
      call_.add(2, apply(call_.queue(), code, {at_places(dy), call_.input(2), at_places(a), at_places(b)}));
  }

  // The product of the others: where one operand is 0, only it has a gradient; where two are, none has.
  void product() {
    Queue& queue = call_.queue();
    const Tensor &x = call_.input(0), &u = call_.input(2);
    const char *other = "y0 = x0 == 0 ? 1 : x0;", *zero = "y0 = x0 == 0 ? 1 : 0;";
    const Tensor rest = updated(attributes_.multiply, apply(queue, other, {x}), apply(queue, other, {u}));
    const Tensor zeros = updated(attributes_.add, apply(queue, zero, {x}), apply(queue, zero, {u}));
    operands("y0 = x1 == 0 ? (x3 == 1 ? x0 * x2 : 0) : (x3 == 0 ? x0 * x2 / x1 : 0);", rest, zeros);
  }

  // Equal extremes share the gradient.
  void extreme() {
    Queue& queue = call_.queue();
    const Tensor &y = call_.output(0), &x = call_.input(0), &u = call_.input(2);
    const char* hit = "y0 = x0 == x1 ? 1 : 0;";
    const Tensor hits = updated(attributes_.add, apply(queue, hit, {x, y}), apply(queue, hit, {u, at_places(y)}));
    operands("y0 = x1 == x2 ? x0 / x3 : 0;", y, hits);
  }

  GradientCall& call_;
  const ScatterAttributes& attributes_;
};

void scattering(GradientCall& call) { Scattering(call).run(); }

}  // namespace

void scatter(GradientRegistry& registry) {
  registry.add<ScatterAttributes>("ScatterND", scattering, "x0 x1 x2 y0");
  registry.add<ScatterAttributes>("ScatterElements", scattering, "x0 x1 x2 y0");
  registry.add<ScatterAttributes>("Scatter", scattering, "x1");
}

}  // namespace dlprim::gradients
