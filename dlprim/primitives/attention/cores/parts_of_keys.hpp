// SPDX-License-Identifier: MIT
// Parts of the gradients of keys and values.
#pragma once
#include <dlprim/primitives/reduce.hpp>

#include "../problem.hpp"

namespace dlprim::attention_cores {

/// Where work-groups share the queries of a head of keys: the gradients of keys and values of each part, dense, one part
/// behind the other, in place of a problem's own, until they are added.
class PartsOfKeys {
 public:
  PartsOfKeys(Queue& queue, AttentionProblem& x, int parts)
      : queue_(queue), x_(x), whole_(x), parts_(parts), k_(queue, bytes(x.p.width)), v_(queue, bytes(x.p.value_width)) {
    x.grad_k = k_.data(), x.grad_v = v_.data();
    x.p.grad_k = dense(x.p.width), x.p.grad_v = dense(x.p.value_width);
  }
  /// Rounds their sums to the problem's own gradients.
  void add() const {
    add(k_.data(), whole_.grad_k, whole_.p.grad_k, whole_.p.width);
    add(v_.data(), whole_.grad_v, whole_.p.grad_v, whole_.p.value_width);
  }

 private:
  std::int64_t key_heads() const { return x_.p.heads / x_.p.sharing; }
  std::size_t bytes(int width) const {
    return std::size_t(parts_) * x_.p.batch * key_heads() * x_.p.keys * std::size_t(width) * size_of(x_.type);
  }
  AttentionLayout dense(int width) const {
    AttentionLayout layout{};
    layout.row = width, layout.head = std::int64_t(x_.p.keys) * width, layout.batch = key_heads() * layout.head;
    layout.column = 1;
    return layout;
  }
  void add(BufferRef parts, BufferRef whole, const AttentionLayout& to, int width) const {
    const std::vector<std::int64_t> sizes{1, x_.p.batch, key_heads(), x_.p.keys, width};
    const AttentionLayout from = dense(width);
    std::vector<std::int64_t> all = sizes;
    all[0] = parts_;
    const TensorView input(parts, x_.type, all,
                           std::vector<std::int64_t>{x_.p.batch * from.batch, from.batch, from.head, width, 1});
    const TensorView output(whole, x_.type, sizes, std::vector<std::int64_t>{0, to.batch, to.head, to.row, 1});
    reduce(queue_, ReduceId::sum, {{&output, 1}, {&input, 1}});
  }

  Queue& queue_;
  const AttentionProblem& x_;
  const AttentionProblem whole_;
  int parts_;
  Workspace k_, v_;
};

}  // namespace dlprim::attention_cores
