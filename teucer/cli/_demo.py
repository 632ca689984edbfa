"""`teucer demo`.

The devices, then two trainings with a progress bar, a picture of a loss curve and a summary.
"""

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import numpy as np

import teucer as jax
from teucer._progress.bars import Bar
from teucer.cli import _devices
from teucer.cli._errors import CommandError, missing_extra
from teucer.cli.demos import digits, spectral_radius

REPORT_EVERY = 50  # steps; to read a loss is to wait for the device
_SILENCE = 2.0  # seconds after which the demo says what it does


def demo(*, steps: int | None, picture: Path) -> int:
    """Run both programs, for as many steps as each needs if steps is None, and save the first one's
    loss curve."""
    if not picture.parent.is_dir():
        raise CommandError(f"there is no folder {picture.parent} for the picture.")
    with _Aloud("looking for devices") as aloud:
        for device in _devices.found():
            aloud.say(f"device {_devices.describe(device)}")

        aloud.say("\nA perceptron learns the spectral radius of random complex 2x2 matrices.")
        count = steps or spectral_radius.STEPS
        start = time.perf_counter()
        _, losses = spectral_radius.train(count, on_step=_shown(aloud, count))
        aloud.doing = "collecting the losses"
        losses = np.asarray(losses)
        aloud.doing = "drawing the curve"
        _save_curve(losses, picture)
        window = max(1, count // 20)
        aloud.say(f"{count} steps in {time.perf_counter() - start:.1f} s")
        aloud.say(
            f"loss: {losses[:10].mean():.3f} at the start, {losses[-window:].mean():.3f} at the "
            f"end; curve in {picture}"
        )

        aloud.say("\nA perceptron reads the handwritten digits of scikit-learn.")
        count = steps or digits.STEPS
        start = time.perf_counter()
        losses, accuracy = digits.train(count, on_step=_shown(aloud, count))
        aloud.say(f"{count} steps in {time.perf_counter() - start:.1f} s")
        aloud.say(f"test accuracy: {accuracy:.1%}")
    return 0


def _shown(aloud: "_Aloud", total: int) -> Callable[[int, jax.Array], None]:
    """What to call after each step: a bar with rate, loss and time left; lines in a log."""
    bar = Bar("train", "auto" if sys.stderr.isatty() else "text")
    aloud.doing = "compiling the step"

    def on_step(index: int, loss: jax.Array) -> None:
        done = index + 1
        if index == 0 or done % REPORT_EVERY == 0 or done == total:
            bar.tell(done, total, {"loss": float(loss)})
            aloud.doing = "training"

    return on_step


class _Aloud:
    """Says what is being done, and for how long, where nothing was said for two seconds."""

    def __init__(self, doing: str) -> None:
        self.ended = threading.Event()
        self.doing = doing

    @property
    def doing(self) -> str:
        return self._doing

    @doing.setter
    def doing(self, what: str) -> None:
        self._doing, self.since = what, time.monotonic()

    def say(self, text: str) -> None:
        """Print a line; what follows has no name yet."""
        print(text, flush=True)
        self.doing = "working"

    def __enter__(self) -> "_Aloud":
        threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        err: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.ended.set()

    def _watch(self) -> None:
        while not self.ended.wait(_SILENCE):
            silent = time.monotonic() - self.since
            if silent >= _SILENCE:
                print(f"  {self.doing}, {silent:.0f} s", file=sys.stderr, flush=True)


def _save_curve(losses: np.ndarray, path: Path) -> None:
    """Save a picture of the loss over the steps: every value, and the mean of each stretch of a
    hundredth of them."""
    try:
        from matplotlib.figure import Figure
    except ImportError as err:
        raise missing_extra("the picture of the loss curve", "demo", err) from err

    width = max(1, len(losses) // 100)
    stretches = losses[: len(losses) // width * width].reshape(-1, width)
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    axes.plot(losses, linewidth=0.3, color="tab:blue", alpha=0.5, label="each batch")
    axes.plot(
        (np.arange(len(stretches)) + 0.5) * width,
        stretches.mean(axis=1),
        color="tab:blue",
        label=f"mean of {width}",
    )
    axes.set(
        xlabel="step",
        ylabel="mean |prediction - spectral radius|",
        title="Spectral radius of random complex 2x2 matrices",
    )
    axes.set_ylim(bottom=0)
    axes.legend()
    figure.savefig(path, dpi=150)
