# shellcheck shell=bash
# A real Slurm of two nodes on this machine, for tests/slurm.sh and the files that it sources: munge, one
# controller, two node daemons with host names of their own (n1, n2), and accounting where slurmdbd and
# MariaDB are installed. All files are in $work, and are removed with the shell that sourced this. Needs root,
# and $ISOBAR.
work="$(mktemp -d "${TMPDIR:-/tmp}/isobar-slurm-XXXXXX")"
host="$(hostname -s)"
export SLURM_CONF="$work/slurm.conf" TRIAL_LOG="$work/trials.log" OMP_WAIT_POLICY=passive
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 FAKE_STEP_MS=20
say() { printf '%4ds  %s\n' "$SECONDS" "$*"; }
ended() { local pid="$1"; for _ in $(seq 50); do kill -0 "$pid" 2>/dev/null || return 0; sleep 0.1; done; return 1; }
stop_daemon() {  # stop_daemon PIDFILE [SIGNAL]
  local pid
  pid="$(cat "$1" 2>/dev/null)" || return 0
  kill "-${2:-TERM}" "$pid" 2>/dev/null || return 0
  ended "$pid" || kill -9 "$pid" 2>/dev/null || true
}
submitters=()
finish() {
  local pid
  for pid in "${submitters[@]}"; do kill -9 "$pid" 2>/dev/null || true; done
  scancel --user=root 2>/dev/null && sleep 1 || true
  stop_daemon "$work/slurmctld.pid"
  for node in n1 n2; do stop_daemon "$work/$node.pid"; done
  stop_daemon "$work/slurmdbd.pid"
  stop_daemon "$work/db.pid"
  stop_daemon "$work/munge/pid"
  # step daemons and trials that outlived their node daemon
  for pid in $(grep -lsF "SLURM_CONF=$SLURM_CONF" /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3); do
    [[ "$pid" == "$$" || "$pid" == "$BASHPID" ]] || kill -9 "$pid" 2>/dev/null || true
  done
  if [[ -n "${ISOBAR_KEEP:-}" ]]; then echo "kept: $work"; else rm -rf "$work"; fi
}
trap finish EXIT

# ---- the cluster
chmod 755 "$work"
mkdir -p "$work/munge" "$work/state"
chmod 711 "$work/munge"
(umask 077; head -c 1024 /dev/urandom >"$work/munge/key")
munged --force --socket="$work/munge/socket" --key-file="$work/munge/key" --pid-file="$work/munge/pid" \
  --log-file="$work/munge/log" --seed-file="$work/munge/seed"
port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
accounting=""
if command -v slurmdbd >/dev/null && command -v mariadbd >/dev/null && command -v mariadb-install-db >/dev/null; then
  accounting=1 db_port="$(port)" dbd_port="$(port)"
  mariadb-install-db --no-defaults --datadir="$work/db" --user=root --auth-root-authentication-method=normal \
    --skip-test-db >"$work/db.log" 2>&1
  mariadbd --no-defaults --datadir="$work/db" --user=root --socket="$work/db.socket" --pid-file="$work/db.pid" \
    --bind-address=127.0.0.1 --port="$db_port" --innodb-buffer-pool-size=64M >>"$work/db.log" 2>&1 &
  for _ in $(seq 100); do mariadb --no-defaults --socket="$work/db.socket" -e 'SELECT 1' >/dev/null 2>&1 && break; sleep 0.1; done
  mariadb --no-defaults --socket="$work/db.socket" -e "CREATE DATABASE slurm; CREATE USER slurm@'%' IDENTIFIED BY 'slurm';
    GRANT ALL ON slurm.* TO slurm@'%'; CREATE USER slurm@localhost IDENTIFIED BY 'slurm'; GRANT ALL ON slurm.* TO slurm@localhost;"
  (umask 077; cat >"$work/slurmdbd.conf" <<CONF
AuthType=auth/munge
AuthInfo=socket=$work/munge/socket
DbdHost=localhost
DbdPort=$dbd_port
SlurmUser=root
PidFile=$work/slurmdbd.pid
LogFile=$work/slurmdbd.log
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=$db_port
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm
CONF
  )
  slurmdbd
fi
cat >"$SLURM_CONF" <<CONF
ClusterName=isobar
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$(port)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge/socket,cred_expire=5
CryptoType=crypto/munge
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool-%n
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/%n.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SlurmdTimeout=4
KillWait=5
JobCompType=jobcomp/filetxt
JobCompLoc=$work/jobcomp.txt
NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$(port) CPUs=2
NodeName=n2 NodeHostname=$host NodeAddr=127.0.0.1 Port=$(port) CPUs=2
PartitionName=debug Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP OverSubscribe=EXCLUSIVE
PartitionName=shared Nodes=n1,n2 MaxTime=INFINITE State=UP OverSubscribe=NO
CONF
if [[ "$accounting" ]]; then
  cat >>"$SLURM_CONF" <<CONF
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
AccountingStoragePort=$dbd_port
AccountingStoragePass=$work/munge/socket
MinJobAge=5
CONF
  for attempt in $(seq 50); do
    sacctmgr -i add cluster isobar >"$work/sacctmgr.log" 2>&1 && break
    ((attempt < 50)) || { cat "$work/sacctmgr.log" "$work/slurmdbd.log" >&2; echo "slurmdbd did not come up" >&2; exit 1; }
    sleep 0.2
  done
fi
{ cat /etc/hosts; echo "127.0.0.1 n1 n2"; } >"$work/hosts"  # programs of others meet by the nodes' names
start_node() {  # start_node NAME [CORE]
  # shellcheck disable=SC2016  # for the inner shell
  ${2:+taskset -c "$2"} unshare --uts --mount -- sh -c 'hostname "$1"; mount --bind "$3" /etc/hosts; exec slurmd -N "$1" -f "$2"' _ "$1" "$SLURM_CONF" "$work/hosts"
}
slurmctld -f "$SLURM_CONF"
for node in n1 n2; do start_node "$node"; done
for _ in $(seq 50); do [[ "$(sinfo -h -N -p debug -o %T 2>/dev/null | grep -c idle)" == 2 ]] && break; sleep 0.2; done
[[ "$(sinfo -h -N -p debug -o %T | grep -c idle)" == 2 ]] || { cat "$work"/*.log >&2; echo "Slurm did not come up" >&2; exit 1; }
say "Slurm $(slurmctld -V | cut -d' ' -f2) is up: $(sinfo -h -N -o %N | sort -u | paste -sd' '), $([[ "$accounting" ]] || echo no )accounting"

# ---- helpers for the tests
machine() {  # machine FILE START RANKS_PER_NODE MORE
  cat >"$work/$1" <<MACHINE
inherits: $PWD/configs/machines/example-2core.yaml
cluster: {scheduler: slurm, start: $2, ranks_per_node: $3, queue: debug, poll_s: 1, fence_s: 3, max_jobs: 6, start_s: 3,
  environment: {OMP_NUM_THREADS: 1, QUOTED: "\$(touch $work/pwned); 'x'"}, preamble: [[echo, "; touch $work/pwned"]]$4}
MACHINE
}
machine mpi.yaml openmpi 1 ", job_time_s: 40"
sweep() {  # sweep NAME SWEEP MACHINE [OPTION]: starts it in the background
  "$ISOBAR" sweep "$work/$2" --results "$work/$1" --launcher slurm --machine "$work/$3" --trainer "$work/trainer" --json \
    ${4:+"$4"} >"$work/$1.json" 2>"$work/$1.err" &
  submitter=$!
  submitters+=("$submitter")
}
until_true() {  # until_true SECONDS WHAT COMMAND...
  local seconds="$1" what="$2"
  shift 2
  for _ in $(seq $((seconds * 5))); do "$@" >/dev/null && return; sleep 0.2; done
  squeue -a >&2; sinfo -N >&2; tail -n 20 "$work"/*.err >&2
  echo "waited $seconds s in vain for: $what" >&2
  exit 1
}
running_on() { squeue -h -t running -w "$1" -o %i | head -1; }
is_running_on() { [[ -n "$(running_on "$1")" ]]; }
crash() {  # crash NODE JOB: kills the job's step daemon and everything that Slurm started on the node
  local pid
  for pid in $(pgrep -f "slurmstepd: \\[$2\\." || true); do
    if grep -qzF "SLURM_CONF=$SLURM_CONF" "/proc/$pid/environ"; then kill -9 "$pid"; fi
  done
  for pid in $(grep -lszF "SLURMD_NODENAME=$1" /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3); do
    kill -9 "$pid" 2>/dev/null || true
  done
}
node_is() { [[ "$(sinfo -h -n "$1" -o %T | head -1)" == *"$2"* ]]; }
