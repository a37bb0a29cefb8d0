# SPDX-License-Identifier: MIT
"""Writes JSON networks."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence


def _names(value: str | Sequence[str]) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


class NetConfig:
    """A JSON network, operator by operator; one without inputs reads what the one before it gave.

    config = NetConfig()
    config.add_input("data", [64, 784])
    config.add("InnerProduct", {"outputs": 10})
    config.add("Softmax")
    net.load_from_json(config.to_str())
    """

    def __init__(self):
        self._network = {"inputs": [], "outputs": [], "operators": []}
        self._last: list[str] = []

    def add_input(self, name: str, shape: Sequence[int], dtype: str = "float") -> NetConfig:
        self._network["inputs"].append({"name": name, "shape": list(shape), "dtype": dtype})
        self._last = self._last or [name]
        return self

    def add(
        self,
        type: str,
        options: dict | None = None,
        *,
        name: str | None = None,
        inputs: str | Sequence[str] | None = None,
        outputs: str | Sequence[str] | None = None,
        params: Sequence[str] = (),
        frozen: bool = False,
    ) -> str:
        """Adds an operator and returns its first output's name, which is the operator's unless given."""
        name = name or f"{type.lower()}_{len(self._network['operators'])}"
        outputs = [name] if outputs is None else _names(outputs)
        operator = {
            "name": name,
            "type": type,
            "inputs": self._last if inputs is None else _names(inputs),
            "outputs": outputs,
        }
        given = {"options": options, "params": list(params), "frozen": frozen}
        operator |= {key: value for key, value in given.items() if value}
        self._network["operators"].append(operator)
        self._last = outputs
        return outputs[0]

    def set_outputs(self, outputs: Sequence[str | tuple[str, float]]) -> NetConfig:
        """Names; (name, weight) makes an output a loss, as does a name that begins with "loss". Default: the last."""
        self._network["outputs"] = [o if isinstance(o, str) else {"name": o[0], "loss_weight": o[1]} for o in outputs]
        return self

    def to_json(self) -> dict:
        return {**self._network, "outputs": self._network["outputs"] or self._last}

    def to_str(self) -> str:
        return json.dumps(self.to_json(), indent=1)

    def save(self, path: str | os.PathLike) -> None:
        with open(path, "w") as file:
            file.write(self.to_str())
