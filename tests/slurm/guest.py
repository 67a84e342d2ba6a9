"""Somebody's program, started once a node: its nodes meet at an address and exchange a number a step. It writes
checkpoints, goes on from one, and fails on its second node if asked to.

    guest.py --nodes 2 --node-rank 1 --addr n1 --port 29511 --ranks-here 2 --steps 20 --folder DIR [--resume FILE] [--fail oom]
"""
import argparse, os, pathlib, socket, sys, time


def meet(a):
    """Sockets to the other nodes: of the first to each, of each to the first."""
    if a.nodes == 1: return []
    if a.node_rank == 0:
        server = socket.create_server((socket.gethostbyname(a.addr), a.port))
        return [server.accept()[0] for _ in range(a.nodes - 1)]
    for _ in range(200):
        try: return [socket.create_connection((a.addr, a.port))]
        except OSError: time.sleep(0.05)
    sys.exit("Timed out waiting for the first node")


def summed(number, others, first):
    if first:
        total = number + sum(int(s.recv(32)) for s in others)
        for s in others: s.sendall(b"%d" % total)
        return total
    for s in others:
        s.sendall(b"%d" % number)
        number = int(s.recv(32))
    return number


p = argparse.ArgumentParser()
for name in ("nodes", "node-rank", "port", "ranks-here", "steps"): p.add_argument("--" + name, type=int, required=True)
for name in ("addr", "folder"): p.add_argument("--" + name, required=True)
p.add_argument("--resume")
p.add_argument("--fail", default="")
p.add_argument("--ms", type=float, default=20)
a = p.parse_args()
folder = pathlib.Path(a.folder)
first = a.node_rank == 0
begin = int(pathlib.Path(a.resume).read_text()) if a.resume else 0
print(f"node {a.node_rank} of {a.nodes} on {socket.gethostname()}, {a.ranks_here} ranks, from step {begin}", flush=True)
others = meet(a)
for step in range(begin + 1, a.steps + 1):
    began = time.perf_counter()
    ranks = summed(a.ranks_here, others, first)
    time.sleep(1e-3 * a.ms)
    if step == 5 and a.fail == "oom" and a.node_rank == a.nodes - 1:
        print("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", file=sys.stderr, flush=True)
        os._exit(1)
    if first:
        print(f"step {step} loss {1 / step:.4f} in {1e3 * (time.perf_counter() - began):.2f} ms on {ranks} ranks", flush=True)
        if step % 5 == 0:
            (folder / "new").write_text(str(step))
            os.replace(folder / "new", folder / f"step-{step:06}.ckpt")
