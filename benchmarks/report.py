#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes docs/benchmarks.md and its plots from what run.py wrote: report.py RESULTS.json..."""

import argparse
import collections
import json
import pathlib

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[1]
HEAD = """\
# Benchmarks

Written by `benchmarks/report.py` from results of `benchmarks/run.py`: median milliseconds of the same case on the
devices of one machine, synchronized. A ratio over 1 says that the last device is faster. Networks train with Adam;
float32 is without TF32 but where the device's name says so; bfloat16 networks run under autocast in channels_last.
"""


def complete(results):
    return [case for case in results["cases"] if all(case["ms"])]


def bars(results, path):
    """The ratio of every network and operator."""
    chosen = [case for case in complete(results) if not case["group"].startswith("matmul")]
    figure, axis = plt.subplots(figsize=(8, 0.24 * len(chosen) + 1))
    ratios = [case["ms"][0] / case["ms"][-1] for case in chosen]
    axis.barh([case["case"] for case in chosen], ratios, color=["tab:green" if r >= 1 else "tab:blue" for r in ratios])
    axis.axvline(1, color="black", linewidth=0.8)
    axis.set_xlabel(f"speed of {results['devices'][-1]} over {results['devices'][0]}")
    axis.invert_yaxis()
    axis.margins(y=0.01)
    figure.savefig(path, dpi=110, bbox_inches="tight")
    plt.close(figure)


def roofline(results, path):
    """What matrix products reach over their size, in TFLOP/s."""
    groups = collections.defaultdict(list)
    for case in complete(results):
        if case["group"].startswith("matmul"):
            groups[case["group"]].append(case)
    figure, axis = plt.subplots(figsize=(7, 4))
    for color, (group, found) in zip(("tab:blue", "tab:orange"), groups.items()):
        sizes = [round((case["flop"] / 2) ** (1 / 3)) for case in found]
        for which, style in ((0, "--"), (-1, "-")):
            rates = [case["flop"] / case["ms"][which] / 1e9 for case in found]
            axis.loglog(sizes, rates, style, marker="o", color=color, label=f"{group}, {results['devices'][which]}")
    axis.set_xlabel("n of an n x n by n x n product")
    axis.set_ylabel("TFLOP/s")
    axis.grid(True, which="both", alpha=0.3)
    axis.legend(fontsize=8)
    figure.savefig(path, dpi=110, bbox_inches="tight")
    plt.close(figure)


def table(results):
    """Times of all devices, ratios to the last one, what it reaches, and its share of the peak where that is known."""
    devices = results["devices"]
    heads = [f"{device}, ms" for device in devices] + ["ratio"] * (len(devices) - 1)
    lines = [f"| case | {' | '.join(heads)} | |", "|---" * (len(heads) + 2) + "|"]
    for case in complete(results):
        own = case["ms"][-1]
        rate = (
            f"{case['flop'] / own / 1e9:.3g} TFLOP/s"
            if case["flop"]
            else f"{case['bytes'] / own / 1e6:.3g} GB/s"
            if case["bytes"]
            else ""
        )
        if case.get("peak"):
            rate += f", {case['peak']:.0%} of the peak"
        cells = [f"{ms:.3f}" for ms in case["ms"]] + [f"{ms / own:.2f}" for ms in case["ms"][:-1]]
        lines.append(f"| {case['case']} | {' | '.join(cells)} | {rate} |")
    return "\n".join(lines)


def section(results, number):
    images = ROOT / "docs/images"
    images.mkdir(parents=True, exist_ok=True)
    lines = [f"\n## {results['devices'][-1]} against {', '.join(results['devices'][:-1])}\n"]
    if "torch" in results:
        size = results["size"]
        lines.append(f"torch {results['torch']}; networks: batch {results['batch']}, {size}x{size}.\n")
    if "note" in results:  # how the results differ from what run.py alone gives
        lines.append(results["note"] + "\n")
    if any(not case["group"].startswith("matmul") for case in complete(results)):
        bars(results, images / f"benchmark-{number}-bars.png")
        lines.append(f"![Ratios of networks and operators](images/benchmark-{number}-bars.png)\n")
    if any(case["group"].startswith("matmul") for case in complete(results)):
        roofline(results, images / f"benchmark-{number}-matmul.png")
        lines.append(f"![Matrix products](images/benchmark-{number}-matmul.png)\n")
    return "\n".join(lines) + "\n" + table(results) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", nargs="+", type=pathlib.Path)
    texts = [json.loads(file.read_text()) for file in parser.parse_args().results]
    page = HEAD + "".join(section(results, i + 1) for i, results in enumerate(texts))
    (ROOT / "docs/benchmarks.md").write_text(page)
    print(f"docs/benchmarks.md: {len(page.splitlines())} lines")


if __name__ == "__main__":
    main()
