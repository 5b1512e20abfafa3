#!/usr/bin/env bash
# slurm-one-node.sh - a Slurm of one node on this machine, for tests. As root, on a machine that is
# to be thrown away (a container): it writes /etc/slurm/slurm.conf.
#
#     tools/test/slurm-one-node.sh start     munged, slurmctld, slurmd; waits until the node is idle
#     tools/test/slurm-one-node.sh stop
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
    pgrep -x munged >/dev/null || runuser -u munge -- munged
    sleep 1
    slurmctld
    slurmd
    for _ in $(seq 60); do
        sinfo -h -o %t 2>/dev/null | grep -q idle && return
        sleep 1
    done
    echo "slurm-one-node: the node does not become idle" >&2
    tail -n 5 /var/log/slurm/*.log >&2
    exit 1
}

# Only the daemons that this script started, by their pid files.
stop() {
    for f in /run/slurmd.pid /run/slurmctld.pid /run/munge/munged.pid; do
        [ -r "$f" ] && kill "$(cat "$f")" 2>/dev/null
    done
    return 0
}

case ${1-} in
start | stop) "$1" ;;
*)
    echo "usage: tools/test/slurm-one-node.sh start|stop" >&2
    exit 2
    ;;
esac
