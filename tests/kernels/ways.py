"""A function that calls kernels, run with its kernels compiled for the CPU, interpreted step by step, or as Triton IR in NumPy."""

import contextlib

import numpy as np
from kernels import mosaic_in_numpy, triton_in_numpy

from teucer import numpy as jnp
from teucer._core.trace import typeof
from teucer._pallas.call import PallasCall
from teucer._pallas.mosaic import kernel as mosaic
from teucer._pallas.triton.kernel import module_of
from teucer.experimental import pallas as pl


@contextlib.contextmanager
def evaluating(rule):
    """While kernels are called outside of jit, `rule(kernel, operands)` gives their results."""
    before = PallasCall.evaluate
    PallasCall.evaluate = lambda self, *args, kernel, interpret: rule(kernel, args)
    try:
        yield
    finally:
        PallasCall.evaluate = before


def by_triton(kernel, operands):
    """The results of a kernel: its Triton IR, run in NumPy. What nobody writes is 77."""
    module = module_of(kernel, [typeof(x) for x in operands])
    arrays = [np.array(x) for x in operands]
    first = len(operands) - len(kernel.ins)
    alias = {o: first + i for i, o in kernel.aliases}
    outs = [
        arrays[alias[o]] if o in alias else np.full(b.array.shape, 77, b.array.dtype)
        for o, b in enumerate(kernel.outs)
    ]
    triton_in_numpy.run(module.text, module.name, module.grid, [*arrays, *outs])
    return tuple(jnp.asarray(x) for x in outs)


def triton(f, *args):
    with evaluating(by_triton):
        return f(*args)


def lowered(f, *args):
    """The program that calls the kernels on an NVIDIA GPU, as text."""
    import teucer as jax

    return jax.jit(f).trace(*args).lower(lowering_platforms=("cuda",)).as_text()


def module(kernel, out, *args, **options):
    """The Triton IR of a kernel for these arguments."""
    found = []

    def keep(kernel, operands):
        found.append(module_of(kernel, [typeof(x) for x in operands]))
        return tuple(jnp.zeros(b.array.shape, b.array.dtype) for b in kernel.outs)

    with evaluating(keep):
        pl.pallas_call(kernel, out, **options)(*args)
    return found[0]


def by_mosaic(kernel, operands):
    """The results of a kernel: its module for TPUs, run in NumPy. What nobody writes is 77."""
    avals = [typeof(x) for x in operands]
    n = kernel.grid.count(None)
    given = mosaic.operands_of(kernel, avals)
    ordered = mosaic.in_order(kernel, given, list(operands), n)
    arrays = [np.array(x).reshape(np.shape(x) or (1,)) for x in ordered[n:]]
    arrays = [x.astype(np.int32) if x.dtype == bool else x for x in arrays]
    first = len(arrays) - len(kernel.ins)
    alias = {o: first + i for i, o in kernel.aliases}
    avals = [mosaic.memory_aval(b.array) for b in kernel.outs]
    outs = [
        arrays[alias[o]] if o in alias else np.full(a.shape, 77, a.dtype)
        for o, a in enumerate(avals)
    ]
    text = mosaic.module_of(kernel, [typeof(x) for x in operands]).text
    mosaic_in_numpy.run(text, [int(x) for x in ordered[:n]], arrays, outs)
    return tuple(
        jnp.asarray(x.reshape(b.array.shape), b.array.dtype)
        for x, b in zip(outs, kernel.outs, strict=True)
    )


def on_tpu(f, *args):
    """f with its kernels as modules for TPUs, run in NumPy."""
    with evaluating(by_mosaic):
        return f(*args)
