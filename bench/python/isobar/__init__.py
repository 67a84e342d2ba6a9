"""Isobar from Python: predictions, searches, sweeps and their results, and records of a training loop of your own.

Everything is answered by the program `isobar`; this package calls it. It imports the standard library alone; `results`
needs pandas.

    import isobar

    p = isobar.predict("vit-384", machine="dgx-h100", policy={"amp": "bf16"})
    print(p.step_s.value, p.step_s.lower, p.step_s.upper)

    with isobar.run("runs/mine", net="vit-tiny", train={"global_batch": 32}) as r:
        for batch in batches:
            r.step(loss=train(batch), samples=32)
"""

from ._answers import (
    Candidate,
    Prediction,
    Quantity,
    Search,
    Sweep,
    Term,
    Tie,
    Trial,
    predict,
    results,
    search,
    sweep,
)
from ._loop import End, Run, run
from ._program import Error, ProgramWarning, program

__all__ = [
    "Candidate",
    "End",
    "Error",
    "Prediction",
    "ProgramWarning",
    "Quantity",
    "Run",
    "Search",
    "Sweep",
    "Term",
    "Tie",
    "Trial",
    "predict",
    "program",
    "results",
    "run",
    "search",
    "sweep",
]
