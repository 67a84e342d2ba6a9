#!/usr/bin/env python3
"""Plays a PBS (qsub, qstat, qselect, qdel, PALS' mpiexec) for `isobar sweep --launcher pbs`, strictly by OpenPBS' rules:
a job starts in the home directory with a clean environment and PBS' own variables, directives count only before the
first command, and unknown ones are refused. Then checks what a sweep over it left behind.

    tests/cluster/pbs.py --isobar build/isobar --fake build/fake_train --slow-disk build/tests/libslow_disk.so

With --slow-disk also: one real training through as many jobs as it takes (tests/cluster/pbs_chain.py).
"""
import argparse, json, os, pathlib, re, shlex, signal, subprocess, sys, tempfile, time

# The trainer is a stand-in, so the machine may be one that the engine does not run on.
PLAYED = {"accelerator": {"vendor": "nvidia"}}
TILES = ["1-8", "9-16", "17-24", "25-32", "33-40", "41-48",  # socket 0; core 0 is the system's
         "53-60", "61-68", "69-76", "77-84", "85-92", "93-100"]  # socket 1; so is core 52



def load(home, job):
    return json.loads((home / "server" / job / "about.json").read_text())


def save(home, job, about):
    file = home / "server" / job / "about.json"
    file.with_suffix(".new").write_text(json.dumps(about))
    os.replace(file.with_suffix(".new"), file)


# ---- qsub
def directives_of(script):
    found = []
    lines = script.read_text().splitlines()
    assert lines[0].startswith("#!"), "no shell named"
    for line in lines[1:]:
        if line.startswith("#PBS "):
            found.append(line[5:])
        elif line.strip() and not line.startswith("#"):
            break
    return found


def parse_directives(found):
    want = {"resources": {}}
    for text in found:
        words = text.split()
        option, value = words[0], " ".join(words[1:])
        if option == "-l":
            for part in value.split(",") if not value.startswith("select") else [value]:
                name, _, amount = part.partition("=")
                if name == "select" and not re.fullmatch(r"\d+(:[a-z_]+=[\w.]+)*", amount): sys.exit("qsub: illegal -l select")
                if name == "walltime" and not re.fullmatch(r"\d+:[0-5]\d:[0-5]\d", amount): sys.exit("qsub: illegal walltime")
                if name == "place" and amount not in ("scatter:excl", "scatter"): sys.exit("qsub: illegal place")
                want["resources"][name] = amount
        elif option == "-N":
            if not re.fullmatch(r"[A-Za-z][\w.+-]{0,14}", value): sys.exit("qsub: illegal -N value")
            want["name"] = value
        elif option in ("-q", "-A", "-o", "-k"):
            want[option] = value
        elif option == "-j" and value in ("oe", "eo"):
            want[option] = value
        elif option == "-r" and value in ("y", "n"):
            want[option] = value
        elif option == "-W" and re.fullmatch(r"depend=after(any|ok):[\w.]+", value):
            want[option] = value
        else:
            sys.exit(f"qsub: illegal option {text}")
    for needed in ("select", "walltime"):
        if needed not in want["resources"]: sys.exit(f"qsub: {needed} is missing")
    if want.get("-q") not in ("debug", "debug-scaling"): sys.exit("qsub: Unknown queue")
    return want


def qsub(home, script):
    want = parse_directives(directives_of(pathlib.Path(script)))
    number = 1 + len(list((home / "server").glob("*.player")))
    job = f"{number}.player"
    (home / "server" / job).mkdir()
    about = {"Job_Name": want["name"], "job_state": "Q", "want": want, "workdir": os.getcwd(),
             "script": str(pathlib.Path(script).resolve())}
    save(home, job, about)
    subprocess.Popen([sys.executable, __file__, "--mom", job], start_new_session=True, close_fds=True,
                     stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=open(home / "server" / job / "mom", "w"))
    print(job)


def mom(home, job):
    """Runs one job as the first node's daemon would."""
    about = load(home, job)
    resources = about["want"]["resources"]
    select = dict(x.split("=") for x in resources["select"].split(":")[1:])
    nodes = [f"x{1000 + i}c0s0b0n0" for i in range(int(resources["select"].split(":")[0]))]
    nodefile = home / "server" / job / "nodefile"
    nodefile.write_text("".join(f"{n}.hsn\n" * int(select["mpiprocs"]) for n in nodes))
    hours, minutes, seconds = map(int, resources["walltime"].split(":"))
    limit = min(3600 * hours + 60 * minutes + seconds, float(os.environ.get("PBS_PLAYER_LIMIT", "1e9")))
    held = {k: v for k, v in os.environ.items() if k in ("ISOBAR_MAX_ISA", "ONEDNN_MAX_CPU_ISA")}  # of the machine
    env = held | {"HOME": str(home / "home"), "USER": "player", "PATH": f"{home}/bin:/usr/bin:/bin", "SHELL": "/bin/bash",
           "PBS_PLAYER": str(home), "PBS_JOBID": job, "PBS_JOBNAME": about["Job_Name"], "PBS_NODEFILE": str(nodefile),
           "PBS_O_WORKDIR": about["workdir"], "PBS_O_HOST": "login", "PBS_O_QUEUE": about["want"]["-q"],
           "PBS_QUEUE": about["want"]["-q"], "PBS_ENVIRONMENT": "PBS_BATCH", "PBS_JOBDIR": str(home / "home"),
           "PBS_JOBCOOKIE": "0" * 16, "PBS_NODENUM": "0", "PBS_TASKNUM": "1", "PBS_MOMPORT": "15003", "NCPUS": select["ncpus"]}
    out = open(pathlib.Path(about["workdir"]) / about["want"]["-o"], "a")
    process = subprocess.Popen(["/bin/bash", "-l", about["script"]], cwd=home / "home", env=env, stdin=subprocess.DEVNULL,
                               stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
    about.update(job_state="R", session=process.pid, run_count=1, exec_host="+".join(f"{n}/0*{select['ncpus']}" for n in nodes),
                 Resource_List={"select": resources["select"], "nodect": len(nodes), "walltime": resources["walltime"]})
    save(home, job, about)
    late, begin = False, time.time()
    while process.poll() is None:
        if time.time() - begin > limit and not late:
            late = True
            os.killpg(process.pid, signal.SIGTERM)
        time.sleep(0.05)
    status = -29 if late else 256 - process.returncode if process.returncode < 0 else process.returncode
    if (home / "server" / job / "deleted").exists(): status = 271
    used = round(time.time() - begin)
    about.update(job_state="F", substate=92, Exit_status=status,
                 resources_used={"cput": "00:00:00", "walltime": f"{used // 3600:02}:{used // 60 % 60:02}:{used % 60:02}"})
    save(home, job, about)


def qstat(home, words):
    assert words[:4] == ["-x", "-f", "-F", "json"], words
    known, missing = {}, False
    for job in words[4:]:
        if known: break  # as OpenPBS does (2672): an answer about several jobs may hold only one
        if (home / "server" / job).exists():
            known[job] = load(home, job)
        else:
            missing = True
            print(f"qstat: Unknown Job Id {job}", file=sys.stderr)
    print(json.dumps({"timestamp": int(time.time()), "pbs_version": "23.06.06", "pbs_server": "player", "Jobs": known}))
    sys.exit(153 if missing else 0)


def qselect(home, words):
    assert words[:2] == ["-x", "-N"], words
    for job in sorted((home / "server").glob("*.player")):
        if load(home, job.name)["Job_Name"] == words[2]: print(job.name)


def qdel(home, job):
    (home / "server" / job / "deleted").touch()
    os.killpg(load(home, job)["session"], signal.SIGTERM)


# ---- PALS' mpiexec
def mpiexec(home, words):
    parser = argparse.ArgumentParser(prog="mpiexec", allow_abbrev=False)
    parser.add_argument("-n", type=int, required=True)
    parser.add_argument("--ppn", type=int, required=True)
    parser.add_argument("--hosts", required=True)
    parser.add_argument("--cpu-bind")
    parser.add_argument("--genvall", action="store_true")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    a = parser.parse_args(words)
    hosts, nodes = a.hosts.split(","), list(dict.fromkeys(open(os.environ["PBS_NODEFILE"]).read().split()))
    assert set(hosts) <= set(nodes), "a host outside of the job"
    assert a.n <= a.ppn * len(hosts), "more ranks than places"
    binding = a.cpu_bind.removeprefix("list:").split(":") if a.cpu_bind else []
    assert not binding or len(binding) >= min(a.n, a.ppn)
    ranks = []
    with open(home / "mpiexec.log" if "ISOBAR_TRIAL" in os.environ else os.devnull, "a") as log:
        for rank in range(a.n):
            local = rank % a.ppn
            log.write(json.dumps({"trial": os.environ.get("ISOBAR_TRIAL"), "rank": rank, "node": hosts[rank // a.ppn], "local": local,
                                  "cores": binding[local] if binding else "", "home": os.getcwd(),
                                  "omp": os.environ.get("OMP_NUM_THREADS")}) + "\n")
    guest = any(word.startswith("ISOBAR_NODES=") for word in a.command)
    for rank in range(a.n) if guest else (0,):  # the stand-in trainer works alone
        env = dict(os.environ, PALS_RANKID=str(rank), PALS_LOCAL_RANKID="0", PALS_LOCAL_SIZE=str(min(a.n, a.ppn)))
        if guest: env["PALS_SIZE"] = str(a.n)
        ranks.append(subprocess.Popen(a.command, env=env))
    signal.signal(signal.SIGUSR1, lambda *_: [r.send_signal(signal.SIGUSR1) for r in ranks if r.poll() is None])
    sys.exit(max(r.wait() if r.wait() >= 0 else 128 - r.returncode for r in ranks))


# ---- the test
def install(home):
    """The player's commands and its server in a folder; the environment that finds them."""
    for d in ("bin", "server", "home", "work dir"): (home / d).mkdir()
    for name in ("qsub", "qstat", "qselect", "qdel", "mpiexec"):
        script = home / "bin" / name
        script.write_text(f"#!/bin/sh\nPBS_PLAYER={shlex.quote(str(home))} exec {shlex.quote(sys.executable)} {shlex.quote(os.path.abspath(__file__))} --as {name} \"$@\"\n")
        script.chmod(0o755)
    (home / "home" / ".bash_profile").write_text(f"module() {{ echo \"module $*\"; }}\nPATH={shlex.quote(str(home))}/bin:$PATH\n")
    return dict(os.environ, PATH=f"{home}/bin:{os.environ['PATH']}", PBS_PLAYER=str(home))


def jobs_of(home):
    return [load(home, j.name) for j in sorted((home / "server").glob("*.player"))]


def node_seconds(home):
    return sum(sum(60 ** i * int(x) for i, x in enumerate(reversed(j["resources_used"]["walltime"].split(":"))))
               * j["Resource_List"]["nodect"] for j in jobs_of(home))


def test(isobar, fake, slow_disk):
    wrong = []
    def check(ok, what):
        if not ok: wrong.append(what)

    with tempfile.TemporaryDirectory(prefix="isobar-pbs-") as folder:
        home = pathlib.Path(folder)
        env = install(home)
        trainer = home / "trainer"
        trainer.write_text(f"#!/bin/bash\necho \"${{@:7}}\" >> {shlex.quote(str(home))}/options\nexec {shlex.quote(fake)} train \"$2\" --ranks 1 --set \"$6\"\n")
        trainer.chmod(0o755)
        (home / "modules.sh").write_text("export MODULES_SEEN=$1\n")
        root = pathlib.Path(__file__).resolve().parents[2]
        evil = "a'b \"c\" $(touch pwned) ; `touch pwned` $HOME"
        # besides what configs/machines/aurora.yaml says: 12 tiles a node and their cores
        cluster = {"account": "Project", "modules": ["frameworks"],
                   "preamble": [["source", str(home / "modules.sh"), evil], ["printenv", "MODULES_SEEN"]],
                   "environment": {"EVIL": evil, "FAKE_STEP_MS": 2},
                   "poll_s": 0.2, "fence_s": 2, "job_time_s": 300, "max_jobs": 3}
        machine = home / "machine.yaml"
        machine.write_text(json.dumps({"inherits": str(root / "configs/machines/aurora.yaml"), **PLAYED, "cluster": cluster}))
        base = home / "base.yaml"
        base.write_text("net: {embed_dim: 16, num_heads: 2, depth: 1, img_height: 16, img_width: 16, in_channels: 1, out_channels: 1}\n"
                        "train: {global_batch: 24}\nrun: {device: cuda}\n")
        sweep = home / "sweep.yaml"
        # 101 segv, 106 numeric, 107 bad_config, 108 never begins, 114 has no end
        sweep.write_text("base: base.yaml\nsteps: 4\ntimeout_s: 10\nhang_s: 8\ngrace_s: 0.2\n"
                         "axes: {gpus: [1, 12, 24], train.seed: [0, 101, 106, 107, 108, 114]}\n")
        command = [isobar, "sweep", str(sweep), "--results", str(home / "work dir" / "res'ults $(touch pwned)"), "--launcher", "pbs",
                   "--machine", str(machine), "--trainer", str(trainer), "--rank-output", "files", "--json"]
        done = subprocess.run(command, env=env, cwd=home / "work dir", capture_output=True, text=True, timeout=900)
        if os.environ.get("ISOBAR_KEEP"): subprocess.run(["cp", "-r", str(home), os.environ["ISOBAR_KEEP"]])
        if done.returncode != 0: sys.exit(f"sweep: {done.returncode}\n{done.stdout}{done.stderr}")
        summary = json.loads(done.stdout)
        classes = {0: "ok", 101: "crash", 106: "numeric", 107: "bad_config", 108: "launch_fail", 114: "timeout"}
        check(len(summary["trials"]) == 18, "18 trials")
        for t in summary["trials"]:
            want = classes[t["axes"]["train.seed"]]
            check(t["class"] == want, f"seed {t['axes']['train.seed']} ranks {t['ranks']}: {t['class']} ({t['message']}), not {want}")
        # placement and binding: 12 tiles a node, ranks fill a node first, cores as listed
        placed = [json.loads(line) for line in open(home / "mpiexec.log")]
        for p in placed:
            check(p["local"] == p["rank"] % 12 and p["cores"] == TILES[p["rank"] % 12], f"binding of rank {p['rank']}: {p}")
            check(p["node"] == f"x{1000 + p['rank'] // 12}c0s0b0n0.hsn", f"node of rank {p['rank']}: {p}")
            check(p["home"] == str((home / "work dir").resolve()), f"started in {p['home']}")
            check(p["omp"] == "1", "the environment of the machine file")
        check(max(p["rank"] for p in placed) == 23, "24 ranks over two nodes")
        options = (home / "options").read_text().splitlines()
        check(len(options) >= 18 and set(options) == {"--rank-output files"}, f"--rank-output of the trials: {options}")
        books = summary["accounting"]
        took = node_seconds(home)
        check(books["jobs"] == len(list((home / "server").glob("*.player"))) and books["node_s"] == took,
              f"accounting: {books}, and the player's books say {took} node seconds")
        jobs = jobs_of(home)
        check({j["want"]["resources"]["select"] for j in jobs} == {"1:ncpus=104:mpiprocs=12", "2:ncpus=104:mpiprocs=12"},
              f"node counts of the jobs: {[j['want']['resources']['select'] for j in jobs]}")
        check(all(j["want"]["resources"]["filesystems"] == "home:flare" and j["want"]["-A"] == "Project" for j in jobs), "directives")
        outs = [f.read_text() for f in (home / "work dir").glob("res*/jobs/*/out")]
        check(all("module load frameworks" in o for o in outs), "modules are loaded")
        check(outs and all(evil in o for o in outs), "a preamble's words arrive as they are")
        for place in (home, home / "work dir", home / "home"): check(not (place / "pwned").exists(), "a word reached a shell")
        maps = [json.loads(f.read_text()) for f in (home / "work dir").glob("res*/trials/*/launch_map.json")]
        check(sorted({len(m) for m in maps}) == [1, 12, 24], "launch maps")
        # a job that PBS ends at its walltime: the trial is cut off, tried again, and in the end a timeout
        slow = home / "slow.yaml"
        slow.write_text("base: base.yaml\nsteps: 4\ntimeout_s: 60\nhang_s: 0\ngrace_s: 0.2\naxes: {train.seed: [114]}\n")
        machine.write_text(json.dumps({"inherits": str(root / "configs/machines/aurora.yaml"), **PLAYED, "cluster": dict(cluster, retries=1)}))
        command[2:5] = [str(slow), "--results", str(home / "slow")]
        done = subprocess.run(command, env=dict(env, PBS_PLAYER_LIMIT="8"), cwd=home, capture_output=True, text=True, timeout=600)
        t = json.loads(done.stdout)["trials"][0]
        check((t["class"], t["attempt"]) == ("timeout", 2), f"walltime: {t['class']} ({t['message']}) after {t['attempt']} attempts")
        # refused by the scheduler: one line that says where to fix it
        machine.write_text(json.dumps({"inherits": str(root / "configs/machines/aurora.yaml"), **PLAYED, "cluster": dict(cluster, queue="nope")}))
        command[4] = str(home / "refused")
        done = subprocess.run(command, env=env, cwd=home, capture_output=True, text=True, timeout=300)
        check(done.returncode == 2 and "Unknown queue" in done.stderr and "machine.yaml" in done.stderr, f"refusal: {done.returncode} {done.stderr}")
    import pbs_guest
    pbs_guest.test(isobar, check)
    if slow_disk:
        import pbs_chain
        pbs_chain.test(isobar, slow_disk, check)
        pbs_chain.test_damaged(isobar, slow_disk, check)
    for w in wrong: print("WRONG:", w)
    print(f"{len(summary['trials'])} trials through {len(jobs)} PBS jobs: {summary['counts']}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    if sys.argv[1] == "--as":
        name, words, home = sys.argv[2], sys.argv[3:], pathlib.Path(os.environ["PBS_PLAYER"])
        {"qsub": lambda: qsub(home, words[0]), "qstat": lambda: qstat(home, words), "qselect": lambda: qselect(home, words),
         "qdel": lambda: qdel(home, words[0]), "mpiexec": lambda: mpiexec(home, words)}[name]()
    elif sys.argv[1] == "--mom":
        mom(pathlib.Path(os.environ["PBS_PLAYER"]), sys.argv[2])
    else:
        arguments = argparse.ArgumentParser(description=__doc__)
        arguments.add_argument("--isobar", required=True)
        arguments.add_argument("--fake", required=True)
        arguments.add_argument("--slow-disk")
        given = arguments.parse_args()
        test(os.path.abspath(given.isobar), os.path.abspath(given.fake), given.slow_disk and os.path.abspath(given.slow_disk))
