"""`debug.show`, `teucer show` and jaxprs in notebooks: pages that stand alone, and text."""

import html
import html.parser
import re
import shutil
import subprocess

import numpy as np
import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer import lax
from teucer._derived.liveness import size_text
from teucer._optimize import operations as counting
from teucer._printing.runs import runs_of, short
from teucer.cli import _run, main
from teucer.debug import _costs

X = jax.ShapeDtypeStruct((8, 4), jnp.float32)
WS = jax.ShapeDtypeStruct((3, 4, 4), jnp.float32)


@jax.jit
def layer(x, w):
    return x + jnp.tanh(x @ w)  # a layer


def loss(ws, x):
    with jax.named_scope("<net>"):
        return (jax.lax.scan(lambda c, w: (layer(c, w), None), x, ws)[0] ** 2).sum()


step = jax.value_and_grad(loss)


class Page(html.parser.HTMLParser):
    """Looks that tags are closed, and for what would have to be loaded."""

    def __init__(self):
        super().__init__()
        self.open, self.texts = [], []

    def handle_starttag(self, tag, attrs):
        assert not {"src", "href"} & dict(attrs).keys()
        if tag not in ("meta", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def texts_of(page):
    parser = Page()
    parser.feed(page)
    assert parser.open == []
    return parser.texts


def test_the_page_stands_alone():
    page = jax.debug.show(step, WS, X).html
    texts = texts_of(page)
    assert {"Forward", "Backward", "By line", "Memory"} <= set(texts)
    assert any("test_show.py:" in text and "(layer)" in text for text in texts)
    assert "return x + jnp.tanh(x @ w)  # a layer" in texts
    assert any("tanh" in text for text in texts) and page.count("<details>") >= 4 and "<svg" in page


def test_text_for_a_terminal():
    text = str(jax.debug.show(step, WS, X))
    assert text.startswith("loss: ") and "return x + jnp.tanh(x @ w)  # a layer" in text
    assert (
        "> tanh: f32[8,4]" in text
        and "< dot_general: f32[8,4]" in text
        and "predicted peak" in text
    )


def test_a_function_without_a_backward_pass_or_equations():
    picture = jax.debug.show(lambda x: jnp.sin(x), X)
    assert "Backward" not in picture.html and "Equations" in picture.html
    assert "No memory" in jax.debug.show(lambda: None).html
    assert picture._repr_html_().startswith("<iframe srcdoc=")


def test_jaxprs_in_notebooks():
    closed = jax.make_jaxpr(step)(WS, X)
    for shown in (closed, closed.jaxpr):
        texts = texts_of(shown._repr_html_())
        assert any("scan[jaxpr=…" in text for text in texts) and "<net>" not in shown._repr_html_()
    many = jax.make_jaxpr(lambda x: [x := x + 1 for _ in range(3100)][-1])(1.0)
    assert "… 100 more equations" in many._repr_html_()


@pytest.mark.parametrize("times", [1, 5])
def test_a_line_counts_as_often_as_loops_repeat_it(times):
    def f(x):
        return lax.scan(lambda c, _: (c * c, None), x, None, times)[0]  # a loop

    picture = jax.debug.show(f, np.ones(500, np.float32))
    said = str(picture).splitlines()
    (at,) = [i for i, line in enumerate(said) if line.endswith("# a loop")]
    operations, moved = _costs.count_text(times * 500), size_text(times * 3 * 2000)
    assert said[at + 1].endswith(f" 1 equations; {operations} operations; {moved} read and written")


def test_the_bars_of_the_peak_are_the_highest():
    bars = re.findall(
        r'<rect( class="top")? [^>]*height="([\d.]+)">', jax.debug.show(step, WS, X).html
    )
    assert {float(height) for top, height in bars if top} == {100.0}
    assert len(bars) > 4 and any(float(height) < 90 for _, height in bars)


def test_the_command(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(_run, "as_jax", lambda: None)  # tests/compat has processes for it
    program = tmp_path / "program.py"
    program.write_text("import teucer.numpy as jnp\n\ndef f(x):\n    return jnp.sin(x) * 2\n")
    assert main(["show", f"{program}:f", "--args", "f32[3]"]) == 0
    assert "return jnp.sin(x) * 2" in capsys.readouterr().out
    assert main(["show", f"{program}:f", "--args", "f32[3]", "-o", str(tmp_path / "f.html")]) == 0
    assert "sin" in (tmp_path / "f.html").read_text()
    assert main(["show", f"{program}:f"]) == 2
    assert "cannot be called with 0 arguments" in capsys.readouterr().err


def test_operations_are_counted():
    jaxpr = jax.make_jaxpr(lambda x, w: jnp.tanh(x @ w))(jnp.ones((8, 4)), jnp.ones((4, 5))).jaxpr
    assert [counting.operations(eqn) for eqn in jaxpr.eqns] == [2 * 8 * 4 * 5, 40]
    assert _costs.bytes_moved(jaxpr.eqns[0]) == 4 * (32 + 20 + 40)
    loop = jax.make_jaxpr(lambda x: jax.lax.fori_loop(0, 10, lambda i, c: c + c, x))(
        jnp.ones(7)
    ).jaxpr
    assert counting.total_operations(loop) == pytest.approx(10 * 7, rel=0.2)
    kernel = jax.make_jaxpr(lambda x, k: jax.lax.conv(x, k, (1, 1), "SAME"))(
        jnp.ones((1, 3, 8, 8)), jnp.ones((5, 3, 2, 2))
    )
    assert counting.total_operations(kernel.jaxpr) == 2 * (5 * 8 * 8) * (3 * 2 * 2)


DECOMPOSITIONS = {
    "cholesky": lax.linalg.cholesky,
    "lu": lax.linalg.lu,
    "qr": lax.linalg.qr,
    "geqrf": lambda x: jnp.linalg.qr(x, mode="raw"),
    "householder_product": lambda x: lax.linalg.householder_product(x, x[..., 0]),
    "eigh": lax.linalg.eigh,
    "tridiagonal": lax.linalg.tridiagonal,
    "svd": lax.linalg.svd,
    "eig": lax.linalg.eig,
    "hessenberg": lax.linalg.hessenberg,
    "schur": lax.linalg.schur,
    "triangular_solve": lambda x: lax.linalg.triangular_solve(x, x),
    "dot_general": lambda x: lax.batch_matmul(x, x),
}


@pytest.mark.parametrize("name", DECOMPOSITIONS)
def test_operations_of_matrices_grow_with_the_cube_of_their_rows(name):
    def count(n, batch=1):
        x = jax.ShapeDtypeStruct((batch, n, n), np.float32)
        jaxpr = jax.make_jaxpr(DECOMPOSITIONS[name])(x).jaxpr
        return sum(counting.operations(e) for e in jaxpr.eqns if e.primitive.name == name)

    assert count(8) == 8 * count(4) > 4**3 / 4
    assert count(4, batch=3) == 3 * count(4)


def add_and_double(x):
    return (x + x) * 2


@pytest.mark.parametrize(
    ("f", "shape", "expected"),
    [
        (lambda x: jnp.fft.fft2(x), (3, 4, 8), 5 * 96 * 5),
        (lambda x: jnp.fft.fft(x), (3, 2), 5 * 6),
        (lambda x: lax.reduce_max(x, (0,)), (3, 8), 24),
        (lambda x: lax.cumsum(x), (3, 8), 24),
        (lambda x: lax.argmax(x, 0, np.int32), (3, 8), 24),
        (lambda x: x.T.reshape(-1), (3, 8), 0),
        (lambda x: lax.select_n(np.array(True), x, x), (8,), 0),
        (add_and_double, (8,), 16),
        (jax.jit(add_and_double), (8,), 16),
        (jax.checkpoint(add_and_double), (8,), 16),
        (lambda x: lax.scan(lambda c, _: (add_and_double(c), None), x, None, 5)[0], (8,), 80),
        (lambda x: lax.cond(True, add_and_double, jnp.sin, x), (8,), 16),
        (lambda x: lax.cond(True, jnp.sin, add_and_double, x), (8,), 16),
        (lambda x: lax.while_loop(lambda x: x.sum() > 0, add_and_double, x), (8,), 16 + 8 + 1),
        (lambda x: jax.random.wrap_key_data(x.astype(np.uint32)), (2,), 0),
        (lambda: jax.random.split(jax.random.key(0), 5), (), 0),
    ],
)
def test_operations_of_each_kind(f, shape, expected):
    x = [np.ones(shape, np.float32)] if shape else []
    assert counting.total_operations(jax.make_jaxpr(f)(*x).jaxpr) == expected


CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_the_page_in_a_browser(tmp_path):
    page = jax.debug.show(step, WS, X).html
    acting = """<script>
      document.getElementById("open").click();
      document.title = "open " + document.querySelectorAll(".tj details[open]").length;
      field.value = "tanh"; field.dispatchEvent(new Event("input"));
      document.title += ", " + document.getElementById("found").textContent
        + ", hidden " + document.querySelectorAll(".hidden").length;
    </script></body>"""
    path = tmp_path / "page.html"
    path.write_text(page.replace("</body>", acting))
    done = subprocess.run(
        [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={tmp_path}",
            "--dump-dom",
            path.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    title = done.stdout.partition("<title>")[2].partition("</title>")[0]
    opened, found, hidden = (int("".join(filter(str.isdigit, part))) for part in title.split(", "))
    assert opened == page.count("<details>") and found >= 2 and hidden > 5


@pytest.mark.parametrize("length", [1, 2, 3, 7])
def test_runs_are_the_sequence(length):
    rng = np.random.default_rng(length)
    for _ in range(30):
        parts = [list(rng.integers(3, size=rng.integers(1, length + 1))) for _ in range(4)]
        keys = [key for part in parts for key in part * int(rng.integers(1, 5))]
        found = runs_of(keys)
        assert [run.start for run in found] == [
            sum(r.size * r.times for r in found[:i]) for i in range(len(found))
        ]
        again = [k for r in found for k in keys[r.start : r.start + r.size] * r.times]
        assert again == keys and all(r.times == 1 or r.times >= 3 for r in found)
    assert runs_of([1] * 50) == [(0, 1, 50)] and runs_of([]) == []


def layers(ws, x):
    for w in ws:
        x = jnp.tanh(x @ w)
    return (x**2).sum()


def test_equal_layers_are_shown_once_and_inputs_have_names():
    ws = [jnp.ones((8, 8)) for _ in range(12)]
    picture = jax.debug.show(jax.grad(layers), ws, jnp.ones((4, 8)))
    assert "these 3 x 12" in str(picture) or "x 12" in str(picture)
    assert len(str(picture).splitlines()) < 60
    page = html.unescape(picture.html)
    assert "ws[0] = " in page and "x = " in page and "× 12" in page
    assert "preferred_element_type" not in page and "=None" not in page


def test_a_long_forward_pass_does_not_cut_off_the_backward_pass(monkeypatch):
    monkeypatch.setattr("teucer.debug._show.MOST", 20)
    scales = tuple(float(i) for i in range(2, 42))  # no run of equal equations

    def f(x):
        for scale in scales:
            x = jnp.sin(x * scale)
        return x

    page = jax.debug.show(jax.grad(f), 1.0).html
    forward, _, backward = page.partition("<h2>Backward</h2>")
    assert "more equations" in forward and backward.count('class="e"') >= 10


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (
            "/e/lib/python3.11/site-packages/optax/_src/update.py:42:5 (f)",
            "optax/_src/update.py:42:5 (f)",
        ),
        ("/usr/lib/python3.13/functools.py:9:1 (g)", "functools.py:9:1 (g)"),
        ("<ipython-input-4-1a2b3c>:2:7 (loss)", "cell 4, line 2:7 (loss)"),
        ("/tmp/ipykernel_99/123456.py:3:1 (loss)", "cell, line 3:1 (loss)"),
        ("train.py:3:1 (loss)", "train.py:3:1 (loss)"),
    ],
)
def test_places_are_short(place, said):
    assert short(place) == said
