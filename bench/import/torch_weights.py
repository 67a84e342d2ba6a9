"""Rewrites a PyTorch checkpoint (torch.save: a zip archive) as safetensors, with Python's standard library alone.

    python3 bench/import/torch_weights.py aurora-0.25-small-pretrained.ckpt weights.safetensors

Nothing in the file is executed: its pickle may name dictionaries and tensors, and no other thing. Of a training
checkpoint the tensors under "state_dict" or "model" are taken; what is left out is printed. float64 stays, 16-bit types
become float32. Exit code 2: the file is not such a checkpoint, in one line.
"""

import array
import collections
import json
import os
import pickle
import struct
import sys
import zipfile

SIZES = {"DoubleStorage": 8, "FloatStorage": 4, "HalfStorage": 2, "BFloat16Storage": 2}


class Refused(Exception):
    pass


Storage = collections.namedtuple("Storage", "kind key count")
Tensor = collections.namedtuple("Tensor", "storage offset shape strides")  # both in elements


def rebuild_tensor(storage, offset, shape, strides, *rest):
    return Tensor(storage, offset, tuple(shape), tuple(strides))


def rebuild_parameter(tensor, *rest):
    return tensor


class Reader(pickle.Unpickler):
    ALLOWED = {("collections", "OrderedDict"): collections.OrderedDict,
               ("torch._utils", "_rebuild_tensor_v2"): rebuild_tensor,
               ("torch._utils", "_rebuild_parameter"): rebuild_parameter}

    def find_class(self, module, name):
        if module == "torch" and name.endswith("Storage"):
            return name
        found = self.ALLOWED.get((module, name))
        if found is None:
            raise Refused(f"holds a {module}.{name}, which is neither a tensor nor a dictionary of them; "
                          "save model.state_dict() alone")
        return found

    def persistent_load(self, what):
        tag, kind, key, _, count = what
        if tag != "storage":
            raise Refused(f"refers to a {tag!r}, not to a storage")
        return Storage(kind, key, count)


def weights_of(top):
    """{name: Tensor} of what was saved."""
    for name in ("state_dict", "model"):
        if isinstance(top, dict) and isinstance(top.get(name), dict):
            for other in top:
                if other != name:
                    print(f"left out: {other}")
            top = top[name]
            break
    if not isinstance(top, dict) or not top:
        raise Refused("holds no dictionary of tensors; save model.state_dict()")
    for name, value in top.items():
        if not isinstance(name, str) or not isinstance(value, Tensor):
            raise Refused(f"has something under {name!r} that is no tensor; save model.state_dict() alone")
    return top


def is_packed(t):
    """Whether its elements lie one after another in row-major order."""
    count = 1
    for size, stride in zip(reversed(t.shape), reversed(t.strides)):
        if size != 1 and stride != count:
            return False
        count *= size
    return True


def elements(t, raw, width):
    """Bytes of a tensor in row-major order, out of those of its storage."""
    count = 1
    for size in t.shape:
        count *= size
    last = t.offset + sum((n - 1) * s for n, s in zip(t.shape, t.strides)) if count else t.offset
    if t.offset < 0 or min(t.strides, default=0) < 0 or (count and (last + 1) * width > len(raw)):
        raise Refused("has a tensor that goes beyond its storage")
    if is_packed(t):
        return raw[t.offset * width:(t.offset + count) * width]
    view = memoryview(raw).cast({8: "Q", 4: "I", 2: "H"}[width])
    out = array.array(view.format)

    def walk(axis, at):
        if axis == len(t.shape) - 1:
            out.extend(view[at:at + (t.shape[axis] - 1) * t.strides[axis] + 1:t.strides[axis]]
                       if t.strides[axis] else [view[at]] * t.shape[axis])
        else:
            for i in range(t.shape[axis]):
                walk(axis + 1, at + i * t.strides[axis])

    if count:
        walk(0, t.offset)
    return out.tobytes()


def as_f32(data, kind):
    if kind == "BFloat16Storage":  # the upper half of a float32
        out = bytearray(2 * len(data))
        out[2::4], out[3::4] = data[0::2], data[1::2]
        return bytes(out)
    count = len(data) // 2
    return struct.pack(f"<{count}f", *struct.unpack(f"<{count}e", data))


def convert(source, to):
    with zipfile.ZipFile(source) as archive:
        names = {name.split("/", 1)[-1]: name for name in archive.namelist()}
        if "data.pkl" not in names:
            raise Refused("is a zip archive, but none that torch.save wrote: data.pkl is missing")
        if "byteorder" in names and archive.read(names["byteorder"]).strip() != b"little":
            raise Refused("was written on a big-endian machine")
        with archive.open(names["data.pkl"]) as f:
            weights = weights_of(Reader(f, encoding="utf-8").load())
        header, offset = {"__metadata__": {"format": "pt"}}, 0
        for name, t in weights.items():
            if t.storage.kind not in SIZES:
                raise Refused(f"has {name} as {t.storage.kind}, which is no type of weights")
            width = 8 if t.storage.kind == "DoubleStorage" else 4
            size = width
            for n in t.shape:
                size *= n
            header[name] = {"dtype": "F64" if width == 8 else "F32", "shape": list(t.shape),
                            "data_offsets": [offset, offset + size]}
            offset += size
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        with open(to, "wb") as out:
            out.write(struct.pack("<Q", len(text)) + text)
            for name, t in weights.items():
                key = f"data/{t.storage.key}"
                if key not in names:
                    raise Refused(f"lacks {key}, the values of {name}")
                data = elements(t, archive.read(names[key]), SIZES[t.storage.kind])
                out.write(as_f32(data, t.storage.kind) if SIZES[t.storage.kind] == 2 else data)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        convert(sys.argv[1], sys.argv[2])
    except Refused as why:
        print(why)
    except (zipfile.BadZipFile, pickle.UnpicklingError, EOFError, KeyError, ValueError, TypeError, IndexError,
            AttributeError, NotImplementedError, UnicodeDecodeError, struct.error, MemoryError) as why:
        print(f"is damaged, or was not written by torch.save: {type(why).__name__}: {why}")
    else:
        return
    if os.path.exists(sys.argv[2]):
        os.remove(sys.argv[2])
    sys.exit(2)


if __name__ == "__main__":
    main()
