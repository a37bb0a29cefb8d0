// SPDX-License-Identifier: MIT
// Einsum as matrix products of two operands at a time: dimensions become batch, kept or summed ones.
#include "../einsum.hpp"

#include <algorithm>
#include <set>

#include "../array.hpp"

namespace dlprim {

namespace {

// Letters of a term; of the result, whose rank is not known, when `rank` is -1.
std::string letters_of(Call& call, const std::string& text, int rank, int ellipsis) {
  std::string letters;
  for (std::size_t i = 0; i < text.size(); i++) {
    if (text.compare(i, 3, "...") == 0) {
      const int dims = rank < 0 ? ellipsis : rank - int(text.size() - 3);
      for (int d = dims; d > 0; d--) letters += char(1 + d);  // control characters, no letters
      i += 2;
    } else if (std::isalpha(static_cast<unsigned char>(text[i]))) {
      letters += text[i];
    } else {
      call.fail("the equation holds '" + text.substr(i, 1) + "'");
    }
  }
  if (rank >= 0 && int(letters.size()) != rank) call.fail("term '" + text + "' does not fit its tensor");
  return letters;
}

}  // namespace

Equation read_equation(Call& call, const std::vector<Shape>& shapes) {
  std::string equation = call.attributes<EinsumAttributes>().equation;
  equation.erase(std::remove(equation.begin(), equation.end(), ' '), equation.end());
  const auto arrow = equation.find("->");
  const std::string inputs = equation.substr(0, arrow);
  Equation result;
  int ellipsis = 0;
  for (std::size_t start = 0; start <= inputs.size();) {
    const std::size_t end = std::min(inputs.find(',', start), inputs.size()), i = result.terms.size();
    const std::string text = inputs.substr(start, end - start);
    if (i == shapes.size()) call.fail("expected a term for each input in '" + equation + "'");
    result.terms.push_back(letters_of(call, text, shapes[i].size(), 0));
    if (text.find("...") != std::string::npos) ellipsis = std::max(ellipsis, shapes[i].size() - int(text.size() - 3));
    start = end + 1;
  }
  if (result.terms.size() != shapes.size()) call.fail("expected a term for each input in '" + equation + "'");
  if (arrow != std::string::npos) {
    result.result = letters_of(call, equation.substr(arrow + 2), -1, ellipsis);
    return result;
  }
  std::multiset<char> count;  // letters that stand once, in the alphabet's order
  for (const std::string& term : result.terms) count.insert(term.begin(), term.end());
  for (int d = ellipsis; d > 0; d--) result.result += char(1 + d);
  for (char c : std::set<char>(count.begin(), count.end()))
    if (c > 32 && count.count(c) == 1) result.result += c;
  return result;
}

namespace {

// A tensor with a letter for each dimension.
struct Term {
  Tensor tensor;
  std::string letters;
};

// A letter that stands twice in a term takes the diagonal.
Term diagonal(Call& call, Term term) {
  for (std::size_t i = 0; i < term.letters.size(); i++)
    for (std::size_t j = i + 1; j < term.letters.size();) {
      if (term.letters[i] != term.letters[j]) {
        j++;
        continue;
      }
      Shape shape = term.tensor.shape();
      auto strides = term.tensor.strides();
      if (shape[int(i)] != shape[int(j)]) call.fail("a diagonal of " + shape.text() + " has unequal sides");
      strides[i] += strides[j];
      shape.erase(int(j)), strides.erase(strides.begin() + std::ptrdiff_t(j)), term.letters.erase(j, 1);
      term.tensor = term.tensor.strided(shape, strides);
    }
  return term;
}

// Sums over letters that nobody else needs.
Term sum_out(Queue& queue, Term term, const std::string& needed) {
  std::vector<int> dims;
  Shape shape;
  std::string letters;
  for (std::size_t i = 0; i < term.letters.size(); i++) {
    if (needed.find(term.letters[i]) == std::string::npos) dims.push_back(int(i));
    else shape.push_back(term.tensor.shape()[int(i)]), letters += term.letters[i];
  }
  if (dims.empty()) return term;
  return {reshape(queue, reduce(queue, ReduceId::sum, term.tensor, dims), shape), letters};
}

Tensor ordered(const Term& term, const std::string& letters) {
  std::vector<std::int64_t> order;
  for (char c : letters) order.push_back(std::int64_t(term.letters.find(c)));
  return permute(term.tensor, order);
}

Term product(Queue& queue, Term a, Term b, const std::string& needed) {
  a = sum_out(queue, a, needed + b.letters), b = sum_out(queue, b, needed + a.letters);
  std::string batch, summed, left, right;
  for (char c : a.letters) {
    const bool both = b.letters.find(c) != std::string::npos, kept = needed.find(c) != std::string::npos;
    (both ? kept ? batch : summed : left) += c;
  }
  for (char c : b.letters)
    if (a.letters.find(c) == std::string::npos) right += c;
  auto size = [&](char c) {  // ones broadcast
    std::int64_t result = 1;
    for (const Term* t : {&a, &b})
      if (auto i = t->letters.find(c); i != std::string::npos && result == 1) result = t->tensor.shape()[int(i)];
    return result;
  };
  auto shape_of = [&](const std::string& letters) {
    Shape shape;
    for (char c : letters) shape.push_back(size(c));
    return shape;
  };
  const Shape all = shape_of(batch + left + right);
  const std::int64_t n = shape_of(batch).total_size(), k = shape_of(summed).total_size();
  const std::int64_t rows = shape_of(left).total_size(), columns = shape_of(right).total_size();
  const Tensor x =
      reshape(queue, expand(ordered(a, batch + left + summed), shape_of(batch + left + summed)), {n, rows, k});
  const Tensor y =
      reshape(queue, expand(ordered(b, batch + summed + right), shape_of(batch + summed + right)), {n, k, columns});
  return {reshape(queue, matmul(queue, x, y), all), batch + left + right};
}

}  // namespace

Tensor compute(Call& call, const Equation& equation, const std::vector<Tensor>& inputs) {
  Queue& queue = call.queue();
  std::vector<Term> terms;
  for (std::size_t i = 0; i < inputs.size(); i++) terms.push_back(diagonal(call, {inputs[i], equation.terms[i]}));
  Term total = terms[0];
  for (std::size_t i = 1; i < terms.size(); i++) {
    std::string needed = equation.result;
    for (std::size_t j = i + 1; j < terms.size(); j++) needed += terms[j].letters;
    total = product(queue, total, terms[i], needed);
  }
  total = sum_out(queue, total, equation.result);
  if (total.letters.size() != equation.result.size()) call.fail("the equation asks for a letter that no input has");
  return ordered(total, equation.result);
}

namespace operators {

namespace {

void einsum_op(Call& call) {
  std::vector<Tensor> inputs;
  std::vector<Shape> shapes;
  for (int i = 0; i < call.inputs(); i++) inputs.push_back(call.input(i)), shapes.push_back(inputs.back().shape());
  call.set(0, compute(call, read_equation(call, shapes), inputs));
}

}  // namespace

void einsum(Registry& registry) { registry.add<EinsumAttributes>("Einsum", einsum_op, "equation"); }

}  // namespace operators
}  // namespace dlprim
