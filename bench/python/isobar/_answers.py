"""Questions to the program, and its answers as types. `json` of each has all that the program printed."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, List, Mapping, Optional, Sequence, Tuple, Union, overload

from ._program import Config, Error, PathLike, asked, called, config_file, flat, option, set_words, text_of

if TYPE_CHECKING:
    import pandas

Json = Mapping[str, Any]
Layout = Union[Mapping[str, Any], str]  # of another engine: in words
_DOES_NOT_FIT = 4  # exit code of an answer that is no


@dataclass(frozen=True)
class Quantity:
    """A value with its 80 % interval."""

    value: float
    lower: float
    upper: float

    def __float__(self) -> float:
        return self.value


@dataclass(frozen=True)
class Term:
    name: str
    seconds: float


@dataclass(frozen=True)
class Prediction:
    """One optimizer step, and the memory of one rank. `terms` add up to the step (Isobar's engine alone)."""

    step_s: Quantity
    samples_per_s: Quantity
    memory_bytes: int
    memory_there_bytes: int
    fits: bool
    ranks: int
    machine: str
    layout: Layout
    terms: Tuple[Term, ...]
    warnings: Tuple[str, ...]
    json: Json = field(repr=False)


@dataclass(frozen=True)
class Candidate:
    """A layout of a search, with its chance to fit in memory."""

    layout: Layout
    step_s: float
    memory_bytes: int
    chance_to_fit: float


@dataclass(frozen=True)
class Tie:
    """A layout that cannot be set apart from the best, with its chance to be the fastest."""

    layout: Layout
    chance: float


@dataclass(frozen=True)
class Search:
    """The best layouts on `gpus` accelerators. Where none fits, `prediction` is None and `does_not_fit` says by how
    much."""

    gpus: int
    best: Tuple[Candidate, ...]
    ties: Tuple[Tie, ...]
    prediction: Optional[Prediction]
    does_not_fit: str
    json: Json = field(repr=False)


@dataclass(frozen=True)
class Trial:
    """A trial of a sweep. `run_class` is "ok", the class of its failure, or "" where none is known yet."""

    id: str
    name: str
    run_class: str
    message: str
    ranks: int
    settings: Mapping[str, Any]
    step_s: Optional[float]
    samples_per_s: Optional[float]


@dataclass(frozen=True)
class Sweep:
    folder: str
    complete: bool
    trials: Tuple[Trial, ...]
    skipped: Tuple[str, ...]
    json: Json = field(repr=False)


def _prediction(j: Json) -> Prediction:
    step = Quantity(j["step_s"], j["lower_s"], j["upper_s"])
    rate = j["samples_per_s"]
    return Prediction(
        step_s=step,
        samples_per_s=Quantity(rate, rate * step.value / step.upper, rate * step.value / step.lower),
        memory_bytes=int(j["memory_total_bytes"]),
        memory_there_bytes=int(j["memory_there_bytes"]),
        fits=j["fits"],
        ranks=j["ranks"],
        machine=j["machine"],
        layout=j["layout"],
        terms=tuple(Term(t["name"], t["seconds"]) for t in j.get("terms", ())),
        warnings=tuple(j.get("warnings", ())),
        json=j,
    )


def _search(j: Json) -> Search:
    if "does_not_fit" in j:
        return Search(j["gpus"], (), (), None, j["does_not_fit"], j)
    best = tuple(
        Candidate(b["layout"], b["step_s"], int(b["memory_total_bytes"]), b["chance_to_fit"]) for b in j["best"]
    )
    ties = j.get("ties", [])
    members = ties["members"] if isinstance(ties, Mapping) else ties
    return Search(j["gpus"], best, tuple(Tie(t["layout"], t["chance"]) for t in members), _prediction(j), "", j)


def _trial(j: Json) -> Trial:
    times = j.get("step_s") or {}
    return Trial(
        id=j["id"],
        name=j["name"],
        run_class=j.get("class", ""),
        message=j.get("message", ""),
        ranks=j["ranks"],
        settings=j["axes"],
        step_s=times.get("median"),
        samples_per_s=j.get("samples_per_s"),
    )


def predict(
    config: Config,
    *,
    machine: PathLike,
    fit: Optional[PathLike] = None,
    engine: Optional[str] = None,
    tuned: Optional[float] = None,
    ranks: Optional[int] = None,
    ranks_on_host: Optional[int] = None,
    **settings: Any,
) -> Prediction:
    """The step time of a configuration on a machine, as `isobar predict`. Settings are sections of the configuration:
    layout={"tp": 2}, policy={"amp": "bf16"}. What does not fit in memory is answered with fits=False."""
    words = _engine_words(machine, fit, engine, tuned)
    words += option("--ranks", ranks) + option("--ranks-on-host", ranks_on_host) + set_words(settings)
    with config_file(config) as file:
        return _prediction(asked(["predict", file, *words], (0, _DOES_NOT_FIT)))


@overload
def search(config: Config, *, machine: PathLike, gpus: int, **options: Any) -> Search: ...
@overload
def search(config: Config, *, machine: PathLike, gpus: Sequence[int], **options: Any) -> List[Search]: ...


def search(
    config: Config,
    *,
    machine: PathLike,
    gpus: Union[int, Sequence[int]],
    fit: Optional[PathLike] = None,
    engine: Optional[str] = None,
    tuned: Optional[float] = None,
    top: Optional[int] = None,
    fix: Sequence[str] = (),
    exclude: Sequence[str] = (),
    **settings: Any,
) -> Union[Search, List[Search]]:
    """The best layouts of a configuration on this number of accelerators, as `isobar search`; of several numbers, one
    answer each. fix=["tp=2..8"], exclude=["zero=3"]; settings as in predict()."""
    words = _engine_words(machine, fit, engine, tuned) + option("--top", top)
    for name, values in (("--gpus", [gpus] if isinstance(gpus, int) else gpus), ("--fix", fix), ("--exclude", exclude)):
        for value in [values] if isinstance(values, str) else values:
            words += option(name, value)
    with config_file(config) as file:
        answer = asked(["search", file, *words, *set_words(settings)], (0, _DOES_NOT_FIT))
    found = [_search(a) for a in (answer if isinstance(answer, list) else [answer])]
    return found[0] if isinstance(gpus, int) else found


def sweep(
    config: Config,
    *,
    results: Optional[PathLike] = None,
    machine: Optional[PathLike] = None,
    repeat: Optional[int] = None,
    dry_run: bool = False,
    retry_failed: bool = False,
    **axes: Any,
) -> Sweep:
    """Runs a sweep file, or a run configuration with axes, as `isobar sweep`: gpus=[1, 2], amp=["none", "bf16"],
    train={"global_batch": 8}. Lists are axes. A sweep that ended early continues where the same call is repeated."""
    words = option("--results", results) + option("--machine", machine) + option("--repeat", repeat)
    words += ["--dry-run"] * dry_run + ["--retry-failed"] * retry_failed
    words += [f"{key}={text_of(value)}" for key, value in flat(axes).items()]
    with config_file(config) as file:
        j = asked(["sweep", file, *words], (0, 1))
    trials = tuple(_trial(t) for t in j["trials"])
    return Sweep(j.get("results", ""), j.get("complete", False), trials, tuple(map(str, j["skipped_reasons"])), j)


def results(
    *folders: PathLike, machine: Optional[PathLike] = None, statistic: Optional[str] = None
) -> "pandas.DataFrame":
    """Every run of sweeps, or of a run's folder, with every setting and statistic as a column: the table runs.csv of
    `isobar report`. With a machine file also the predictions."""
    try:
        import pandas
    except ImportError as e:
        raise Error(f"isobar: results() gives a frame of pandas: {e} -> pip install 'isobar[frame]'", 2) from e
    words = [text_of(folder) for folder in folders] + option("--machine", machine) + option("--statistic", statistic)
    text = called(["report", "--runs", *words])
    return pandas.read_csv(io.StringIO(text), float_precision="round_trip")  # its own parser loses a digit


def _engine_words(
    machine: PathLike, fit: Optional[PathLike], engine: Optional[str], tuned: Optional[float]
) -> List[str]:
    return [
        *option("--machine", machine),
        *option("--fit", fit),
        *option("--engine", engine),
        *option("--tuned", tuned),
    ]
