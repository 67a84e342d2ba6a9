"""The JSON schemas of run, sweep and machine files take every shipped one, and refuse what the commands refuse.

    python3 tests/cli/schema.py --isobar build/isobar         # exit 77: no jsonschema or yaml for this Python
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys

try:
    import jsonschema
    import yaml
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Loader(yaml.SafeLoader):
    """YAML 1.2's numbers: 1e-3 is one. No dates."""


Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in rules if not tag.endswith((":float", ":timestamp"))]
    for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$"), list("-+.0123456789"))


def validator(isobar, kind):
    text = subprocess.run([isobar, "config", "schema", kind], capture_output=True, text=True, check=True).stdout
    schema = json.loads(text)
    jsonschema.Draft7Validator.check_schema(schema)
    return jsonschema.Draft7Validator(schema)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--isobar", required=True)
    isobar = parser.parse_args().isobar
    failed = []
    run, sweep, machine = (validator(isobar, kind) for kind in ("run", "sweep", "machine"))
    taken = 0
    for folder, check in (("models", run), ("sweeps", sweep), ("machines", machine)):
        for file in sorted((ROOT / "configs" / folder).glob("*.yaml")):
            taken += 1
            for error in check.iter_errors(yaml.load(file.read_text(), Loader)):
                failed.append(f"{file.relative_to(ROOT)}: {'.'.join(map(str, error.path))}: {error.message[:200]}")
    # A whole configuration, as the command prints it
    for name in ("vit-tiny", "aurora-tiny", "llama3-8b", "mlp-classifier"):
        shown = subprocess.run([isobar, "config", "show", str(ROOT / f"configs/models/{name}.yaml"), "--json"], capture_output=True, text=True, check=True)
        for error in run.iter_errors(json.loads(shown.stdout)):
            failed.append(f"config show {name}: {'.'.join(map(str, error.path))}: {error.message[:200]}")
    refused = [
        (run, {"train": {"batch_size": 3}}),
        (run, {"train": {"lr": -1}}),
        (run, {"train": {"valid_every": "epochs"}}),
        (run, {"train": {"steps": 1.5}}),
        (run, {"policy": {"amp": "half"}}),
        (run, {"net": {"kind": "gpt", "patch_size": 4}}),
        (run, {"nets": {}}),
        (sweep, {"axes": {"gpus": [1]}}),
        (sweep, {"base": "a.yaml", "axes": {"policy.amp": ["half"]}}),
        (sweep, {"base": "a.yaml", "axis": {}}),
        (sweep, {"base": "a.yaml", "order": "any"}),
        (machine, {"identity": {"cores": 2, "memory_bytes": 1, "cache_bytes": 1, "colour": 1}}),
        (machine, {"accelerator": {"memory_bytes": -1}}),
    ]
    failed += [f"takes {value}" for check, value in refused if check.is_valid(value)]
    allowed = [
        (run, {"train": {"valid_every": "epoch", "epochs": 3}}),
        (run, {"train": {"valid_every": 5}, "net": {"kind": "gpt", "depth": 4}}),
        (sweep, {"base": "a.yaml", "axes": {"gpus": [1, 2], "tp": "any", "policy": {"amp": ["none", "bf16"]}}, "exclude": "tp * pp > 4"}),
    ]
    failed += [f"refuses {value}" for check, value in allowed if not check.is_valid(value)]
    print("\n".join(failed[:40]) or f"{taken} files, {len(refused)} refusals as wanted")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
