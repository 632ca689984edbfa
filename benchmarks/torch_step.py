"""The transformer's training step in PyTorch, eager, where torch is installed.

`python torch_step.py 12` prints a JSON object.
"""

import json
import statistics
import sys
import time

import torch
import transformer as t

REPEATS = 7


def parameter(value):
    return torch.tensor(value, requires_grad=True)


def mapped(f, tree):
    if isinstance(tree, dict):
        return {name: mapped(f, value) for name, value in tree.items()}
    return [mapped(f, value) for value in tree] if isinstance(tree, list) else f(tree)


def leaves(tree):
    if isinstance(tree, dict | list):
        for value in tree.values() if isinstance(tree, dict) else tree:
            yield from leaves(value)
    else:
        yield tree


def attention(block, x):
    qkv = (x @ block["qkv"]).reshape(t.BATCH, t.LENGTH, 3, t.HEADS, t.WIDTH // t.HEADS)
    q, k, v = (qkv[:, :, i].transpose(1, 2) for i in range(3))
    mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    return mixed.transpose(1, 2).reshape(t.BATCH, t.LENGTH, t.WIDTH) @ block["out"]


def norm(x, params):
    return torch.nn.functional.layer_norm(x, (t.WIDTH,), params["scale"], params["bias"], eps=1e-5)


def loss(params, tokens, targets):
    x = params["embedding"][tokens] + params["position"]
    for block in params["blocks"]:
        x = x + attention(block, norm(x, block["norms"][0]))
        x = (
            x
            + torch.nn.functional.gelu(norm(x, block["norms"][1]) @ block["up"], approximate="tanh")
            @ block["down"]
        )
    logits = norm(x, params["norm"]) @ params["logits"]
    return torch.nn.functional.cross_entropy(logits.reshape(-1, t.VOCABULARY), targets.reshape(-1))


def main():
    layers = int(sys.argv[1])
    params = mapped(parameter, t.init_params(layers))
    tokens, targets = (torch.tensor(x).long() for x in t.make_batch())
    times = []
    for step in range(REPEATS + 1):
        start = time.perf_counter()
        value = loss(params, tokens, targets)
        gradients = torch.autograd.grad(value, list(leaves(params)))
        _ = [p.detach() - 0.01 * g for p, g in zip(leaves(params), gradients, strict=True)]
        if step:
            times.append(time.perf_counter() - start)
    json.dump({"run": statistics.median(times), "loss": float(value.detach())}, sys.stdout)


if __name__ == "__main__":
    main()
