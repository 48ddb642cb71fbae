#!/bin/busybox sh
# What a guest with systemd as its init does with the units, and what it finds, line by line on the
# console. Services that come later than boot are started here.
say() { echo "GUEST $*"; }
show() { systemctl show --value -p "$2" "$1"; }
# Without the number of connections: it depends on when the server has seen the last of them leave.
status() { show elevon-serve@disks StatusText | sed 's/,.*//'; }

chgrp disk /dev/vda && chmod 660 /dev/vda
head -c 3000000 /usr/bin/elevon >/tmp/data
truncate -s 3000320 /tmp/data
say booted "$(systemctl is-active multi-user.target basic.target | tr '\n' ' ')"

# The first client starts the server, and one that reads what it wrote finds it.
systemctl start elevon-serve@disks.socket
say before "$(show elevon-serve@disks ActiveState)"
file='nbd+unix:///file?socket=/run/elevon/disks.sock'
block='nbd+unix:///block?socket=/run/elevon/disks.sock'
for uri in "$file" "$block"; do
  nbdcopy --flush /tmp/data "$uri" && nbdcopy "$uri" /tmp/back && head -c 3000320 /tmp/back | cmp - /tmp/data && say copied
done
say state "$(show elevon-serve@disks ActiveState) $(status)"
# What root had put there belongs to the server.
say user "$(stat -c %U:%G /var/lib/elevon/file.img)"

# A virtual machine is a user in the group disk: it connects as often as it wants, also after a restart.
vm() { su -s /bin/sh vm -c "PATH=/bin nbdinfo --size '$file'"; }
say vm "$(vm) $(vm) $(vm)"
systemctl restart elevon-serve@disks
say vm "$(vm) $(stat -c '%a %G' /run/elevon/disks.sock)"
say other "$(su -s /bin/sh nobody -c "PATH=/bin nbdinfo --size '$file'" 2>&1 | grep -c 'Permission denied')"

# A reload takes an export more, and tells systemd of it.
printf '[export.more]\ndevice = "file"\nread_only = true\n' >>/etc/elevon/disks.toml
systemctl reload elevon-serve@disks
say reloaded "$(nbdinfo --list 'nbd+unix:///?socket=/run/elevon/disks.sock' | grep -c '^export=')"
# The test waits for this.
until [ "$(status)" = '3 exports' ]; do :; done
say told

# A server that is killed comes back, and has what was flushed.
kill -9 "$(show elevon-serve@disks MainPID)"
nbdcopy "$file" /tmp/back && head -c 3000320 /tmp/back | cmp - /tmp/data && say again "$(show elevon-serve@disks NRestarts)"

systemctl stop elevon-serve@disks.socket elevon-serve@disks
say stopped "$(show elevon-serve@disks ActiveState) $(show elevon-serve@disks Result) $(show elevon-serve@disks ExecMainStatus)"

# A file that everybody may write, outside of what the unit lets it write.
systemctl start elevon-serve@outside && say wrong "it serves a file that it may not write"
say outside "$(show elevon-serve@outside ExecMainStatus)"
printf '[Service]\nReadWritePaths=/srv\n' >/etc/systemd/system/elevon-serve@outside.service.d/srv.conf
systemctl daemon-reload
systemctl start elevon-serve@outside && say inside "$(show elevon-serve@outside ActiveState)"
systemctl stop elevon-serve@outside

# A shell in place of the server, in the same sandbox.
systemctl start elevon-serve@probe
cat /run/probe.out
say probed "$(show elevon-serve@probe Result)"
# The same as root, so that it is the sandbox that refuses.
sh /probe.sh
say done
poweroff -f
