#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Run a command in a small virtual machine that has RDMA devices, though this one has none:
#
# sh tests/vm/guest.sh [-d NDEV] [-t SECONDS] [-m MEMORY] [-c CABLE:END] [-i] [--] COMMAND
# [ARGUMENT...]
#	sh tests/vm/guest.sh --prepare		only fetch and build what a boot needs
#
# The kernel is Debian's own, downloaded and unpacked but not installed; qemu emulates the
# processor, so neither KVM nor a module of the running kernel is needed. The guest sees this
# machine's files read-only, with /tmp, /run and /dev/shm of its own, and so runs the very programs
# that were just built. Its devices rxe0, rxe1 ... (NDEV of them, default 1) are soft-RoCE on
# dummy0 10.77.0.1/24, dummy1 10.77.1.1/24 ...: real verbs of a real kernel, on no hardware. With
# -c it has one, rxe0 on eth0 10.78.0.END/24, joined to the guest that is booted with the same
# folder CABLE and the other END of 1 and 2; CABLE/END.pid is the process to kill for the sudden
# death of that host. With -i it has one processor, and its clocks count instructions, one a
# nanosecond: slow, but the same on a busy machine as on a quiet one.
#
# The command runs as root in the current folder, with the variables TUTTI_*, TT_*, PATH, srcdir
# and those of sanitizers. Its output comes out of our standard output, its exit status is ours;
# 124: it took longer than SECONDS (default 180); 125: the guest did not come up; 77: no guest can
# be had here, the last line says why. The first run downloads about 70 MB and unpacks them into
# build/vm (TT_VM_DIR); later ones only boot, which takes a few seconds.
set -u

: "${TT_SRC:=$(cd "$(dirname "$0")/../.." && pwd)}"
if [ -z "${TT_VM_DIR:-}" ]; then
	TT_VM_DIR=$TT_SRC/build/vm
	mkdir -p "$TT_VM_DIR" 2>/dev/null && [ -w "$TT_VM_DIR" ] || TT_VM_DIR=${TT_BUILD:-$(pwd)}/vm
fi

# In this order: each needs those before it. What a kernel has built in is not a file and left out.
modules="virtio_ring virtio virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci
	failover net_failover virtio_net 9pnet 9pnet_virtio netfs fscache 9p dummy veth udp_tunnel
	ip6_udp_tunnel
	ib_core ib_uverbs crc32_generic crc32-pclmul rdma_rxe configfs ib_cm iw_cm rdma_cm rdma_ucm
	virtio-rng"

none()
{
	echo "no guest: $*" >&2
	exit 77
}

need()
{
	command -v "$1" >/dev/null || none "$1 is missing (package $2)"
}

# ---- what a boot needs: $TT_VM_DIR/vmlinuz and initrd ----

# The package of the kernel itself; linux-image-amd64 only names the newest one.
kernel_package()
{
	apt-cache depends linux-image-amd64 2>/dev/null |
		sed -n 's/^ *Depends: \(linux-image-[0-9][^ ]*-amd64\)$/\1/p' | head -n 1
}

fetch_kernel()
{
	package=$(kernel_package)
	[ -n "$package" ] || none "apt knows no linux-image-amd64 (apt-get update?)"
	rm -rf "$TT_VM_DIR/fetch"
	mkdir -p "$TT_VM_DIR/fetch/root" || none "cannot write to $TT_VM_DIR"
	(cd "$TT_VM_DIR/fetch" && apt-get -q download "$package") >"$TT_VM_DIR/fetch.log" 2>&1 ||
		none "apt-get download $package failed: $(tail -n 1 "$TT_VM_DIR/fetch.log")"
	dpkg -x "$TT_VM_DIR/fetch/$package"_*.deb "$TT_VM_DIR/fetch/root" ||
		none "$package cannot be unpacked: is the disk full?"
}

copy_modules()
{
	for m in $modules; do
		file=$(find "$TT_VM_DIR/fetch/root" -name "$m.ko" -o -name "$m.ko.xz" | head -n 1)
		case $file in
		'') continue ;;
		*.xz) xz -dc "$file" >"$1/modules/$m.ko" ;;
		*) cp "$file" "$1/modules/$m.ko" ;;
		esac || return 1
		echo "$m.ko" >>"$1/modules/order"
	done
}

build_initrd()
{
	root=$TT_VM_DIR/initrd.d
	rm -rf "$root"
	mkdir -p "$root/bin" "$root/modules" "$root/proc" "$root/sys" "$root/dev" "$root/host" \
		"$root/keep" &&
		cp "$(command -v busybox)" "$root/bin/busybox" &&
		cp "$TT_SRC/tests/vm/init.sh" "$root/init" &&
		chmod 755 "$root/init" && copy_modules "$root" ||
		none "the initial file system cannot be made"
	(cd "$root" && find . | cpio -o -H newc --quiet) | gzip -1 >"$TT_VM_DIR/initrd.new" ||
		none "the initial file system cannot be packed"
	rm -rf "$root"
}

# Made anew when the list of modules or the init script has changed.
current()
{
	[ -f "$TT_VM_DIR/stamp" ] && [ "$(cat "$TT_VM_DIR/stamp")" = "$(stamp)" ]
}

stamp()
{
	echo "$modules" | cat - "$TT_SRC/tests/vm/init.sh" | cksum
}

prepare()
{
	current && return
	need cpio cpio
	need busybox busybox-static
	need apt-get apt
	need dpkg dpkg
	! ldd "$(command -v busybox)" >/dev/null 2>&1 ||
		none "busybox is not a static one (package busybox-static)"
	[ -d "$TT_VM_DIR/fetch/root/boot" ] || fetch_kernel
	build_initrd
	cp "$TT_VM_DIR"/fetch/root/boot/vmlinuz-* "$TT_VM_DIR/vmlinuz" ||
		none "the package holds no kernel"
	mv "$TT_VM_DIR/initrd.new" "$TT_VM_DIR/initrd"
	stamp >"$TT_VM_DIR/stamp"
}

# ---- what the guest is told ----

quote()
{
	printf '%s' "$1" | sed "s/'/'\\\\''/g; 1s/^/'/; \$s/\$/'/"
	[ -n "$1" ] || printf "''"
}

# A shell script that is the command, with its folder and environment.
write_command()
{
	for name in $(env |
		sed -n 's/^\(T[TU][A-Z0-9_]*\|[A-Z]*SAN_OPTIONS\|PATH\|srcdir\)=.*/\1/p'); do
		eval "value=\$$name"
		printf 'export %s=%s\n' "$name" "$(quote "$value")"
	done
	echo 'export TT_GUEST=1' # a place where a test may break things
	echo 'PATH=$PATH:/usr/sbin:/sbin HOME=/tmp; ulimit -l unlimited; ulimit -c 0'
	printf 'cd %s || exit 125\n' "$(quote "$(pwd)")"
	printf 'exec'
	for argument in "$@"; do
		printf ' %s' "$(quote "$argument")"
	done
	echo
}

write_settings()
{
	echo "ndev=$ndev end=$end"
	# Folders of this machine that the guest's own /tmp would hide.
	echo "keep=$(for d in "$(pwd)" "$TT_SRC" "${TT_BUILD:-/}"; do
		case $d in /tmp/*) echo "$d" ;; esac
	done | sort -u | tr '\n' ' ' | sed "s/.*/'&'/")"
}

# ---- the boot ----

clean_up()
{
	[ -z "$vm" ] || kill "$vm" 2>/dev/null
	[ -z "$vm" ] || wait "$vm" 2>/dev/null
	rm -rf "$tmp"
}

boot()
{
	mkfifo "$tmp/out" || exit 125
	cat "$tmp/out" &
	reader=$!
	# The cable carries datagrams of local sockets: neither end has to be there first.
	nic="-net none"
	[ -z "$cable" ] || nic="-pidfile $cable/$end.pid
		-netdev dgram,id=cable,local.type=unix,local.path=$cable/$end,remote.type=unix,remote.path=$cable/$((3 - end))
		-device virtio-net-pci,netdev=cable,mac=52:54:00:00:00:0$end,host_mtu=9000,romfile="
	# Whatever ends this script ends the guest, by the signal for orphans.
	orphans=
	! setpriv --pdeathsig TERM true 2>/dev/null || orphans="setpriv --pdeathsig TERM"
	$orphans timeout -k 2 "$limit" $orphans qemu-system-x86_64 -accel "tcg,thread=$threads" \
		$icount -cpu max -smp "$cpus" \
		-m "$memory" -display none -monitor none -no-reboot -nodefaults $nic \
		-kernel "$TT_VM_DIR/vmlinuz" -initrd "$TT_VM_DIR/initrd" \
		-append \
		"console=ttyS0 quiet panic=-1 mitigations=off nokaslr tsc=reliable random.trust_cpu=on tt_dir=$tmp" \
		-chardev "file,id=console,path=$tmp/console" -serial chardev:console \
		-chardev stdio,id=out,signal=off -serial chardev:out \
		-device virtio-rng-pci \
		-virtfs \
		local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap \
		</dev/null >"$tmp/out" 2>"$tmp/qemu" &
	vm=$!
	wait "$vm"
	ended=$?
	vm=
	wait "$reader"
}

result()
{
	status=$(tr -d '\r' <"$tmp/console" 2>/dev/null |
		sed -n 's/^tutti-guest: exit \([0-9]*\)$/\1/p')
	[ -z "${TT_VM_VERBOSE:-}" ] || cat "$tmp/console" >&2
	[ -z "$status" ] || exit "$status"
	if [ "$ended" = 124 ] || [ "$ended" = 137 ]; then
		echo "guest: ended after $limit s" >&2
		exit 124
	fi
	echo "guest: it did not come up; the end of its console:" >&2
	tail -n 20 "$tmp/qemu" "$tmp/console" >&2
	exit 125
}

ndev=1 limit=180 memory=2G cpus=2 threads=multi icount= cable= end= prepare_only=
while [ $# -gt 0 ]; do
	case $1 in
	-d) ndev=$2 && shift 2 ;;
	-t) limit=$2 && shift 2 ;;
	-m) memory=$2 && shift 2 ;;
	-i) cpus=1 threads=single icount="-icount shift=0,sleep=off" && shift ;;
	-c) cable=${2%:*} end=${2##*:} && shift 2 ;;
	--prepare) prepare_only=1 && shift ;;
	--) shift && break ;;
	-*) echo \
		"usage: guest.sh [-d NDEV] [-t SECONDS] [-m MEMORY] [-c CABLE:END] [-i] [--] COMMAND..." >&2 && exit 2 ;;
	*) break ;;
	esac
done
[ -n "$prepare_only" ] || [ $# -gt 0 ] || { echo "guest.sh: no command" >&2; exit 2; }

[ "$(uname -m)" = x86_64 ] || none "this is not an x86-64 machine"
need qemu-system-x86_64 qemu-system-x86
mkdir -p "$TT_VM_DIR" && [ -w "$TT_VM_DIR" ] || none "cannot write to $TT_VM_DIR"
# One at a time prepares; a lock that goes with its holder.
exec 9>"$TT_VM_DIR/lock"
! command -v flock >/dev/null || flock 9
prepare
exec 9>&-
[ -z "$prepare_only" ] || exit 0

vm=
tmp=$(mktemp -d) || exit 125
trap clean_up EXIT
trap 'exit 143' INT TERM HUP
write_command "$@" >"$tmp/command"
write_settings >"$tmp/settings"
boot
result
