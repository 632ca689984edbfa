"""Runs a module of the tpu dialect in NumPy: one core, steps in order, copies done as they start.

It knows the operations that Teucer writes, each by its own meaning in the dialect, and fails for
others, for places outside of memory, and for types that do not fit.
"""

import re

import ml_dtypes
import numpy as np
from scipy import special

DTYPES = {
    "i1": np.bool_, "i4": ml_dtypes.int4, "i8": np.int8, "i16": np.int16, "i32": np.int32,
    "bf16": ml_dtypes.bfloat16, "f32": np.float32, "index": np.int64,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2,
}  # fmt: skip
_OP = re.compile(r'^(?:(%[\w]+)(?::(\d+))? = )?"?([\w.]+)"?(.*)$')


class Memory:
    """Memory with a view of it: an array that shares elements."""

    def __init__(self, array):
        self.array = array


def parsed_type(text):
    """(shape, dtype) of a scalar, a vector or memory."""
    text = text.strip()
    found = re.match(r"(?:vector|memref)<((?:\d+x)*)([!\w.]+)", text)
    if not found:
        return (), DTYPES[text]
    shape = tuple(int(n) for n in found[1].split("x") if n)
    return shape, DTYPES.get(found[2], np.int32)


def _typed(text):
    """The types after the last colon of an operation, at depth 0."""
    out, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += c in "<(["
        depth -= (c == ">" and text[i - 1] != "-") or c in ")]"
        if c == "," and depth == 0:
            out.append(text[start:i])
            start = i + 1
    return [t.strip() for t in [*out, text[start:]] if t.strip()]


def _number(text, dtype):
    if text in ("true", "false"):
        return np.bool_(text == "true")
    if text.startswith("0x"):
        bits = int(text, 16)
        size = np.dtype(dtype).itemsize
        return np.array(bits, f"u{size}").view(dtype)[()]
    return np.array(float(text) if "." in text or "e" in text else int(text)).astype(dtype)[()]


def blocks_of(lines):
    """A tree of a function's lines: operations, and the regions that they have."""
    tree, stack = [], []
    here = tree
    for line in lines:
        line = line.strip().partition(" loc(")[0]
        if not line:
            continue
        if line.startswith(("} else {", "} do {")):
            here = []
            stack[-1][1][1].append(here)
        elif line == "}" or line.startswith("}"):
            here = stack.pop()[0]
        elif line.endswith("{"):
            item = (line[:-1].strip(), [[]])
            here.append(item)
            stack.append((here, item))
            here = item[1][0]
        else:
            here.append((line, []))
    return tree


class Machine:
    """Values by name. A step's grid, place and generator of random bits."""

    def __init__(self, grid=()):
        self.values, self.grid = {}, grid

    def __getitem__(self, name):
        base, _, k = name.partition("#")
        found = self.values[base]
        return found[int(k)] if k else found

    def run(self, tree):
        """Run lines; gives the operands of the one that ends them."""
        for line, regions in tree:
            if line.startswith("^bb0"):
                continue
            if line.startswith(("scf.yield", "tpu.yield", "return", "scf.condition")):
                names = re.findall(r"%[\w#]+", line.partition(" : ")[0])
                return [self[n] for n in names]
            self.step(line, regions)
        return []

    def step(self, line, regions):
        name, several, op, rest = _OP.match(line).groups()
        if op in ("scf.if", "scf.for", "scf.while"):
            outs = getattr(self, op.replace(".", "_"))(rest, regions)
        elif op in _HOW:
            head, _, kinds = rest.rpartition(" : ")
            out = _HOW[op](self, head, kinds)
            outs = [] if out is None else [out]
        else:
            raise NotImplementedError(line)
        if name:
            self.values[name] = tuple(outs) if several else outs[0]

    def scf_if(self, rest, regions):
        condition = self[re.match(r" (%[\w#]+)", rest)[1]]
        if condition:
            return self.run(regions[0])
        return self.run(regions[1]) if len(regions) > 1 else []

    def scf_for(self, rest, regions):
        i, low, high, step = re.match(
            r" (%\w+) = (%[\w#]+) to (%[\w#]+) step (%[\w#]+)", rest
        ).groups()
        pairs = re.findall(r"(%\w+) = (%[\w#]+)", rest.partition("iter_args(")[2].partition(")")[0])
        carry = [self[x] for _, x in pairs]
        for k in range(int(self[low]), int(self[high]), int(self[step])):
            self.values[i] = np.int32(k)
            self.values.update(zip([a for a, _ in pairs], carry, strict=True))
            carry = self.run(regions[0])
        return carry

    def scf_while(self, rest, regions):
        pairs = re.findall(r"(%\w+) = (%[\w#]+)", rest.partition("(")[2].partition(")")[0])
        carry = [self[x] for _, x in pairs]
        inner = re.findall(r"(%\w+):", regions[1][0][0])
        while True:
            self.values.update(zip([a for a, _ in pairs], carry, strict=True))
            go, *carry = self.run(regions[0])
            if not go:
                return carry
            self.values.update(zip(inner, carry, strict=True))
            carry = self.run(regions[1])


_HOW = {}


def _rule(*names):
    def add(f):
        for name in names:
            _HOW[name] = f
        return f

    return add


def _names(head):
    return re.findall(r"%[\w#]+", head)


def _checked(x, kinds):
    shape, dtype = parsed_type(kinds)
    x = np.asarray(x)
    assert x.shape == shape, (x.shape, kinds)
    return x.astype(dtype) if shape else x.astype(dtype)[()]


def _elementwise(f, *, unsigned=False, result=None):
    def run(m, head, kinds):
        xs = [np.asarray(m[n]) for n in _names(head)]
        kind = kinds.split(" -> ")[-1]
        for x in xs:
            assert x.shape == parsed_type(kind)[0], (head, kinds, x.shape)
        if unsigned:
            xs = [x.view(f"u{x.dtype.itemsize}") for x in xs]
        with np.errstate(all="ignore"):
            out = np.asarray(f(*xs))
        if unsigned and out.dtype != bool:
            out = out.view(f"i{out.dtype.itemsize}")
        return _checked(out, kind) if result is None else out.astype(result)

    return run


def _trunc_div(a, b):
    return (np.sign(a) * np.sign(b) * (np.abs(a) // np.maximum(np.abs(b), 1))).astype(a.dtype)


def _wide(f):
    return lambda *xs: f(*(x.astype(np.float64) for x in xs))


for _name, _f in {
    "arith.addf": np.add, "arith.addi": np.add, "arith.subf": np.subtract,
    "arith.subi": np.subtract, "arith.mulf": np.multiply, "arith.muli": np.multiply,
    "arith.divf": np.divide, "arith.divsi": _trunc_div, "arith.remf": np.fmod,
    "arith.remsi": lambda a, b: a - _trunc_div(a, b) * b, "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum, "arith.maxsi": np.maximum, "arith.minsi": np.minimum,
    "arith.andi": np.bitwise_and, "arith.ori": np.bitwise_or, "arith.xori": np.bitwise_xor,
    "arith.negf": np.negative, "arith.shli": np.left_shift, "arith.shrsi": np.right_shift,
    "math.absf": np.abs, "math.absi": np.abs, "math.exp": _wide(np.exp),
    "math.exp2": _wide(np.exp2), "math.log": _wide(np.log), "math.log1p": _wide(np.log1p),
    "math.sin": _wide(np.sin), "math.cos": _wide(np.cos), "math.tan": _wide(np.tan),
    "math.tanh": _wide(np.tanh), "math.sqrt": _wide(np.sqrt), "math.floor": np.floor,
    "math.ceil": np.ceil, "math.erf": _wide(special.erf), "math.atan2": _wide(np.arctan2),
    "math.powf": _wide(np.power), "math.rsqrt": _wide(lambda x: 1 / np.sqrt(x)),
    "math.roundeven": np.round, "math.round": lambda x: np.trunc(x + np.copysign(0.5, x)),
    "tpu.logistic": _wide(lambda x: 1 / (1 + np.exp(-x))),
    "math.ctpop": lambda x: np.vectorize(lambda v: bin(int(v) & 0xFFFFFFFF).count("1"))(x),
    "math.ctlz": lambda x: np.vectorize(lambda v: 32 - (int(v) & 0xFFFFFFFF).bit_length())(x),
}.items():  # fmt: skip
    _HOW[_name] = _elementwise(_f)
for _name, _f in {
    "arith.divui": lambda a, b: a // np.maximum(b, 1), "arith.remui": lambda a, b: a % b,
    "arith.maxui": np.maximum, "arith.minui": np.minimum,
    "arith.shrui": np.right_shift,
}.items():  # fmt: skip
    _HOW[_name] = _elementwise(_f, unsigned=True)

_COMPARE = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal,
}  # fmt: skip


@_rule("arith.cmpi", "arith.cmpf")
def _compare(m, head, kinds):
    how = re.match(r" (\w+),", head)[1]
    x, y = (np.asarray(m[n]) for n in _names(head))
    assert x.shape == y.shape == parsed_type(kinds)[0]
    if how[0] == "u" and how != "une":
        x, y = (a.view(f"u{a.dtype.itemsize}") for a in (x, y))
    return _COMPARE[how[-2:]](x, y)


@_rule("arith.constant")
def _constant(m, head, kinds):
    if not head:  # true or false
        return np.bool_(kinds.strip() == "true")
    shape, dtype = parsed_type(kinds)
    text = head.strip().removeprefix("dense<").removesuffix(">")
    value = _number(text, dtype)
    return np.full(shape, value, dtype) if shape else value


@_rule("arith.select")
def _select(m, head, kinds):
    c, x, y = (m[n] for n in _names(head))
    return _checked(np.where(c, x, y), _typed(kinds)[-1])


def _conversion(source, target=None):
    def run(m, head, kinds):
        x = np.asarray(m[_names(head)[0]])
        old, new = kinds.split(" to ")
        assert x.shape == parsed_type(old)[0]
        x = source(x, parsed_type(new)[1])
        return _checked(x, new)

    return run


def _unsigned(x):
    if x.dtype == ml_dtypes.int4:
        return x.view(ml_dtypes.uint4)
    return x if x.dtype == bool else x.view(f"u{x.dtype.itemsize}")


_HOW.update(
    {
        "arith.extf": _conversion(lambda x, d: x.astype(d)),
        "arith.truncf": _conversion(lambda x, d: x.astype(d)),
        "arith.extsi": _conversion(lambda x, d: x.astype(d)),
        "arith.extui": _conversion(lambda x, d: _unsigned(x).astype(np.int64).astype(d)),
        "arith.trunci": _conversion(lambda x, d: x.astype(d)),
        "arith.sitofp": _conversion(lambda x, d: x.astype(d)),
        "arith.uitofp": _conversion(lambda x, d: _unsigned(x).astype(np.float64).astype(d)),
        "arith.fptosi": _conversion(lambda x, d: x.astype(np.float64).astype(np.int64).astype(d)),
        "arith.fptoui": _conversion(lambda x, d: x.astype(np.float64).astype(np.int64).astype(d)),
        "arith.index_cast": _conversion(lambda x, d: x.astype(d)),
        "arith.bitcast": _conversion(lambda x, d: x.view(d)),
        "vector.broadcast": lambda m, h, k: np.broadcast_to(
            m[_names(h)[0]], parsed_type(k.split(" to ")[1])[0]
        ).copy(),
        "vector.shape_cast": lambda m, h, k: np.reshape(
            m[_names(h)[0]], parsed_type(k.split(" to ")[1])[0]
        ),
    }
)


@_rule("vector.extract")
def _extract(m, head, kinds):
    at = [int(n) for n in re.search(r"\[([\d, ]+)\]", head)[1].split(",")]
    return m[_names(head)[0]][tuple(at)]


@_rule("vector.extract_strided_slice")
def _strided_slice(m, head, kinds):
    starts, sizes = (
        [int(n) for n in re.search(rf"{w} = \[([\d, ]+)\]", head)[1].split(",")]
        for w in ("offsets", "sizes")
    )
    x = m[_names(head)[0]]
    assert all(s + n <= size for s, n, size in zip(starts, sizes, x.shape, strict=True))
    at = tuple(slice(s, s + n) for s, n in zip(starts, sizes, strict=True))
    return _checked(x[at], kinds.split(" -> ")[1])


@_rule("vector.multi_reduction")
def _reduction(m, head, kinds):
    kind = re.search(r"<(\w+)>", head)[1]
    axes = tuple(int(n) for n in re.search(r"\[([\d, ]+)\]", head)[1].split(","))
    x, init = (m[n] for n in _names(head))
    fold = {"add": np.sum, "maximumf": np.max, "maxsi": np.max, "minimumf": np.min,
            "minsi": np.min}[kind]  # fmt: skip
    both = {np.sum: np.add, np.max: np.maximum, np.min: np.minimum}[fold]
    return _checked(both(fold(x, axis=axes, dtype=x.dtype) if kind == "add" else
                         fold(x, axis=axes), init), kinds.split(" to ")[1])  # fmt: skip


@_rule("tpu.iota")
def _iota(m, head, kinds):
    axis = int(re.search(r"i32: (\d+)", head)[1])
    shape, dtype = parsed_type(kinds)
    return np.indices(shape)[axis].astype(dtype)


@_rule("tpu.transpose")
def _transpose(m, head, kinds):
    order = [int(n) for n in re.search(r"\[([\d, ]+)\]", head)[1].split(",")]
    return _checked(np.transpose(m[_names(head)[0]], order), kinds.split(" -> ")[1])


@_rule("tpu.bitcast")
def _bitcast(m, head, kinds):
    shape, dtype = parsed_type(kinds.split(" -> ")[1])
    return packed(np.asarray(m[_names(head)[0]]), shape, dtype)


def packed(x, shape, dtype):
    """Bits taken for another dtype: rows are packed, the first in the lowest bits."""
    if x.shape == shape:
        return np.ascontiguousarray(x).view(dtype)
    if np.dtype(dtype).itemsize > x.dtype.itemsize:
        k = np.dtype(dtype).itemsize // x.dtype.itemsize
        rows = x.reshape(*x.shape[:-2], x.shape[-2] // k, k, x.shape[-1])
        return np.ascontiguousarray(np.moveaxis(rows, -2, -1)).view(dtype)[..., 0]
    k = x.dtype.itemsize // np.dtype(dtype).itemsize
    narrow = np.ascontiguousarray(x)[..., None].view(dtype)
    assert narrow.shape[-1] == k
    return np.moveaxis(narrow, -1, -2).reshape(shape)


@_rule("tpu.dynamic_rotate")
def _rotate(m, head, kinds):
    x, by = (m[n] for n in _names(head))
    axis = int(re.search(r"dim (\d+)", head)[1])
    assert by >= 0
    stride = re.search(r"stride = (\d+) : si32, stride_dimension = (\d+)", head)
    if stride is None:
        return np.roll(x, int(by), axis)
    step, other = int(stride[1]), int(stride[2])
    rows = [
        np.roll(np.take(x, [k], other), int(by) + step * k, axis) for k in range(x.shape[other])
    ]
    return np.concatenate(rows, other)


@_rule("tpu.concatenate")
def _concatenate(m, head, kinds):
    axis = int(re.search(r"in (\d+)", head)[1])
    return _checked(np.concatenate([m[n] for n in _names(head)], axis), kinds.rpartition(" -> ")[2])


@_rule("tpu.dynamic_gather")
def _gather(m, head, kinds):
    x, at = (m[n] for n in _names(head))
    axis = int(re.search(r"in \[(\d+)\]", head)[1])
    return np.take_along_axis(x, at, axis)


@_rule("tpu.reciprocal")
def _reciprocal(m, head, kinds):
    return _checked(1 / m[_names(head)[0]], kinds.split(" -> ")[1])


@_rule("tpu.reduce_precision")
def _reduce_precision(m, head, kinds):
    assert "exponent_bits = 8 : i32, mantissa_bits = 7" in head
    return m[_names(head)[0]].astype(ml_dtypes.bfloat16).astype(np.float32)


@_rule("tpu.assume_multiple")
def _multiple(m, head, kinds):
    name, n = re.match(r" (%[\w#]+), (\d+)", head).groups()
    assert m[name] % int(n) == 0
    return m[name]


@_rule("tpu.matmul")
def _matmul(m, head, kinds):
    x, y, acc = (m[n] for n in _names(head))
    xs, ys, xk, yk, order, xb, yb = (
        [int(n) for n in part.split(",") if n.strip()]
        for part in re.findall(r"\[([\d, ]*)\]", head.partition("dot_dimension_numbers")[2])
    )
    wide = np.float64 if acc.dtype == np.float32 else np.int64
    batch = "b" if xb else ""
    names = [["?"] * x.ndim, ["?"] * y.ndim]
    for axes, which, letter in ((xb, 0, "b"), (yb, 1, "b"), (xs, 0, "k"), (ys, 1, "k"),
                                (xk, 0, "m"), (yk, 1, "n")):  # fmt: skip
        for a in axes:
            names[which][a] = letter
    result = "".join(names[order[i]][order[i + 1]] for i in range(0, len(order), 2))
    assert result == batch + "mn"
    said = f"{''.join(names[0])},{''.join(names[1])}->{result}"
    return (np.einsum(said, x.astype(wide), y.astype(wide)) + acc).astype(acc.dtype)


# --- Memory -------------------------------------------------------------------------------------


def _at(m, head):
    name, places = re.match(r" ?(%[\w#]+)\[([^\]]*)\]", head).groups()
    return m[name], [int(m[p]) for p in _names(places)]


def _box(memory, starts, sizes, strides=None):
    strides = strides or [1] * len(sizes)
    for start, n, s, size in zip(starts, sizes, strides, memory.array.shape, strict=True):
        assert start >= 0 and start + (n - 1) * s < size, (starts, sizes, memory.array.shape)
    return tuple(
        slice(a, a + (n - 1) * s + 1, s) for a, n, s in zip(starts, sizes, strides, strict=True)
    )


def _strides(head):
    found = re.search(r"strides = array<i32: ([\d, ]+)>", head)
    return [int(n) for n in found[1].split(",")] if found else None


@_rule("vector.load", "tpu.strided_load")
def _load(m, head, kinds):
    memory, starts = _at(m, head)
    kind = _typed(kinds)[1]
    return memory.array[_box(memory, starts, parsed_type(kind)[0], _strides(head))].copy()


@_rule("tpu.vector_store", "tpu.strided_store")
def _store(m, head, kinds):
    memory, starts = _at(m, head)
    names = _names(head.partition("]")[2])
    value = np.asarray(m[names[0]])
    assert (value.shape, value.dtype) == parsed_type(_typed(kinds)[1])
    at = _box(memory, starts, value.shape, _strides(head))
    mask = m[names[1]] if " masked " in head else np.True_
    memory.array[at] = np.where(mask, value, memory.array[at])


@_rule("memref.load")
def _scalar_load(m, head, kinds):
    memory, places = _at(m, head)
    return memory.array[_box(memory, places, [1] * len(places))].reshape(())[()]


@_rule("memref.store")
def _scalar_store(m, head, kinds):
    value, rest = re.match(r" (%[\w#]+), (.*)", head).groups()
    memory, places = _at(m, rest)
    memory.array[tuple(places)] = m[value]


@_rule("memref.alloca", "tpu.sem_alloc")
def _allocate(m, head, kinds):
    shape, dtype = parsed_type(kinds)
    if "semaphore" in kinds:
        return Memory(np.zeros(shape, np.int32))
    return Memory(np.full(shape, np.nan if np.dtype(dtype).kind not in "iub" else 77, dtype))


@_rule("tpu.memref_slice")
def _slice(m, head, kinds):
    memory, starts = _at(m, head)
    return Memory(memory.array[_box(memory, starts, parsed_type(kinds.split(" -> ")[1])[0])])


@_rule("tpu.memref_squeeze", "tpu.memref_reshape")
def _reshape(m, head, kinds):
    array = m[_names(head)[0]].array
    view = array.reshape(parsed_type(kinds.split(" -> ")[1])[0])
    assert np.shares_memory(array, view)
    return Memory(view)


@_rule("tpu.memref_bitcast")
def _memory_bitcast(m, head, kinds):
    shape, dtype = parsed_type(kinds.split(" -> ")[1])
    return Memory(packed(m[_names(head)[0]].array, shape, dtype))  # to be read only


@_rule("tpu.enqueue_dma")
def _copy(m, head, kinds):
    source, target = (m[re.search(rf"{w}\((%[\w#]+)", f"{head} : {kinds}")[1]].array
                      for w in (" source", " target"))  # fmt: skip
    target[...] = source
    sem = re.search(r"target_semaphore\((%[\w#]+)", f"{head} : {kinds}")[1]
    m[sem].array[...] += 1


@_rule("tpu.wait_dma")
def _wait_copy(m, head, kinds):
    sem = m[re.search(r"target_semaphore\((%[\w#]+)", f"{head} : {kinds}")[1]].array
    assert sem > 0
    sem[...] -= 1


@_rule("tpu.sem_signal")
def _signal(m, head, kinds):
    sem, n = (m[x] for x in _names(head))
    sem.array[...] += n


@_rule("tpu.sem_wait")
def _wait(m, head, kinds):
    sem, n = (m[x] for x in _names(head))
    assert sem.array >= n
    sem.array[...] -= n


@_rule("tpu.sem_read")
def _read(m, head, kinds):
    return np.int32(m[_names(head)[0]].array)


@_rule("tpu.iteration_bound")
def _bound(m, head, kinds):
    return np.int32(m.grid[int(head)])


@_rule("tpu.delay", "tpu.log", "tpu.log_buffer")
def _nothing(m, head, kinds):
    return None


# --- The grid -----------------------------------------------------------------------------------


def run(text, grid, operands, outs):
    """Run a module. operands: of the call, without sizes of the grid; outs: written in place."""
    functions = {}
    for part in text.split("  func.func @")[1:]:
        head, *lines = part.split("\n")
        lines = lines[: next(i for i, x in enumerate(lines) if x == "  }")]
        functions[head.partition("(")[0]] = head, blocks_of(lines)
    name = re.match(r"module @(\w+)", text)[1]
    head, tree = functions[name]
    args = re.findall(r"(%\w+): (i32|memref<[^>]*<\w+>>|memref<[^>]*>)", head)
    n_early = int(re.search(r"scalar_prefetch = (\d+)", head)[1])
    n_own = int(re.search(r"scratch_operands = (\d+)", head)[1])
    steps = re.search(r"iteration_bounds = array<i64: ([-\d, ]+)>", head)
    bounds = [int(n) for n in steps[1].split(",")] if steps else []
    given = iter(grid)
    sizes = [next(given) if n < 0 else n for n in bounds]
    early = [Memory(_signless(np.array(x))) for x in operands[:n_early]]
    arrays = [_signless(x) for x in (*operands[n_early:], *outs)]
    windows = re.findall(
        r"\{\}|\{(?:pipeline_mode = \S+ )?transform_indices = @(\w+), "
        r"window_bounds = array<i64: ([\d, ]+)>"
        r"(?:, window_kind = #tpu.element_window<\[([\d, ]+)\], \[([\d, ]+)\]>)?\}",
        head.partition("window_params")[2],
    )
    own = []
    for _, kind in args[len(args) - n_own :] if n_own else []:
        m = Machine()
        own.append(_allocate(m, "", kind))
    names = [a for a, _ in args]
    for place in np.ndindex(*sizes):
        m = Machine(sizes)
        m.values.update(zip(names, map(np.int32, place), strict=False))
        rest = names[len(sizes) :]
        m.values.update(zip(rest, early, strict=False))
        rest = rest[n_early:]
        m.values.update(zip(rest[len(arrays) :], own, strict=True))
        seen = []
        for k, array in enumerate(arrays):
            seen.append(_window(functions, windows[k] if sizes else ("",) * 4, array, place, early))
            m.values[rest[k]] = Memory(seen[-1][0])
        m.run(tree)
        for k, (block, at, inside) in enumerate(seen):
            if k >= len(arrays) - len(outs) and at is not None:
                arrays[k][at] = block[inside]


def _signless(x):
    """An array as the dialect has it: integers without a sign."""
    if x.dtype == ml_dtypes.uint4:
        return x.view(ml_dtypes.int4)
    return x.view(f"i{x.dtype.itemsize}") if x.dtype.kind == "u" else x


def _window(functions, window, array, place, early):
    """The block of an array at a place of the grid, where it lies, and its part that is inside."""
    function, bounds, low, high = window
    if not function:
        return array, None, None
    head, tree = functions[function]
    m = Machine()
    names = re.findall(r"(%\w+): ", head)
    m.values.update(zip(names, [*map(np.int32, place), *early], strict=True))
    index = m.run(tree)
    sizes = [int(n) for n in bounds.split(",")]
    if low:
        first = [int(i) - int(n) for i, n in zip(index, low.split(","), strict=True)]
    else:
        first = [int(i) * n for i, n in zip(index, sizes, strict=True)]
    fill = np.nan if array.dtype.kind not in "iub" else 77
    block = np.full(sizes, fill, array.dtype)
    at = tuple(
        slice(max(a, 0), min(a + n, size))
        for a, n, size in zip(first, sizes, array.shape, strict=True)
    )
    inside = tuple(slice(s.start - a, s.stop - a) for s, a in zip(at, first, strict=True))
    assert all(s.stop > s.start for s in at), (first, array.shape)
    block[inside] = array[at]
    return block, at, inside
