#!/usr/bin/env bash
# slurm-one-node.sh - runs Slurm with one node on this machine, for tests. Run it as root and only in a container or
# on another disposable machine: it writes /etc/slurm/slurm.conf.
#
#     tools/test/slurm-one-node.sh start     starts munged, slurmctld and slurmd without earlier jobs, and waits
#                                            until the node is idle
#     tools/test/slurm-one-node.sh logs      prints the state of nodes and jobs, and the ends of the daemons' logs
#     tools/test/slurm-one-node.sh stop      stops the daemons and waits until they have ended
set -eu

start() {
    command -v slurmctld munged >/dev/null || {
        echo "slurm-one-node: install slurm-wlm and munge first" >&2
        exit 1
    }
    if [ -e /etc/slurm/slurm.conf ] && ! grep -q '^ClusterName=kvreel$' /etc/slurm/slurm.conf; then
        echo "slurm-one-node: this machine has a Slurm of its own: /etc/slurm/slurm.conf is not changed" >&2
        exit 1
    fi
    mkdir -p /run/munge /etc/slurm /var/lib/slurm/slurmctld /var/lib/slurm/slurmd /var/log/slurm
    chown munge:munge /run/munge /var/log/munge /var/lib/munge /etc/munge /etc/munge/munge.key
    chmod 755 /run/munge
    host=$(hostname -s)
    memory=$(awk '/MemTotal/ {print int($2 / 1024 * 0.8)}' /proc/meminfo)
    cat >/etc/slurm/slurm.conf <<CONF
ClusterName=kvreel
SlurmctldHost=$host
SlurmUser=root
AuthType=auth/munge
AuthInfo=cred_expire=30
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
ReturnToService=2
JobRequeue=1
MinJobAge=300
SchedulerParameters=sched_interval=5,bf_interval=5
SlurmdParameters=config_overrides
NodeName=$host CPUs=$(nproc) RealMemory=$memory State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
    if ! pgrep -x munged >/dev/null; then
        runuser -u munge -- munged
        touch /run/munge/kvreel
    fi
    within 30 "munged does not answer" answers munge -n
    : >/var/log/slurm/slurmctld.log
    : >/var/log/slurm/slurmd.log
    slurmctld -c # -c: without the jobs of an earlier, killed run
    within 60 "slurmctld does not answer" answers scontrol ping
    slurmd
    within 120 "the node does not become idle" idle
}

answers() { timeout 10 "$@" >/dev/null 2>&1; }
# The state "idle*" means that the node does not answer.
idle() { timeout 10 sinfo -h -o %t 2>/dev/null | grep -qx idle; }

within() { # seconds message command...
    local end=$((SECONDS + $1)) message=$2
    shift 2
    until "$@"; do
        if [ "$SECONDS" -ge "$end" ]; then
            echo "slurm-one-node: $message" >&2
            logs >&2
            exit 1
        fi
        sleep 0.5
    done
}

logs() {
    timeout 10 sinfo -N -l 2>&1 || true
    timeout 10 squeue 2>&1 || true
    tail -n 25 /var/log/slurm/slurmctld.log /var/log/slurm/slurmd.log 2>&1 || true
}

# Stops only the daemons that this script started, found by their pid files.
stop() {
    local files=(/run/slurmd.pid /run/slurmctld.pid)
    grep -qs '^ClusterName=kvreel$' /etc/slurm/slurm.conf || return 0
    [ ! -e /run/munge/kvreel ] || files+=(/run/munge/munged.pid)
    rm -f /run/munge/kvreel
    for f in "${files[@]}"; do
        [ -r "$f" ] || continue
        pid=$(cat "$f")
        kill "$pid" 2>/dev/null || continue
        # The next start needs the daemons' ports.
        for _ in $(seq 100); do
            kill -0 "$pid" 2>/dev/null || break
            sleep 0.1
        done
    done
}

case ${1-} in
start | stop | logs) "$1" ;;
*)
    echo "usage: tools/test/slurm-one-node.sh start|stop|logs" >&2
    exit 2
    ;;
esac
