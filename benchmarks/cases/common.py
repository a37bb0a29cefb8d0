# SPDX-License-Identifier: MIT
"""What every case is made of: a name, a callable on a device, and how much work it is."""

import collections
import contextlib
import dataclasses

import torch

# make(bench) -> callable without arguments, which is timed. Of one call: flop counts additions and multiplications,
# size the bytes that must move at least; 0 where nobody counted. dtype: what is computed in, for the share of the peak.
Case = collections.namedtuple("Case", "name group make flop size dtype", defaults=[0, 0, torch.float32])


def short(dtype):
    """`bfloat16` of torch.bfloat16."""
    return str(dtype).removeprefix("torch.")


@dataclasses.dataclass
class Bench:
    """A device, and the settings that a user of it may choose."""

    device: torch.device
    tf32: bool = False  # float32 products and convolutions may round to tf32
    benchmark: bool = False  # cuDNN times its algorithms
    channels_last: bool = False  # networks of images
    compile: bool = False  # networks by torch.compile

    @classmethod
    def parse(cls, text):
        """`cuda+tf32+compile`: a device and its settings. Raises ValueError as `settings_of` does."""
        settings = cls.settings_of(text)
        return cls(torch.device(text.split("+")[0]), **dict.fromkeys(settings, True))

    @classmethod
    def settings_of(cls, text):
        """The settings alone, for a process that does not know the device. Raises ValueError for one there is not."""
        settings = text.split("+")[1:]
        known = {field.name for field in dataclasses.fields(cls)} - {"device"}
        if unknown := set(settings) - known:
            raise ValueError(f"{text}: expected settings among {', '.join(sorted(known))}, got {', '.join(unknown)}")
        return settings

    def apply(self):
        """Sets what PyTorch keeps for the process."""
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = self.tf32
        if self.tf32 and self.device.type != "cuda":
            torch.backends.fp32_precision = "tf32"
        torch.backends.cudnn.benchmark = self.benchmark

    def random(self, *shape, dtype=torch.float32):
        """Normal numbers, made on the host, so that every device gets the same."""
        return torch.randn(*shape).to(self.device, dtype)

    def integers(self, limit, *shape):
        return torch.randint(0, limit, shape).to(self.device)

    def precision(self, dtype):
        """autocast to `dtype`; of float32 nothing."""
        lower = dtype != torch.float32
        return torch.autocast(self.device.type, dtype) if lower else contextlib.nullcontext()

    def prepare(self, model, images=False, channels_last=False):
        """(model on the device, what is called for it: the same, or compiled)."""
        model = model.to(self.device)
        if images and (channels_last or self.channels_last):
            model = model.to(memory_format=torch.channels_last)
        return model, torch.compile(model) if self.compile else model

    def image(self, *shape, dtype=torch.float32, channels_last=False):
        layout = torch.channels_last if channels_last or self.channels_last else torch.contiguous_format
        return self.random(*shape, dtype=dtype).contiguous(memory_format=layout)

    def evaluation(self, model, inputs, autocast=torch.float32, **preparation):
        """`model` of `inputs` without gradients."""
        model, called = self.prepare(model.eval(), **preparation)

        def call():
            with torch.no_grad(), self.precision(autocast):
                return called(*inputs)

        return call

    def training(self, model, inputs, loss, optimizer=torch.optim.Adam, autocast=torch.float32, **preparation):
        """A training step; loss(result of the model) -> scalar. `optimizer` takes the parameters."""
        model, called = self.prepare(model.train(), **preparation)
        steps = optimizer(model.parameters())

        def call():
            steps.zero_grad()
            with self.precision(autocast):
                error = loss(called(*inputs))
            error.backward()
            steps.step()

        return call


def function_of(function, *shapes, dtype=torch.float32):
    """make: `function` of random tensors."""

    def make(bench):
        tensors = [bench.random(*shape, dtype=dtype) for shape in shapes]
        return lambda: function(*tensors)

    return make


def gradients_of(function, *shapes, dtype=torch.float32):
    """make: `function` of random tensors, and the gradients of them all."""

    def make(bench):
        tensors = [bench.random(*shape, dtype=dtype).requires_grad_() for shape in shapes]
        with torch.no_grad():
            gradient = torch.randn(function(*tensors).shape).to(bench.device, dtype)

        def call():
            torch.autograd.grad(function(*tensors), tensors, gradient)

        return call

    return make
