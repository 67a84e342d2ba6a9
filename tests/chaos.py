#!/usr/bin/env python3
"""Kills the sweep, the trial, the supervisor between them, the database writer and the report writer at random, for a
while. Afterwards no result may be lost, corrupted or duplicated. Then a full disk and a read-only directory (as root).
Then real trainings that share one directory, started and killed at random: no weight of any of them may be lost.

    tests/chaos.py                        # ten minutes, over build/isobar and build/fake_train
    tests/chaos.py --seconds 20 --seed 7
    tests/chaos.py --only trainings       # or: sweeps

The stand-in trainer keeps an account of its own, by which the sweep's is judged.
"""
import argparse, collections, glob, hashlib, json, os, pathlib, random, shutil, signal, sqlite3, subprocess, sys, tempfile, time

ROOT = pathlib.Path(__file__).resolve().parents[1]
arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
arguments.add_argument("--seconds", type=float, default=600)
arguments.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
arguments.add_argument("--isobar", default=str(ROOT / "build/isobar"))
arguments.add_argument("--only", choices=["sweeps", "trainings"])
arguments.add_argument("--fake", default=str(ROOT / "build/fake_train"))
given = arguments.parse_args()
dice = random.Random(given.seed)
wrong, kills = [], collections.Counter()


def check(ok, what):
    if not ok:
        wrong.append(what)
        print("WRONG:", what)


def processes(entry, name=None):
    """Ids of the processes that were started with `entry` in their environment."""
    for folder in glob.glob("/proc/[0-9]*"):
        try:
            if entry.encode() in open(folder + "/environ", "rb").read().split(b"\0"):
                if name is None or open(folder + "/comm").read().strip() == name: yield int(folder[6:])
        except OSError:
            pass  # it is gone


def kill(pid, what):
    try:
        os.kill(pid, signal.SIGKILL)
        kills[what] += 1
        return True
    except ProcessLookupError:
        return False


class Round:
    """One sweep, from its first start to its end, with everything that happens to it."""

    def __init__(self, home, trials):
        self.home, self.results, self.out = home, home / "results", home / "report"
        self.log, self.tag = home / "log", f"FAKE_LOG={home}/log"
        self.log.touch()
        (home / "base.yaml").write_text("net: {embed_dim: 64, depth: 1}\ntrain: {global_batch: 8}\n")
        (home / "sweep.yaml").write_text(f"base: base.yaml\nsteps: 4\ngrace_s: 0.2\naxes: {{gpus: [1, 2], amp: [none, bf16], workers: "
                                         f"[0, 1, 2], micro_batch: [1, 2]}}\nrepetitions: {trials // 24}\n")
        self.trials = trials // 24 * 24
        self.env = dict(os.environ, FAKE_LOG=str(self.log), FAKE_STEP_MS="3")
        self.killed_trials, self.sweep, self.report = set(), None, None

    def command(self):
        return [given.isobar, "sweep", str(self.home / "sweep.yaml"), "--results", str(self.results), "--trainer", given.fake, "--json"]

    def start_sweep(self):
        self.sweep = subprocess.Popen(self.command(), env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def start_report(self):
        if (self.results / "index.sqlite").exists():
            self.report = subprocess.Popen([given.isobar, "report", str(self.results), "-o", str(self.out)],
                                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def torment(self):
        """One blow after a random while; False once the sweep has come to its end by itself."""
        if self.sweep is None or self.sweep.poll() is not None:
            if self.sweep is not None and self.sweep.returncode >= 0:
                check(self.sweep.returncode in (0, 1), f"the sweep ended with {self.sweep.returncode}")
                if self.sweep.returncode == 0: return False
            self.start_sweep()
        if self.report is None or self.report.poll() is not None: self.start_report()
        blow = dice.choice(["sweep", "trial", "supervisor", "database", "report", "report"])
        if blow == "database":  # in the middle of writing, as its files show
            deadline = time.time() + 2
            while time.time() < deadline and self.sweep.poll() is None:
                if any((self.results / f"index.sqlite{s}").exists() for s in ("-journal", ".new", ".new-journal")):
                    kill(self.sweep.pid, "database writer")
                    break
        else:
            time.sleep(dice.uniform(0.02, 0.9))
            if blow == "sweep" and self.sweep.poll() is None: kill(self.sweep.pid, "sweep")
            if blow == "report" and self.report and self.report.poll() is None: kill(self.report.pid, "report writer")
            if blow == "trial":
                victims = list(processes(self.tag, "fake_train"))
                if victims: kill(dice.choice(victims), "trial")
            if blow == "supervisor":
                victims = list(processes(self.tag, "isobar-watch"))
                if victims: kill(dice.choice(victims), "supervisor")
        if self.sweep.poll() is not None and self.sweep.returncode < 0: self.sweep.wait()
        return True

    def finish(self):
        for one in (self.sweep, self.report):
            if one and one.poll() is None: one.kill()
            if one: one.wait()
        for _ in range(4):  # a supervisor that was killed leaves a trial for the next sweep
            done = subprocess.run(self.command(), env=self.env, capture_output=True, text=True)
            if done.returncode == 0: break
        check(done.returncode == 0, f"the last sweep: {done.returncode} {done.stderr[-300:]}")
        report = subprocess.run([given.isobar, "report", str(self.results), "-o", str(self.out)], capture_output=True, text=True)
        check(report.returncode == 0, f"the report: {report.returncode} {report.stderr[-300:]}")
        page = (self.out / "index.html").read_text()
        check(page.rstrip().endswith("</html>"), "the report's page is cut off")
        self.judge(json.loads(done.stdout))

    def judge(self, summary):
        check(len(summary["trials"]) == self.trials, f"{len(summary['trials'])} trials of {self.trials}")
        check(not summary["problems"], f"problems: {summary['problems'][:3]}")
        account = collections.defaultdict(list)
        for line in open(self.log):
            word, trial = line.split()
            account[trial].append(word)
        rows = dict(sqlite3.connect(self.results / "index.sqlite").execute("SELECT id, class FROM runs").fetchall())
        sound = sqlite3.connect(self.results / "index.sqlite").execute("PRAGMA integrity_check").fetchone()[0]
        check(sound == "ok", f"the index: {sound}")
        check(len(rows) == self.trials, f"{len(rows)} rows in the index")
        for t in summary["trials"]:
            words, name = account[t["id"]], f"{t['id']} ({t['class']}, {words_of(account[t['id']])})"
            check(t["class"] in ("ok", "crash"), f"{name}: {t['message']}")
            check(words.count("end") <= 1, f"{name}: ended twice")
            if "end" in words: check(t["class"] == "ok" and words[-1] == "end", f"{name}: its result was lost, or it ran again")
            if "overlap" in words: check(False, f"{name}: two at a time")
            check(words.count("start") <= t["attempt"], f"{name}: more starts than attempts ({t['attempt']})")
            check(rows.get(t["id"]) == t["class"], f"{name}: {rows.get(t['id'])} in the index")
            folder = self.results / "trials" / t["id"]
            status = json.loads((folder / "status.json").read_text())
            check(status["class"] == t["class"], f"{name}: status.json says {status['class']}")
            if t["class"] == "ok":
                events = [json.loads(line) for line in open(folder / "result.jsonl")]
                check([e["event"] for e in events] == ["run_start"] + ["step"] * 4 + ["run_end"], f"{name}: {len(events)} events")
        left = [p for p in processes(self.tag) if p not in (os.getpid(),)]
        check(not left, f"processes left behind: {left}")


def words_of(words):
    return "/".join(words)


def remove(folder):
    """What drew charts for a report that was killed goes on for a moment, and writes there."""
    for _ in range(40):
        try:
            return shutil.rmtree(folder)
        except OSError:
            time.sleep(0.25)
    shutil.rmtree(folder)


def blows(home, seconds):
    deadline, rounds, trials = time.time() + seconds, 0, 0
    while time.time() < deadline:
        folder = home / f"round{rounds}"
        folder.mkdir()
        r = Round(folder, 24 if given.seconds < 60 else 120)
        while time.time() < deadline and r.torment():
            pass
        r.finish()
        rounds, trials = rounds + 1, trials + r.trials
        remove(folder)
    print(f"{trials} trials in {rounds} sweeps; killed: {dict(kills)}")


def disk(home):
    """A disk that is full, then one that is read-only, under a running sweep."""
    if os.geteuid() != 0: return print("SKIPPED: a full disk needs root")
    small = home / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(small)], capture_output=True).returncode != 0:
        return print("SKIPPED: no tmpfs can be mounted here")
    try:
        folder = home / "disk"
        folder.mkdir()
        r = Round(folder, 48)
        r.results = small / "results"
        done = subprocess.run(r.command(), env=r.env, capture_output=True, text=True)
        check(done.returncode != 0, "a full disk went unnoticed")
        errors = [line for line in done.stderr.splitlines() if line.startswith("isobar")]
        check(len(errors) == 1 and ("space" in errors[0] or "full" in errors[0]), f"full disk: {done.returncode} {done.stderr[-600:]}")
        ended = sum(line.startswith("end") for line in open(r.log))
        print(f"full disk after {ended} of {r.trials} trials: {errors[:1]}")
        subprocess.run(["mount", "-o", "remount,ro", str(small)], check=True)
        done = subprocess.run(r.command(), env=r.env, capture_output=True, text=True)
        errors = [line for line in done.stderr.splitlines() if line.startswith("isobar")]
        check(done.returncode == 2 and len(errors) == 1 and "Read-only" in errors[0], f"read-only: {done.returncode} {done.stderr[-600:]}")
        print(f"read-only directory: {errors[:1]}")
        subprocess.run(["mount", "-o", "remount,rw,size=64m", str(small)], check=True)
        r.finish()
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)


BLOCK = 4 << 20  # model/inference/weights/file_digest.h


def digest(file):
    data = file.read_bytes()
    blocks = (data[at:at + BLOCK] for at in range(0, len(data), BLOCK))
    return hashlib.sha256("".join(hashlib.sha256(b).hexdigest() for b in blocks).encode()).hexdigest()


class Shared:
    """One directory that many trainings are given: other seeds and rates, resumed from its end or its middle, or two at a
    time, and killed at random. What a training says it has written is looked at right after its end, and again at the
    end of all: the same files with the same bytes, and state.json with that training's seed and rate."""

    def __init__(self, home, steps):
        self.home, self.out, self.steps = home, home / "run", steps
        self.tag = f"CHAOS_RUN={home}"
        self.env = dict(os.environ, CHAOS_RUN=str(home), OMP_WAIT_POLICY="passive", OMPI_ALLOW_RUN_AS_ROOT="1",
                        OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        self.kept, self.seen, self.seed, self.spec = {}, 0, None, None  # kept: by checkpoint, (digests, state.json)
        self.over = False

    def events(self):
        try:
            lines = (self.out / "result.jsonl").read_text().splitlines()
        except FileNotFoundError:
            return []
        events = []
        for line in lines:
            try:
                events.append(json.loads(line))
            except ValueError:
                pass  # truncated by a kill
        return events

    def steps_done(self):
        return any(e["event"] == "step" for e in self.events())

    def start(self, **options):
        """One training with values of its own."""
        seed = options.get("seed", dice.randrange(1000))
        rate = options.get("rate", dice.choice(["1e-3", "2e-3", "5e-4"]))
        command = [given.isobar, "train", str(ROOT / "configs/models/vit-tiny.yaml"), "--ranks", dice.choice(["1", "2"])]
        if options.get("resume"): command += ["--resume", str(options["resume"])]
        for word in ["net.depth=1", "net.embed_dim=32", f"train.steps={self.steps}", "train.checkpoint_every=3", "run.threads=1",
                     f"train.seed={seed}", f"train.lr={rate}", f"run.out={self.out}"]:
            command += ["--set", word]
        return subprocess.Popen(command, env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True)

    def blow(self, child):
        """Kills it, or its mpiexec, or one of its ranks, after a random while, or lets it come to its end."""
        # Kills by the clock, or after some progress, which takes a varying time on a busy machine.
        until, more = time.time() + dice.choice([0.05, 0.5, 2, 60, 60]) * dice.uniform(0.5, 1.5), dice.randrange(12)
        begun = sum(e["event"] == "checkpoint" for e in self.events())
        while child.poll() is None and time.time() < until:
            if sum(e["event"] == "checkpoint" for e in self.events()) > begun + more: break
            time.sleep(0.01)
        time.sleep(dice.uniform(0, 0.02))
        if child.poll() is not None: return
        # Any of its processes: a rank, the launcher or the command.
        victims = [p for p in processes(self.tag) if p != os.getpid()]
        if victims: kill(dice.choice(victims), "training")
        try:
            child.wait(20)
        except subprocess.TimeoutExpired:
            check(False, "a training outlives the kill of one of its processes")
            for p in processes(self.tag): kill(p, "left over")
            child.wait()

    def attempt(self, kind=None):
        done, checkpoints = self.steps_done(), sorted(self.out.glob("checkpoints/step-????????"))
        before = len(self.events())
        kinds = ["anew"] + (["last"] * 4 + ["middle", "other seed", "two"] if checkpoints else [])
        kind = kind or dice.choice(kinds)
        options, refused = {}, False
        if kind == "anew":
            refused = done or bool(checkpoints)
        elif kind == "middle" and len(checkpoints) > 1:
            options, refused = {"resume": dice.choice(checkpoints[:-1]), "seed": self.seed}, True
        elif kind == "other seed":
            options, refused = {"resume": self.out, "seed": self.seed + 1}, True
        else:
            options = {"resume": self.out, "seed": self.seed}
        child = self.start(**options)
        if kind == "two":  # the second finds the directory in use, or the run finished
            second = self.start(**options)
            second.communicate()
        if refused:
            error = child.communicate()[1]
            check(child.returncode == 2 and error.count("isobar: ") == 1 and "->" in error, f"{kind}: {child.returncode} {error}")
            check(len(self.events()) == before, f"{kind}: refused, and wrote events")
        else:
            self.blow(child)
            child.stderr.close()
        deadline = time.time() + 20  # ranks of a killed mpiexec go by themselves
        while time.time() < deadline and any(p != os.getpid() for p in processes(self.tag)): time.sleep(0.05)
        check(not [p for p in processes(self.tag) if p != os.getpid()], "ranks left behind")
        self.look()
        if self.steps_done() and not any(self.out.glob("checkpoints/step-????????")):
            self.over = True  # killed before its first checkpoint: cannot be resumed

    def look(self):
        """Takes down the checkpoints that were announced since the last look."""
        events = self.events()
        for e in events[self.seen:]:
            if e["event"] == "run_start": self.spec = e["spec"]["train"]
            if e["event"] == "step": self.seed = self.spec["seed"]
            if e["event"] == "checkpoint":
                folder = pathlib.Path(e["path"])
                check(str(folder) not in self.kept, f"{folder} was announced twice")
                check(e["seconds"] > 2e-4, f"{folder} was written in {e['seconds']} s")
                self.kept[str(folder)] = None
                self.verify(folder, self.spec)
            if e["event"] == "run_end" and e["status"] == "ok": self.over = True
        self.seen = len(events)
        # A checkpoint that a kill kept from being announced must be intact as well.
        for folder in self.out.glob("checkpoints/step-????????"):
            if str(folder) not in self.kept: self.verify(folder, self.spec)

    def verify(self, folder, spec):
        """Whole by its own digests; and of the training that announced it."""
        try:
            state = json.loads((folder / "state.json").read_text())
            digests = {name: digest(folder / name) for name in ("model.safetensors", "optimizer.safetensors")}
        except (OSError, ValueError) as e:
            return check(False, f"{folder} is lost: {e}")
        for name, found in digests.items():
            check(state.get("files", {}).get(name, {}).get("digest") == found, f"{folder / name} is damaged")
        wrote = state["spec"]["train"] if "spec" in state else dict(seed=state["seed"], lr=spec["lr"])
        check(state["step"] == int(folder.name[5:]), f"{folder} is of step {state['step']}")
        check((wrote["seed"], wrote["lr"]) == (spec["seed"], spec["lr"]), f"{folder} is of {wrote['seed']}, {wrote['lr']}, announced by {spec['seed']}, {spec['lr']}")
        self.kept[str(folder)] = (digests, state)

    def judge(self):
        for folder, (digests, state) in self.kept.items():
            folder = pathlib.Path(folder)
            for name, found in digests.items():
                check((folder / name).exists() and digest(folder / name) == found, f"{folder / name} is not what was announced")
            check(json.loads((folder / "state.json").read_text()) == state, f"{folder} changed its training")


def trainings(home, seconds):
    deadline, attempts, checkpoints, runs = time.time() + seconds, 0, 0, 0
    while time.time() < deadline or (not checkpoints and runs < 10):  # until there are checkpoints to lose
        shared = Shared(home / f"shared{runs}", dice.choice([30, 300]))
        shared.home.mkdir()
        while not shared.over and (time.time() < deadline or not shared.kept):
            shared.attempt()
            attempts += 1
        for kind in ("anew", "middle", "other seed"):  # must be refused: the run is finished
            if shared.kept or kind == "anew": shared.attempt(kind)
        shared.judge()
        checkpoints, runs = checkpoints + len(shared.kept), runs + 1
        shutil.rmtree(shared.home)
    check(checkpoints > 0 and kills["training"] > 0, "no training came to a checkpoint, or none was killed")
    print(f"{attempts} trainings given {runs} directories, {checkpoints} checkpoints, {kills['training']} killed")


print(f"seed {given.seed}")
with tempfile.TemporaryDirectory(prefix="isobar-chaos-") as folder:
    home, both = pathlib.Path(folder), given.only is None
    if given.only != "trainings":
        blows(home, given.seconds / 2 if both else given.seconds)
        disk(home)
    if given.only != "sweeps": trainings(home, given.seconds / 2 if both else given.seconds)
sys.exit(bool(wrong))
