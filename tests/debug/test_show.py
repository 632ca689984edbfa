"""`debug.show`, `teucer show` and jaxprs in notebooks: pages that stand alone, and text."""

import html.parser
import shutil
import subprocess

import pytest

import teucer as jax
import teucer.numpy as jnp
from teucer.cli import main
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


def test_the_command(tmp_path, capsys):
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
    assert [_costs.operations(eqn) for eqn in jaxpr.eqns] == [2 * 8 * 4 * 5, 40]
    assert _costs.bytes_moved(jaxpr.eqns[0]) == 4 * (32 + 20 + 40)
    loop = jax.make_jaxpr(lambda x: jax.lax.fori_loop(0, 10, lambda i, c: c + c, x))(
        jnp.ones(7)
    ).jaxpr
    assert _costs.total_operations(loop) == pytest.approx(10 * 7, rel=0.2)
    kernel = jax.make_jaxpr(lambda x, k: jax.lax.conv(x, k, (1, 1), "SAME"))(
        jnp.ones((1, 3, 8, 8)), jnp.ones((5, 3, 2, 2))
    )
    assert _costs.total_operations(kernel.jaxpr) == 2 * (5 * 8 * 8) * (3 * 2 * 2)


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
