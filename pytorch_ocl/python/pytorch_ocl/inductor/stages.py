# SPDX-License-Identifier: MIT
"""Chains of elementary functions in stages: each does a block of elements, and leaves in arrays what later ones need.

One function waits for the other, and a CPU looks a few hundred instructions ahead. In a loop over all of a chain it
sees the end of one vector and the beginning of the next; in a loop over one function several vectors, which it computes
at once. A block's arrays stay in the nearest cache."""

import dataclasses
import re

_LINE = re.compile(r"(?:const )?(\w+) (tmp\w+) = (.*);")
_VARIABLE = re.compile(r"\btmp\w+\b")
_CALL = re.compile(r"\b(\w+)_f32\(")
# Instructions of a vector, about; of other functions 1.
_COSTS = {name: 20 for name in ("exp", "exp2", "expm1", "erf_plus_one", "atan", "sigmoid")}
_COSTS |= {name: 30 for name in ("log", "log2", "log10", "log1p", "cosh", "atan2", "asin", "acos")}
_COSTS |= {name: 40 for name in ("sin", "cos", "erf", "tanh", "sinh", "acosh", "asinh", "atanh")}
_COSTS |= {"tan": 80, "pow": 100, "power": 100}
_COSTLY = 20
_STAGE = 30  # the most of a stage with several functions
_MOST_ARRAYS = 8  # they lie on a thread's stack


@dataclasses.dataclass
class _Line:
    text: str
    kind: str
    name: str
    uses: set
    cost: int
    constant: bool  # and cheap: written again where it is needed


def _parsed(text):
    """The line, or None for what is no definition."""
    match = _LINE.fullmatch(text.strip())
    if not match:
        return None
    kind, name, value = match.groups()
    cost = 1 + sum(_COSTS.get(call, 0) for call in _CALL.findall(value)) + 6 * value.count(" / ")
    uses = set(_VARIABLE.findall(value))
    constant = not uses and not re.search(r"\[|\brandom_", value)
    return _Line(text.strip(), kind, name, uses, cost, constant)


def _cut(lines):
    """Stages: lists of lines, in their order."""
    stages, total, busy = [[]], 0, False
    for line in lines:
        if line.cost >= _COSTLY and busy and total + line.cost > _STAGE:
            stages.append([])
            total, busy = 0, False
        stages[-1].append(line)
        total, busy = total + line.cost, busy or line.cost >= _COSTLY
    return stages


def split(loads, compute, stores):
    """([(type, variable)] of arrays, [lines of a stage]), or None where one loop is as good. Elements of arrays are
    those of `lane`."""
    lines = [_parsed(text) for text in (*loads, *compute) if text.strip()]
    if None in lines or sum(line.cost for line in lines) <= _STAGE:
        return None
    stages = _cut(lines)
    if len(stages) == 1:
        return None
    by_name = {line.name: line for line in lines}
    where = {line.name: number for number, stage in enumerate(stages) for line in stage}
    needed = [set().union(*(line.uses for line in stage)) & by_name.keys() for stage in stages]
    needed[-1] |= set(_VARIABLE.findall("\n".join(stores))) & by_name.keys()
    arrays, texts = {}, [[] for _ in stages]
    for number, stage in enumerate(stages):
        for name in sorted(needed[number], key=lambda name: int(re.sub(r"\D", "", name) or 0)):
            line = by_name[name]
            if where[name] == number:
                continue
            if line.constant:
                texts[number].append(line.text)
            else:
                arrays[name] = line.kind
                texts[number].append(f"const {line.kind} {name} = kept_{name}[lane];")
        texts[number] += [line.text for line in stage]
    if len(arrays) > _MOST_ARRAYS:
        return None
    for name in arrays:
        texts[where[name]].append(f"kept_{name}[lane] = {name};")
    texts[-1] += [text.strip() for text in stores]
    return [(kind, name) for name, kind in arrays.items()], texts
