"""Devices as NumPy arrays, one each: what collectives do, by loops, and random programs of them.

A program is a list of steps. `run` lets the simulated devices take them, `traced` is the same as a
function of one device's array, for `shard_map`, `pmap` and `vmap`.
"""

import functools
import itertools
from typing import NamedTuple

import numpy as np

import teucer as jax
import teucer.numpy as jnp
from teucer import lax

__all__ = ["Step", "draw_program", "run", "traced"]

SHAPE = (8, 4)  # of a device's array, at the beginning
LARGEST = 1024  # elements of a device's array


class Step(NamedTuple):
    """A collective over axes, or an operation of each device alone, with its options; within what
    it is traced."""

    kind: str
    axes: tuple[str, ...] = ()
    options: tuple[tuple[str, object], ...] = ()
    within: str = ""

    @property
    def named(self):
        return dict(self.options)


# --- Devices --------------------------------------------------------------------------------------


def rows(sizes, axes, groups=None):
    """The devices that take part together, by number, in the order of their places along the axes;
    the last runs fastest."""
    names = list(sizes)
    numbers = {
        place: i for i, place in enumerate(itertools.product(*(range(n) for n in sizes.values())))
    }
    others = [name for name in names if name not in axes]
    found = []
    for rest in itertools.product(*(range(sizes[name]) for name in others)):
        fixed = dict(zip(others, rest, strict=True))
        row = []
        for place in itertools.product(*(range(sizes[name]) for name in axes)):
            at = {**fixed, **dict(zip(axes, place, strict=True))}
            row.append(numbers[tuple(at[name] for name in names)])
        found += [row] if groups is None else [[row[i] for i in group] for group in groups]
    return found


def reduced(kind, parts):
    """What each device of a row gets."""
    if kind in ("psum", "pmean"):
        total = functools.reduce(np.add, parts)
        return [total if kind == "psum" else total / len(parts)] * len(parts)
    bigger = np.maximum if kind == "pmax" else np.minimum
    return [functools.reduce(bigger, parts)] * len(parts)


def exchanged(kind, parts, axis=0, tiled=False, concat=0, perm=(), source=0, groups=None):
    """What each device of a row gets."""
    n = len(parts)
    if kind == "all_gather":
        return [(np.concatenate if tiled else np.stack)(parts, axis)] * n
    if kind == "psum_scatter":
        pieces = np.split(functools.reduce(np.add, parts), n, axis)
        return pieces if tiled else [np.squeeze(piece, axis) for piece in pieces]
    if kind in ("all_to_all", "pswapaxes"):
        sent = [np.split(part, n, axis) for part in parts]
        received = [[sent[i][j] for i in range(n)] for j in range(n)]
        if tiled:
            return [np.concatenate(pieces, concat) for pieces in received]
        return [
            np.stack([np.squeeze(piece, axis) for piece in pieces], concat) for pieces in received
        ]
    if kind == "ppermute":
        sources = {target: origin for origin, target in perm}
        return [parts[sources[i]] if i in sources else np.zeros_like(parts[i]) for i in range(n)]
    if kind == "pshuffle":
        return [parts[i] for i in perm]
    assert kind == "pbroadcast"
    return [parts[source]] * n


LOCAL = {
    "sin": (np.sin, jnp.sin),
    "square": (lambda x: x * x - 1, lambda x: x * x - 1),
    "turn": (lambda x: np.swapaxes(x, 0, -1), lambda x: jnp.swapaxes(x, 0, -1)),
    "average": (lambda x: x.mean(0), lambda x: x.mean(0)),
    "first": (lambda x: x[0], lambda x: x[0]),
}


def run(steps, sizes, whole):
    """What the devices have in the end, from the array whose first axes are those of the
    devices."""
    lead = tuple(sizes.values())
    values = list(whole.reshape(-1, *whole.shape[len(lead) :]))
    for step in steps:
        for _ in range(2 if step.within == "loop" else 1):
            values = taken_step(step, sizes, values)
    return np.stack(values).reshape(*lead, *values[0].shape)


def taken_step(step, sizes, values):
    if step.kind in LOCAL:
        return [LOCAL[step.kind][0](v) for v in values]
    options, new = step.named, list(values)
    for row in rows(sizes, step.axes, options.get("groups")):
        parts = [values[i] for i in row]
        if step.kind == "axis_index":
            found = [v * v.dtype.type(1 + i) for i, v in enumerate(parts)]
        elif step.kind == "axis_size":
            found = [v * v.dtype.type(len(row)) for v in parts]
        elif step.kind in ("psum", "pmean", "pmax", "pmin"):
            found = reduced(step.kind, parts)
        else:
            found = exchanged(step.kind, parts, **options)
        for i, v in zip(row, found, strict=True):
            new[i] = v.astype(values[i].dtype)
    return new


# --- The same, traced -----------------------------------------------------------------------------


def traced(steps, manual=()):
    """The program as a function of one device's array. manual: the axes of a mesh of which types
    tell."""

    def program(x):
        for step in steps:
            x = WITHIN[step.within](functools.partial(traced_step, step, manual=manual))(x)
        return x

    return program


WITHIN = {
    "": lambda f: f,
    "jit": lambda f: jax.jit(f),
    "remat": lambda f: jax.checkpoint(f),
    "loop": lambda f: (
        lambda x: lax.scan(lambda c, _: (varying(f(c), c), None), varying(x, f(x)), None, length=2)[
            0
        ]
    ),
    "cond": lambda f: lambda x: lax.cond(True, f, lambda x: 0 * f(x), x),
}


def varying(y, like):
    """y, whose type says that it varies over the axes over which another value does."""
    missing = tuple(jax.typeof(like).vma - jax.typeof(y).vma)
    return lax.pcast(y, missing, to="varying") if missing else y


def traced_step(step, x, manual=()):
    if step.kind in LOCAL:
        return LOCAL[step.kind][1](x)
    missing = tuple(a for a in step.axes if a in manual and a not in jax.typeof(x).vma)
    x = (
        lax.pcast(x, missing, to="varying") if missing else x
    )  # psum takes no operand that varies over some of its axes only
    axes = step.axes[0] if len(step.axes) == 1 else step.axes
    if step.kind == "axis_index":
        return x * (1 + lax.axis_index(axes)).astype(x.dtype)
    if step.kind == "axis_size":
        return x * lax.axis_size(axes)
    options = step.named
    groups = {"axis_index_groups": options["groups"]} if options.get("groups") else {}
    call = getattr(lax, step.kind)
    if step.kind in ("psum", "pmean", "pmax", "pmin"):
        return call(x, axes, **groups)
    if step.kind == "all_gather":
        return call(x, axes, axis=options["axis"], tiled=options["tiled"], **groups)
    if step.kind == "psum_scatter":
        return call(x, axes, scatter_dimension=options["axis"], tiled=options["tiled"], **groups)
    if step.kind == "all_to_all":
        return call(x, axes, options["axis"], options["concat"], tiled=options["tiled"], **groups)
    if step.kind == "pswapaxes":
        return call(x, axes, options["axis"], **groups)
    return call(x, axes, options["source" if step.kind == "pbroadcast" else "perm"])


# --- Drawing --------------------------------------------------------------------------------------


def draw_groups(r, n, equal):
    """None, or groups of the numbers below n."""
    if n < 2 or r.random() < 0.6:
        return None
    order = r.permutation(n).tolist()
    if equal:
        size = r.choice([k for k in range(1, n + 1) if n % k == 0])
        return tuple(tuple(order[i : i + size]) for i in range(0, n, size))
    cuts = sorted({0, n, *r.integers(1, n, 2).tolist()})
    return tuple(tuple(order[a:b]) for a, b in itertools.pairwise(cuts))


def draw_step(r, sizes, shape, kinds):
    """A step that fits a shape, or None: the drawn one does not."""
    kind = str(r.choice(kinds))
    if kind in LOCAL:
        return (
            Step(kind)
            if shape and (kind not in ("first", "average") or np.prod(shape) > 16)
            else None
        )
    names = list(sizes)
    axes = tuple(r.permutation(names)[: r.integers(1, len(names) + 1)].tolist())
    n = int(np.prod([sizes[a] for a in axes]))
    if kind in ("axis_index", "axis_size"):
        return Step(kind, axes)
    if kind in ("psum", "pmean", "pmax", "pmin"):
        return Step(kind, axes, (("groups", draw_groups(r, n, r.random() < 0.5)),))
    if kind == "pbroadcast":
        return Step(kind, axes, (("source", int(r.integers(n))),))
    if kind == "pshuffle":
        return Step(kind, axes, (("perm", tuple(r.permutation(n).tolist())),))
    if kind == "ppermute":
        count = r.integers(1, n + 1)
        pairs = zip(
            r.permutation(n)[:count].tolist(), r.permutation(n)[:count].tolist(), strict=True
        )
        return Step(kind, axes, (("perm", tuple(pairs)),))
    if not shape:
        return None
    groups, tiled = draw_groups(r, n, equal=True), bool(r.random() < 0.5) and kind != "pswapaxes"
    n = len(groups[0]) if groups else n
    options = {
        "axis": int(r.integers(len(shape) + (kind == "all_gather" and not tiled))),
        "tiled": tiled,
        "groups": groups,
    }
    if options["axis"] >= len(shape) and (tiled or kind != "all_gather"):
        return None
    if kind in ("all_to_all", "pswapaxes"):
        options["concat"] = options["axis"] if kind == "pswapaxes" else int(r.integers(len(shape)))
    if kind == "all_gather":
        return Step(kind, axes, tuple(options.items())) if np.prod(shape) * n <= LARGEST else None
    size = shape[options["axis"]]
    return (
        Step(kind, axes, tuple(options.items()))
        if (size % n == 0 if tiled else size == n)
        else None
    )


def draw_program(r, sizes, dtype, differentiable):
    """Steps over named axes; each keeps a device's array at a size that another can work on."""
    kinds = [
        "psum",
        "pmean",
        "all_gather",
        "psum_scatter",
        "all_to_all",
        "pswapaxes",
        "ppermute",
        "pshuffle",
        "pbroadcast",
        "axis_index",
        "axis_size",
        "sin",
        "square",
        "turn",
        "average",
        "first",
    ]
    if not differentiable:
        kinds += ["pmax", "pmin"] * 2
    if np.dtype(dtype).kind == "i":
        kinds = [k for k in kinds if k not in ("sin", "pmean", "average")]
    steps, shape, devices = [], SHAPE, np.prod(list(sizes.values()))
    wanted = r.integers(2, 7)
    while len(steps) < wanted:
        step = draw_step(r, sizes, shape, kinds)
        if step is None:
            continue
        new = taken_step(step, sizes, [np.zeros(shape, dtype)] * devices)[0].shape
        choices = ["", "", "jit", "remat", "cond"] + ["loop"] * (new == shape)
        steps.append(step._replace(within=str(r.choice(choices))))
        # What has become large without bound is brought back.
        steps += [Step("sin")] if np.dtype(dtype).kind == "f" else []
        shape = new
    return tuple(steps)
