#!/usr/bin/env python3
"""Random safetensors files, whole and broken, through the format's own reader and through `isobar train`: both accept
or both refuse each. Needs the Python package safetensors.

    python3 tests/engine/safetensors_reference.py --isobar build/isobar [--files 300] [--seed 1]
"""
import argparse, json, pathlib, random, struct, subprocess, sys, tempfile, time

WIDTHS = {"BOOL": 8, "F4": 4, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
          "I32": 32, "U32": 32, "F32": 32, "F64": 64, "I64": 64, "U64": 64}


def tiled(r):
    """Tensors that tile their data: (header as a list of pairs, bytes of data)."""
    header, end = [], 0
    for i in range(r.randint(0, 5)):
        dtype = r.choice(list(WIDTHS))
        shape = [r.randint(0, 4) for _ in range(r.randint(0, 3))]
        count = 1
        for n in shape: count *= n
        bits = count * WIDTHS[dtype]
        size = (bits + 7) // 8
        header.append((f"w{r.randint(0, 99)}.{i}", {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}))
        end += size
    r.shuffle(header)
    if r.random() < 0.3: header.insert(0, ("__metadata__", {"format": "pt"}))
    return header, end


def broken(r, header, end):
    """One rule broken, perhaps: text of the header and bytes of data."""
    tensors = [t for name, t in header if name != "__metadata__"]
    kind = r.randint(0, 13)
    if tensors and kind <= 8:
        t = r.choice(tensors)
        if kind == 0: t["data_offsets"] = [x + r.randint(1, 4) for x in t["data_offsets"]]
        if kind == 1: t["data_offsets"][1] += r.randint(1, 4)
        if kind == 2: t["data_offsets"] = r.choice([[], [0], t["data_offsets"] + [9], "0", [0.0, 4.0], [-4, 0]])
        if kind == 3: t["shape"] = t["shape"] + [r.choice([-1, 2.0, "2", 1 << 62, 1 << 64, None])]
        if kind == 4: t["dtype"] = r.choice(["f32", "F31", "", 7, None])
        if kind == 5: del t[r.choice(list(t))]
        if kind == 6: t["more"] = r.choice([1, None, [1, 2], {"a": 1}])
        if kind == 7: t["shape"] = [1] + t["shape"]
        if kind == 8 and len(tensors) > 1: t["data_offsets"] = r.choice(tensors)["data_offsets"]
    text = json.dumps(dict(header), separators=(",", ":")) if r.random() < 0.5 else json.dumps(dict(header))
    if kind == 9: end += r.randint(1, 9)
    if kind == 10: end = max(0, end - r.randint(1, 9))
    if kind == 11: text = r.choice([" ", "\n", ""]) + text + r.choice([" " * r.randint(0, 8), "\n", "\0", "x"])
    if kind == 12: text = r.choice(["", "[]", "null", "7", text[:-1], text + "}", text.replace(":", "=", 1)])
    if kind == 13: text = json.dumps({"__metadata__": r.choice([None, {}, {"a": 1}, [], "x", {"a": None}]), **dict(header)})
    return text, end


def accepted_by_reference(safe_open, file):
    try:
        with safe_open(file, framework="np") as f: list(f.keys())
        return True
    except Exception:  # its own type; of old versions several others
        return False


def accepted_by_isobar(isobar, config, file):
    done = subprocess.run([isobar, "train", config, "--set", f"train.init_from={file}"], capture_output=True, text=True)
    if done.returncode != 2: sys.exit(f"{file}: ended with {done.returncode}: {done.stderr}")
    return "is not a whole safetensors file" not in done.stderr, done.stderr.strip()


def main():
    try:
        from safetensors import safe_open
    except ImportError:
        print("SKIPPED: the package safetensors is not installed")
        return
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--isobar", required=True)
    arguments.add_argument("--files", type=int, default=300)
    arguments.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000_007)
    given = arguments.parse_args()
    r, both, wrong = random.Random(given.seed), {True: 0, False: 0}, []
    config = str(pathlib.Path(__file__).resolve().parents[1] / "fixtures" / "cases" / "weights_mlp.yaml")
    with tempfile.TemporaryDirectory(prefix="isobar-safetensors-") as folder:
        file = pathlib.Path(folder) / "w.safetensors"
        for _ in range(given.files):
            header, end = tiled(r)
            text, end = broken(r, header, end) if r.random() < 0.75 else (json.dumps(dict(header)), end)
            raw = text.encode()
            file.write_bytes(struct.pack("<Q", len(raw)) + raw + r.randbytes(end))
            theirs = accepted_by_reference(safe_open, file)
            ours, said = accepted_by_isobar(given.isobar, config, file)
            if ours != theirs:
                wrong.append(f"{'accepted' if ours else 'refused'} here, not there: {text!r} with {end} bytes: {said}")
            both[theirs] += 1
    for w in wrong[:20]: print("WRONG:", w)
    print(f"seed {given.seed}: {both[True]} files accepted by the reference, {both[False]} refused, {len(wrong)} otherwise here")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
