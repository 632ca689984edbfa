"""All that only a device can show, in less than ten minutes.

    python tools/device_checks                         on the machine with the device
    python tools/device_checks --platform cpu          a test of the checks themselves
    python tools/device_checks --only values kernels   some of them
    python tools/device_checks --jax PYTHON            speed beside the JAX of another environment

It prints a line for each thing that it measures, or finds wrong, then how many there are of each
kind, and exits with 1 if anything is wrong. `--out` writes all lines as JSON. Sections that ran out
of time say how much they left out; `--seconds` gives them more.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
# The sections in their order, and the share of the time left that each may take.
SHARES = {
    "collectives": 0.15, "callbacks": 0.15, "memories": 0.1, "kernels": 0.1, "pieces": 0.1,
    "rates": 0.1, "beside JAX": 0.3, "predicted": 0.2, "values": 1.0,
}  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """Run the checks; 1 if something is wrong."""
    parser = argparse.ArgumentParser(prog="device_checks", description=__doc__.splitlines()[0])
    parser.add_argument("--platform", help="tpu, cuda, rocm or cpu; by default the best there is")
    parser.add_argument("--seconds", type=float, default=540)
    parser.add_argument("--only", nargs="*", choices=list(SHARES), default=list(SHARES))
    parser.add_argument("--jax", help="a Python that has JAX, for the speed beside it")
    parser.add_argument("--topology", help="the name of the device for `debug.plan`, such as v5e-1")
    parser.add_argument("--small", action="store_true", help="programs that a laptop runs")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args(arguments)
    # Devices to compare with; and no advice on many programs that are compiled once.
    for option, value in (
        ("JAX_NUM_CPU_DEVICES", "8"),
        ("TEUCER_WARN_AFTER_COMPILES", "0"),
        ("TEUCER_WARN_SLOW_COMPILE", "0"),
    ):
        os.environ.setdefault(option, value)
    sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tools")]
    import teucer as jax
    from device_checks import communication, programs, values
    from device_checks.report import Report

    devices = jax.devices(args.platform)
    device, small = devices[-1], args.small or devices[0].platform == "cpu"
    print(f"{len(devices)} x {device.device_kind} ({device.platform})", flush=True)
    sections = {
        "collectives": lambda: communication.collectives(devices),
        "callbacks": lambda: communication.callbacks(devices),
        "memories": lambda: communication.memories(device),
        "kernels": lambda: programs.kernels(device),
        "pieces": lambda: programs.pieces(device),
        "rates": lambda: programs.rates(device, small),
        "beside JAX": lambda: programs.beside_jax(device, args.jax, small),
        "predicted": lambda: programs.predicted(device, args.topology, small),
        "values": lambda: values.checks(device),
    }
    report = Report(args.seconds)
    for name in args.only:
        workers = min(16, os.cpu_count() or 1) if name == "values" else 1
        report.section(name, SHARES[name], sections[name](), workers)
    report.close(args.out)
    return int(report.failed())


if __name__ == "__main__":
    sys.exit(main())
