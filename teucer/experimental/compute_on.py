"""Where operations are computed: on the device, its host, or a part of it."""

from teucer._derived.metadata import compute_on, compute_on2

__all__ = ["compute_on", "compute_on2"]
