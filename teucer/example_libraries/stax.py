"""Neural networks from composable layers, each a pair of functions (init_fun, apply_fun).

    output_shape, params = init_fun(rng, input_shape)
    outputs = apply_fun(params, inputs, rng=None)

`serial` and `parallel` make a layer of several layers; FanOut, FanInSum and FanInConcat split and
join the values between them. Of an input shape the batch size may be -1, unknown: it is passed on.
"""

import functools
import math

import teucer.numpy as jnp
from teucer import lax, nn, random
from teucer._base.lazy import listing
from teucer.nn import (  # noqa: F401  # JAX's module shows the functions of its layers
    elu,
    gelu,
    leaky_relu,
    log_softmax,
    relu,
    selu,
    sigmoid,
    softmax,
    softplus,
    standardize,
)
from teucer.nn.initializers import glorot_normal, normal, ones, zeros

__all__ = [
    "AvgPool", "BatchNorm", "Conv", "Conv1DTranspose", "ConvTranspose", "Dense", "Dropout", "Elu",
    "Exp", "FanInConcat", "FanInSum", "FanOut", "Flatten", "Gelu", "GeneralConv",
    "GeneralConvTranspose", "Identity", "LeakyRelu", "LogSoftmax", "MaxPool", "Relu", "Selu",
    "Sigmoid", "Softmax", "Softplus", "SumPool", "Tanh", "elementwise", "glorot", "logsoftmax",
    "parallel", "randn", "serial", "shape_dependent",
]  # fmt: skip
__dir__ = listing(__name__, __all__)

glorot = glorot_normal
randn = normal
logsoftmax = nn.log_softmax


def Dense(out_dim, W_init=glorot_normal(), b_init=normal()):
    """inputs @ W + b: T[..., n] -> T[..., out_dim].

    >>> init_fun, apply_fun = Dense(2, W_init=ones, b_init=zeros)
    >>> shape, params = init_fun(random.key(0), (-1, 3))
    >>> shape
    (-1, 2)
    >>> apply_fun(params, jnp.array([[1.0, 2.0, 3.0]]))
    Array([[6., 6.]], dtype=float32)
    """

    def init_fun(rng, input_shape):
        W_key, b_key = random.split(rng)
        params = W_init(W_key, (input_shape[-1], out_dim)), b_init(b_key, (out_dim,))
        return (*input_shape[:-1], out_dim), params

    def apply_fun(params, inputs, **kwargs):
        W, b = params
        out = jnp.dot(inputs, W)
        return out + jnp.reshape(b, (1,) * (out.ndim - 1) + b.shape)

    return init_fun, apply_fun


def GeneralConv(
    dimension_numbers,
    out_chan,
    filter_shape,
    strides=None,
    padding="VALID",
    W_init=None,
    b_init=normal(1e-6),
):
    """Convolution and bias.

    dimension_numbers: the layouts of inputs, filter and outputs, such as ("NHWC", "HWIO", "NHWC").

    filter_shape: the sizes of the spatial axes; strides: one for each of them, 1 if None; W_init:
    Glorot's if None.
    """
    strides = strides or (1,) * len(filter_shape)

    def convolve(inputs, W):
        return lax.conv_general_dilated(
            inputs, W, strides, padding, dimension_numbers=dimension_numbers
        )

    shape_rule = functools.partial(
        lax.conv_general_shape_tuple,
        window_strides=strides,
        padding=padding,
        dimension_numbers=dimension_numbers,
    )
    return _convolution(
        convolve, shape_rule, dimension_numbers, (out_chan, filter_shape), W_init, b_init
    )


def GeneralConvTranspose(
    dimension_numbers,
    out_chan,
    filter_shape,
    strides=None,
    padding="VALID",
    W_init=None,
    b_init=normal(1e-6),
):
    """Transposed convolution (it enlarges by the strides) and bias; arguments as of GeneralConv."""
    strides = strides or (1,) * len(filter_shape)

    def convolve(inputs, W):
        return lax.conv_transpose(inputs, W, strides, padding, dimension_numbers=dimension_numbers)

    shape_rule = functools.partial(
        lax.conv_transpose_shape_tuple,
        window_strides=strides,
        padding=padding,
        dimension_numbers=dimension_numbers,
    )
    return _convolution(
        convolve, shape_rule, dimension_numbers, (out_chan, filter_shape), W_init, b_init
    )


def _convolution(convolve, shape_rule, dimension_numbers, sizes, W_init, b_init):
    """The layer of a function convolve(inputs, W), with the parameters W and b."""
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    out_chan, filter_shape = sizes
    W_init = W_init or glorot_normal(rhs_spec.index("I"), rhs_spec.index("O"))

    def init_fun(rng, input_shape):
        spatial = iter(filter_shape)
        channels = {"O": out_chan, "I": input_shape[lhs_spec.index("C")]}
        W_shape = tuple(channels[axis] if axis in channels else next(spatial) for axis in rhs_spec)
        b_shape = tuple(out_chan if axis == "C" else 1 for axis in out_spec)
        W_key, b_key = random.split(rng)
        output_shape = tuple(int(size) for size in shape_rule(input_shape, W_shape))
        return output_shape, (W_init(W_key, W_shape), b_init(b_key, b_shape))

    def apply_fun(params, inputs, **kwargs):
        W, b = params
        return convolve(inputs, W) + b

    return init_fun, apply_fun


Conv = functools.partial(GeneralConv, ("NHWC", "HWIO", "NHWC"))
Conv1DTranspose = functools.partial(GeneralConvTranspose, ("NHC", "HIO", "NHC"))
ConvTranspose = functools.partial(GeneralConvTranspose, ("NHWC", "HWIO", "NHWC"))


def BatchNorm(
    axis=(0, 1, 2), epsilon=1e-5, center=True, scale=True, beta_init=zeros, gamma_init=ones
):
    """Zero mean and unit variance over the given axes of the batch, then * gamma (if scale) + beta
    (if center)."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis)

    def init_fun(rng, input_shape):
        shape = tuple(size for i, size in enumerate(input_shape) if i not in axes)
        beta_key, gamma_key = random.split(rng)
        return input_shape, (
            beta_init(beta_key, shape) if center else (),
            gamma_init(gamma_key, shape) if scale else (),
        )

    def apply_fun(params, x, **kwargs):
        beta, gamma = params
        outputs = nn.standardize(x, axes, epsilon=epsilon)
        if scale:
            outputs = outputs * jnp.expand_dims(gamma, axes)
        if center:
            outputs = outputs + jnp.expand_dims(beta, axes)
        return outputs

    return init_fun, apply_fun


def elementwise(fun, **fun_kwargs):
    """A layer without parameters that applies fun(inputs, **fun_kwargs), which keeps the shape."""

    def init_fun(rng, input_shape):
        return input_shape, ()

    def apply_fun(params, inputs, **kwargs):
        return fun(inputs, **fun_kwargs)

    return init_fun, apply_fun


Tanh = elementwise(jnp.tanh)
Relu = elementwise(nn.relu)
Exp = elementwise(jnp.exp)
LogSoftmax = elementwise(nn.log_softmax, axis=-1)
Softmax = elementwise(nn.softmax, axis=-1)
Softplus = elementwise(nn.softplus)
Sigmoid = elementwise(nn.sigmoid)
Elu = elementwise(nn.elu)
LeakyRelu = elementwise(nn.leaky_relu)
Selu = elementwise(nn.selu)
Gelu = elementwise(nn.gelu)
Identity = elementwise(lambda inputs: inputs)


def _pooling(reducer, init_value, rescale=None):
    """A maker of layers that reduce windows; rescale(outputs, inputs, spatial axes, window) follows
    if given."""

    def layer(window_shape, strides=None, padding="VALID", spec=None):
        """Pool over windows of the spatial axes. strides: 1 if None; spec: the layout, "NHWC" and
        alike if None."""
        strides = strides or (1,) * len(window_shape)
        spec = spec or "N" + "_" * len(window_shape) + "C"
        spatial = [axis for axis, name in enumerate(spec) if name not in "NC"]
        dims = _spread(window_shape, spatial, len(spec))
        steps = _spread(strides, spatial, len(spec))

        def init_fun(rng, input_shape):
            pads = (
                lax.padtype_to_pads(input_shape, dims, steps, padding)
                if isinstance(padding, str)
                else padding
            )
            reduced = lax.reduce_window_shape_tuple(input_shape, dims, steps, pads)
            return tuple(
                int(reduced[a]) if a in spatial else size for a, size in enumerate(input_shape)
            ), ()

        def apply_fun(params, inputs, **kwargs):
            outputs = lax.reduce_window(inputs, init_value, reducer, dims, steps, padding)
            return rescale(outputs, inputs, spatial, (dims, steps, padding)) if rescale else outputs

        return init_fun, apply_fun

    return layer


def _spread(values, axes, rank):
    """The values at the given axes, and 1 at the others."""
    placed = dict(zip(axes, values, strict=True))
    return tuple(placed.get(axis, 1) for axis in range(rank))


def _divide_by_window(outputs, inputs, spatial, window):
    """A mean counts what lies inside of the inputs only, not the padding."""
    inside = jnp.ones(
        [size if axis in spatial else 1 for axis, size in enumerate(inputs.shape)], inputs.dtype
    )
    return outputs / lax.reduce_window(inside, 0.0, lax.add, *window)


MaxPool = _pooling(lax.max, -math.inf)
SumPool = _pooling(lax.add, 0.0)
AvgPool = _pooling(lax.add, 0.0, _divide_by_window)


def _flatten():
    def init_fun(rng, input_shape):
        return (input_shape[0], math.prod(input_shape[1:])), ()

    def apply_fun(params, inputs, **kwargs):
        return jnp.reshape(inputs, (inputs.shape[0], -1))

    return init_fun, apply_fun


Flatten = _flatten()


def FanOut(num):
    """A layer that passes its input on num times, as a list."""

    def init_fun(rng, input_shape):
        return [input_shape] * num, ()

    def apply_fun(params, inputs, **kwargs):
        return [inputs] * num

    return init_fun, apply_fun


def _fan_in_sum():
    def init_fun(rng, input_shape):
        return input_shape[0], ()

    def apply_fun(params, inputs, **kwargs):
        return functools.reduce(jnp.add, inputs)

    return init_fun, apply_fun


FanInSum = _fan_in_sum()


def FanInConcat(axis=-1):
    """A layer that joins a list of inputs along one axis."""

    def init_fun(rng, input_shape):
        first = list(input_shape[0])
        first[axis] = sum(shape[axis] for shape in input_shape)
        return tuple(first), ()

    def apply_fun(params, inputs, **kwargs):
        return jnp.concatenate(inputs, axis)

    return init_fun, apply_fun


def Dropout(rate, mode="train"):
    """Keep each entry with probability rate, divided by rate, and set the others to 0, if mode is
    "train".

    Note that rate is the share that is kept. Needs a key: apply_fun(params, inputs, rng=key).
    Raises ValueError without.
    """

    def init_fun(rng, input_shape):
        return input_shape, ()

    def apply_fun(params, inputs, **kwargs):
        rng = kwargs.get("rng")
        if rng is None:
            raise ValueError(
                "Dropout: apply_fun was called without a random key.\n"
                "Call apply_fun(params, inputs, rng=key), where key comes for example from "
                "random.key(0)."
            )
        if mode != "train":
            return inputs
        kept = random.bernoulli(rng, rate, inputs.shape)
        return jnp.where(kept, inputs / rate, 0)

    return init_fun, apply_fun


def serial(*layers):
    """The layers one after the other. Its params are the list of theirs; a key is split among them.

    >>> init_fun, apply_fun = serial(Dense(4), Relu, Dense(1))
    >>> shape, params = init_fun(random.key(0), (-1, 3))
    >>> shape, len(params)
    ((-1, 1), 3)
    """

    def init_fun(rng, input_shape):
        params = []
        for layer_init, _ in layers:
            rng, layer_rng = random.split(rng)
            input_shape, layer_params = layer_init(layer_rng, input_shape)
            params.append(layer_params)
        return input_shape, params

    def apply_fun(params, inputs, **kwargs):
        keys = _split_key(kwargs.pop("rng", None), len(layers))
        for (_, layer_apply), layer_params, key in zip(layers, params, keys, strict=True):
            inputs = layer_apply(layer_params, inputs, rng=key, **kwargs)
        return inputs

    return init_fun, apply_fun


def parallel(*layers):
    """The layers side by side: a list of inputs, one a layer, to a list of outputs. See FanOut."""

    def init_fun(rng, input_shape):
        keys = random.split(rng, len(layers))
        pairs = [
            init(key, shape)
            for (init, _), key, shape in zip(layers, keys, input_shape, strict=True)
        ]
        return tuple(shape for shape, _ in pairs), tuple(params for _, params in pairs)

    def apply_fun(params, inputs, **kwargs):
        keys = _split_key(kwargs.pop("rng", None), len(layers))
        parts = zip(layers, params, inputs, keys, strict=True)
        return [
            apply(layer_params, x, rng=key, **kwargs) for (_, apply), layer_params, x, key in parts
        ]

    return init_fun, apply_fun


def _split_key(key, num):
    return [None] * num if key is None else random.split(key, num)


def shape_dependent(make_layer):
    """A layer that make_layer(input_shape) makes once the shape of its inputs is known."""

    def init_fun(rng, input_shape):
        return make_layer(input_shape)[0](rng, input_shape)

    def apply_fun(params, inputs, **kwargs):
        return make_layer(inputs.shape)[1](params, inputs, **kwargs)

    return init_fun, apply_fun
