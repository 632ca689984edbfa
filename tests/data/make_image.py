"""Makes image.json: images resized by jax.image. Run: python make_image.py > image.json"""

import json
import sys

import jax.numpy as jnp
import numpy as np
from jax import image

X = np.asarray([0.0, 1.0, 4.0, 9.0, 16.0], np.float32)
IMAGE = np.arange(24, dtype=np.float32).reshape(4, 6) ** 1.5
METHODS = ("nearest", "linear", "cubic", "lanczos3", "lanczos5", "cubic-pytorch", "area")
listed = lambda y: np.asarray(y, np.float64).tolist()

resized = [
    {
        "method": m,
        "shape": [n],
        "antialias": a,
        "out": listed(image.resize(X, (n,), m, antialias=a)),
    }
    for m in METHODS
    for n in (1, 2, 3, 5, 8, 10)
    for a in (True, False)
]
resized += [
    {"method": m, "shape": s, "antialias": a, "out": listed(image.resize(IMAGE, s, m, antialias=a))}
    for m in METHODS
    for s in ([2, 9], [4, 3], [7, 6])
    for a in (True, False)
]
moved = [
    {
        "method": m,
        "scale": s,
        "translation": t,
        "antialias": a,
        "out": listed(
            image.scale_and_translate(
                IMAGE, (5, 7), (0, 1), jnp.asarray(s), jnp.asarray(t), m, antialias=a
            )
        ),
    }
    for m in METHODS
    if m != "nearest"
    for s, t in (([1.0, 1.0], [1.0, 0.0]), ([0.5, 1.5], [0.3, -0.7]), ([2.0, 0.7], [-1.5, 1.25]))
    for a in (True, False)
]
json.dump({"x": listed(X), "image": listed(IMAGE), "resized": resized, "moved": moved}, sys.stdout)
