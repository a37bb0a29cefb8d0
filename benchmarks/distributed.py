#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Collectives between processes of one host, and what DistributedDataParallel makes of several devices.

    python benchmarks/distributed.py                      # ocl by each of its ways, and CUDA with NCCL if it is there
    python benchmarks/distributed.py --ways staged --sizes 25,256 --no-training
    python benchmarks/distributed.py --device Intel --batch 2 --image 64 --sizes 16   # both ranks on one CPU

Prints gigabytes a second of "algorithm bandwidth": the bytes of one rank's tensor by the time of a collective, the host
waiting for the devices each time; of "send", by half the time of a tensor's way to another rank and back. The ways of
ocl are those of PYTORCH_OCL_SHARED_MEMORY ("measured" is the default), and "sockets" is 0. Training is images a second
of resnet50 by DistributedDataParallel, SGD, and tokens a second of a transformer by FSDP2, parameters in bfloat16,
gradients reduced in float32, AdamW, over all ranks beside one rank alone, on synthetic data. Starts a process for each
rank and kind of device; needs no network.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

MIB = 1 << 20


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--ways", default="measured,direct,staged,sockets", help="of ocl, comma-separated")
    parser.add_argument("--sizes", default="1,25,256", help="MiB of a tensor, comma-separated (default: 1,25,256)")
    parser.add_argument("--cases", default="", help="only those whose names contain one of these, comma-separated")
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--batch", type=int, default=64, help="images of a rank (default: 64)")
    parser.add_argument("--image", type=int, default=224, help="pixels of an image's side (default: 224)")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--limit", type=int, default=300, help="seconds for a kind of device and a way (default: 300)")
    parser.add_argument("--sequences", type=int, default=8, help="of 1024 words, of a rank (default: 8)")
    parser.add_argument("--width", type=int, default=1024, help="of the transformer (default: 1024)")
    parser.add_argument("--layers", type=int, default=24, help="of the transformer (default: 24)")
    parser.add_argument("--device", help="OCL_VISIBLE_DEVICES of the ranks")
    parser.add_argument("--no-training", action="store_true")
    parser.add_argument("--no-cuda", action="store_true")
    parser.add_argument("--rank", help=argparse.SUPPRESS)  # the process is one
    parser.add_argument("--kind", help=argparse.SUPPRESS)
    parser.add_argument("--train", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def create():
    """resnet50 with random weights; written here so that nothing but PyTorch is needed."""
    from torch import nn

    def convolution(inputs, outputs, kernel, stride=1):
        return [nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outputs)]

    class Block(nn.Module):
        def __init__(self, inputs, width, stride):
            super().__init__()
            outputs = 4 * width
            self.way = nn.Sequential(
                *convolution(inputs, width, 1),
                nn.ReLU(inplace=True),
                *convolution(width, width, 3, stride),
                nn.ReLU(inplace=True),
                *convolution(width, outputs, 1),
            )
            self.shortcut = nn.Sequential(*(convolution(inputs, outputs, 1, stride) if inputs != outputs else []))
            self.end = nn.ReLU(inplace=True)

        def forward(self, x):
            return self.end(self.way(x) + self.shortcut(x))

    layers = [*convolution(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for block in range(blocks):
            layers.append(Block(inputs, width, 2 if stage and not block else 1))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))


def seconds(function, wait, repeats, warm=3):
    """The median time of a call that a wait for the device follows."""
    times = []
    for _ in range(warm + repeats):
        wait()
        start = time.perf_counter()
        function()
        wait()
        times.append(time.perf_counter() - start)
    return statistics.median(times[warm:])


def there_and_back(x):
    """The first rank sends a tensor to the second, which returns it."""
    import torch.distributed as dist

    if dist.get_rank() == 0:
        dist.send(x, 1), dist.recv(x, 1)
    elif dist.get_rank() == 1:
        dist.recv(x, 0), dist.send(x, 0)


def uneven(options, device, count):
    """Output, input and sizes of parts for all_to_all_single: every second rank gets three times as much."""
    import torch
    import torch.distributed as dist

    least = count // (2 * options.ranks)
    sizes = [least * (3 if (rank + dist.get_rank()) % 2 else 1) for rank in range(options.ranks)]
    return (*(torch.ones(sum(sizes), device=device) for _ in range(2)), sizes, sizes)


def collectives(options, device, wait):
    import torch
    import torch.distributed as dist

    found = {}
    for size in map(int, options.sizes.split(",")):
        count = size * MIB // 4
        x = torch.ones(count, device=device)
        part = torch.ones(count // options.ranks, device=device)
        half = torch.ones(2 * count, device=device, dtype=torch.bfloat16)
        outs = [torch.ones_like(x) for _ in range(options.ranks)] if dist.get_rank() == 0 else None
        parts = uneven(options, device, count)
        cases = {
            "all_reduce": lambda x=x: dist.all_reduce(x, dist.ReduceOp.AVG),
            "all_reduce bf16": lambda half=half: dist.all_reduce(half, dist.ReduceOp.AVG),
            "all_gather": lambda x=x, part=part: dist.all_gather_into_tensor(x[: len(part) * options.ranks], part),
            "reduce_scatter": lambda x=x, part=part: dist.reduce_scatter_tensor(part, x[: len(part) * options.ranks]),
            "broadcast": lambda x=x: dist.broadcast(x, 0),
            "all_to_all, uneven": lambda parts=parts: dist.all_to_all_single(*parts),
            "gather": lambda x=x, outs=outs: dist.gather(x, outs),
            "reduce": lambda x=x: dist.reduce(x, 0, dist.ReduceOp.AVG),
            "send": lambda x=x: there_and_back(x),
        }
        for name, function in cases.items():
            if not any(part in name for part in options.cases.split(",")):
                continue
            dist.barrier()
            trips = 2 if name == "send" else 1
            found[f"{name} {size} MiB"] = trips * size * MIB / seconds(function, wait, options.repeats) / 1e9
    return found


def training(options, device, wait):
    """Images a second of one rank alone and of all together."""
    import torch
    import torch.distributed as dist

    found = {}
    for precision in ("float32", "bfloat16"):
        for ranks in (1, options.ranks):
            torch.manual_seed(0)
            model = create().to(device).train()
            images = torch.randn(options.batch, 3, options.image, options.image).to(device)
            labels = torch.randint(0, 1000, (options.batch,)).to(device)
            mixed = precision == "bfloat16"
            if mixed:
                model, images = (x.to(memory_format=torch.channels_last) for x in (model, images))
            if ranks > 1:
                model = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
            optimizer = torch.optim.SGD(model.parameters(), 0.01)

            def step(model=model, images=images, labels=labels, optimizer=optimizer, mixed=mixed):
                with torch.autocast(device.type, torch.bfloat16, enabled=mixed):
                    loss = torch.nn.functional.cross_entropy(model(images), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

            def steps(step=step):
                for _ in range(options.steps):
                    step()

            dist.barrier()
            if ranks > 1 or dist.get_rank() == 0:  # alone, while the others wait
                images_seen = ranks * options.batch * options.steps
                found[f"{precision}, {ranks}"] = images_seen / seconds(steps, wait, 2, warm=1)
            dist.barrier()
            del model, optimizer, step, steps
    return found


def create_layer(width):
    """A transformer's layer, causal, of heads of 64."""
    import torch
    from torch import nn

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.second_norm = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            heads = self.qkv(self.norm(x)).unflatten(-1, (3, -1, 64)).permute(2, 0, 3, 1, 4)
            mixed = torch.nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).flatten(2))
            return x + self.down(torch.nn.functional.gelu(self.up(self.second_norm(x)), approximate="tanh"))

    return Layer()


def sharded_training(options, device, wait):
    """Tokens a second of one rank alone and of all together, the transformer's layers sharded by FSDP2."""
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    batch, length, words = options.sequences, 1024, 50257
    alone = dist.new_subgroups(group_size=1)[0]
    found = {}
    for ranks, group in ((1, alone), (options.ranks, dist.group.WORLD)):
        torch.manual_seed(0)
        layers = [create_layer(options.width) for _ in range(options.layers)]
        model = nn.Sequential(nn.Embedding(words, options.width), *layers, nn.LayerNorm(options.width))
        model.append(nn.Linear(options.width, words, bias=False)).to(device)
        mesh = DeviceMesh.from_group(group, device.type)
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for module in (*model[1:-2], model):
            fully_shard(module, mesh=mesh, mp_policy=policy)
        optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
        tokens = torch.randint(0, words, (batch, length + 1)).to(device)

        def steps(model=model, optimizer=optimizer, tokens=tokens):
            for _ in range(options.steps):
                scores = model(tokens[:, :-1])
                torch.nn.functional.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten()).backward()
                optimizer.step()
                optimizer.zero_grad()

        dist.barrier()
        if ranks > 1 or dist.get_rank() == 0:
            found[f"FSDP2, {ranks}"] = ranks * batch * length * options.steps / seconds(steps, wait, 2, warm=1)
        dist.barrier()
        del model, optimizer, steps
    return found


def run_rank(options):
    import torch
    import torch.distributed as dist

    if options.kind == "ocl":
        import pytorch_ocl  # noqa: F401  beside CUDA it loads on request only
    module, rank = getattr(torch, options.kind), int(options.rank)
    device = torch.device(options.kind, rank % module.device_count())
    module.set_device(device)
    store = f"file://{os.environ['BENCHMARK_FOLDER']}/store"
    dist.init_process_group(
        "nccl" if options.kind == "cuda" else "gloo", init_method=store, rank=rank, world_size=options.ranks
    )
    measures = (training, sharded_training) if options.train else (collectives,)
    found = {}
    for measure in measures:
        found.update(measure(options, device, module.synchronize))
    if rank == 0:
        print(json.dumps({"device": module.get_device_name(device), "found": found}))
    dist.destroy_process_group()


def run(options, kind, way, train):
    """What the ranks of one kind of device measure; {} where they fail."""
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    environment.setdefault("OMP_NUM_THREADS", "4")
    if kind == "ocl":
        environment["PYTORCH_OCL_SHARED_MEMORY"] = {"sockets": "0", "measured": ""}.get(way, way)
        if options.device:
            environment["OCL_VISIBLE_DEVICES"] = options.device
    with tempfile.TemporaryDirectory() as folder:
        environment["BENCHMARK_FOLDER"] = folder
        command = [sys.executable, "-W", "ignore", __file__, *sys.argv[1:], "--kind", kind]
        command += ["--train"] if train else []
        ranks = [
            subprocess.Popen([*command, "--rank", str(rank)], env=environment, stdout=subprocess.PIPE, text=True)
            for rank in range(options.ranks)
        ]
        try:
            texts = [rank.communicate(timeout=options.limit)[0] for rank in ranks]
        except subprocess.TimeoutExpired:
            print(f"{kind} {way}: took more than {options.limit} s", file=sys.stderr)
            texts = []
        finally:
            for rank in ranks:
                rank.kill()
    if not texts or any(rank.returncode for rank in ranks):
        print(f"{kind} {way}: no result", file=sys.stderr)
        return {}
    result = json.loads(texts[0].splitlines()[-1])
    print(f"{kind} {way}: {options.ranks} ranks, the first on {result['device']}", file=sys.stderr, flush=True)
    return result["found"]


def has_cuda():
    command = [sys.executable, "-c", "import torch; print(torch.cuda.is_available() and torch.cuda.device_count())"]
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    out = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    return int(out) if out.strip().isdigit() else 0


def print_table(title, columns):
    """A table of {column: {row: number}}."""
    rows = dict.fromkeys(row for values in columns.values() for row in values)
    print(f"\n{title:28}" + "".join(f"{name:>12}" for name in columns))
    for row in rows:
        cells = [values.get(row) for values in columns.values()]
        print(f"{row:28}" + "".join(f"{cell:12.2f}" if cell else f"{'-':>12}" for cell in cells), flush=True)


def main():
    options = parse_arguments()
    if options.rank:
        return run_rank(options)
    nccl = not options.no_cuda and has_cuda() >= options.ranks
    kinds = {way: ("ocl", way) for way in options.ways.split(",")}
    if nccl:
        kinds["NCCL"] = ("cuda", "")
    print_table("GB/s", {name: run(options, *kind, False) for name, kind in kinds.items()})
    if options.no_training:
        return None
    first = next(iter(kinds))
    kinds = {name: kind for name, kind in kinds.items() if name in (first, "NCCL")}
    found = {name: run(options, *kind, True) for name, kind in kinds.items()}
    for values in found.values():
        for precision in ("float32", "bfloat16", "FSDP2"):
            one, all_ranks = (values.get(f"{precision}, {ranks}") for ranks in (1, options.ranks))
            if one and all_ranks:
                values[f"{precision}, times one"] = all_ranks / one
    print_table("images or tokens/s", found)
    return None


if __name__ == "__main__":
    main()
