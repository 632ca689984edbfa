"""Rooflines.

What a program has to compute, to move to and from memory, and to send between devices, from its
types alone.
"""

from teucer._experimental.rooflines import RooflineResult, RooflineRuleContext, RooflineShape
from teucer.experimental.roofline import rooflines
from teucer.experimental.roofline.roofline import (
    register_roofline,
    register_standard_roofline,
    roofline,
    roofline_and_grad,
)

__all__ = [
    "RooflineResult", "RooflineRuleContext", "RooflineShape", "register_roofline",
    "register_standard_roofline", "roofline", "roofline_and_grad", "rooflines",
]  # fmt: skip
