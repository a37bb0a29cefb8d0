# SPDX-License-Identifier: MIT
"""Operators of 4 and 8 bits of bitsandbytes (read in 0.50). Others are computed by its own code for any device."""

import functools
import math

import torch

_ocl = torch.ops.pytorch_ocl


@functools.cache
def _tables(kind, device):
    """The numbers of "nf4" or "fp4", the same ascending, and what is stored for those."""
    from bitsandbytes.functional import get_4bit_type

    numbers = get_4bit_type(kind, device="cpu")
    ascending, order = numbers.sort(stable=True)
    return tuple(t.to(device) for t in (numbers, ascending, order.to(torch.uint8)))


def _bytes(packed):
    return packed.reshape(-1).view(torch.uint8)


def _unpack(packed, scales, table, blocksize, shape, dtype, out=None):
    if out is None or not out.is_contiguous() or out.dtype != dtype:
        result = torch.empty(tuple(shape), dtype=dtype, device=packed.device)
    else:
        result = out
    _ocl.table_unpack(_bytes(packed), scales.contiguous(), table.contiguous(), blocksize, result)
    if out is not None and result is not out:
        out.copy_(result)
    return result


def quantize_4bit(A, blocksize, quant_type, quant_storage):
    _, ascending, order = _tables(quant_type, A.device)
    packed, absmax = _ocl.table_pack(A, ascending, order, blocksize)
    return packed.view(quant_storage).unsqueeze(1), absmax


def dequantize_4bit(A, absmax, blocksize, quant_type, shape, dtype):
    return _unpack(A, absmax, _tables(quant_type, A.device)[0], blocksize, shape, dtype)


def dequantize_4bit_out(A, absmax, blocksize, quant_type, shape, dtype, out):
    _unpack(A, absmax, _tables(quant_type, A.device)[0], blocksize, shape, dtype, out)


def gemv_4bit(A, B, shapeB, absmax, code, blocksize):
    return _ocl.table_product(A, _bytes(B), shapeB[0], absmax, code, blocksize)


def gemv_4bit_out(A, B, shapeB, absmax, code, blocksize, out):
    out.copy_(gemv_4bit(A, B, shapeB, absmax, code, blocksize))


def gemm_4bit(
    A, B, shapeB, absmax, blocksize, quant_type, bias=None, absmax_8bit=None, absmax_code=None, absmax_offset=None
):
    if absmax_8bit is not None:
        blocks = math.ceil(shapeB[0] * shapeB[1] / blocksize)
        absmax = _unpack(absmax_8bit, absmax, absmax_code, 256, (blocks,), torch.float32).add_(absmax_offset)
    return _ocl.table_product(A, _bytes(B), shapeB[0], absmax, _tables(quant_type, A.device)[0], blocksize, bias)


def quantize_blockwise(A, code, blocksize):
    packed, absmax = _ocl.table_pack(A, code, None, blocksize)
    return packed.view(A.shape), absmax


def dequantize_blockwise(A, absmax, code, blocksize, dtype):
    return _unpack(A, absmax, code, blocksize, A.shape, dtype)


def dequantize_blockwise_out(A, absmax, code, blocksize, dtype, out):
    _unpack(A, absmax, code, blocksize, A.shape, dtype, out)


def int8_linear_matmul(A, B):
    return torch._int_mm(A.reshape(-1, A.shape[-1]), B.t()).view(*A.shape[:-1], B.shape[0])


def int8_linear_matmul_out(A, B, out):
    out.copy_(int8_linear_matmul(A, B))


_OPTIMIZERS = {"lamb": "adam", "lars": "momentum"}  # those without trust ratios, as on bitsandbytes' own devices


def optimizer_update_8bit_blockwise(
    optimizer_name, g, p, state1, state2, beta1, beta2, beta3, alpha, eps, step, lr, qmap1, qmap2, absmax1, absmax2,
    weight_decay, gnorm_scale, skip_zeros=False,
):  # fmt: skip
    means = list(zip(state1, absmax1, strict=True)) if optimizer_name == "ademamix" else [(state1, absmax1)]
    states = [(*mean, qmap1) for mean in means]
    if state2 is not None:
        states.append((state2, absmax2, qmap2))
    _ocl.step_of_bytes(
        _OPTIMIZERS.get(optimizer_name, optimizer_name), p, g, *map(list, zip(*states, strict=True)), 256, step, lr,
        beta1, beta2, beta3, alpha, eps, weight_decay, gnorm_scale,
    )  # fmt: skip


KERNELS = {
    "quantize_4bit": quantize_4bit,
    "dequantize_4bit": dequantize_4bit,
    "dequantize_4bit.out": dequantize_4bit_out,
    "gemv_4bit": gemv_4bit,
    "gemv_4bit.out": gemv_4bit_out,
    "gemm_4bit": gemm_4bit,
    "quantize_blockwise": quantize_blockwise,
    "dequantize_blockwise": dequantize_blockwise,
    "dequantize_blockwise.out": dequantize_blockwise_out,
    "optimizer_update_8bit_blockwise": optimizer_update_8bit_blockwise,
    "int8_linear_matmul": int8_linear_matmul,
    "int8_linear_matmul.out": int8_linear_matmul_out,
}


def package(module) -> None:
    module.supported_torch_devices.add("ocl")
    for name, kernel in KERNELS.items():
        packet, _, overload = name.partition(".")
        if hasattr(getattr(torch.ops.bitsandbytes, packet, None), overload or "default"):
            torch.library.impl(f"bitsandbytes::{name}", "PrivateUse1")(kernel)
