"""`teucer demo`.

The devices, then two trainings with a progress bar, a picture of a loss curve and a summary.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import teucer as jax
from teucer.cli import _devices
from teucer.cli._errors import CommandError, missing_extra
from teucer.cli.demos import digits, spectral_radius

REPORT_EVERY = 50  # steps; to read a loss is to wait for the device


def demo(*, steps: int | None, picture: Path) -> int:
    """Run both programs, for as many steps as each needs if steps is None, and save the first one's
    loss curve."""
    if not picture.parent.is_dir():
        raise CommandError(f"there is no folder {picture.parent} for the picture.")
    for device in _devices.found():
        print("device", _devices.describe(device))

    print("\nA perceptron learns the spectral radius of random complex 2x2 matrices.")
    count = steps or spectral_radius.STEPS
    start = time.perf_counter()
    with _progress(count) as on_step:
        _, losses = spectral_radius.train(count, on_step=on_step)
    losses = np.asarray(losses)
    _save_curve(losses, picture)
    window = max(1, count // 20)
    print(f"{count} steps in {time.perf_counter() - start:.1f} s")
    print(
        f"loss: {losses[:10].mean():.3f} at the start, {losses[-window:].mean():.3f} at the end; "
        f"curve in {picture}"
    )

    print("\nA perceptron reads the handwritten digits of scikit-learn.")
    count = steps or digits.STEPS
    start = time.perf_counter()
    with _progress(count) as on_step:
        losses, accuracy = digits.train(count, on_step=on_step)
    print(f"{count} steps in {time.perf_counter() - start:.1f} s")
    print(f"test accuracy: {accuracy:.1%}")
    return 0


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int, jax.Array], None]]:
    """A progress bar with rate, loss and time left; gives the function to call after each step."""
    try:
        from rich import progress
    except ImportError as err:
        raise missing_extra("the progress bar", "demo", err) from err

    columns = (
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn(
            "{task.fields[rate]:.0f} steps/s  loss {task.fields[loss]:.3f}  time left"
        ),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(*columns) as bar:
        task = bar.add_task("train", total=total, rate=0.0, loss=float("nan"))
        start = time.perf_counter()

        def on_step(index: int, loss: jax.Array) -> None:
            done = index + 1
            if done % REPORT_EVERY == 0 or done == total:
                rate = done / (time.perf_counter() - start)
                bar.update(task, completed=done, rate=rate, loss=float(loss))

        yield on_step


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
