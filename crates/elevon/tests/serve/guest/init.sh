#!/bin/busybox sh
# The only process of a guest: what it does is named on the kernel's command line, and what it
# finds goes to the console, line by line.
/bin/busybox --install -s /bin
export PATH=/bin LD_LIBRARY_PATH=/lib
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
mkdir -p /dev/shm /mnt
mount -t tmpfs none /dev/shm
# One that needs another is loaded in a later round.
for round in 1 2 3; do
  for module in /modules/*; do insmod "$module" 2>/dev/null; done
done
for word in $(cat /proc/cmdline); do
  case $word in elevon.*=*) export "${word#elevon.}" ;; esac
done

# The bytes that file number $1 has to have.
content() { yes "file $1 of the guest" | head -c 50000; }

write() {
  mkfs.ext4 -q /dev/vda && mount -t ext4 /dev/vda /mnt || return
  echo "GUEST mounted"
  fio --name=verify --filename=/mnt/fio --ioengine=psync --rw=randrw --bs=4k --size=8m --direct=1 \
    --verify=crc32c --fsync=64 --thread --minimal >/tmp/fio 2>&1
  echo "GUEST fio $?"
  number=0
  while true; do
    number=$((number + 1))
    content "$number" | dd of="/mnt/$number" conv=fsync 2>/dev/null && echo "GUEST synced $number"
  done
}

check() {
  mount -t ext4 /dev/vda /mnt || return
  number=0
  while [ "$number" -lt "$synced" ]; do
    number=$((number + 1))
    content "$number" | cmp -s - "/mnt/$number" || echo "GUEST lost $number"
  done
  echo "GUEST compared $number"
  umount /mnt
  e2fsck -fn /dev/vda
  echo "GUEST fsck $?"
}

"$phase"
echo "GUEST done"
poweroff -f
