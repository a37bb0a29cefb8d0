# SPDX-License-Identifier: MIT
"""A progress bar on the terminal."""

import shutil
import sys
import threading


class Progress:
    """Inside, a line on standard error shows how far `position()` -> (done, all) has come; none without a terminal."""

    INTERVAL = 0.2  # seconds

    def __init__(self, label, position):
        self.label, self.position = label, position
        self.shown = sys.stderr.isatty()
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        if self.shown:
            self.thread.start()
        return self

    def __exit__(self, *details):
        if self.shown:
            self.stopped.set()
            self.thread.join()
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def line(self):
        """The text of the line now."""
        done, whole = self.position()
        width = max(10, min(40, shutil.get_terminal_size().columns - len(self.label) - 20))
        filled = width * done // max(whole, 1)
        return f"{self.label} [{'#' * filled}{'.' * (width - filled)}] {done} of {whole}"

    def _run(self):
        while not self.stopped.wait(self.INTERVAL):
            print(f"\r{self.line()}\x1b[K", end="", file=sys.stderr, flush=True)
