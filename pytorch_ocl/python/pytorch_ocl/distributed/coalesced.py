# SPDX-License-Identifier: MIT
"""Many small tensors of an ocl device that a rank broadcasts: DistributedDataParallel's buffers, before each forward
pass.

PyTorch's own (2.11 to 2.15) takes memory for them each time and copies each tensor out of it by itself, on the root,
too; those copies wait for the broadcast and reach the device one by one."""

import functools
import weakref

import torch

_LARGEST = 4 << 20  # bytes of all tensors: memory for them is kept
_MOST = 8  # sets of tensors of a group whose memory is kept


class _Packed:
    """Memory that holds tensors one behind the other, those of each dtype together."""

    def __init__(self, tensors):
        self.kinds = _kinds(tensors)
        numbers = {}
        for number, tensor in enumerate(tensors):
            numbers.setdefault(tensor.dtype, []).append(number)
        self.groups = list(numbers.values())
        sizes = [_aligned(sum(tensors[number].nbytes for number in group)) for group in self.groups]
        self.flat = torch.empty(sum(sizes), dtype=torch.uint8, device=tensors[0].device)
        self.parts = []
        for group, place in zip(self.groups, self.flat.split(sizes)):
            members = [tensors[number] for number in group]
            counts = [tensor.numel() for tensor in members]
            pieces = place.view(members[0].dtype)[: sum(counts)].split(counts)
            self.parts.append([piece.view(tensor.shape) for piece, tensor in zip(pieces, members)])

    def broadcast(self, process_group, tensors, options):
        members = [[tensors[number] for number in group] for group in self.groups]
        is_root = process_group.rank() == options.rootRank
        if is_root:
            for parts, group in zip(self.parts, members):
                torch._foreach_copy_(parts, group)
        process_group.broadcast([self.flat], options).wait()
        if not is_root:
            for parts, group in zip(self.parts, members):
                torch._foreach_copy_(group, parts)


def _aligned(size):
    return (size + 15) // 16 * 16


def _kinds(tensors):
    return [(tensor.dtype, tensor.device, tensor.shape) for tensor in tensors]


_kept = weakref.WeakKeyDictionary()  # {process group: {what it broadcasts: its memory}}


def _packed(process_group, tensors):
    known = _kept.setdefault(process_group, {})
    # Tensors of the same identity need not be the same ones.
    key = tuple(map(id, tensors))
    packed = known.get(key)
    if packed is None or packed.kinds != _kinds(tensors):
        if len(known) >= _MOST:
            known.clear()
        packed = known[key] = _Packed(tensors)
    return packed


def _serves(tensors, buffer_size):
    """Whether tensors are of one ocl device and few bytes: a module's parameters are not kept a second time."""
    return (
        tensors
        and sum(tensor.nbytes for tensor in tensors if tensor.layout == torch.strided) <= min(buffer_size, _LARGEST)
        and all(
            tensor.device == tensors[0].device and tensor.device.type == "ocl" and tensor.layout == torch.strided
            for tensor in tensors
        )
    )


def wrap(original):
    """torch.distributed._broadcast_coalesced, for a few megabytes of one ocl device with fewer copies."""

    @functools.wraps(original)
    def _broadcast_coalesced(process_group, tensors, buffer_size, src=0):
        tensors = list(tensors)
        if not _serves(tensors, buffer_size):
            return original(process_group, tensors, buffer_size, src)
        tensors = [tensor for tensor in tensors if tensor.numel()]
        options = torch.distributed.BroadcastOptions()
        options.rootRank, options.rootTensor = src, 0
        with torch.no_grad():
            if tensors:
                _packed(process_group, tensors).broadcast(process_group, tensors, options)

    return _broadcast_coalesced
