"""Records of a training loop of your own, which `isobar watch`, `report`, `check` and `fit` read like those of any run.

The program `isobar record` writes them; a step is in its file before step() returns, so that a loop that is killed
loses none."""

from __future__ import annotations

import json
import math
import subprocess
import tempfile
import traceback
from dataclasses import dataclass
from types import TracebackType
from typing import IO, Any, Dict, List, Mapping, Optional, Sequence, SupportsFloat, Tuple, Type, Union

from ._program import Config, Error, PathLike, config_file, last_line, option, program, set_words, text_of


@dataclass(frozen=True)
class End:
    """How a run ended: `status` is "ok" or "failed", `run_class` then the class of the failure."""

    status: str
    run_class: str
    message: str
    steps: int
    step_s: Optional[float]
    samples_per_s: Optional[float]


class Run:
    """A run that is being recorded; run() makes it. On several ranks it is made on one of them."""

    def __init__(self, config: Config, words: Sequence[str]) -> None:
        self._config = config
        self._words = list(words)
        self._process: Optional[subprocess.Popen[bytes]] = None
        self._errors: IO[bytes]
        self._last = 0
        self.end: Optional[End] = None  # set when the block is left

    def __enter__(self) -> Run:
        with config_file(self._config) as file:
            self._errors = tempfile.TemporaryFile()
            # In a session of its own: Ctrl-C is meant for the loop.
            self._process = subprocess.Popen(
                [program(), "record", file, *self._words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                start_new_session=True,
            )
            self._answer()  # run_start: the configuration has been read
        return self

    def step(
        self,
        loss: Optional[SupportsFloat] = None,
        *,
        samples: Optional[SupportsFloat] = None,
        tokens: Optional[SupportsFloat] = None,
        seconds: Optional[SupportsFloat] = None,
        step: Optional[int] = None,
        epoch: Optional[int] = None,
        lr: Optional[SupportsFloat] = None,
        grad_norm: Optional[SupportsFloat] = None,
        accuracy: Optional[SupportsFloat] = None,
        data_wait_s: Optional[SupportsFloat] = None,
    ) -> None:
        """Records an optimizer step: the next one, unless `step` says which. `samples` or `tokens` are those of the
        step over all ranks; `seconds` its time, else the time since the call before. A GPU's work has to be over, as it
        is where the loss is read."""
        self._last = self._last + 1 if step is None else step
        numbers = {
            "loss": loss,
            "samples": samples,
            "tokens": tokens,
            "seconds": seconds,
            "lr": lr,
            "grad_norm": grad_norm,
            "accuracy": accuracy,
            "data_wait_s": data_wait_s,
        }
        self._record("step", {"step": self._last, "epoch": epoch, **numbers})

    def valid(
        self,
        loss: Optional[SupportsFloat] = None,
        *,
        seconds: SupportsFloat = 0,
        rmse: Sequence[SupportsFloat] = (),
        mae: Sequence[SupportsFloat] = (),
        accuracy: Optional[SupportsFloat] = None,
    ) -> None:
        """Records a validation after the last step; `rmse` and `mae` have one value a target."""
        values: Dict[str, Any] = {"loss": loss, "seconds": seconds, "accuracy": accuracy}
        for key, per_target in (("rmse", rmse), ("mae", mae)):
            if len(per_target) > 0:
                values[key] = [float(v) for v in per_target]
        self._record("valid", {"step": self._last, **values})

    def checkpoint(self, path: PathLike, *, seconds: SupportsFloat = 0) -> None:
        """Records that a checkpoint was written after the last step."""
        self._record("checkpoint", {"step": self._last, "path": text_of(path), "seconds": seconds})

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        said: Dict[str, Any] = {"status": "ok", "peak_rss_bytes": _peak_rss_bytes()}
        ended_well = kind is None or (isinstance(error, SystemExit) and not error.code)
        if not ended_well:
            said["status"] = "failed"
            said["message"] = "".join(traceback.format_exception_only(kind, error)).strip()
            if isinstance(error, KeyboardInterrupt):
                said["class"] = "interrupted"
        if self._process is None or self._process.poll() is not None:
            return  # the error that ended it has been raised
        end = self._record("run_end", said)
        self.end = End(
            status=end["status"],
            run_class=end.get("class", "ok"),
            message=end.get("message", ""),
            steps=end.get("steps", self._last),
            step_s=end.get("step_s", {}).get("median"),
            samples_per_s=end.get("samples_per_s"),
        )
        self._close()

    def _record(self, event: str, values: Mapping[str, Any]) -> Dict[str, Any]:
        """Sends one record, and waits until it is written."""
        if self._process is None or self._process.stdin is None:
            raise Error("isobar: a run records inside its `with` block -> with isobar.run(…) as r: r.step(…)", 2)
        line = json.dumps({"event": event, **{k: _plain(v) for k, v in values.items() if v is not None}})
        try:
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # its last words say why
        answer = self._answer()
        while answer["event"] != event:  # of a call that Ctrl-C ended before its answer came
            answer = self._answer()
        return answer

    def _answer(self) -> Dict[str, Any]:
        assert self._process is not None and self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.endswith(b"\n"):
            code, said = self._close()
            raise Error(last_line(said), code)
        answer: Dict[str, Any] = json.loads(line)
        return answer

    def _close(self) -> Tuple[int, str]:
        """The exit code of the recorder, and what it said."""
        assert self._process is not None
        for stream in (self._process.stdin, self._process.stdout):
            try:
                if stream is not None:
                    stream.close()
            except BrokenPipeError:
                pass  # what was not read is in its last words
        code = self._process.wait()
        with self._errors:
            self._errors.seek(0)
            return code, self._errors.read().decode(errors="replace")


def run(
    out: PathLike,
    *,
    net: Union[PathLike, Mapping[str, Any]],
    steps: Optional[int] = None,
    name: Optional[str] = None,
    tags: Sequence[str] = (),
    note: Optional[str] = None,
    **settings: Any,
) -> Run:
    """Records a loop of your own into the folder `out`.

    `net` is what trains: a configuration (a file, or the name of one that comes with the program), or the keys of its
    net section; `steps` the expected length, for the time that is left. Settings are sections as in predict(): layout={"dp": 4}, train={"global_batch": 32}.

        with isobar.run("runs/mine", net="vit-tiny", train={"global_batch": 32}) as r:
            for batch in batches:
                r.step(loss=train(batch), samples=32)
    """
    config: Config = {"net": dict(net)} if isinstance(net, Mapping) else net
    words: List[str] = [*set_words(settings), "--set", f"run.out={text_of(out)}"]
    if steps is not None:
        words += ["--set", f"train.steps={steps}"]
    for tag in tags:
        words += ["--tag", tag]
    return Run(config, [*words, *option("--name", name), *option("--note", note)])


def _plain(value: Any) -> Any:
    """A number as JSON has it: null where it is not finite."""
    if isinstance(value, (str, bool, int, list)):
        return value
    number = float(value)
    return number if math.isfinite(number) else None


def _peak_rss_bytes() -> int:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
