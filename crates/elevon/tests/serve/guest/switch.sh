#!/bin/busybox sh
# Makes a root that is none of the kernel's own, as on a machine, and gives it to systemd.
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc none /proc
for round in 1 2 3; do
  for module in /modules/*; do insmod "$module" 2>/dev/null; done
done
mkdir /new
mount -t tmpfs -o mode=755 none /new
cp -a bin etc lib lib64 root srv usr var *.sh /new
mkdir /new/proc /new/sys /new/dev /new/run /new/tmp /new/home /new/usr/bin
ln -s /bin/elevon /new/usr/bin/elevon
exec switch_root /new /usr/lib/systemd/systemd
