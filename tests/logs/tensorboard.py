"""Event files of the `tensorboard` package, as `isobar import --try` and as the package itself read them: tensors of
tf.summary's form and plain values.

    python3 tests/logs/tensorboard.py --isobar build/isobar
"""

import argparse
import random
import subprocess
import sys
import tempfile

ap = argparse.ArgumentParser()
ap.add_argument("--isobar", required=True)
a = ap.parse_args()
try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary import Writer
    from tensorboard.summary.writer.event_file_writer import EventFileWriter
except ImportError:
    print("SKIPPED: no tensorboard package")
    sys.exit(0)


def plain(folder, scalars):
    writer = EventFileWriter(folder)
    for step, time, value in scalars:
        value = Summary(value=[Summary.Value(tag="train/loss", simple_value=value)])
        writer.add_event(Event(step=step, wall_time=time, summary=value))
    writer.close()


def tensors(folder, scalars):
    writer = Writer(folder)
    for step, time, value in scalars:
        writer.add_scalar("train/loss", value, step, wall_time=time)
    writer.close()


for write in plain, tensors:
    with tempfile.TemporaryDirectory() as folder:
        time = 1.7e9
        scalars = []
        for step in range(1, 9):
            time += random.uniform(0.01, 2)
            scalars.append((step, time, random.uniform(0.1, 10)))
        write(folder, scalars)
        own = EventAccumulator(folder)
        own.Reload()
        if write is plain:
            want = [(e.step, e.wall_time, e.value) for e in own.Scalars("train/loss")]
        else:
            want = [(e.step, e.wall_time, e.tensor_proto.float_val[0]) for e in own.Tensors("train/loss")]
        said = subprocess.run([a.isobar, "import", "--try", folder], capture_output=True, text=True, check=True).stdout
        table = said[said.index("grad norm\n") + len("grad norm\n"):]
        rows = [line.split() for line in table.splitlines()[:8]]
        assert len(want) == 8, want
        before = None
        for (step, at, value), row in zip(want, rows):
            assert int(row[0]) == step and abs(float(row[2]) - value) < 1e-3 * value, (step, value, row)
            if before is None:
                assert row[3] == "-", row
            else:
                assert abs(float(row[3]) - 1e3 * (at - before)) < 1e-2 + 1e-3 * float(row[3]), (at - before, row)
            before = at
        print(f"{write.__name__}: 8 scalars are read alike")
