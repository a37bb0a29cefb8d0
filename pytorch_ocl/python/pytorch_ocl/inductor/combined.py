# SPDX-License-Identifier: MIT
"""Small kernels that do not need each other's results become one, which takes one launch. Inductor's scheduler offers
this for kernels of one depth from a program's beginning (`combo_kernels`); here it is the distance from its end, so
that what only the caller reads (counters, running statistics, a cache's lengths) is done together."""

import collections
from unittest import mock

from torch._inductor import config, metrics
from torch._inductor.codegen.simd_kernel_features import SIMDKernelFeatures
from torch._inductor.dependencies import WeakDep
from torch._inductor.scheduler import ForeachKernelSchedulerNode, FusedSchedulerNode, Scheduler, SchedulerNode
from torch._inductor.utils import IndentedBuffer
from torch._inductor.virtualized import V

from pytorch_ocl.inductor import assembly, vectors

_MOST_PARTS = 8
_MOST_BUFFERS = 32  # of all parts together: devices need not take more than 1024 bytes of arguments
_MOST_ELEMENTS = 1 << 17  # of a part: longer ones take more time than their launch


def features_of(scheduling, node):
    """What SIMDScheduling gathers of a node's loops for a kernel."""
    removed = getattr(scheduling.scheduler, "removed_ops", ())  # known once all nodes are grouped
    nodes = [part for part in node.get_nodes() if part.get_name() not in removed]
    _, (numel, reduced) = max(nodes, key=lambda part: int(part.is_reduction())).group
    return SIMDKernelFeatures(scheduling.generate_node_schedule(nodes, numel, reduced), numel, reduced)


def _is_small(node):
    """Whether a node is elementwise, of known and few elements, all of which a kernel may compute in any order."""
    if type(node) not in (SchedulerNode, FusedSchedulerNode) or node.is_template() or node.is_reduction():
        return False
    numel, reduced = node.group[1]
    parts = node.get_nodes()
    alike = all(part.group[1] == node.group[1] for part in parts) and reduced == 1
    return alike and numel.is_Integer and 0 < int(numel) <= _MOST_ELEMENTS


def _distances(scheduler):
    """{node: the most steps from it to a node that nothing waits for}. Nodes at one distance are independent, and so
    are all those that are combined at one distance from all those at another."""
    distance = dict.fromkeys(scheduler.nodes, 0)
    for node in reversed(scheduler.nodes):
        for name in {dep.name for dep in node.unmet_dependencies}:
            before = scheduler.name_to_fused_node[scheduler.name_to_buf[name].defining_op_name()]
            if before is not node:
                distance[before] = max(distance[before], distance[node] + 1)
    return distance


def _buffers(node):
    """Names of the buffers that a kernel may take as arguments."""
    read = {dep.name for dep in node.read_writes.reads if not isinstance(dep, WeakDep)}
    return read | {output.get_name() for output in node.get_outputs()}


def _split(nodes):
    """Runs of nodes of which each can be one kernel."""
    run, names = [], set()
    for node in nodes:
        more = names | _buffers(node)
        if run and (len(run) == _MOST_PARTS or len(more) > _MOST_BUFFERS):
            yield run
            run, more = [], _buffers(node)
        run, names = [*run, node], more
    yield run


def groups(scheduler):
    """Nodes of ocl devices that are combined, as lists."""
    alike = collections.defaultdict(list)
    distances = _distances(scheduler)
    for node in scheduler.nodes:
        device = node.get_device()
        if device is None or device.type != "ocl" or not _is_small(node):
            continue
        features = features_of(scheduler.get_backend(device), node)
        width = vectors.width("elements", features, features.numel)
        alike[device, distances[node], width].append(node)
    return [run for nodes in alike.values() for run in _split(nodes)]


def _create(original):
    def create_combo_kernel_nodes(self, num_ck_nodes=None):
        """As PyTorch's (2.11 to 2.15), with the groups above where a graph has nodes of ocl devices."""
        if not any(node.get_device() is not None and node.get_device().type == "ocl" for node in self.nodes):
            return original(self, num_ck_nodes)
        with mock.patch.object(ForeachKernelSchedulerNode, "group_algorithm_for_combo_kernels", groups):
            return original(self, num_ck_nodes)

    return create_combo_kernel_nodes


def install():
    """Has schedulers group nodes of ocl devices as this module says."""
    Scheduler.create_combo_kernel_nodes = _create(Scheduler.create_combo_kernel_nodes)


def _written(kernel):
    """Writes a part's body for good, without what proved not to be needed."""
    with V.set_kernel_handler(kernel):
        kernel.codegen_body()
        body = IndentedBuffer()
        body.splice(kernel.body.getvalue())
        kernel.body = body
    return kernel


def generate(scheduling, node):
    """Writes the kernel of a combined node and its call."""
    parts, schedules = [], []
    for subnode in node.get_subkernel_nodes():
        features = features_of(scheduling, subnode)
        tiling, _ = scheduling.get_tiling_and_scores(features.node_schedule, features.numel)
        kernel = scheduling.kernel_type(tiling, in_runs=False, features=features)
        if parts:
            kernel.args, kernel.messages = parts[0].args, parts[0].messages
        scheduling.codegen_node_schedule_with_kernel(features.node_schedule, kernel)
        parts.append(_written(kernel))
        schedules.append(features)
    metrics.generated_kernel_count -= len(parts) - 1
    first = parts[0]
    schedule = [part for features in schedules for part in features.scheduler_nodes()]
    with V.set_kernel_handler(first):
        name = scheduling.define_kernel(assembly.text(parts), schedule, first)
    for kernel, features in zip(parts, schedules):
        with V.set_kernel_handler(kernel):
            for part in features.scheduler_nodes():
                part.mark_run()
    scheduling.codegen_comment(schedule, name)
    with V.set_kernel_handler(first):
        first.call_kernel(name, items=assembly.starts(parts)[1])
        if config.nan_asserts:
            first.codegen_nan_check()
    for kernel in parts:
        V.graph.removed_buffers |= kernel.removed_buffers
        V.graph.inplaced_to_remove |= kernel.inplaced_to_remove
    scheduling.free_buffers_in_scheduler()
