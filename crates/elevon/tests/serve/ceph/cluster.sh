# A Ceph cluster of one machine: a monitor, a manager and an OSD with the store bluestore. A test starts it in namespaces of its
# own for networks and processes, in an empty folder. Then it asks for the functions below, one line at a time.
ip link set lo up
folder=$PWD
export CEPH_CONF=$folder/ceph.conf
mkdir run mon.a mgr.x osd.0
cat >ceph.conf <<C
[global]
fsid = $(cat /proc/sys/kernel/random/uuid)
mon host = [v2:127.0.0.1:3300,v1:127.0.0.1:6789]
ms bind ipv6 = false
public addr = 127.0.0.1
auth cluster required = none
auth service required = none
auth client required = none
run dir = $folder/run
log file = $folder/\$name.log
pid file = $folder/run/\$name.pid
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 8
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon allow pool size one = true
mon warn on pool no redundancy = false
mon data avail warn = 2
mon data avail crit = 1
osd objectstore = bluestore
bluestore block size = 2147483648
bluestore block wal size = 67108864
bluestore block db size = 134217728
osd memory target = 939524096
mgr initial modules =
[mon]
admin socket = $folder/run/\$name.asok
mon data = $folder/mon.a
[mgr]
admin socket = $folder/run/\$name.asok
mgr data = $folder/mgr.x
[osd]
admin socket = $folder/run/\$name.asok
osd data = $folder/osd.0
C

# Waits for up to a minute until a command succeeds.
until_true() {
  for attempt in $(seq 300); do
    "$@" >/dev/null 2>&1 && return
    sleep 0.2
  done
  echo "in vain: $*"
  return 1
}

is_up() { ceph osd stat | grep -q '1 up'; }
is_clean() { ceph pg stat | grep -q 'active+clean'; }

start() {
  fsid=$(sed -n 's/^fsid = //p' ceph.conf)
  monmaptool --create --addv a '[v2:127.0.0.1:3300,v1:127.0.0.1:6789]' --fsid "$fsid" monmap &&
    ceph-mon --mkfs -i a --monmap monmap && ceph-mon -i a && until_true timeout 5 ceph -s && ceph-mgr -i x || return
  osd=$(cat /proc/sys/kernel/random/uuid)
  ceph osd new "$osd" && ceph-osd -i 0 --mkfs --osd-uuid "$osd" && start_osd &&
    ceph osd pool create rbd 8 && rbd pool init rbd && until_true is_clean
}

start_osd() { ceph-osd -i 0 && until_true is_up; }

kill_osd() { kill -KILL "$(cat run/osd.0.pid)"; }

# Serves an image at a socket by qemu-nbd: as many connections as an Elevon has, and no more.
# $1 is a name for both, $2 the image or snapshot; further words are options.
serve() {
  name=$1 image=$2
  shift 2
  qemu-nbd -k "$folder/$name.sock" -f raw --cache=none --aio=threads -e 4 -t --fork --pid-file "run/$name.pid" "$@" \
    "rbd:rbd/$image:conf=$CEPH_CONF"
}

# Ends the server of a name, and waits for it.
leave() {
  pid=$(cat "run/$1.pid")
  kill "$pid" && until_true has_ended "$pid"
}

has_ended() { ! kill -0 "$1" 2>/dev/null; }

# What a unit of qemu-nbd asks before it starts: that no machine has the image open.
is_free() { rbd status "rbd/$1" | grep -q 'Watchers: none'; }
