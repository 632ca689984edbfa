"""Keras on jax: a model is trained."""

import keras
import numpy as np

keras.utils.set_random_seed(0)
data = np.random.default_rng(0)
x, y = data.standard_normal((16, 6, 4), np.float32), data.standard_normal((16, 1), np.float32)
model = keras.Sequential(
    [
        keras.layers.Dense(8, activation="gelu"),
        keras.layers.LSTM(6, return_sequences=True),
        keras.layers.MultiHeadAttention(2, 4) if False else keras.layers.Conv1D(4, 3),
        keras.layers.BatchNormalization(),
        keras.layers.Dropout(0.1),
        keras.layers.Flatten(),
        keras.layers.Dense(1),
    ]
)
model.compile(optimizer="adam", loss="mse", metrics=["mae"])
history = model.fit(x, y, epochs=3, batch_size=8, verbose=0, shuffle=False)
print(history.history["loss"], history.history["mae"])
print(model.predict(x[:2], verbose=0), model.evaluate(x, y, verbose=0))
a = keras.Input((5,))
b = keras.layers.Dense(3)(a)
c = keras.layers.LayerNormalization()(b)
functional = keras.Model(a, keras.layers.Add()([b, c]))
print(functional(np.ones((1, 5), np.float32)))
for name in ("GRU", "SimpleRNN"):
    print(getattr(keras.layers, name)(3)(x).shape, keras.ops.sum(getattr(keras.layers, name)(3)(x)))
att = keras.layers.MultiHeadAttention(2, 4)
print(keras.ops.sum(att(x, x)))
print(keras.ops.einsum("bti,bsi->ts", x, x)[0], keras.ops.top_k(x[0, 0], 2)[0])
print(
    keras.random.normal((3,), seed=1),
    keras.losses.CategoricalCrossentropy()(np.eye(3), np.full((3, 3), 1 / 3)),
)
