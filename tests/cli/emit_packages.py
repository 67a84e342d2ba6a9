#!/usr/bin/env python3
"""What `isobar emit` prints, read by the software that it is for: python tests/cli/emit_packages.py ISOBAR SOURCE

Each of torchtitan, deepspeed and megatron-core that this Python (or the one named by $ISOBAR_PACKAGES_PYTHON) can
import reads the layout with its own parser; world size, batch and axes have to agree with Isobar's. What is not there
is named; exit code 77 (skipped) where none is.
"""

import json
import os
import pathlib
import shlex
import socket
import subprocess
import sys
import tempfile

PACKAGES = {"torchtitan": "torchtitan.config.manager", "deepspeed": "deepspeed.runtime.config",
            "megatron": "megatron.core.transformer"}
GPUS = 32


def emitted(isobar, source, target, options):
    words = [isobar, "emit", f"{source}/configs/models/llama3-8b.yaml", "--machine",
             f"{source}/configs/machines/dgx-h100.yaml", "--gpus", str(GPUS), "--set", "train.global_batch=64"]
    done = subprocess.run(words + options + ["--for", target], capture_output=True, text=True)
    assert done.returncode == 0, (options, done.stderr)
    return done.stdout


def agree(what, got, want):
    assert got == want, f"{what}: {got}, and not {want}"


def torchtitan(isobar, source):
    from torchtitan.config.manager import ConfigManager
    for options in (["--exclude", "zero=0..1,schedule=zb-h1"], ["--fix", "tp=1,cp=1,pp=1,zero=2"],
                    ["--fix", "tp=2,pp=4,zero=3,schedule=1f1b"], ["--fix", "tp=4,pp=2,zero=2,schedule=interleaved"],
                    ["--fix", "cp=2,zero=3,pp=1,recompute=full"], ["--fix", "tp=8,pp=1,sequence_parallel=false,zero=2"]):
        words = shlex.split(emitted(isobar, source, "torchtitan", options).replace("\\\n", " "), comments=True)
        c = ConfigManager().parse_args(words)
        p = c.parallelism
        data = p.data_parallel_replicate_degree * p.data_parallel_shard_degree
        agree("world", data * p.tensor_parallel_degree * p.context_parallel_degree * p.pipeline_parallel_degree, GPUS)
        agree("global batch", c.training.global_batch_size, 64)
        agree("batch", 64 % (c.training.local_batch_size * data), 0)
        agree("layers", len(c.model_spec.model.layers), 32)
        if p.pipeline_parallel_degree > 1:
            agree("micro-batches", c.training.local_batch_size % p.pipeline_parallel_microbatch_size, 0)
            assert p.pipeline_parallel_schedule in ("1F1B", "Interleaved1F1B", "GPipe"), p
        print("torchtitan reads", options)


def deepspeed(isobar, source):
    import deepspeed.comm
    from deepspeed.runtime.config import DeepSpeedConfig

    # It asks the caller for the ranks only where a process group is there.
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        os.environ.setdefault("MASTER_PORT", str(free.getsockname()[1]))
    deepspeed.comm.init_distributed(dist_backend="gloo", auto_mpi_discovery=False, rank=0, world_size=1)
    for options in (["--fix", "pp=1,cp=1"], ["--fix", "pp=1,cp=1,zero=3,tp=1"], ["--fix", "pp=1,cp=1,zero=1,tp=4"]):
        text = emitted(isobar, source, "deepspeed", options)
        said = json.loads(text)
        model_parallel = said.get("tensor_parallel", {}).get("autotp_size", 1)

        class Mpu:  # what a caller tells DeepSpeed of the ranks
            def get_data_parallel_world_size(self):
                return GPUS // model_parallel

            def get_model_parallel_world_size(self):
                return model_parallel

            def get_slice_parallel_world_size(self):
                return model_parallel

        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write(text)
            file.flush()
            c = DeepSpeedConfig(file.name, mpu=Mpu())
        agree("global batch", c.train_batch_size, 64)
        # DeepSpeed itself refuses a batch that is not micro-batch x accumulation x data-parallel ranks.
        agree("ranks", c.train_batch_size, c.train_micro_batch_size_per_gpu * c.gradient_accumulation_steps
              * (GPUS // model_parallel))
        agree("zero", c.zero_config.stage, said["zero_optimization"]["stage"])
        agree("bf16", c.bfloat16_config.enabled, said["bf16"]["enabled"])
        print("deepspeed reads", options)


def megatron(isobar, source):
    import torch
    from megatron.core.transformer import TransformerConfig
    from megatron.core.transformer.enums import AttnBackend

    flags = {"group_query_attention", "swiglu", "disable_bias_linear", "untie_embeddings_and_output_weights",
             "sequence_parallel", "use_distributed_optimizer", "overlap_grad_reduce", "bf16"}
    fields = set(TransformerConfig.__dataclass_fields__)
    for options in (["--exclude", "zero=2..3,schedule=zb-h1"], ["--fix", "tp=4,pp=2,zero=1,schedule=interleaved"],
                    ["--fix", "cp=2,zero=1,recompute=full"], ["--fix", "tp=8,zero=0,recompute=selective"],
                    ["--fix", "tp=2,pp=4,zero=1,schedule=1f1b"]):
        words = shlex.split(emitted(isobar, source, "megatron", options + ["--fix", "order=tp-cp-dp-pp"])
                            .replace("\\\n", " "), comments=True)
        got = {}
        while words:
            key = words.pop(0).removeprefix("--").replace("-", "_")
            got[key] = True if key in flags else words.pop(0)
        kwargs = {k: int(v) if str(v).isdigit() else v for k, v in got.items() if k in fields}
        # These are arguments of the training script, which makes the configuration's fields of them.
        per_chunk = got.get("num_layers_per_virtual_pipeline_stage")
        kwargs["pipeline_dtype"] = torch.bfloat16
        if per_chunk:
            layers_of_rank = int(got["num_layers"]) // int(got["pipeline_model_parallel_size"])
            kwargs["virtual_pipeline_model_parallel_size"] = layers_of_rank // int(per_chunk)
        kwargs["attention_backend"] = AttnBackend[got["attention_backend"]]
        kwargs["gated_linear_unit"] = bool(got.get("swiglu"))
        kwargs["add_bias_linear"] = not got.get("disable_bias_linear")
        kwargs["num_query_groups"] = int(got["num_query_groups"])
        c = TransformerConfig(**kwargs)  # refuses what does not go together
        cut = c.tensor_model_parallel_size * c.context_parallel_size * c.pipeline_model_parallel_size
        agree("world", GPUS % cut, 0)
        agree("batch", int(got["global_batch_size"]) % (GPUS // cut * int(got["micro_batch_size"])), 0)
        agree("net", (c.num_layers, c.hidden_size, c.ffn_hidden_size, c.num_query_groups), (32, 4096, 14336, 8))
        print("megatron-core reads", options)


def main():
    isobar, source = (str(pathlib.Path(p).resolve()) for p in sys.argv[1:3])
    python = os.environ.get("ISOBAR_PACKAGES_PYTHON")
    if python and "ISOBAR_INNER" not in os.environ:
        os.environ["ISOBAR_INNER"] = "1"
        os.execv(python, [python, __file__, isobar, source])
    read = 0
    for name, module in PACKAGES.items():
        try:
            __import__(module)
        except ImportError as e:
            print(f"skipped: {name} is not here ({e}); name a Python that has it in ISOBAR_PACKAGES_PYTHON")
            continue
        globals()[name](isobar, source)
        read += 1
    sys.exit(0 if read else 77)


main()
