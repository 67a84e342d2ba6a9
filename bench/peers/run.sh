#!/usr/bin/env bash
# Compares Isobar with current PyTorch on this machine's CPU: prints step times and their ratio.
#
#   bench/peers/run.sh             # vit-small and vit-384, fp32 and bf16, all cores; some 20 minutes on 2
#   bench/peers/run.sh --help      # other configs, threads, rounds (arguments of compare.py)
#   bench/peers/run.sh --attention # attention alone, by tokens and head size, on one core (attention.py)
#   bench/peers/run.sh --setup-only
#
# PyTorch is installed from the package index into .venv-peers (some gigabytes, once). If it is there, the
# tests also load checkpoints with PyTorch (tests/engine/pytorch_checkpoint.py).
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"
cd "$ISOBAR_ROOT"

TORCH="${ISOBAR_PEER_TORCH:-torch}"  # another version: ISOBAR_PEER_TORCH=torch==2.9.1

if [[ "${1:-}" == --setup-only ]]; then
  setup_isobar --no-build
else
  setup_isobar
fi
python_env .venv-peers "$TORCH" numpy h5py safetensors || die "PyTorch could not be installed (see above)."
case "${1:-}" in
  --setup-only) ;;
  --attention) cmake --build build --target attention_benchmark && exec .venv-peers/bin/python bench/peers/attention.py "${@:2}" ;;
  *) exec .venv-peers/bin/python bench/peers/compare.py "$@" ;;
esac
