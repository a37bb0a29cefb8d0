// SPDX-License-Identifier: MIT
// Each collective: which tensors go to the host and back, and what Gloo does with their images there.
#include <c10/core/DeviceGuard.h>

#include <iterator>

#include "backend.hpp"

namespace pytorch_ocl::distributed {

namespace {

using c10d::OpType;

Tensors flat(const std::vector<Tensors>& lists) {
  Tensors all;
  for (const Tensors& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

// `tensors` in lists as long as those of `shape`.
std::vector<Tensors> lists_like(const std::vector<Tensors>& shape, Tensors tensors) {
  std::vector<Tensors> lists;
  auto next = std::make_move_iterator(tensors.begin());
  for (const Tensors& list : shape) {
    lists.emplace_back(next, next + std::ptrdiff_t(list.size()));
    next += std::ptrdiff_t(list.size());
  }
  return lists;
}

// The same lengths, without the tensors.
std::vector<Tensors> shape_of(const std::vector<Tensors>& lists) {
  std::vector<Tensors> shape;
  for (const Tensors& list : lists) shape.emplace_back(list.size());
  return shape;
}

std::vector<std::int64_t> lengths(const Tensors& tensors) {
  std::vector<std::int64_t> result;
  for (const at::Tensor& tensor : tensors) result.push_back(tensor.numel());
  return result;
}

}  // namespace

// The device of all tensors of a call whose lists are as long as they should be.
c10::Device GlooBackend::device_of(const Call& call, bool lengths_fit) const {
  TORCH_CHECK(lengths_fit, call.title, ": expected lists of tensors that match each other and the group of ", size_,
              " ranks, but got ", call.inputs.size(), " inputs and ", call.outputs.size(), " outputs");
  Tensors all = call.inputs;
  all.insert(all.end(), call.outputs.begin(), call.outputs.end());
  return common_device(all, call.title);
}

WorkPtr GlooBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  check_rank(options.rootRank, "ocl_gloo:broadcast");
  const bool root = options.rootRank == rank_;
  if (WorkPtr work = broadcast_shared(tensors, options)) return work;
  return launch_elementwise({OpType::BROADCAST, "ocl_gloo:broadcast", tensors, {}}, root, !root, &carriers,
                            [options](Backend& gloo, Tensors& hosts) { return gloo.broadcast(hosts, options); });
}

WorkPtr GlooBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  auto again = [this, tensors, options]() mutable { return allreduce(tensors, options); };
  if (WorkPtr work = reduce_shared({OpType::ALLREDUCE, "ocl_gloo:all_reduce", tensors, tensors}, options, again))
    return work;
  return launch_elementwise({OpType::ALLREDUCE, "ocl_gloo:all_reduce", tensors, {}}, true, true, &reducibles,
                            [options](Backend& gloo, Tensors& hosts) { return gloo.allreduce(hosts, options); });
}

WorkPtr GlooBackend::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  auto again = [this, tensors, options]() mutable { return allreduce_coalesced(tensors, options); };
  if (WorkPtr work =
          reduce_shared({OpType::ALLREDUCE_COALESCED, "ocl_gloo:all_reduce", tensors, tensors}, options, again))
    return work;
  return launch_elementwise(
      {OpType::ALLREDUCE_COALESCED, "ocl_gloo:all_reduce", tensors, {}}, true, true, &reducibles,
      [options](Backend& gloo, Tensors& hosts) { return gloo.allreduce_coalesced(hosts, options); });
}

WorkPtr GlooBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  check_rank(options.rootRank, "ocl_gloo:reduce");
  const bool root = options.rootRank == rank_;
  if (WorkPtr work = reduce_to_root(tensors, options)) return work;
  return launch_elementwise({OpType::REDUCE, "ocl_gloo:reduce", tensors, {}}, true, root, &reducibles,
                            [options](Backend& gloo, Tensors& hosts) { return gloo.reduce(hosts, options); });
}

WorkPtr GlooBackend::allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  if (WorkPtr work = gather_shared(outputs, inputs, options)) return work;
  return launch_whole({OpType::ALLGATHER, "ocl_gloo:all_gather", inputs, flat(outputs)},
                      [options, shape = shape_of(outputs)](Backend& gloo, const Images& in, const Images& out) {
                        Tensors from = carriers(in);
                        std::vector<Tensors> to = lists_like(shape, carriers(out));
                        return gloo.allgather(to, from, options);
                      });
}

WorkPtr GlooBackend::_allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) {
  auto again = [this, output, input, options]() mutable { return _allgather_base(output, input, options); };
  const Call call{OpType::_ALLGATHER_BASE, "ocl_gloo:_all_gather_base", {input}, {output}};
  if (WorkPtr work = move_shared(call, Exchange::Kind::all_gather, {}, options.timeout, again)) return work;
  return launch_whole({OpType::_ALLGATHER_BASE, "ocl_gloo:_all_gather_base", {input}, {output}},
                      [options](Backend& gloo, const Images& in, const Images& out) {
                        return gloo._allgather_base(carriers(out).front(), carriers(in).front(), options);
                      });
}

WorkPtr GlooBackend::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                         const c10d::AllgatherOptions& options) {
  return launch_whole({OpType::ALLGATHER_COALESCED, "ocl_gloo:all_gather", inputs, flat(outputs)},
                      [options, shape = shape_of(outputs)](Backend& gloo, const Images& in, const Images& out) {
                        Tensors from = carriers(in);
                        std::vector<Tensors> to = lists_like(shape, carriers(out));
                        return gloo.allgather_coalesced(to, from, options);
                      });
}

WorkPtr GlooBackend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                     const c10d::AllgatherOptions& options) {
  const Call call{OpType::COALESCED, "ocl_gloo:all_gather", inputs, outputs};
  const c10::DeviceGuard guard(device_of(call, outputs.size() == inputs.size()));
  auto again = [this, outputs, inputs, options]() mutable {
    return allgather_into_tensor_coalesced(outputs, inputs, options);
  };
  if (WorkPtr work = move_shared(call, Exchange::Kind::all_gather, {}, options.timeout, again)) return work;
  std::vector<Part> parts;
  for (std::size_t i = 0; i < inputs.size(); i++) {
    Part part{images_of({inputs[i]}), images_of({outputs[i]}), {}};
    part.start = [options, in = carriers(part.to_host), out = carriers(part.to_device)](Backend& gloo) mutable {
      return gloo._allgather_base(out.front(), in.front(), options);
    };
    parts.push_back(std::move(part));
  }
  return launch(call, std::move(parts));
}

WorkPtr GlooBackend::gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) {
  check_rank(options.rootRank, "ocl_gloo:gather");
  if (WorkPtr work = gather_messages(outputs, inputs, options)) return work;
  return launch_whole({OpType::GATHER, "ocl_gloo:gather", inputs, flat(outputs)},
                      [options, shape = shape_of(outputs)](Backend& gloo, const Images& in, const Images& out) {
                        Tensors from = carriers(in);
                        std::vector<Tensors> to = lists_like(shape, carriers(out));
                        return gloo.gather(to, from, options);
                      });
}

WorkPtr GlooBackend::scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options) {
  check_rank(options.rootRank, "ocl_gloo:scatter");
  if (WorkPtr work = scatter_messages(outputs, inputs, options)) return work;
  return launch_whole({OpType::SCATTER, "ocl_gloo:scatter", flat(inputs), outputs},
                      [options, shape = shape_of(inputs)](Backend& gloo, const Images& in, const Images& out) {
                        std::vector<Tensors> from = lists_like(shape, carriers(in));
                        Tensors to = carriers(out);
                        return gloo.scatter(to, from, options);
                      });
}

// Gloo's own reduce_scatter is this all_reduce, too, and reports its end to nobody (PyTorch 2.11 to 2.14).
Part GlooBackend::reduce_scatter_part(const at::Tensor& output, const Tensors& inputs,
                                      const c10d::ReduceScatterOptions& options) const {
  const Packed packed = pack(inputs);
  c10d::AllreduceOptions reduce;
  reduce.reduceOp = options.reduceOp;
  reduce.timeout = options.timeout;
  const std::int64_t count = output.numel();
  at::Tensor mine;
  if (inputs.size() == 1) {
    TORCH_CHECK(packed.all.numel() == count * size_, "ocl_gloo:reduce_scatter: expected an input of ", size_,
                " times the ", count, " elements of the output, but got ", packed.all.numel());
    mine = packed.all.narrow(0, count * rank_, count).view(output.sizes());
  } else {
    TORCH_CHECK(std::int64_t(inputs.size()) == size_ && inputs[rank_].sizes() == output.sizes(),
                "ocl_gloo:reduce_scatter: expected ", size_, " inputs, this rank's of the output's shape ",
                output.sizes(), ", but got ", inputs.size());
    mine = packed.images[rank_].host;
  }
  TORCH_CHECK(mine.scalar_type() == output.scalar_type(), "ocl_gloo:reduce_scatter: expected an output of dtype ",
              mine.scalar_type(), ", but got ", output.scalar_type());
  return {packed.images, {{output, mine}}, [reduce, all = reducibles({{{}, packed.all}})](Backend& gloo) mutable {
            return gloo.allreduce(all, reduce);
          }};
}

WorkPtr GlooBackend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                    const c10d::ReduceScatterOptions& options) {
  const Call call{OpType::REDUCE_SCATTER, "ocl_gloo:reduce_scatter", flat(inputs), outputs};
  const c10::DeviceGuard guard(device_of(call, outputs.size() == 1 && inputs.size() == 1));
  if (WorkPtr work = scatter_shared(outputs, inputs, options)) return work;
  return launch(call, {reduce_scatter_part(outputs.front(), inputs.front(), options)});
}

WorkPtr GlooBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                          const c10d::ReduceScatterOptions& options) {
  const Call call{OpType::_REDUCE_SCATTER_BASE, "ocl_gloo:_reduce_scatter_base", {input}, {output}};
  const c10::DeviceGuard guard(device_of(call, true));
  auto again = [this, output, input, options]() mutable { return _reduce_scatter_base(output, input, options); };
  if (WorkPtr work = move_shared(call, Exchange::Kind::reduce_scatter, options.reduceOp, options.timeout, again))
    return work;
  return launch(call, {reduce_scatter_part(output, {input}, options)});
}

WorkPtr GlooBackend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                     const c10d::ReduceScatterOptions& options) {
  const Call call{OpType::COALESCED, "ocl_gloo:reduce_scatter", inputs, outputs};
  const c10::DeviceGuard guard(device_of(call, outputs.size() == inputs.size()));
  auto again = [this, outputs, inputs, options]() mutable {
    return reduce_scatter_tensor_coalesced(outputs, inputs, options);
  };
  if (WorkPtr work = move_shared(call, Exchange::Kind::reduce_scatter, options.reduceOp, options.timeout, again))
    return work;
  std::vector<Part> parts;
  for (std::size_t i = 0; i < inputs.size(); i++)
    parts.push_back(reduce_scatter_part(outputs[i], {inputs[i]}, options));
  return launch(call, std::move(parts));
}

WorkPtr GlooBackend::alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_sizes,
                                   std::vector<std::int64_t>& input_sizes, const c10d::AllToAllOptions& options) {
  const bool even = output_sizes.empty() && input_sizes.empty();
  if (WorkPtr work = even ? swap_shared(output, input, options)
                          : alltoall_messages(output, input, output_sizes, input_sizes, options))
    return work;
  return launch_whole({OpType::ALLTOALL_BASE, "ocl_gloo:all_to_all", {input}, {output}},
                      [options, output_sizes, input_sizes](Backend& gloo, const Images& in, const Images& out) mutable {
                        return gloo.alltoall_base(carriers(out).front(), carriers(in).front(), output_sizes,
                                                  input_sizes, options);
                      });
}

// Gloo has had it since PyTorch 2.13 only.
WorkPtr GlooBackend::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) {
  const Call call{OpType::ALLTOALL, "ocl_gloo:all_to_all", inputs, outputs};
  const auto ranks = std::size_t(size_);
  const c10::DeviceGuard guard(device_of(call, inputs.size() == ranks && outputs.size() == ranks));
  if (const std::shared_ptr<Mail> shared = mail())
    return exchange_messages(shared, call, inputs, outputs, options.timeout);
  const Packed in = pack(inputs), out = pack(outputs);
  Part part{in.images, out.images, {}};
  part.start = [options, from = carriers({{{}, in.all}}), to = carriers({{{}, out.all}}), sent = lengths(inputs),
                received = lengths(outputs)](Backend& gloo) mutable {
    return gloo.alltoall_base(to.front(), from.front(), received, sent, options);
  };
  return launch(call, {std::move(part)});
}

WorkPtr GlooBackend::barrier(const c10d::BarrierOptions& options) {
  Part part;
  part.start = [options](Backend& gloo) { return gloo.barrier(options); };
  return launch({OpType::BARRIER, "ocl_gloo:barrier", {}, {}}, {std::move(part)});
}

}  // namespace pytorch_ocl::distributed
