"""Cuts a recorded step (torch_record.py) into parts, forward and backward, and writes each kind of part once.

A part is a module that repeats among its siblings (a block), or what is computed before, between and behind those. Its
definition numbers values by itself, so that equal blocks have one definition. Sizes are a + b * batch.
"""

import json
import math
from collections import Counter

from torch_record import Refused


# ---- sizes that grow with the batch ----
def linear(ones, batches, of):
    """[a, b] of a + b * batch through the sizes at three batches; a number where b is 0."""
    slope = (ones[1] - ones[0]) // (batches[1] - batches[0])
    start = ones[0] - slope * batches[0]
    for size, batch in zip(ones, batches):
        if start + slope * batch != size:
            raise Refused(f"{of} does not grow by equal steps with the batch: {list(ones)} at batches {list(batches)}; "
                          "let each sample be computed by itself")
    return [start, slope] if slope else start


def place(event):
    return f"{event.op} in module {event.module or 'the model itself'}, {event.line or 'its own code'}"


def joined(records, batches):
    """The first record with all its sizes as functions of the batch."""
    first, others = records[0], records[1:]
    for other in others:
        for a, b in zip(first.events, other.events):
            if a.op != b.op:
                raise Refused(f"other batches compute other ops: {place(a)} where a batch of {batches[1]} has {place(b)}")
        if len(other.events) != len(first.events):
            raise Refused("other batches compute more ops: the model's code depends on the batch")
    for value, (_, dtype) in first.sizes.items():
        name = first.known.get(value, ("", f"value {value}"))[1]
        first.sizes[value] = (linear([r.sizes[value][0] for r in records], batches, name), dtype)
    for i, event in enumerate(first.events):
        same = [r.events[i] for r in records]
        event.flops = linear([e.flops for e in same], batches, place(event))
        for side in ("reads", "writes"):
            for j, operand in enumerate(getattr(event, side)):
                shapes = [getattr(e, side)[j].shape for e in same]
                operand.shape = [linear(sizes, batches, place(event)) for sizes in zip(*shapes)]
    return first


def at_batch(size, batch):
    return size[0] + size[1] * batch if isinstance(size, list) else size


def bytes_of_view(operand):
    """Bytes of a tensor of a batch of 2."""
    item = {"float64": 8, "int64": 8, "complex64": 8, "bfloat16": 2, "float16": 2, "bool": 1, "uint8": 1, "int8": 1}
    return math.prod(at_batch(s, 2) for s in operand.shape) * item.get(operand.dtype, 4)


# ---- which modules are parts ----
def shapes_of(module):
    return sorted((name, tuple(p.shape)) for name, p in module.named_parameters())


def repeating(module, path=""):
    """Paths of the modules that repeat among their siblings: the outermost ones, or those inside where siblings differ
    and have repeating ones themselves (stages of blocks)."""
    children = [(f"{path}.{name}" if path else name, m) for name, m in module.named_children()]
    composite = [(p, m) for p, m in children if any(True for _ in m.children()) and shapes_of(m)]
    count = Counter(type(m) for _, m in composite)
    found = []
    for kind in count:
        group = [(p, m) for p, m in composite if type(m) is kind]
        inside = [repeating(m, p) for p, m in group]
        equal = all(shapes_of(m) == shapes_of(group[0][1]) for _, m in group)
        if len(group) == 1 or (not equal and any(inside)):
            found += [p for paths in inside for p in paths]
        else:
            found += [p for p, _ in group]
    return found


class Cut:
    """Runs of forward events: parts."""

    def __init__(self, record):
        self.record = record
        candidates = set(repeating(record.classes[""]))
        runs = []  # [label, events]
        for i, event in enumerate(record.events):
            if event.backward:
                break
            label = next(((p, n) for p, n in event.calls if p in candidates), None)
            if not runs or runs[-1][0] != label:
                runs.append([label, []])
            runs[-1][1].append(i)
        if not runs or runs[0][0] is not None:
            runs.insert(0, [None, []])
        if runs[-1][0] is not None:
            runs.append([None, []])
        self.parts = self.merged(runs)
        self.of = {i: p for p, (_, events) in enumerate(self.parts) for i in events}

    def merged(self, runs):
        """Runs between blocks without parameters or products join the block behind them."""
        parts = [runs[0]]
        pending = []
        for label, events in runs[1:]:
            if label is None and (label, events) != tuple(runs[-1]) and not self.weighs(events):
                pending += events
                continue
            parts.append([label, pending + events])
            pending = []
        if len(parts) == 1:
            parts.append([None, []])
        return parts

    def weighs(self, events):
        known = self.record.known
        return any(self.record.events[i].flops or any(known.get(r.value, ("",))[0] == "parameter"
                                                      for r in self.record.events[i].reads) for i in events)

    def part_of(self, event, index):
        """Of a backward event: the part whose forward made its node."""
        return self.of.get(event.forward, len(self.parts) - 1) if event.backward else self.of[index]

    def names(self):
        names, taken = [], Counter()
        for i, (label, events) in enumerate(self.parts):
            if label:
                path, kind = label[0], type(self.record.classes[label[0]]).__name__
            elif i == 0:
                path = kind = "embed"
            elif i == len(self.parts) - 1:
                path = kind = "head"
            else:
                modules = [self.record.events[e].module for e in events if self.record.events[e].module]
                path = modules[0] if modules else "between"
                kind = type(self.record.classes[path]).__name__ if modules else "between"
            taken[path] += 1
            names.append((kind, path if taken[path] == 1 else f"{path}.call{taken[path]}"))
        return names


# ---- values that cross parts ----
class Flow:
    """Forward: a value's hops from the part that makes it along those that read it. Backward: its gradient, back along
    them."""

    def __init__(self, record, cut):
        self.record, self.cut = record, cut
        self.made, self.read, self.backward_made, self.backward_read = {}, {}, {}, {}
        self.seen = {}  # of gradients that a part reads: bytes of a batch of 2, as far as it looks
        self.order = {}  # of values that a part reads: place of the first read
        fresh = {}
        for i, e in enumerate(record.events):
            if e.view:
                continue
            part = cut.part_of(e, i)
            for r in e.reads:
                if r.value not in record.known:
                    self.order.setdefault((part, r.value), len(self.order))
                    if r.value in self.backward_made:
                        self.seen[(part, r.value)] = bytes_of_view(r)
                    side = self.backward_read if r.value in self.backward_made else self.read
                    side.setdefault(r.value, set()).add(part)
                    if e.backward and side is self.read:
                        fresh.setdefault(r.value, e)
            for w in e.writes:
                if w.value in record.known:
                    continue
                if e.backward and w.value not in self.made:
                    self.backward_made.setdefault(w.value, part)
                else:
                    self.made.setdefault(w.value, part)
        for value in self.read:
            if value not in self.made:  # a tensor of the model's code: held, as a buffer is
                record.known[value] = ("state", f"constant{value}")
        self.hops = []  # (value, from, to)
        self.chains = {}
        for value, part in self.made.items():
            later = sorted(p for p in self.read.get(value, ()) if p > part)
            before = [p for p in self.read.get(value, ()) if p < part]
            if before:
                raise Refused(f"{place(fresh.get(value, record.events[0]))} reads in its backward pass what a later part "
                              "computes: it cannot be cut there")
            self.chains[value] = [part, *later]
            self.hops += [(value, a, b) for a, b in zip(self.chains[value], later)]
        self.hops.sort(key=lambda h: (h[2], self.order[(h[2], h[0])]))
        self.gradients, self.carried = self.match()

    def match(self):
        """The gradient of each hop, and (gradient, from, to) of those that go another way than a value came. A part that
        holds a gradient may hand on a piece of it, as that of an operand of cat."""
        gradient, carried = {}, []
        for g, maker in self.backward_made.items():
            holders = {maker}
            for reader in sorted((p for p in self.backward_read.get(g, ()) if p < maker), reverse=True):
                way = self.way_back(g, reader, holders, gradient)
                if way is None:
                    carried.append((g, maker, reader))
                    continue
                for hop in way:
                    gradient[hop] = g
                    holders.add(hop[1])
            if any(p > maker for p in self.backward_read.get(g, ())):
                raise Refused(f"the backward pass of part {maker} is read by a later part's: it cannot be cut there")
        return gradient, carried

    def way_back(self, g, reader, holders, taken):
        """Hops of a value of this size from the reader to a part that holds the gradient."""
        size = self.record.sizes[g][0]
        for value, chain in self.chains.items():
            if value not in self.record.differentiable or reader not in chain:
                continue
            own = self.record.sizes[value][0]
            if own != size and at_batch(own, 2) != self.seen[(reader, g)]:
                continue
            at = chain.index(reader)
            to = next((i for i in range(at + 1, len(chain)) if chain[i] in holders), None)
            hops = [(value, chain[i], chain[i + 1]) for i in range(at, to or at)]
            if hops and not any(h in taken for h in hops):
                return hops
        return None


class PartWriter:
    """One part's definition, and what this part has of its own."""

    def __init__(self, record, cut, flow, index):
        self.record, self.cut, self.flow, self.index = record, cut, flow, index
        self.local, self.values = {}, []
        hops, gradients = flow.hops, flow.gradients
        self.takes = [h for h in hops if h[2] == index]
        self.gives = [h for h in hops if h[1] == index and (flow.made[h[0]] == index or h in gradients)]
        self.hands_on = [h for h in hops if h[1] == index and h not in self.gives]
        self.carried_in = [c for c in flow.carried if c[2] == index]
        self.carried_out = [c for c in flow.carried if c[1] == index]
        for value, _, _ in self.takes:
            self.number(value)
        self.held = {"parameter": [], "state": [], "batch": []}
        events = [(i, e) for i, e in enumerate(record.events) if not e.view and cut.part_of(e, i) == index
                  and not all(record.known.get(w.value, ("",))[0] == "batch" for w in e.writes)]
        forward = [self.event(e) for _, e in events if not e.backward]
        for hop in self.gives:
            self.number(hop[0])
        into = [self.number_of(gradients.get(h)) for h in self.gives]
        carried = [self.number(c[0]) for c in self.carried_in]
        backward = [self.event(e) for _, e in events if e.backward]
        self.definition = {
            "takes": len(self.takes),
            "gives": [self.local[h[0]] for h in self.gives],
            "gradients_in": into,
            "gradients_out": [self.number_of(gradients.get(h)) for h in self.takes],
            "carried_in": carried,
            "carried_out": [self.number(c[0]) for c in self.carried_out],
            "saved": sorted(self.local[v] for v in self.kept()),
            "parameters": [[self.local[v], self.shape(v), self.gradient_here(v)] for v in self.held["parameter"]],
            "states": [self.local[v] for v in self.held["state"]],
            "batch": [self.local[v] for v in self.held["batch"]],
            "forward": forward,
            "backward": backward,
        }
        self.definition["values"] = self.values

    def kept(self):
        """What autograd keeps of this part's own values; a later part keeps what it takes."""
        crossing = {h[0] for h in self.takes + self.gives}
        return [v for v in self.record.saved if v in self.local and v not in self.record.known and v not in crossing]

    def shape(self, value):
        return self.record.parameters[self.record.known[value][1]]

    def gradient_here(self, value):
        """The local value that becomes the parameter's gradient; -1: none here."""
        g = self.record.gradients.get(self.record.known[value][1])
        return self.local[g] if g in self.local and self.flow.backward_made.get(g) == self.index else -1

    def number_of(self, value):
        return -1 if value is None else self.number(value)

    def number(self, value):
        if value not in self.local:
            self.local[value] = len(self.values)
            size, dtype = self.record.sizes[value]
            self.values.append([size, dtype])
            role = self.record.known.get(value, ("", ""))[0]
            if role:
                self.held[role].append(value)
        return self.local[value]

    def event(self, e):
        operand = lambda o: [self.number(o.value), o.shape, o.dtype]
        source = self.record.events[e.forward] if e.backward and e.forward >= 0 else e
        inside = self.cut.names()[self.index][1] + "."
        module = source.module.removeprefix(inside) if source.module + "." != inside else ""
        written = {"op": e.op, "in": [operand(r) for r in e.reads], "out": [operand(w) for w in e.writes],
                   "module": module, "line": source.line}
        if e.flops:
            written["flops"] = e.flops
        if e.pointwise:
            written["pointwise"] = True
        if inside[:-1] in self.record.classes and not f"{source.module}.".startswith(inside):
            written["outside"] = True  # of the part's module: a checkpoint of it does not run it again
        if e.args:
            written["args"] = e.args
        return written


def net_of(record):
    """The record as JSON: definitions, parts and the links between them."""
    cut = Cut(record)
    flow = Flow(record, cut)
    names = cut.names()
    cut.names = lambda: names
    definitions, parts, known = [], [], {}
    writers = [PartWriter(record, cut, flow, i) for i in range(len(cut.parts))]
    for (kind, path), w in zip(names, writers):
        text = json.dumps(w.definition, sort_keys=True)
        if text not in known:
            known[text] = len(definitions)
            definitions.append(w.definition)
        name = lambda role: [record.known[v][1] for v in w.held[role]]
        parts.append({"kind": kind, "path": path, "definition": known[text], "parameters": name("parameter"),
                      "states": name("state"), "batch": name("batch")})
    def place_of(h):  # among what the part gives, then what it takes and hands on as it is
        w = writers[h[1]]
        return w.gives.index(h) if h in w.gives else len(w.gives) + [t[0] for t in w.takes].index(h[0])

    links = [[a, place_of(h), b, writers[b].takes.index(h), h[0] in record.differentiable]
             for h in flow.hops for _, a, b in [h]]
    carried = [[a, writers[a].carried_out.index(c), b, writers[b].carried_in.index(c)]
               for c in flow.carried for _, a, b in [c]]
    flops = {"forward": [0, 0], "backward": [0, 0]}
    for e in record.events:
        size = e.flops if isinstance(e.flops, list) else [e.flops, 0]
        for k in (0, 1):
            flops["backward" if e.backward else "forward"][k] += size[k]
    saved = [0, 0]
    for v in record.saved - set(record.known):
        size = record.sizes[v][0]
        for k, n in enumerate(size if isinstance(size, list) else [size, 0]):
            saved[k] += n
    return {"definitions": definitions, "parts": parts, "links": links, "carried": carried, "flops": flops,
            "saved_bytes": saved}
