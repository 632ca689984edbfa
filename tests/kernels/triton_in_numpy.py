"""Runs the Triton IR that Teucer writes, in NumPy: one program of the grid after the other. For tests without a GPU.

Loads and stores outside of an array are errors, which a GPU would not report.
"""

import itertools
import re

import ml_dtypes
import numpy as np
import scipy.special

DTYPES = {
    "i1": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
}
UNSIGNED = {np.dtype(f"i{n}"): np.dtype(f"u{n}") for n in (1, 2, 4, 8)} | {
    np.dtype(bool): np.dtype(bool)
}


class Pointers:
    """Pointers into one array, flat."""

    def __init__(self, array, places):
        self.array, self.places = array, places

    @property
    def shape(self):
        return np.shape(self.places)


class Op:
    def __init__(self, results, text):
        self.results, self.text, self.regions = results, text, [[]]


def parse(lines):
    """Lines to a list of operations, each with its regions."""
    top = []
    stack = [top]
    for line in map(str.strip, lines):
        if line in ("} else {", "} do {"):
            stack.pop()
            op = stack[-1][-1]
            op.regions.append([])
            stack.append(op.regions[-1])
            continue
        if line.startswith("}"):
            stack.pop()
            continue
        found = re.match(r"((?:%[\w]+)(?::\d+)?) = (.*)", line)
        op = Op(found[1].partition(":")[0] if found else None, found[2] if found else line)
        stack[-1].append(op)
        if line.endswith("{"):
            stack.append(op.regions[0])
    return top


def shape_of(text):
    """Shape and dtype of a type."""
    found = re.search(r"tensor<((?:\d+x)*)(?:!tt\.ptr<)?(\w+)", text)
    if found:
        return tuple(int(n) for n in found[1].split("x") if n), DTYPES.get(found[2])
    return (), DTYPES.get(text.strip())


def run(text, name, grid, arrays):
    """Run a module on arrays, which are changed in place."""
    assert f"@{name}(" in text
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if "tt.func" in line)
    end = next(i for i, line in enumerate(lines) if line.strip() == "tt.return")
    body = parse(lines[start + 1 : end])
    flats = [a.reshape(-1).view(np.int8) if a.dtype == bool else a.reshape(-1) for a in arrays]
    assert all(np.shares_memory(f, a) or not a.size for f, a in zip(flats, arrays, strict=True))
    for place in itertools.product(*map(range, grid)):
        env = {
            f"%arg{i}": Pointers(a.view(_signed(a.dtype)), np.int64(0)) for i, a in enumerate(flats)
        }
        with np.errstate(all="ignore"):
            block(body, env, place)


def _signed(dtype):
    return np.dtype(f"i{dtype.itemsize}") if dtype.kind == "u" else dtype


class _Done(Exception):  # not an error
    pass


def block(ops, env, place):
    """Run operations; gives the operands of the one that ends them."""
    for op in ops:
        word = op.text.split()[0].partition("(")[0]
        if word in ("scf.yield", "tt.reduce.return", "tt.scan.return"):
            return [env[n] for n in re.findall(r"%[\w#]+", op.text)]
        if word == "scf.condition":
            first, *rest = re.findall(r"%[\w#]+", op.text)
            return [env[first], *(env[n] for n in rest)]
        if op.text.startswith("^bb0"):
            continue
        outs = operation(op, word.strip('"'), env, place)
        if op.results is not None:
            env[op.results] = outs[0]
            env.update({f"{op.results}#{i}": x for i, x in enumerate(outs)})
    return []


def operation(op, word, env, place):
    text = op.text
    names = re.findall(r"%[\w#]+", text)
    if word.startswith("scf."):
        return control(op, word, env, place)
    xs = [env[n] for n in names]
    kind = text.rpartition(" : ")[2]
    if word == "arith.constant":
        return [constant(text, kind)]
    if word in ("tt.reduce", "tt.scan"):
        return combined(op, word, xs, env, place)
    if word == "tt.get_program_id":
        return [np.int32(place["xyz".index(text.split()[1])])]
    rule = RULES.get(word)
    if rule is not None:
        return [rule(text, kind, *xs)]
    if word == "tt.store":
        store(*xs)
        return []
    if word == "gpu.barrier":
        return []
    raise NotImplementedError(text)


def constant(text, kind):
    number = re.search(r"dense<([^>]*)>", text)
    number = number[1] if number else text.split()[1]
    shape, dtype = shape_of(kind) if text.count(" : ") else ((), np.bool_)
    if number in ("true", "false"):
        return np.full(shape, number == "true", np.bool_)
    if number.startswith("0x"):
        bits = np.array(int(number, 16), f"u{np.dtype(dtype).itemsize}").view(dtype)
        return np.full(shape, bits, dtype)
    return np.full(shape, float(number) if "." in number else int(number), dtype)


def control(op, word, env, place):
    text = op.text
    if word == "scf.if":
        condition = env[re.search(r"%[\w#]+", text)[0]]
        regions = op.regions
        return block(regions[0] if condition else regions[1], env, place)
    if word == "scf.for":
        i, low, high, step = re.findall(r"%[\w#]+", text)[:4]
        pairs = re.search(r"iter_args\((.*?)\) ->", text)
        pairs = re.findall(r"(%\w+) = (%[\w#]+)", pairs[1]) if pairs else []
        carry = [env[x] for _, x in pairs]
        for k in range(int(env[low]), int(env[high]), int(env[step])):
            inner = {**env, i: np.int32(k), **dict(zip([n for n, _ in pairs], carry, strict=True))}
            carry = block(op.regions[0], inner, place)
        return carry
    pairs = re.findall(r"(%\w+) = (%[\w#]+)", text)
    carry = [env[x] for _, x in pairs]
    after = re.findall(r"(%\w+):", op.regions[1][0].text)
    while True:
        go, *carry = block(
            op.regions[0], {**env, **dict(zip([n for n, _ in pairs], carry, strict=True))}, place
        )
        if not go:
            return carry
        carry = block(op.regions[1], {**env, **dict(zip(after, carry, strict=True))}, place)


def combined(op, word, xs, env, place):
    """tt.reduce and tt.scan: the region, on slices."""
    text = op.text
    axis = int(re.search(r"axis = (\d+)", text)[1])
    names = re.findall(r"(%\w+):", op.regions[0][0].text)
    slices = [[np.take(x, k, axis) for x in xs] for k in range(xs[0].shape[axis])]
    backwards = "reverse = true" in text
    if backwards:
        slices.reverse()
    total, rows = slices[0], [slices[0]]
    for row in slices[1:]:
        total = block(
            op.regions[0], {**env, **dict(zip(names, [*total, *row], strict=True))}, place
        )
        rows.append(total)
    if word == "tt.reduce":
        return total
    if backwards:
        rows.reverse()
    return [np.stack([r[i] for r in rows], axis) for i in range(len(xs))]


# --- Memory -------------------------------------------------------------------------------------


def _inside(pointers, mask):
    places = pointers.places[mask] if mask is not None else np.asarray(pointers.places)
    assert ((places >= 0) & (places < pointers.array.size)).all(), (
        "a pointer lies outside of the array"
    )


def load(text, kind, pointers, mask=None, other=None):
    mask = None if mask is None else np.broadcast_to(mask, pointers.shape)
    _inside(pointers, mask)
    if not pointers.array.size:
        return np.broadcast_to(other, pointers.shape)
    found = pointers.array[np.clip(pointers.places, 0, pointers.array.size - 1)]
    return found if mask is None else np.where(mask, found, other).astype(found.dtype)


def store(pointers, value, mask=None):
    mask = None if mask is None else np.broadcast_to(mask, pointers.shape)
    _inside(pointers, mask)
    if mask is None:
        pointers.array[pointers.places] = value
    else:
        pointers.array[np.asarray(pointers.places)[mask]] = np.broadcast_to(value, pointers.shape)[
            mask
        ]


COMBINE = {
    "fadd": lambda a, b: a + b,
    "add": lambda a, b: a + b,
    "max": max,
    "min": min,
    "umax": None,
    "umin": None,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "exch": lambda a, b: b,
}


def atomic(text, kind, pointers, value, mask=None):
    name = text.split()[1].rstrip(",")
    mask = np.broadcast_to(True if mask is None else mask, pointers.shape)
    _inside(pointers, mask)
    array = pointers.array
    if name.startswith("u"):
        array, value, name = (
            array.view(UNSIGNED[array.dtype]),
            value.view(UNSIGNED[array.dtype]),
            name[1:],
        )
    old = np.zeros(pointers.shape, array.dtype)
    places, value = (
        np.broadcast_to(pointers.places, pointers.shape),
        np.broadcast_to(value, pointers.shape),
    )
    for i in np.ndindex(*pointers.shape):
        if mask[i]:
            old[i] = array[places[i]]
            array[places[i]] = COMBINE[name](array[places[i]], value[i])
    return old.view(pointers.array.dtype)


def compare_and_swap(text, kind, pointers, compared, value):
    old = load(text, kind, pointers)
    store(pointers, np.where(old == compared, value, old))
    return old


# --- Operations on arrays -----------------------------------------------------------------------


def unsigned(f):
    def g(text, kind, *xs):
        out = f(
            *(
                np.asarray(x).view(UNSIGNED.get(np.asarray(x).dtype, np.asarray(x).dtype))
                for x in xs
            )
        )
        return np.asarray(out).astype(np.asarray(out).dtype).view(np.asarray(xs[0]).dtype)

    return g


def signed_division(x, y):
    return (np.sign(x) * np.sign(y) * (abs(x) // np.where(y == 0, 1, abs(y)))).astype(
        np.asarray(x).dtype
    )


def plain(f):
    return lambda text, kind, *xs: np.asarray(f(*xs)).astype(np.asarray(xs[0]).dtype)


def cast(text, kind, x):
    return np.asarray(x).astype(
        shape_of(text.rpartition(" to ")[2] if " to " in text else text.rpartition("-> ")[2])[1]
    )


def from_unsigned(text, kind, x):
    x = np.asarray(x)
    return cast(text, kind, x.view(UNSIGNED.get(x.dtype, x.dtype)))


def compare(text, kind, x, y):
    how = text.split()[1].rstrip(",")
    if how[0] == "u" and how != "une":
        x, y = (np.asarray(a).view(UNSIGNED[np.asarray(a).dtype]) for a in (x, y))
    return {
        "eq": np.equal,
        "ne": np.not_equal,
        "lt": np.less,
        "le": np.less_equal,
        "gt": np.greater,
        "ge": np.greater_equal,
    }[how[-2:]](x, y)


def repeated(text, kind, x):
    shape = shape_of(text.rpartition("-> ")[2])[0]
    if type(x) is Pointers:
        return Pointers(x.array, np.broadcast_to(x.places, shape))
    return np.broadcast_to(x, shape)


def moved(text, kind, pointers, offset):
    return Pointers(pointers.array, pointers.places + np.asarray(offset).astype(np.int64))


def product(text, kind, x, y, total):
    wide = np.int64 if np.asarray(x).dtype.kind == "i" else np.float64
    return (total + np.matmul(x.astype(wide), y.astype(wide))).astype(total.dtype)


FUNCTIONS = {
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sqrt": np.sqrt,
    "floor": np.floor,
    "ceil": np.ceil,
    "erf": scipy.special.erf,
    "absf": np.abs,
    "absi": np.abs,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "expm1": np.expm1,
    "log1p": np.log1p,
    "cbrt": np.cbrt,
    "erfc": scipy.special.erfc,
    "erfinv": scipy.special.erfinv,
    "lgamma": scipy.special.gammaln,
    "atan2": np.arctan2,
    "pow": np.power,
    "nextafter": np.nextafter,
    "fmod": np.fmod,
    "rint": np.rint,
    "round": lambda x: np.trunc(x + np.copysign(0.5, x)),
}


def library(text, kind, *xs):
    symbol = re.search(r'symbol = "__nv_(\w+)"', text)[1]
    if symbol.removesuffix("ll") in ("clz", "popc"):
        bits = np.asarray(xs[0]).dtype.itemsize * 8
        digits = np.vectorize(lambda n: format(int(n) & ((1 << bits) - 1), "b") if n else "")(xs[0])
        count = (
            np.char.count(digits, "1")
            if symbol.startswith("popc")
            else bits - np.char.str_len(digits)
        )
        return count.astype(np.int32)
    name = symbol if symbol in FUNCTIONS else symbol.removesuffix("f")
    return np.asarray(FUNCTIONS[name](*xs)).astype(np.asarray(xs[0]).dtype)


def taken(text, kind, x, at):
    return np.take_along_axis(x, at.astype(np.int64), int(re.search(r"axis = (\d+)", text)[1]))


RULES = {
    "tt.make_range": lambda text, kind: np.arange(
        *map(int, reversed(re.findall(r"= (\d+) : i32", text))), dtype=np.int32
    ),
    "tt.splat": repeated,
    "tt.broadcast": repeated,
    "tt.addptr": moved,
    "tt.load": load,
    "tt.dot": product,
    "tt.expand_dims": lambda text, kind, x: np.expand_dims(
        x, int(re.search(r"axis = (\d+)", text)[1])
    ),
    "tt.reshape": lambda text, kind, x: np.reshape(x, shape_of(text.rpartition("-> ")[2])[0]),
    "tt.trans": lambda text, kind, x: np.transpose(
        x, list(map(int, re.search(r"i32: ([\d, ]+)", text)[1].split(",")))
    ),
    "tt.join": lambda text, kind, x, y: np.stack([x, y], -1),
    "tt.gather": taken,
    "tt.bitcast": lambda text, kind, x: np.asarray(x).view(shape_of(text.rpartition("-> ")[2])[1]),
    "tt.fp_to_fp": cast,
    "tt.precise_divf": plain(np.divide),
    "tt.precise_sqrt": plain(np.sqrt),
    "tt.extern_elementwise": library,
    "tt.atomic_rmw": atomic,
    "tt.atomic_cas": compare_and_swap,
    "arith.select": lambda text, kind, c, x, y: np.where(c, x, y).astype(np.asarray(x).dtype),
    "arith.cmpf": compare,
    "arith.cmpi": compare,
    "arith.negf": plain(np.negative),
    "arith.extf": cast,
    "arith.truncf": cast,
    "arith.extsi": cast,
    "arith.trunci": cast,
    "arith.sitofp": cast,
    "arith.fptosi": cast,
    "arith.fptoui": cast,
    "arith.extui": from_unsigned,
    "arith.uitofp": from_unsigned,
    "arith.divsi": plain(signed_division),
    "arith.remsi": plain(np.fmod),
    "arith.divui": unsigned(np.floor_divide),
    "arith.remui": unsigned(np.remainder),
    "arith.maxui": unsigned(np.maximum),
    "arith.minui": unsigned(np.minimum),
    "arith.shli": plain(np.left_shift),
    "arith.shrsi": plain(np.right_shift),
    "arith.shrui": unsigned(np.right_shift),
    **{
        f"arith.{op}": plain(f)
        for names, f in {
            "addf addi": np.add,
            "subf subi": np.subtract,
            "mulf muli": np.multiply,
            "divf": np.divide,
            "maximumf maxsi": np.maximum,
            "minimumf minsi": np.minimum,
            "andi": np.bitwise_and,
            "ori": np.bitwise_or,
            "xori": np.bitwise_xor,
        }.items()
        for op in names.split()
    },
    **{f"math.{name}": plain(f) for name, f in FUNCTIONS.items()},
}
