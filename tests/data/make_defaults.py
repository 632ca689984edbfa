"""Write defaults.json: the default of each option of JAX, by its release.

Run with JAX 0.12.0.1 and no variable JAX_* in the environment: python make_defaults.py
"""

import enum
import json
from pathlib import Path

import jax

values = {
    name: value.value if isinstance(value, enum.Enum) else value
    for name, value in sorted(jax.config.values.items())
}
text = json.dumps({"release": jax.__version__, "defaults": values}, indent=1, default=str)
Path(__file__).with_name("defaults.json").write_text(text + "\n")
