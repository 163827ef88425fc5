#!/bin/busybox sh
# SPDX-License-Identifier: BSD-3-Clause
# The guest's first process: devices, the host's files, then the command; see guest.sh.
bb=/bin/busybox
$bb mount -t proc proc /proc
$bb mount -t sysfs sys /sys
$bb mount -t devtmpfs dev /dev
while read -r module; do
	options=
	[ "$module" != dummy.ko ] || options=numdummies=0
	$bb insmod "/modules/$module" $options || echo "tutti-guest: $module cannot be loaded"
done </modules/order

for word in $($bb cat /proc/cmdline); do
	case $word in tt_dir=*) dir=${word#tt_dir=} ;; esac
done
stop()
{
	echo "tutti-guest: exit $1" >/dev/console
	$bb poweroff -f
	$bb sleep 5
}
$bb mount -t 9p -o trans=virtio,version=9p2000.L,cache=loose,msize=512000,ro host /host || stop 125
. "/host$dir/settings" || stop 125
$bb cp "/host$dir/command" /keep/command || stop 125
$bb mkdir -p /keep/tmp
$bb mount -o bind /host/tmp /keep/tmp
for d in proc sys dev; do
	$bb mount -o bind /$d /host/$d
done
for d in tmp run; do
	$bb mount -t tmpfs -o mode=1777 tmpfs /host/$d
done
$bb mkdir -p /dev/shm /dev/pts
$bb mount -t tmpfs -o mode=1777 tmpfs /host/dev/shm
$bb mount -t devpts devpts /host/dev/pts
for d in $keep; do
	$bb mkdir -p "/host$d" && $bb mount -o bind "/keep$d" "/host$d"
done
$bb cp /keep/command /host/run/command

PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin
export PATH
$bb hostname "tutti-guest$end"
$bb ip link set lo up

# soft_roce NUMBER INTERFACE ADDRESS
soft_roce()
{
	$bb chroot /host ip link set "$2" up mtu 9000 &&
		$bb chroot /host ip addr add "$3/24" dev "$2" &&
		$bb chroot /host rdma link add "rxe$1" type rxe netdev "$2" ||
		echo "tutti-guest: rxe$1 cannot be made (packages iproute2, rdma-core)"
}
i=0
if [ -n "$end" ]; then
	soft_roce 0 eth0 "10.78.0.$end"
	ndev=0
fi
while [ $i -lt "$ndev" ]; do
	$bb chroot /host ip link add dummy$i type dummy
	soft_roce $i dummy$i 10.77.$i.1
	i=$((i + 1))
done

$bb stty -F /dev/ttyS1 raw -echo 115200
# Through a pipe, as programs behave otherwise on a terminal.
set -o pipefail
$bb setsid $bb chroot /host /bin/sh /run/command </dev/null 2>&1 | $bb cat >/dev/ttyS1
status=$?
$bb sleep 0.1
$bb stty -F /dev/ttyS1 sane
stop $status
