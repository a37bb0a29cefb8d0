# SPDX-License-Identifier: MIT
"""torch.ocl: what torch.cuda offers, for OpenCL devices."""

from pytorch_ocl.ocl.device import *  # noqa: F403
from pytorch_ocl.ocl.device import _is_in_bad_fork, _lazy_init  # noqa: F401
from pytorch_ocl.ocl.fallback import fallbacks, reset_fallbacks  # noqa: F401
from pytorch_ocl.ocl.graphs import *  # noqa: F403
from pytorch_ocl.ocl.host_memory import *  # noqa: F403
from pytorch_ocl.ocl.kernel import compile_kernel  # noqa: F401
from pytorch_ocl.ocl.memory import *  # noqa: F403
from pytorch_ocl.ocl.profile import enable_profiling, profile  # noqa: F401
from pytorch_ocl.ocl.random import *  # noqa: F403
from pytorch_ocl.ocl.random import _get_generator  # noqa: F401
from pytorch_ocl.ocl.storages import *  # noqa: F403
from pytorch_ocl.ocl.streams import *  # noqa: F403
from pytorch_ocl.ocl.tensor_types import *  # noqa: F403
from pytorch_ocl.ocl.unsupported import *  # noqa: F403

_initialized = True  # torch.utils.checkpoint saves the random state of devices that say so


def __getattr__(name):
    if name == "default_generators":
        return tuple(_get_generator(index) for index in range(device_count()))  # noqa: F405
    raise AttributeError(f"module 'torch.ocl' has no attribute '{name}'")
