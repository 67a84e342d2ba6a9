"""What the peers share that take keys of Isobar's net as JSON: their arguments, and one JSON line with the times of steps
on the CPU."""

import argparse
import json
import resource

import torch
from vit import make_optimizer, time_steps


def known(kind, keys):
    """Those keys of Isobar's net that the constructor has arguments for"""
    names = kind.__init__.__code__.co_varnames[1:kind.__init__.__code__.co_argcount]
    return {k: v for k, v in keys.items() if k in names}


def arguments(left="what the model has no argument for is left", compiled="the model"):
    ap = argparse.ArgumentParser(description="Times training steps on the CPU.")
    ap.add_argument("net", type=json.loads, help=f"keys of Isobar's net as JSON; {left}")
    ap.add_argument("--batch", type=int, default=1)
    ap.add_argument("--optimizer", choices=("adam", "adamw"), default="adamw")
    ap.add_argument("--amp", choices=("none", "bf16"), default="none")
    ap.add_argument("--threads", type=int, default=1)
    ap.add_argument("--steps", type=int, default=5, help="timed steps, after --warmup")
    ap.add_argument("--warmup", type=int, default=2)
    ap.add_argument("--compile", action="store_true", help=f"torch.compile {compiled}")
    args = ap.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(args.threads)
    return args


def report(args, net, loss_of):
    """Prints the times of steps; loss_of() gives a step's loss."""
    optimizer = make_optimizer(net, args.optimizer)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of()
        loss.backward()
        optimizer.step()
        return loss.detach()

    for _ in range(args.warmup):
        step().item()
    seconds, loss = time_steps(step, args.steps, "cpu")
    print(json.dumps({"torch": torch.__version__, "threads": args.threads, "amp": args.amp, "compile": args.compile,
                      "parameters": sum(p.numel() for p in net.parameters()), "loss": loss,
                      "seconds": [round(s, 6) for s in seconds], "cpu_capability": torch.backends.cpu.get_cpu_capability(),
                      "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))
