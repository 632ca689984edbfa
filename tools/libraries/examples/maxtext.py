"""A tiny Llama of MaxText, trained on synthetic tokens for four steps by its own program."""

import json
import os
import sys
import tempfile
from pathlib import Path

import maxtext
from absl import app
from maxtext.trainers.pre_train import train

folder = tempfile.mkdtemp()
metrics = os.path.join(folder, "metrics.jsonl")
options = {
    "run_name": "tiny",
    "base_output_directory": folder,
    "metrics_file": metrics,
    "dataset_type": "synthetic",
    "hardware": "cpu",
    "skip_jax_distributed_system": True,
    "steps": 4,
    "enable_checkpointing": False,
    "enable_goodput_recording": False,
    "per_device_batch_size": 2,
    "max_target_length": 16,
    "base_emb_dim": 16,
    "base_mlp_dim": 32,
    "base_num_query_heads": 2,
    "base_num_kv_heads": 2,
    "base_num_decoder_layers": 2,
    "head_dim": 8,
    "vocab_size": 64,
    "attention": "dot_product",
    "decoder_block": "llama2",
    "dtype": "float32",
    "weight_dtype": "float32",
}
base = os.path.join(os.path.dirname(maxtext.__file__), "configs", "base.yml")
sys.argv = ["train", base, *(f"{name}={value}" for name, value in options.items())]
try:
    app.run(train.main)
except SystemExit as end:
    if end.code:
        raise
for line in Path(metrics).read_text().splitlines():
    print(json.loads(line)["learning/loss"])
