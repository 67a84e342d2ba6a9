"""Published weights of Aurora go in and come out again.

    python3 tests/import/aurora_weights.py --isobar build/isobar [--only package]

A file as torch.save writes it becomes ours by `isobar import`, is trained from, and `isobar export --published` writes
what was read, to the last bit: with the names of today, and with those of the first files. PyTorch's format is made here
by the standard library alone (the modules that its pickles name are stood in for); where PyTorch is installed it writes
the files, and where microsoft-aurora is, that program loads what was exported, strictly, and saves what is imported.
Damaged and foreign files end in one line and exit code 2.
"""

import argparse
import json
import os
import pathlib
import pickle
import random
import resource
import struct
import subprocess
import sys
import tempfile
import types
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PEER = pathlib.Path(os.environ.get("ISOBAR_PEER_PYTHON", ROOT / ".venv-peers" / "bin" / "python"))
CONFIG = ROOT / "configs" / "models" / "aurora-tiny.yaml"
SURFACE, STATIC, UPPER = ["2t", "msl"], ["lsm"], ["t", "u"]
# Aurora's first files index variables by position, which needs a net with all of the first variables
FIRST = ["net.surf_vars=[10u,2t,10v,msl]", "net.static_vars=[slt,lsm,z]", "net.atmos_vars=[t,z,u,v,q]",
         "net.in_channels=41", "net.out_channels=19", "net.encoder_depths=[1,1]", "net.decoder_depths=[1,1]",
         "net.encoder_num_heads=[2,4]"]
FIRST_SURFACE, FIRST_STATIC, FIRST_UPPER = ["2t", "10u", "10v", "msl"], ["lsm", "z", "slt"], ["z", "u", "v", "t", "q"]


def run(arguments, **more):
    env = os.environ | {"OMP_WAIT_POLICY": "passive"}
    return subprocess.run([str(a) for a in arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=300, env=env, **more)


def call(arguments):
    done = run(arguments)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, arguments))}\nended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def read(path):
    """safetensors -> {name: (shape, bytes)}, F32 only"""
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    assert all(t["dtype"] == "F32" for t in header.values()), path
    return {name: (tuple(t["shape"]), data[8 + length + t["data_offsets"][0]:8 + length + t["data_offsets"][1]])
            for name, t in header.items()}


def expect_same(a, b, what):
    assert a.keys() == b.keys(), f"{what}: names {sorted(a.keys() ^ b.keys())[:6]}"
    for name in a:
        assert a[name][0] == b[name][0], f"{what}: {name} {a[name][0]} {b[name][0]}"
        assert a[name][1] == b[name][1], f"{what}: {name} differs"


def count_of(shape):
    count = 1
    for n in shape:
        count *= n
    return count


# ---- torch.save without torch ----

def stand_in():
    """Modules with the names that PyTorch's pickles hold; what they are called with is written, never run."""
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
    for kind in ("FloatStorage", "DoubleStorage", "HalfStorage", "BFloat16Storage", "LongStorage"):
        setattr(torch, kind, type(kind, (), {"__module__": "torch"}))

    def _rebuild_tensor_v2(*args):
        raise AssertionError("called")

    _rebuild_tensor_v2.__module__, _rebuild_tensor_v2.__qualname__ = "torch._utils", "_rebuild_tensor_v2"
    utils._rebuild_tensor_v2, torch._utils = _rebuild_tensor_v2, utils
    return {"torch": torch, "torch._utils": utils}


class Tensor:
    def __init__(self, shape, data, kind="FloatStorage", strides=None, offset=0):
        self.shape, self.data, self.kind, self.offset = shape, data, kind, offset
        packed = [count_of(shape[i + 1:]) for i in range(len(shape))]
        self.strides = tuple(packed if strides is None else strides)


def save(path, weights, more=None):
    """`more`: what a training keeps beside its "state_dict"."""
    modules, storages = stand_in(), []

    class Writer(pickle.Pickler):
        def persistent_id(self, o):
            if isinstance(o, tuple) and o[:1] == ("storage",):
                return o
            return None

        def reducer_override(self, o):
            if not isinstance(o, Tensor):
                return NotImplemented
            storages.append(o.data)
            kind = getattr(modules["torch"], o.kind)
            size = {"DoubleStorage": 8, "LongStorage": 8, "FloatStorage": 4}.get(o.kind, 2)
            storage = ("storage", kind, str(len(storages) - 1), "cpu", len(o.data) // size)
            return modules["torch._utils"]._rebuild_tensor_v2, (storage, o.offset, o.shape, o.strides, False, {})

    saved = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
            with archive.open("weights/data.pkl", "w") as f:
                Writer(f, protocol=2).dump(weights if more is None else more | {"state_dict": weights})
            archive.writestr("weights/byteorder", "little")
            for i, data in enumerate(storages):
                archive.writestr(f"weights/data/{i}", data)
    finally:
        for name, module in saved.items():
            sys.modules.pop(name) if module is None else sys.modules.update({name: module})


def random_weights(shapes, seed):
    draw = random.Random(seed)
    return {name: (shape, struct.pack(f"<{count_of(shape)}f", *(draw.gauss(0, 0.1) for _ in range(count_of(shape)))))
            for name, shape in shapes.items()}


class Case:
    def __init__(self, isobar, folder):
        self.isobar, self.folder, self.config = isobar, pathlib.Path(folder), CONFIG

    def configured(self, words):
        """A configuration that inherits the smallest one."""
        path = self.folder / "net.yaml"
        tree = {"inherits": str(CONFIG), "net": {w[4:].split("=")[0]: w.split("=")[1] for w in words}}
        lines = [f"inherits: {CONFIG}", "net:"] + [f"  {k}: {v}" for k, v in tree["net"].items()]
        path.write_text("\n".join(lines) + "\n")
        self.config = path

    def take(self, file, to="ours.safetensors"):
        call([self.isobar, "import", file, "--config", self.config, "-o", self.folder / to, "--force"])
        return read(self.folder / to)

    def refused(self, file, *texts):
        done = run([self.isobar, "import", file, "--config", self.config, "-o", self.folder / "none.safetensors"])
        assert done.returncode == 2, (file, done.returncode, done.stdout)
        assert len(done.stdout.strip().splitlines()) == 1, done.stdout
        for text in texts:
            assert text in done.stdout, (text, done.stdout)
        left = [p.name for p in self.folder.iterdir() if p.name.startswith("none")]
        assert not left, left

    def peak_of_refusal(self, file, *texts):
        """Bytes of memory that a refusal took."""
        child = subprocess.Popen([str(self.isobar), "import", str(file), "--config", str(self.config), "-o",
                                  str(self.folder / "none.safetensors")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                 text=True, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (60, 60)))
        said = child.stdout.read()
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        assert child.returncode == 2, (file, child.returncode, said)
        assert len(said.strip().splitlines()) == 1 and "->" in said, said
        for text in texts:
            assert text in said, (text, said)
        return used.ru_maxrss << 10

    def trained(self, name, more=()):
        """A run of one step; its checkpoint's model."""
        out = self.folder / name
        call([self.isobar, "train", self.config, *[a for w in (f"run.out={out}", "train.steps=1", "train.warmup=0",
              "train.checkpoint_every=1", "run.threads=1", "train.global_batch=1", *more) for a in ("--set", w)]])
        return out, read(out / "checkpoints/step-00000001/model.safetensors")

    def exported(self, run, name="theirs.safetensors"):
        call([self.isobar, "export", run, "--published", "-o", self.folder / name, "--force"])
        return read(self.folder / name)


def earlier(weights):
    """The first files' form of published weights."""
    out = {}
    for name, (shape, data) in weights.items():
        if "_token_embeds.weights." in name or "_heads." in name:
            continue
        out["net." + name] = shape, data
    for stem, variables in (("encoder.surf_token_embeds", FIRST_SURFACE + FIRST_STATIC),
                            ("encoder.atmos_token_embeds", FIRST_UPPER)):
        parts = [weights[f"{stem}.weights.{v}"] for v in variables]
        (D, _, T, p, _), run = parts[0][0], len(parts[0][1]) // parts[0][0][0]
        out[f"net.{stem}.weight"] = (D, len(parts), T, p, p), b"".join(
            data[d * run:(d + 1) * run] for d in range(D) for _, data in parts)
    for stem, variables in (("surf", FIRST_SURFACE), ("atmos", FIRST_UPPER)):
        for end in ("weight", "bias"):
            parts = [weights[f"decoder.{stem}_heads.{v}.{end}"] for v in variables]
            points, run = parts[0][0][0], len(parts[0][1]) // parts[0][0][0]
            out[f"net.decoder.{stem}_head.{end}"] = (points * len(parts), *parts[0][0][1:]), b"".join(
                data[i * run:(i + 1) * run] for i in range(points) for _, data in parts)
    return out


def round_trips(case):
    run, own = case.trained("first")
    theirs = case.exported(run)
    assert not own.keys() >= theirs.keys()
    assert all(f"encoder.surf_token_embeds.weights.{v}" in theirs for v in SURFACE + STATIC)
    qkv = "backbone.encoder_layers.0.blocks.0.attn.qkv.weight"
    assert theirs[qkv][1] == b"".join(own[qkv.replace("qkv", w)][1] for w in "qkv")
    expect_same(case.take(case.folder / "theirs.safetensors"), own, "safetensors")
    save(case.folder / "a.ckpt", {k: Tensor(*v) for k, v in theirs.items()})
    expect_same(case.take(case.folder / "a.ckpt"), own, "checkpoint")
    save(case.folder / "b.ckpt", {k: Tensor(*v) for k, v in theirs.items()}, {"epoch": 3, "notes": ["x"]})
    expect_same(case.take(case.folder / "b.ckpt"), own, "training's checkpoint")
    # Random weights: imported, through a run that does not change them, and exported again
    weights = random_weights({k: v[0] for k, v in theirs.items()}, 7)
    save(case.folder / "c.ckpt", {k: Tensor(*v) for k, v in weights.items()})
    taken = case.take(case.folder / "c.ckpt")
    run, model = case.trained("second", (f"train.init_from={case.folder / 'ours.safetensors'}", "train.lr=1e-30",
                                         "train.weight_decay=0"))
    expect_same(model, taken, "first weights of a run")
    expect_same(case.exported(run, "second_theirs.safetensors"), weights, "exported")
    return theirs


def kinds_of_numbers(case, theirs):
    weights = {k: Tensor(*v) for k, v in theirs.items()}
    expected = case.take(case.folder / "theirs.safetensors")
    # A transposed view of a longer storage, and a type of 16 bits
    name = "backbone.time_mlp.0.weight"
    (rows, columns), data = theirs[name]
    turned = b"".join(data[4 * (r * columns + c):4 * (r * columns + c) + 4] for c in range(columns) for r in range(rows))
    weights[name] = Tensor((rows, columns), b"....." * 4 + turned, strides=(1, rows), offset=5)
    save(case.folder / "d.ckpt", weights)
    expect_same(case.take(case.folder / "d.ckpt"), expected, "strides")
    half = {k: Tensor(shape, b"".join(data[i + 2:i + 4] for i in range(0, len(data), 4)), "BFloat16Storage")
            for k, (shape, data) in theirs.items()}
    save(case.folder / "e.ckpt", half)
    cut = {k: (shape, b"".join(b"\0\0" + data[i + 2:i + 4] for i in range(0, len(data), 4)))
           for k, (shape, data) in expected.items()}
    expect_same(case.take(case.folder / "e.ckpt"), cut, "bf16")
    f64 = {k: Tensor(shape, struct.pack(f"<{len(data) // 4}d", *struct.unpack(f"<{len(data) // 4}f", data)),
                     "DoubleStorage") for k, (shape, data) in theirs.items()}
    save(case.folder / "f.ckpt", f64)
    expect_same(case.take(case.folder / "f.ckpt"), expected, "float64")


ADAPTED = ("train.lora_rank=8", "train.lora_alpha=8", "train.lora_targets=['backbone.*.attn']")


def adapters(case):
    """Apart and merged, out and in."""
    first = random_weights({k: v[0] for k, v in read(case.folder / "theirs.safetensors").items()}, 11)
    save(case.folder / "first.ckpt", {k: Tensor(*v) for k, v in first.items()})
    case.take(case.folder / "first.ckpt", "random.safetensors")
    run_, own = case.trained("adapted", (*ADAPTED, f"train.init_from={case.folder / 'random.safetensors'}", "train.lr=0.01"))
    merged = case.exported(run_, "merged_theirs.safetensors")
    call([case.isobar, "export", run_, "--published", "--keep-adapters", "-o", case.folder / "adapted.safetensors", "--force"])
    theirs = read(case.folder / "adapted.safetensors")
    attn = "backbone.decoder_layers.1.blocks.1.attn."
    assert theirs[attn + "lora_qkv.loras.0.lora_A"] == own[attn + "lora_A.weight"]
    assert theirs[attn + "lora_proj.loras.0.lora_A"] == own[attn + "proj.lora_A.weight"]
    assert theirs[attn + "lora_qkv.loras.0.lora_B"] == (
        (96, 8), b"".join(own[f"{attn}{w}.lora_B.weight"][1] for w in "qkv"))
    assert any(theirs[attn + "lora_qkv.loras.0.lora_B"][1]), "the adapters have learnt nothing"
    assert len(theirs) == len(merged) + 4 * 10
    save(case.folder / "adapted.ckpt", {k: Tensor(*v) for k, v in theirs.items()})
    expect_same(case.take(case.folder / "adapted.ckpt", "in.safetensors"), read_merged(case, run_), "merged as it is taken")
    path = case.folder / "adapted.yaml"
    path.write_text(f"inherits: {CONFIG}\ntrain:\n" + "".join(
        f"  {w[6:].replace('=', ': ', 1)}\n" for w in ADAPTED))
    case.config = path
    expect_same(case.take(case.folder / "adapted.ckpt"), own, "apart")
    expect_same(case.take(case.folder / "merged_theirs.safetensors", "base.safetensors"), read_merged(case, run_), "none in the file")
    path.write_text(path.read_text().replace("lora_alpha: 8", "lora_alpha: 4"))
    case.refused(case.folder / "adapted.ckpt", "train.lora_rank", "factor 1")
    path.write_text(path.read_text().replace("lora_alpha: 4", "lora_alpha: 8").replace("backbone.*.attn", "*"))
    case.refused(case.folder / "adapted.ckpt", "train.lora_targets")
    case.config = CONFIG
    done = run([case.isobar, "export", case.folder / "first", "--published", "--keep-adapters", "-o", case.folder / "none"])
    assert done.returncode == 2 and "train.lora_rank" in done.stdout, done.stdout
    done = run([case.isobar, "export", run_, "--keep-adapters", "-o", case.folder / "none"])
    assert done.returncode == 2 and "--published" in done.stdout, done.stdout


def read_merged(case, run_):
    call([case.isobar, "export", run_, "-o", case.folder / "merged.safetensors", "--force"])
    return read(case.folder / "merged.safetensors")


def first_files(case):
    case.configured(FIRST)
    run, own = case.trained("third")
    theirs = case.exported(run, "today.safetensors")
    save(case.folder / "g.ckpt", {k: Tensor(*v) for k, v in earlier(theirs).items()})
    expect_same(case.take(case.folder / "g.ckpt"), own, "the first files' form")
    case.config = CONFIG


def refusals(case, theirs):
    weights = lambda: {k: Tensor(*v) for k, v in theirs.items()}
    path, head = case.folder / "bad.ckpt", "decoder.surf_heads.msl.weight"
    missing = weights()
    del missing[head]
    save(path, missing)
    case.refused(path, head, "is missing")
    extra = weights() | {"backbone.x.lora_A": Tensor((1,), b"0123")}
    save(path, extra)
    case.refused(path, "backbone.x.lora_A", "nothing that this net has")
    shape = weights()
    shape[head] = Tensor((1,), b"0123")
    save(path, shape)
    case.refused(path, head, "[1]")
    short = weights()
    short[head] = Tensor(theirs[head][0], theirs[head][1][4:])
    save(path, short)
    case.refused(path, "beyond its storage")
    twice = weights() | {"net." + head: Tensor(*theirs[head])}
    save(path, twice)
    case.refused(path, "twice")
    integers = weights()
    integers[head] = Tensor(theirs[head][0], 2 * theirs[head][1], "LongStorage")
    save(path, integers)
    case.refused(path, "LongStorage")
    mark = case.folder / "ran"
    with zipfile.ZipFile(path, "w") as archive:  # a pickle that would run a command
        archive.writestr("weights/data.pkl", b"cos\nsystem\n(S'touch " + str(mark).encode() + b"'\ntR.")
    case.refused(path, "os.system")
    assert not mark.exists()
    word = lambda text: b"X" + struct.pack("<I", len(text)) + text.encode()
    for call_ in (b"\x80\x04\x8c\x02os\x8c\x06system\x93" + word(f"touch {mark}") + b"\x85R.",
                  b"\x80\x02cbuiltins\nexec\n" + word(f"import os; os.mkdir('{mark}')") + b"\x85R.",
                  b"\x80\x02c__builtin__\neval\n" + word(f"open('{mark}', 'w')") + b"\x85R.",
                  b"\x80\x02csubprocess\nPopen\n" + word(f"touch {mark}") + b"\x85\x81.",
                  b"\x80\x02ctorch\nload\n" + word(str(mark)) + b"\x85R."):
        pickled(path, call_)
        case.refused(path, "neither a tensor nor a dictionary")
        assert not mark.exists(), call_
    save(path, weights())
    whole = path.read_bytes()
    path.write_bytes(whole[:len(whole) // 2])
    case.refused(path, "damaged")
    path.write_bytes(pickle.dumps({"a": 1}, protocol=2))
    case.refused(path, "before 1.6")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "x")
    case.refused(path, "data.pkl")
    case.config = ROOT / "configs" / "models" / "vit-tiny.yaml"
    save(path, weights())
    case.refused(path, "vit")
    case.config = CONFIG


def pickled(path, pickle_bytes, members=()):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("weights/data.pkl", pickle_bytes)
        for name, data in members:
            archive.writestr(f"weights/data/{name}", data)


def bounds(case, theirs):
    """What the net wants bounds what is read, whatever a file says that it holds."""
    weights = lambda: {k: Tensor(*v) for k, v in theirs.items()}
    path, head = case.folder / "large.ckpt", "decoder.surf_heads.msl.weight"
    one = weights()
    one[head] = Tensor((1 << 20, 1 << 20), b"0123", strides=(0, 0))  # one number, 4 TB of them
    save(path, one)
    assert case.peak_of_refusal(path, head) < 1 << 29
    save(path, {head: one[head]})
    assert path.stat().st_size < 1200
    assert case.peak_of_refusal(path, head) < 1 << 29
    one[head] = Tensor((1 << 40, 1 << 40), b"0123", strides=(0, 0))
    save(path, one)
    case.refused(path, head, "no storage can hold")
    for offset, strides in ((-1, None), (0, (-1, 1)), (1 << 60, None), (1 << 40, None), (0, (1 << 40, 1))):
        one[head] = Tensor(theirs[head][0], theirs[head][1], strides=strides, offset=offset)
        save(path, one)
        case.refused(path, head)
    # Three million values of one byte each; a list copied again and again; lengths of no end
    for text in (b"}" * 3_000_000, b"(" + b"]" * 3_000_000 + b"l.", b"]q\0(" + b"K\1" * 500_000 + b"e" +
                 b"ccollections\nOrderedDict\nh\0\x85R0" * 100_000 + b".", b"X\xff\xff\xff\x7f", b"\x8d" + b"\xff" * 8,
                 b"]r\xff\xff\xff\xff0j\xff\xff\xff\xff.", b"\x8b\xff\xff\xff\x7f", b"h\1.", b"t.", b".", b"", b"(((.",
                 b"}}}u.", b"\x80\x09.", b"K\1K\1R.", b"N.", b"K\1Q.", b"}b.", b"]" * 10 + b"a" * 9 + b"."):
        pickled(path, b"\x80\x02" + text)
        assert case.peak_of_refusal(path) < 1 << 30, text[:40]
    # Compressed members could expand without bound
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("weights/data.pkl", b"}" * (1 << 30))
    assert path.stat().st_size < 2 << 20
    assert case.peak_of_refusal(path, "compressed") < 1 << 29
    save(path, weights())
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("other/data.pkl", b"x")
    case.refused(path, "twice")


def damages(case, theirs):
    """A bit or a cut anywhere: the same weights, or one line; and no other program is asked."""
    path = case.folder / "whole.ckpt"
    save(path, {k: Tensor(*v) for k, v in theirs.items()})
    whole, own = path.read_bytes(), case.take(path)
    seed = random.randrange(1 << 30)
    draw = random.Random(seed)
    taken = 0
    for n in range(60):
        data = bytearray(whole)
        if n % 3 == 0:
            del data[draw.randrange(4, len(data)):]
        else:  # in the pickle and the archive's headers, or anywhere
            at = draw.randrange(4, 4000) if n % 3 == 1 else draw.randrange(4, len(data))
            data[at] ^= 1 << draw.randrange(8)
        path.write_bytes(data)
        done = run([case.isobar, "import", path, "--config", case.config, "-o", case.folder / "bent.safetensors", "--force"])
        assert done.returncode in (0, 2), (seed, n, done.stdout)
        if done.returncode == 2:
            assert len(done.stdout.strip().splitlines()) == 1 and "->" in done.stdout, (seed, n, done.stdout)
            assert "python" not in done.stdout.lower() and "Traceback" not in done.stdout, done.stdout
        else:
            taken += 1
            expect_same(read(case.folder / "bent.safetensors"), own, f"seed {seed}, damage {n}")
    assert taken < 40, taken
    path.write_bytes(whole)
    bare = dict(os.environ, PATH=str(case.folder / "empty"))
    done = subprocess.run([case.isobar, "import", path, "--config", case.config, "-o", case.folder / "bare.safetensors"],
                          env=bare, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    assert done.returncode == 0, done.stdout


# ---- beside the programs themselves ----

def with_torch(case, theirs):
    import torch
    from safetensors.torch import load_file
    state = load_file(case.folder / "theirs.safetensors")
    expect = {k: (tuple(v.shape), v.numpy().tobytes()) for k, v in state.items()}
    expect_same(expect, theirs, "safetensors' own reader")
    torch.save(state, case.folder / "torch.ckpt")
    own = case.take(case.folder / "theirs.safetensors")
    expect_same(case.take(case.folder / "torch.ckpt"), own, "torch.save")
    turned = {k: v.t().contiguous().t() if v.dim() == 2 else v for k, v in state.items()}
    torch.save({"state_dict": {k: torch.nn.Parameter(v) for k, v in turned.items()}, "epoch": 1},
               case.folder / "torch.ckpt")
    expect_same(case.take(case.folder / "torch.ckpt"), own, "parameters, transposed")
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        torch.save({k: v.to(dtype) for k, v in state.items()}, case.folder / "torch.ckpt")
        rounded = {k: (tuple(v.shape), v.to(dtype).to(torch.float32).numpy().tobytes()) for k, v in state.items()}
        taken = case.take(case.folder / "torch.ckpt")
        for name in ("encoder.surf_norm.weight", "backbone.time_mlp.0.weight", "decoder.surf_heads.msl.weight"):
            assert taken[name] == rounded[name], (dtype, name)


def with_the_package(case):
    import torch
    sys.path.insert(0, str(ROOT / "bench" / "peers"))
    from aurora_model import Aurora, Published
    from safetensors.torch import load_file
    shape = dict(surf_vars=SURFACE, static_vars=STATIC, atmos_vars=UPPER, levels=[100, 500, 850], history=2, lead_time=6,
                 north=60.0, west=10.0, spacing=0.5, patch_size=2, embed_dim=16, latent_levels=4, num_heads=2,
                 encoder_depths=[2, 2, 1], encoder_num_heads=[2, 4, 8], decoder_depths=[1, 2, 2], window=[2, 3, 4],
                 mlp_ratio=4, dec_mlp_ratio=2, norm_eps=1e-5, img_height=14, img_width=18, in_channels=17, out_channels=8)
    peer = Aurora(**shape)
    published = peer.published[0]
    assert isinstance(published, Published)
    theirs = load_file(case.folder / "theirs.safetensors")
    torch.save(theirs, case.folder / "exported.ckpt")
    published.load_checkpoint_local(str(case.folder / "exported.ckpt"), strict=True)
    loaded = published.state_dict()
    assert loaded.keys() == theirs.keys()
    assert all(torch.equal(loaded[k], theirs[k]) for k in theirs)
    torch.manual_seed(3)
    with torch.no_grad():
        for p in published.parameters():
            p.copy_(torch.randn_like(p))
    torch.save(published.state_dict(), case.folder / "published.ckpt")
    taken = case.take(case.folder / "published.ckpt")
    ours = peer.ours(published.state_dict())
    expect_same(taken, {k: (tuple(v.shape), v.contiguous().numpy().tobytes()) for k, v in ours.items()}, "the package's")
    run, _ = case.trained("package", (f"train.init_from={case.folder / 'ours.safetensors'}", "train.lr=1e-30",
                                      "train.weight_decay=0"))
    case.exported(run, "back.safetensors")
    back = load_file(case.folder / "back.safetensors")
    assert all(torch.equal(back[k], v) for k, v in published.state_dict().items())
    published.load_state_dict(back, strict=True)
    with_its_adapters(case, shape)


def with_its_adapters(case, shape):
    import torch
    from safetensors.torch import load_file
    from aurora_model import Aurora
    torch.manual_seed(5)
    x, hours = torch.randn(1, shape["in_channels"], shape["img_height"], shape["img_width"]), [430000.0]
    outputs = []
    for file, adapted in (("adapted", True), ("merged_theirs", False)):
        peer = Aurora(**shape, use_lora=adapted)
        state = load_file(case.folder / f"{file}.safetensors")
        peer.published[0].load_state_dict(state, strict=True)
        assert all(torch.equal(v, state[k]) for k, v in peer.published[0].state_dict().items())
        peer.load_state_dict(peer.ours(state))
        with torch.no_grad():
            outputs.append(peer(x, hours))
    error = ((outputs[0] - outputs[1]).norm() / outputs[1].norm()).item()
    assert error < 1e-5, error
    print(f"its adapters apart and merged: outputs differ by {error:.1e}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--isobar", required=True)
    parser.add_argument("--within", help="a folder with theirs.safetensors, for Python with PyTorch")
    options = parser.parse_args()
    isobar = pathlib.Path(options.isobar).resolve()
    if options.within:
        case = Case(isobar, options.within)
        with_torch(case, read(case.folder / "theirs.safetensors"))
        print("with PyTorch: passed")
        try:
            import aurora  # noqa: F401
        except ImportError as missing:
            print(f"without microsoft-aurora: {missing}")
            return
        with_the_package(case)
        print("with microsoft-aurora: passed")
        return
    with tempfile.TemporaryDirectory() as folder:
        case = Case(isobar, folder)
        theirs = round_trips(case)
        kinds_of_numbers(case, theirs)
        adapters(case)
        first_files(case)
        refusals(case, theirs)
        bounds(case, theirs)
        damages(case, theirs)
        print("without PyTorch: passed")
        probe = run([PEER, "-c", "import torch, safetensors"]) if PEER.exists() else None
        if probe is None or probe.returncode:
            print("no PyTorch; bench/peers/run.sh --setup-only installs it into .venv-peers")
        else:
            print(call([PEER, __file__, "--isobar", isobar, "--within", folder]), end="")


if __name__ == "__main__":
    main()
