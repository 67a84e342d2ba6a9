"""Records what PyTorch computes for one micro-batch, forward and backward, on fake tensors: nothing is computed, and
weights need no memory.

A dispatch mode sees each ATen op as eager PyTorch would launch it, after autograd: the ops that
torch.utils.flop_counter counts. Saved tensors are those that autograd packs. A backward op belongs to the module whose
forward op made its autograd node.

    record, how = record_step(model, make_inputs, batch=2, amp=False, loss=None)
    record.events, record.saved, record.gradients
"""

import functools
import os
import sys
from dataclasses import dataclass, field

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.autograd.graph import saved_tensors_hooks
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.flop_counter import flop_registry, register_flop_formula

TORCH = os.path.dirname(torch.__file__)


def grouped_flops(a, b, *_, **__):
    """Of experts' products, which PyTorch does not count: rows of all groups side by side, or a matrix for each."""
    groups = a[0] if len(a) == len(b) == 3 else 1
    return 2 * groups * a[-2] * a[-1] * b[-1]


if hasattr(torch.ops.aten, "_grouped_mm") and torch.ops.aten._grouped_mm not in flop_registry:
    register_flop_formula(torch.ops.aten._grouped_mm)(grouped_flops)


class Refused(Exception):
    """What cannot be exported: one line for the user."""


@dataclass
class Operand:
    value: int  # the storage
    shape: tuple
    dtype: str


@dataclass
class Event:
    op: str
    reads: list
    writes: list
    module: str
    calls: tuple  # of the modules around it: (path, number of the call)
    line: str
    args: dict
    view: bool
    pointwise: bool
    flops: int
    backward: bool
    forward: int = -1  # backward: the event whose autograd node computes it


@dataclass
class Record:
    events: list = field(default_factory=list)
    sizes: dict = field(default_factory=dict)  # of storages: (bytes, type)
    known: dict = field(default_factory=dict)  # of storages: (role, name)
    saved: set = field(default_factory=set)  # storages that autograd keeps
    differentiable: set = field(default_factory=set)  # storages with a gradient
    gradients: dict = field(default_factory=dict)  # of parameters: the storage
    classes: dict = field(default_factory=dict)  # of modules by path


# Functions that CUDA's autocast computes in float32 (PyTorch, "Automatic Mixed Precision"), beyond the CPU's list, by
# which the recording runs.
IN_FLOAT32 = frozenset("""
__pow__ __rdiv__ __rpow__ __rtruediv__ acos asin binary_cross_entropy_with_logits cosh cosine_embedding_loss cdist
cosine_similarity cross_entropy cumprod cumsum dist erfinv exp expm1 group_norm hinge_embedding_loss kl_div l1_loss
layer_norm log log10 log_softmax log1p log2 margin_ranking_loss mse_loss multilabel_margin_loss multi_margin_loss
nll_loss norm normalize pdist poisson_nll_loss pow prod reciprocal rsqrt sinh smooth_l1_loss soft_margin_loss softmax
softmin softplus sum renorm tan triplet_margin_loss""".split())


class AutocastAsOnCuda(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") in IN_FLOAT32:
            widen = lambda x: x.float() if isinstance(x, torch.Tensor) and x.dtype == torch.bfloat16 else x
            args, kwargs = tree_map(widen, args), tree_map(widen, kwargs)
        return func(*args, **kwargs)


def user_line():
    """The user's or a package's line that runs now, not PyTorch's: blocks.py:41."""
    frame = sys._getframe(2)
    while frame:
        name = frame.f_code.co_filename
        if not name.startswith(TORCH) and not name.startswith("<") and name != __file__:
            return f"{os.path.basename(os.path.dirname(name))}/{os.path.basename(name)}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def plain_arguments(func, args, kwargs):
    """The arguments that shapes do not show."""
    names = [a.name for a in func._schema.arguments]
    given = {**dict(zip(names, args)), **kwargs}
    return {name: given[name] for name in ("is_causal", "groups", "transposed", "output_mask") if name in given}


class Recorder(TorchDispatchMode):
    def __init__(self, model, record):
        super().__init__()
        self.record = record
        self.kept = []  # storages, so that none has the address of an earlier one
        self.seen = {}
        self.varies = set()  # storages of real tensors that fake ones were written to
        self.paths = {id(m): name for name, m in model.named_modules()}
        self.stack, self.counts = [], {}
        self.backward = False
        self.next_node, self.made_by = torch._C._autograd._get_sequence_nr(), {}

    def value(self, tensor):
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self.seen:
            self.kept.append(storage)
            self.seen[key] = len(self.seen)
            size = storage.nbytes()
            self.record.sizes[self.seen[key]] = (size, str(tensor.dtype).removeprefix("torch."))
        if tensor.requires_grad:
            self.record.differentiable.add(self.seen[key])
        return self.seen[key]

    def name(self, tensor, role, name):
        self.record.known.setdefault(self.value(tensor), (role, name))

    def operands(self, tensors):
        return [Operand(self.value(t), tuple(t.shape), str(t.dtype).removeprefix("torch.")) for t in tensors]

    # ---- modules ----
    def enter(self, module, _):
        path = self.paths.get(id(module))
        if path is None:
            return
        self.counts[path] = self.counts.get(path, 0) + 1
        self.stack.append((path, self.counts[path]))

    def leave(self, module, _, __):
        if id(module) in self.paths and self.stack:
            self.stack.pop()

    def of_node(self):
        """The forward event of the autograd node that runs now; None: an accumulation of a parameter's gradient."""
        node = torch._C._current_autograd_node()
        if node is None:
            return -1
        if type(node).__name__ == "AccumulateGrad":
            return None
        return self.made_by.get(node._sequence_nr(), -1)

    def result(self, func, args, kwargs):
        """What the model's code makes of no input, weight or random number keeps its values: it may decide by them."""
        tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        real = [self.value(t) for t in tensors if not isinstance(t, FakeTensor)]
        if len(real) == len(tensors) and not self.varies.intersection(real) and self.constant(func, tensors):
            with unset_fake_temporarily():
                return func(*args, **kwargs)
        if func._schema.is_mutable:
            self.varies.update(real)
        return func(*args, **kwargs)

    @staticmethod
    def constant(func, tensors):
        return torch.Tag.nondeterministic_seeded not in func.tags and (tensors or func.namespace == "aten")

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        reads = self.operands(t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor))
        inputs = {r.value for r in reads}
        out = self.result(func, args, kwargs)
        if func.namespace == "prim":
            return out
        results = self.operands(t for t in tree_leaves(out) if isinstance(t, torch.Tensor))
        forward = self.of_node() if self.backward else -1
        if not self.backward:
            now = torch._C._autograd._get_sequence_nr()
            for n in range(self.next_node, now):
                self.made_by[n] = len(self.record.events)
            self.next_node = max(self.next_node, now)
        if forward is None:
            return out
        written = [r for r in results if r.value not in inputs or func._schema.is_mutable]
        if not written and not any(isinstance(t, FakeTensor) for t in tree_leaves((args, kwargs))):
            return out  # the code reads a tensor of its own, perhaps sample by sample
        packet = func._overloadpacket
        flops = flop_registry[packet](*args, **kwargs, out_val=out) if packet in flop_registry else 0
        namespace = "" if func.namespace == "aten" else func.namespace + "."
        self.record.events.append(
            Event(op=namespace + packet.__name__, reads=reads, writes=written,
                  module=self.stack[-1][0] if self.stack else "", calls=tuple(self.stack), line=user_line(),
                  args=plain_arguments(func, args, kwargs), view=not written,
                  pointwise=torch.Tag.pointwise in func.tags, flops=flops, backward=self.backward, forward=forward))
        return out


def without_weights(build):
    """Builds a model whose parameters are on the meta device, so that their initial values cost nothing."""
    register = nn.Module.register_parameter

    def on_meta(module, name, parameter):
        register(module, name, parameter)
        held = module._parameters.get(name)
        if held is not None and held.device.type != "meta":
            module._parameters[name] = nn.Parameter(held.data.to("meta"), requires_grad=held.requires_grad)

    nn.Module.register_parameter = on_meta
    try:
        return build()
    finally:
        nn.Module.register_parameter = register


def make_fake(model, fake):
    """Replaces parameters and buffers by fake tensors; tied ones stay tied."""
    made = {}

    def of(tensor, parameter):
        if id(tensor) not in made:
            dtype = torch.float32 if tensor.is_floating_point() else tensor.dtype
            with fake:
                empty = torch.empty(tuple(tensor.shape), dtype=dtype)
            made[id(tensor)] = nn.Parameter(empty, requires_grad=tensor.requires_grad) if parameter else empty
            made[id(made[id(tensor)])] = made[id(tensor)]
        return made[id(tensor)]

    for module in model.modules():
        for held, parameter in ((module._parameters, True), (module._buffers, False)):
            for name, tensor in held.items():
                if tensor is not None:
                    held[name] = of(tensor, parameter)


def loss_of(output, targets, loss):
    """The scalar that is differentiated, and how it was found."""
    value = getattr(output, "loss", None)
    if value is None and isinstance(output, dict):
        value = output.get("loss")
    if value is not None and loss is None:
        return value, "the model's own"
    if isinstance(output, torch.Tensor) and output.dim() == 0 and loss is None:
        return output, "the model's own"
    for key in ("logits", "last_hidden_state"):
        if not isinstance(output, (torch.Tensor, tuple, list)) and getattr(output, key, None) is not None:
            output = getattr(output, key)
            break
    while isinstance(output, (tuple, list)):
        output = output[0]
    if not isinstance(output, torch.Tensor):
        raise Refused(f"the model returns a {type(output).__name__}, of which no loss is known; let it return a tensor, "
                      "or a scalar loss")
    if callable(loss):
        return loss(output), "yours"
    if loss == "cross_entropy":
        classes = output.flatten(0, -2) if output.dim() != 4 else output
        target = torch.zeros((classes.shape[0], *classes.shape[2:]), dtype=torch.int64)
        targets.append(target)
        return nn.functional.cross_entropy(classes, target), "cross entropy of its last axis"
    target = torch.zeros_like(output, dtype=torch.float32).detach()
    targets.append(target)
    return nn.functional.mse_loss(output, target), "mean squared error of its result"


@functools.cache
def fake_tensors():
    """One mode for all recordings: packages keep tensors for later calls."""
    return FakeTensorMode(allow_non_fake_inputs=True)


def record_step(model, make_inputs, batch, amp, loss):
    """Records one forward and backward pass. `make_inputs`: batch -> (positional, by name)."""
    record, fake = Record(), fake_tensors()
    make_fake(model, fake)
    model.train()
    with fake, Recorder(model, Record()), torch.no_grad():  # a first call fills what the model's code keeps
        positional, named = make_inputs(batch)
        model(*positional, **named)
    record.classes = {name: m for name, m in model.named_modules()}
    recorder = Recorder(model, record)
    for role, named in (("parameter", model.named_parameters()), ("state", model.named_buffers())):
        for name, tensor in named:
            recorder.name(tensor, role, name)
    hooks = [nn.modules.module.register_module_forward_pre_hook(recorder.enter),
             nn.modules.module.register_module_forward_hook(recorder.leave, always_call=True)]
    for name, p in model.named_parameters():
        if p.requires_grad:
            hooks.append(p.register_hook(lambda g, name=name: record.gradients.__setitem__(name, recorder.value(g))))

    def keep(tensor):
        record.saved.add(recorder.value(tensor))
        return tensor

    try:
        with fake:
            positional, named = make_inputs(batch)
            for i, t in enumerate(positional):
                recorder.name(t, "batch", f"input{i}" if i else "input")
            for name, t in named.items():
                recorder.name(t, "batch", name)
            targets = []
            with recorder, saved_tensors_hooks(keep, lambda t: t):
                if amp:
                    with torch.autocast("cpu", torch.bfloat16), AutocastAsOnCuda():
                        value, how = loss_of(model(*positional, **named), targets, loss)
                else:
                    value, how = loss_of(model(*positional, **named), targets, loss)
                for i, t in enumerate(targets):
                    recorder.name(t, "batch", f"target{i}" if i else "target")
                recorder.backward = True
                value.backward()
    finally:
        for hook in hooks:
            hook.remove()
    return record, how
