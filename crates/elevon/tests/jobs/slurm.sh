#!/bin/bash
# A Slurm of one node, for as long as a job array of `elevon sweep` takes. Runs in namespaces of its own for networks and mounts
# (unshare --net --mount), in an empty folder; $1 is the command under test. Nothing outside the folder is changed.
set -e
elevon=$1
folder=$PWD
mkdir state spool munge
chmod 755 munge
node=$(hostname -s)
# slurmctld looks for an address that is not that of the loop.
ip link set lo up
ip address add 10.99.0.1/24 dev lo
(cat /etc/hosts && echo "127.0.0.1 $node") >hosts
mount --bind hosts /etc/hosts
head -c 1024 /dev/urandom >munge/key
chmod 400 munge/key
end() {
  for name in slurmd slurmctld munge/munged; do
    [ -e $name.pid ] && kill "$(cat $name.pid)" 2>/dev/null
  done
  return 0
}
trap end EXIT
munged --force --key-file "$folder/munge/key" --socket "$folder/munge/socket" --pid-file "$folder/munge/munged.pid" \
  --log-file "$folder/munge/log" --seed-file "$folder/munge/seed" --num-threads 1 2>munge/said
# The account by which Slurm measures jobs is not needed, but it looks for the kernel's version of control groups.
[ -e /sys/fs/cgroup/cgroup.controllers ] && plugin=autodetect || plugin=cgroup/v1
echo "CgroupPlugin=$plugin" >cgroup.conf
cat >slurm.conf <<C
ClusterName=test
SlurmctldHost=$node(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge/socket
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
NodeName=$node NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=all Nodes=$node Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
C
export SLURM_CONF=$folder/slurm.conf
slurmctld -f slurm.conf
slurmd -f slurm.conf
for attempt in $(seq 60); do
  sinfo -h -o %T 2>/dev/null | grep -q idle && break
  sleep 0.5
done
sinfo -h -o %T | grep -q idle || { tail -n 5 slurmctld.log slurmd.log; exit 1; }
export PATH="$(dirname "$elevon"):$PATH"
# As docs/how-to/sweep-on-a-cluster.md has it.
timeout 180 sbatch --array=1-6 --wait -o 'job-%a.log' --wrap "elevon sweep job.fio --over 'iodepth=1..16:*4' \
  --over scheduler=none,bfq --seeds 3 --shard \$SLURM_ARRAY_TASK_ID/6 --output shards/\$SLURM_ARRAY_TASK_ID" ||
  { cat job-*.log; tail -n 20 slurmctld.log slurmd.log; exit 1; }
grep -h 'task(s) on\|shard' job-*.log || true
elevon sweep merge shards/* --output whole
