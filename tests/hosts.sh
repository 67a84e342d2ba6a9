#!/usr/bin/env bash
# Two emulated hosts: network namespaces with names and a core each, joined by one cable of limited rate. Tensor
# parallelism across the cable is timed against tensor parallelism inside the hosts: the same net, the same ranks, only
# layout.order differs.
#
#   sudo tests/hosts.sh                            # 2 hosts x 2 ranks, 1 Gbit/s; prints a table; half a minute
#   sudo ISOBAR_LINK=200mbit tests/hosts.sh --json FILE
#
# The machine file that predicts is measured in the same two hosts: one host alone, then the cable. Fails unless tensor
# parallelism across the cable loses, in measurement and in prediction. Nothing is left behind. Needs root, ip and tc.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

ISOBAR="${ISOBAR:-$PWD/build/isobar}"
LINK="${ISOBAR_LINK:-1gbit}"
STEPS="${ISOBAR_STEPS:-12}"
skip() { echo "SKIPPED: $*"; exit 0; }
((EUID == 0)) || skip "two emulated hosts need root"
for tool in ip tc mpiexec unshare taskset python3; do command -v "$tool" >/dev/null || skip "$tool is not installed"; done
[[ -x "$ISOBAR" ]] || { echo "build first: $ISOBAR is missing" >&2; exit 1; }

work="$(mktemp -d "${TMPDIR:-/tmp}/isobar-hosts-XXXXXX")"
near="isobar-near-$$" far="isobar-far-$$"  # names of namespaces and of hosts
finish() {
  ip netns del "$near" 2>/dev/null || true  # the cable goes with its ends
  ip netns del "$far" 2>/dev/null || true
  rm -rf "$work"
}
trap finish EXIT
ip netns add "$near" 2>"$work/why" || skip "no network namespaces here: $(cat "$work/why")"
ip netns add "$far"
ip link add name cable netns "$near" type veth peer name cable netns "$far" || skip "this kernel has no veth"
address() { [[ $1 == "$near" ]] && echo 10.77.0.1 || echo 10.77.0.2; }
core() { [[ $1 == "$near" || $(nproc) == 1 ]] && echo 0 || echo 1; }
for host in "$near" "$far"; do
  ip -n "$host" link set lo up
  ip -n "$host" addr add "$(address "$host")/24" dev cable
  ip -n "$host" link set cable up
  ip netns exec "$host" tc qdisc add dev cable root tbf rate "$LINK" burst 64kb latency 100ms ||
    skip "this kernel cannot limit a rate (tc tbf)"
done

# on HOST COMMAND...: as if logged in there
on() {
  local host="$1"
  shift
  ip netns exec "$host" unshare --uts -- bash -c 'hostname "$1"; shift; exec "$@"' _ "$host" \
    taskset -c "$(core "$host")" "$@"
}
# What mpiexec calls instead of ssh: agent ADDRESS COMMAND
{
  echo '#!/usr/bin/env bash'
  echo 'set -euo pipefail; shift'
  declare -f on address core
  echo "near=$near; on $far bash -c \"\$*\""
} >"$work/agent"
chmod +x "$work/agent"
printf '%s slots=2\n%s slots=2\n' "$(address "$near")" "$(address "$far")" >"$work/hostfile"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_WAIT_POLICY=passive
ranks() {  # ranks N_PER_HOST COMMAND...: that many on each host
  local each="$1"
  shift
  on "$near" mpiexec -n "$((2 * each))" --map-by "ppr:$each:node" --hostfile "$work/hostfile" --bind-to none \
    --mca plm rsh --mca plm_rsh_agent "$work/agent" --mca oob_tcp_if_include 10.77.0.0/24 \
    --mca btl self,vader,tcp --mca btl_tcp_if_include 10.77.0.0/24 --mca mpi_yield_when_idle 1 "$@"
}

NET=(net.embed_dim=128 net.depth=4 net.img_height=64 net.img_width=64 train.global_batch=16 policy.micro_batch=8
  run.threads=1 layout.tp=2 layout.dp=2)
sets() { for item in "${NET[@]}" "$@"; do printf -- '--set %s ' "$item"; done; }
train() {  # train NAME ORDER
  # shellcheck disable=SC2046  # words without spaces
  ranks 2 "$ISOBAR" train configs/models/vit-tiny.yaml $(sets "layout.order=$2" "train.steps=$STEPS" "run.out=$work/$1") \
    >"$work/$1.log" 2>&1 || { cat "$work/$1.log" >&2; exit 1; }
}
train inside tp-dp-cp-pp
train across dp-tp-cp-pp
for n in inside across; do tail -2 $work/$n.log; tail -1 $work/$n/result.jsonl | head -c 1500; done
