"""The program `isobar`: where it is, how it is called, what it says when it refuses."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import warnings
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

PathLike = Union[str, "os.PathLike[str]"]
Config = Union[PathLike, Mapping[str, Any]]

_HERE = pathlib.Path(__file__).resolve().parent


class Error(Exception):
    """What the program refused or failed at: its one line, which names the fix, and its exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.message = message
        self.code = code

    def __reduce__(self) -> Tuple[type, Tuple[str, int]]:
        return Error, (self.message, self.code)


class ProgramWarning(UserWarning):
    """A line that the program printed as a warning."""


def program() -> str:
    """The path of the program: $ISOBAR_PROGRAM, else the one in this package, else a build of its source tree, else
    `isobar` in PATH."""
    named = os.environ.get("ISOBAR_PROGRAM")
    if named:
        if not os.access(named, os.X_OK):
            raise Error(f"isobar: ISOBAR_PROGRAM: {named} is no program -> name the file isobar", 2)
        return named
    for beside in (_HERE / "bin" / "isobar", _HERE.parents[2] / "build" / "isobar"):
        if os.access(beside, os.X_OK):
            return str(beside)
    found = shutil.which("isobar")
    if found is None:
        raise Error(
            "isobar: the program is neither in this package nor in PATH -> install the wheel, or set ISOBAR_PROGRAM", 2
        )
    return found


def main() -> None:
    """The command of a wheel: becomes the program. Reports draw their figures by this Python where it can."""
    path = program()
    if importlib.util.find_spec("vl_convert") is not None:
        os.environ.setdefault("ISOBAR_REPORT_PYTHON", sys.executable)
    os.execv(path, [path, *sys.argv[1:]])


@contextlib.contextmanager
def config_file(config: Config) -> Iterator[str]:
    """The file of a configuration: a path, the name of one that comes with the program, or its keys."""
    if isinstance(config, Mapping):
        with tempfile.TemporaryDirectory(prefix="isobar-") as folder:
            file = pathlib.Path(folder) / "config.yaml"
            file.write_text(json.dumps(config, allow_nan=False) + "\n", encoding="utf-8")  # JSON is YAML
            yield str(file)
        return
    yield os.fspath(config)


def text_of(value: Any) -> str:
    """A value as YAML has it; several are separated by commas, which makes an axis of a sweep."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple, range)):
        return ",".join(text_of(v) for v in value)
    if isinstance(value, float):
        return json.dumps(value, allow_nan=False)
    if isinstance(value, (str, int, os.PathLike)):
        return os.fspath(value) if isinstance(value, os.PathLike) else str(value)
    raise TypeError(f"isobar: a setting is a string, a number or a list of them, not {type(value).__name__}")


def flat(settings: Mapping[str, Any]) -> Dict[str, Any]:
    """layout={"tp": 2} -> {"layout.tp": 2}"""
    out: Dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            out.update({f"{key}.{word}": inner for word, inner in flat(value).items()})
        else:
            out[key] = value
    return out


def set_words(settings: Mapping[str, Any]) -> List[str]:
    """Settings as --set options; a list is a list of YAML here."""
    words: List[str] = []
    for key, value in flat(settings).items():
        listed = isinstance(value, (list, tuple, range))
        words += ["--set", f"{key}={json.dumps(list(value), allow_nan=False) if listed else text_of(value)}"]
    return words


def option(name: str, value: Optional[Any]) -> List[str]:
    return [] if value is None else [name, text_of(value)]


def last_line(said: str) -> str:
    lines = [line for line in said.splitlines() if line.strip()]
    refusals = [line for line in lines if line.startswith("isobar")]
    return (refusals or lines or ["isobar: ended without a word"])[-1]


def warn_of(said: str) -> None:
    for line in said.splitlines():
        if line.startswith("warning: "):
            warnings.warn(line[len("warning: ") :], ProgramWarning, stacklevel=4)


def called(words: Sequence[str], answers: Sequence[int] = (0,)) -> str:
    """What the program prints. Raises Error for an exit code that is not among `answers`."""
    done = subprocess.run([program(), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")
    if done.returncode not in answers:
        raise Error(last_line(done.stderr), done.returncode)
    warn_of(done.stderr)
    return done.stdout


def asked(words: Sequence[str], answers: Sequence[int] = (0,)) -> Any:
    """The program's answer with --json."""
    printed = called([*words, "--json"], answers)
    try:
        return json.loads(printed)
    except json.JSONDecodeError:
        raise Error(f"isobar {words[0]}: printed no JSON: {printed[:80]!r}", 1) from None
