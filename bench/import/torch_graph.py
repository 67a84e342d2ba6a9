"""Writes a PyTorch net as a file that Isobar plans and prices: isobar import net.py:build --inputs 3x224x224.

    python torch_graph.py net.py:build --inputs 3x224x224 [--inputs NAME=1024:int64] [--loss mse|cross_entropy] -o net.json
    python torch_graph.py phi3/config.json --inputs input_ids=4096:int64 labels=4096:int64 -o net.json    # of transformers

`build` returns a model, or a pair of a model and a loss: loss(output) -> scalar. Inputs are of one sample, the
batch goes first. The file is JSON (see "A net written in PyTorch" in bench/guest/README.md).
"""

import argparse
import importlib
import importlib.util
import json
import os
import sys
import traceback

FORMAT, VERSION = "isobar traced net", 1
BATCHES = (2, 3, 4)  # 1 is special to many ops
TYPES = ("float32", "int64", "int32", "bool")


def fail(text):
    print(text, file=sys.stderr)
    sys.exit(2)


def build_of_config(path):
    if not os.path.isfile(path):  # transformers would look for it elsewhere
        fail(f"{path}: is no file")
    try:
        import transformers
    except ImportError:
        fail(f"{sys.executable} has no transformers: name a Python that has, by --python or ISOBAR_PYTHON")
    try:
        config = transformers.AutoConfig.from_pretrained(path, trust_remote_code=False)
    except Exception as error:
        fail(f"transformers {transformers.__version__} does not know this model: {next(iter(str(error).splitlines()), '')}")
    config.use_cache = False
    kind = getattr(transformers, (config.architectures or ["none"])[0], None)
    is_model = isinstance(kind, type) and issubclass(kind, transformers.PreTrainedModel)  # a file may name anything
    return lambda: kind(config) if is_model else transformers.AutoModelForCausalLM.from_config(config)


def load(target):
    """net.py:build or package.module:callable, as python -m would find it, or config.json of transformers."""
    if target.endswith(".json"):
        return build_of_config(target)
    name, _, attribute = target.rpartition(":")
    if not name:
        fail(f"{target}: name what builds the model, e.g. net.py:build")
    if name.endswith(".py"):
        if not os.path.exists(name):
            fail(f"{name}: is no file")
        sys.path.insert(0, os.path.dirname(os.path.abspath(name)))
        spec = importlib.util.spec_from_file_location(os.path.basename(name)[:-3], name)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    else:
        sys.path.insert(0, os.getcwd())
        module = importlib.import_module(name)
    if not callable(getattr(module, attribute, None)):
        fail(f"{name}: has no {attribute}() that builds a model")
    return getattr(module, attribute)


def inputs_of(texts):
    """[(name or "", shape, type)] of 3x224x224, tokens=1024:int64"""
    found = []
    for text in texts:
        name, equals, rest = text.rpartition("=")
        shape, _, dtype = rest.partition(":")
        dtype = dtype or "float32"
        sizes = shape.split("x") if shape else []
        if dtype not in TYPES or not all(s.isdigit() and int(s) > 0 for s in sizes):
            fail(f"--inputs {text}: write the sizes of one sample, as 3x224x224, or NAME=1024:int64 (types: "
                 f"{', '.join(TYPES)})")
        found.append((name if equals else "", tuple(map(int, sizes)), dtype))
    return found


def told(error, torch_folder):
    """One line: the user's or a package's line, and what went wrong there."""
    own = os.path.dirname(os.path.abspath(__file__))
    at = ""
    for frame in traceback.extract_tb(error.__traceback__):
        if not os.path.abspath(frame.filename).startswith((torch_folder, own)):
            at = f"{frame.filename}:{frame.lineno}: "
    text = next(iter(str(error).splitlines()), "")
    if type(error).__name__ == "DataDependentOutputException":
        return f"{at}decides by the value of a tensor ({text}), and a recording has shapes only: decide by shapes or options"
    return f"{at}{type(error).__name__}: {text}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("target")
    parser.add_argument("--inputs", nargs="+", required=True)
    parser.add_argument("--loss", choices=("mse", "cross_entropy"))
    parser.add_argument("-o", "--output", required=True)
    options = parser.parse_args()
    try:
        import torch
    except ImportError:
        fail(f"{sys.executable} has no PyTorch: name a Python that has, by --python or ISOBAR_PYTHON")
    if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 6):
        fail(f"PyTorch {torch.__version__} is too old: 2.6 or later is needed")
    from torch_parts import joined, net_of
    from torch_record import Refused, record_step, without_weights

    build, inputs = load(options.target), inputs_of(options.inputs)

    def make_inputs(batch):
        made = [(n, torch.zeros((batch, *shape), dtype=getattr(torch, t))) for n, shape, t in inputs]
        return [t for n, t in made if not n], {n: t for n, t in made if n}

    def model_and_loss():
        built = without_weights(build)
        return built if isinstance(built, tuple) else (built, options.loss)

    nets, how, parameters = {}, "", {}
    try:
        for precision in ("fp32", "bf16"):
            records = []
            for batch in BATCHES:
                model, loss = model_and_loss()
                if not isinstance(model, torch.nn.Module):
                    fail(f"{options.target} returns a {type(model).__name__}, no torch.nn.Module")
                record, how = record_step(model, make_inputs, batch, precision == "bf16", loss)
                record.parameters = {n: list(p.shape) for n, p in model.named_parameters()}
                parameters = {n: p.requires_grad for n, p in model.named_parameters()}
                records.append(record)
            nets[precision] = net_of(joined(records, BATCHES))
            shapes = records[0].parameters
    except Refused as refused:
        fail(str(refused))
    except Exception as error:
        fail(told(error, os.path.dirname(torch.__file__)))
    net = {"format": FORMAT, "version": VERSION, "torch": torch.__version__.split("+")[0],
           "inputs": [{"name": n, "shape": list(s), "dtype": t} for n, s, t in inputs], "loss": how,
           "parameters": [{"name": n, "shape": shapes[n], "trained": parameters[n]} for n in shapes], "nets": nets}
    with open(options.output, "w") as out:
        json.dump(net, out, separators=(",", ":"))
        out.write("\n")
    for precision in nets:
        n = nets[precision]
        print(f"{precision}: {len(n['parts'])} parts of {len(n['definitions'])} kinds, FLOPs of a sample "
              f"{sum(n['flops']['forward']):.6g} forward and {sum(n['flops']['backward']):.6g} backward")
    print(f"loss: {how}")


if __name__ == "__main__":
    main()
