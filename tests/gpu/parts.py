"""What tests/gpu.sh runs, part by part, the most valuable first. A part takes the session and the dict of its figures for
the JSON; it tells its lines as they come (Session.row) and runs what can fail by itself as cases (Session.case). It raises
Skip where it cannot run and Trouble where it ran and something is wrong."""

from attention import attention
from forecasts import configurations, predict
from nets import nets
from peers import peers
from ranks import ranks
from smoke import sanitizer, smoke
from speed import language, steps, trace

# Seconds that a part takes on an H100 with 16 cores, and what of the run of November 2026 they are taken from; its
# limit; and the remaining time below which it is not started.
ALL = {}
for _part, _expected, _seen, _most, _least in (
        (smoke, 60, "42 tests within 60 s, of which products took 25", 100, 10),
        (nets, 60, "whole nets of this size ended in 2 to 4 s, most of it starting", 110, 15),
        (steps, 75, "80 s on an H200: 8 runs of 16 to 40 steps, 6 s of products, and 5 s each to start", 120, 30),
        (language, 20, "22 s on an H200", 40, 15),
        (predict, 30, "ended within 60 s", 60, 25),
        (configurations, 60, "30 runs of 12 steps of 9 to 85 ms ended within 100 s", 100, 30),
        (ranks, 70, "12 layouts of 20 steps and a killed rank (2.5 s) within 150 s; now 5 steps each", 150, 30),
        (trace, 20, "8 runs of 24 steps ended within 45 s", 45, 20),
        (attention, 45, "all widths took 87 s on an H200, 58 cases; now 34", 80, 15),
        (peers, 115, "PyTorch's first compiled steps in 28 and 26 s, imports in 6 s, 30 steps each; on an H200 Llama's compilation did not end", 150, 30),
        (sanitizer, 15, "not reached", 60, 30)):
    _part.expected, _part.seen, _part.seconds, _part.least = _expected, _seen, _most, _least
    ALL[_part.__name__] = _part
