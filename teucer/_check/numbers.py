"""The numbers of findings: level and title of each. The guide has a section for every one."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Number(NamedTuple):
    """The meaning of a number: level and title."""

    level: Literal["error", "warning", "hint"]
    title: str


NUMBERS = {
    # Tracing and types
    "T101": Number("error", "shapes or types that do not fit"),
    "T102": Number("error", "works for some sizes only"),
    "T103": Number("error", "Python needs the value of a traced argument"),
    "T104": Number("error", "a static argument that is not hashable"),
    "T105": Number("hint", "a static argument that is only a number in the program"),
    "T106": Number("warning", "a state that changes its type: compiled again at the second call"),
    "T107": Number("warning", "compiled again for a weak type"),
    "T108": Number("warning", "compiled for each size"),
    # Random numbers
    "T201": Number("warning", "a key is used twice"),
    # Values
    "T301": Number("error", "an index that is out of bounds"),
    "T302": Number("error", "division by zero"),
    "T303": Number("error", "a function outside its domain for all arguments"),
    "T304": Number("warning", "a function of what may be outside its domain"),
    "T305": Number("error", "a comparison with NaN"),
    # Precision
    "T401": Number("warning", "a formula that loses digits or overflows"),
    "T402": Number("warning", "exp before normalising"),
    "T403": Number("warning", "a variance by a difference of squares"),
    "T404": Number("warning", "a sum or counter that loses digits"),
    "T405": Number("warning", "a gradient that is NaN where jnp.where takes the other case"),
    "T406": Number("hint", "a gradient would be NaN where jnp.where takes the other case"),
    # Speed and memory
    "T501": Number("warning", "a large array that is closed over"),
    "T502": Number("warning", "a callback or host transfer within a loop"),
    "T503": Number("warning", "a Python loop that is unrolled"),
    "T504": Number("warning", "jit in a loop: compiled at each step"),
    "T505": Number("warning", "a loop over elements that do not depend on each other"),
    "T506": Number("error", "more memory than the device has"),
    "T507": Number("warning", "a donation that cannot be used"),
    "T508": Number("error", "a donated argument that is used again"),
    # Several devices
    "T601": Number("warning", "an array on every device beside a sharded one"),
    "T602": Number("warning", "a sum of gradients that is given as each device's own"),
    "T603": Number("error", "a gradient that is summed over devices twice"),
    "T604": Number("warning", "a collective that an annotation would remove"),
    # Gradients
    "T701": Number("warning", "a gradient that is zero"),
    "T702": Number("warning", "a saturated activation"),
    "T703": Number("hint", "a loss without a gradient"),
}
