# SPDX-License-Identifier: MIT
"""Language models in GGUF files and in folders of transformers."""

from __future__ import annotations

import codecs
import os
import threading
from collections.abc import Iterator, Sequence

import numpy as np

from . import _core


class Generator:
    """A language model in a GGUF file, a folder of transformers, or an ONNX decoder or its folder, on a device.

    generator = dlprim.Generator("model.gguf")
    print(generator.generate("Once upon a time", tokens=50))

    device: as for InferenceSession. context: tokens that there is room for; default: the model's, at most 4096.
    dtype: "float32", "float16" or "bfloat16"; default: float32 on CPUs, bfloat16 elsewhere, and what the file has with
    ONNX. Threads may share it: one text is generated at a time."""

    def __init__(self, path: str | os.PathLike, device: str | None = None, context: int = 0, dtype: str | None = None):
        place = _core.Context(device) if device else _core.Context()
        self._core = _core.GeneratorCore(place, os.fspath(path), context, dtype)
        self._lock = threading.Lock()

    @property
    def summary(self) -> dict:
        """Architecture, name, layers, width, vocabulary, context, weight_bytes and dtype of the model."""
        return self._core.summary

    @property
    def times(self) -> dict:
        """Of the last text: prompt_tokens, tokens, and prompt_seconds until the first token, seconds for the rest."""
        return self._core.times

    def encode(self, text: str, begin: bool = True) -> list[int]:
        """The numbers of a text, behind the token that begins texts where the model wants it."""
        return self._core.encode(text, begin)

    def decode(self, tokens: Sequence[int]) -> str:
        return self._core.decode(list(tokens)).decode("utf-8", "replace")

    def scores(self, tokens: Sequence[int]) -> np.ndarray:
        """Scores (logits) [tokens, vocabulary] of the successor of each token."""
        with self._lock:
            return self._core.scores(list(tokens))

    def tokens(
        self,
        prompt: str | Sequence[int],
        tokens: int = 128,
        temperature: float = 0.0,
        top_k: int = 40,
        top_p: float = 0.95,
        seed: int = 0,
        stop: bool = True,
    ) -> Iterator[int]:
        """The tokens that follow a text (or its tokens), one by one. temperature 0: the most probable one always;
        top_k 0: of all tokens; stop: where the model ends the text."""
        numbers = self.encode(prompt) if isinstance(prompt, str) else list(prompt)
        with self._lock:
            self._core.start(numbers, tokens, temperature, top_k, top_p, seed, stop)
            while (token := self._core.next()) is not None:
                yield token

    def stream(self, prompt: str | Sequence[int], **options) -> Iterator[str]:
        """The text that follows, piece by piece; options as for tokens()."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for token in self.tokens(prompt, **options):
            if piece := decoder.decode(self._core.piece(token)):
                yield piece
        if rest := decoder.decode(b"", final=True):
            yield rest

    def generate(self, prompt: str | Sequence[int], **options) -> str:
        """The text that follows; options as for tokens()."""
        return "".join(self.stream(prompt, **options))
