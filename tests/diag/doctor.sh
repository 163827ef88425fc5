#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# tutti_doctor: each check is seen to fail, by a limit, in a namespace, or on a broken file; hosts
# are network namespaces behind a remote shell of the test's own.
only=$*
. "${TT_SRC:-$(dirname "$0")/../..}/tests/sh.inc"
suite doctor
doctor=$TT_BUILD/tutti_doctor
unset TUTTI_IF TUTTI_TRANSPORT

# finds STATUS LEVEL CHECK TEXT COMMAND...: a finding of this level and check that has this text,
# and this status or a worse one
finds()
{
	least=$1 wanted="^  $2 *$3 .*$4"
	shift 4
	"$@" >"$tmp/out" 2>&1
	status=$?
	[ $status -ge "$least" ] && [ $status -le 2 ] && grep -q "$wanted" "$tmp/out" ||
		die "status $status, no '$wanted': $(cat "$tmp/out")"
}

in_namespace()
{
	[ "$(id -u)" = 0 ] && unshare -mnu true 2>/dev/null || skip "namespaces need root"
	prepare=$1
	shift
	finds "$@" timeout 60 unshare -mnu sh -c "{ $prepare; } || exit 99; exec \"\$0\"" "$doctor"
}

test_plain()
{
	"$doctor" >"$tmp/out"
	[ $? -le 2 ] || die "$(cat "$tmp/out")"
	for check in versions memlock nofile shm memory hugepages binding clock loopback interface \
		name; do
		grep -q "^  [a-zA-Z]* *$check " "$tmp/out" || die "no $check in $(cat "$tmp/out")"
	done
	"$doctor" --json >"$tmp/json"
	jq -e 'length > 8 and all(.[]; .host and .check and .level and .what)' "$tmp/json" \
		>/dev/null || die "$(cat "$tmp/json")"
	# each finding that is not in order says what it costs
	jq -e 'all(.[]; .level == "ok" or .cost != "")' "$tmp/json" >/dev/null ||
		die "$(cat "$tmp/json")"
	"$doctor" --quiet >"$tmp/out"
	! grep -q '^  ok' "$tmp/out" || die "$(cat "$tmp/out")"
	tail -n 1 "$tmp/out" | grep -q '^[0-9]* ok, [0-9]* warnings, [0-9]* failures$' ||
		die "$(cat "$tmp/out")"
}

test_limits()
{
	finds 1 warn nofile 'only 512 files' sh -c 'ulimit -n 512; exec "$0"' "$doctor"
	finds 2 FAIL nofile 'only 100 files' sh -c 'ulimit -n 100; exec "$0"' "$doctor"
	finds 1 warn memlock 'limited to 512 KiB' sh -c 'ulimit -l 512; exec "$0"' "$doctor"
	[ "$(nproc --all)" = 1 ] ||
		finds 1 warn binding 'only 1 of' taskset -c 0 "$doctor"
}

test_rdma_memlock()
{
	in_namespace "mount -t tmpfs tmpfs /sys/class && mkdir -p /sys/class/infiniband/mlx5_0 &&
		ulimit -l 8192" 2 FAIL memlock 'limited to 8192 KiB, and there is an RDMA device'
}

test_files()
{
	thp=/sys/kernel/mm/transparent_hugepage/enabled
	clock=/sys/devices/system/clocksource/clocksource0/current_clocksource
	echo 'always madvise [never]' >"$tmp/never"
	echo hpet >"$tmp/hpet"
	[ ! -e $thp ] || in_namespace "mount --bind $tmp/never $thp" \
		1 warn hugepages 'pages are off'
	in_namespace "mount -t tmpfs tmpfs /sys/kernel" 1 warn hugepages 'says nothing'
	[ ! -e $clock ] || in_namespace "mount --bind $tmp/hpet $clock" 1 warn clock 'is hpet'
	in_namespace "mount -t tmpfs -o size=1m tmpfs /dev/shm" 1 warn shm '[01] MiB left'
	yama=/proc/sys/kernel/yama/ptrace_scope
	echo 3 >"$tmp/three"
	[ ! -e $yama ] || in_namespace "mount --bind $tmp/three $yama" 1 warn peers 'cannot read'
	in_namespace "mount -t tmpfs tmpfs /dev" 1 warn shm 'cannot be used'
}

test_memory()
{
	group=$(sed -n 's/^0:://p' /proc/self/cgroup | head -n 1)
	in_namespace "mount -t tmpfs tmpfs /sys/fs/cgroup && mkdir -p '/sys/fs/cgroup$group' &&
		echo 104857600 >'/sys/fs/cgroup$group/memory.max'" \
		1 warn memory 'only 100 of'
}

test_names()
{
	in_namespace 'hostname no-such-host-name && ip link set lo up' 1 warn name \
		'this host, no-such-host-name, has no address'
}

test_network()
{
	in_namespace true 2 FAIL loopback 'loopback interface of this network namespace is down'
	in_namespace 'ip link set lo up' 1 warn interface 'no interface but loopback'
	finds 2 FAIL interface nothere0 env TUTTI_IF=nothere0 "$doctor"
	in_namespace 'ip link set lo up && ip link add e0 type veth peer name e1 &&
		ip link set e0 mtu 600 up && ip link set e1 up && ip addr add 10.98.0.1/24 dev e0 &&
		ip route add default via 10.98.0.2' 2 FAIL mtu 'e0 has an MTU of 600 bytes'
}

test_libraries()
{
	lib=$(ldconfig -p | sed -n 's/.*libfabric.so.1 .*=> //p' | head -n 1)
	verbs=$(ldconfig -p | sed -n 's/.*libibverbs.so.1 .*=> //p' | head -n 1)
	[ -n "$lib" ] && [ -n "$verbs" ] && "$doctor" | grep -q libfabric ||
		skip "libfabric or libibverbs is not there"
	in_namespace "mount --bind /dev/null $(realpath "$lib")" 1 warn library 'libfabric.so.1'
	in_namespace "mount --bind /dev/null $(realpath "$lib") &&
		mount --bind /dev/null $(realpath "$verbs")" 1 warn transport 'no transport reaches'
	finds 2 FAIL settings TUTTI_CHUNK env TUTTI_CHUNK=x "$doctor"
	finds 1 warn device 'ofi' env TUTTI_OFI_PROVIDER=nosuch "$doctor"
}

test_options()
{
	for words in '--nothing' 'word' '--timeout=0' '--timeout=x' '-H a,a' '-H -x' \
		'--hostfile /nowhere/hosts' '--ssh='; do
		timeout 20 "$doctor" $words >"$tmp/out" 2>&1
		[ $? = 3 ] || die "$words: status $?: $(cat "$tmp/out")"
		grep -q '^tutti_doctor: ' "$tmp/out" || die "$words: $(cat "$tmp/out")"
	done
	wrong_status=3 names_range "$doctor" <<-END
		--timeout= | from 1 to 3600 | 0 -1 3601 99999999999999999999 +5 x
	END
	"$doctor" --help | grep -q 'Status: 0' || die "no help"
	unwritten "$doctor" --help
	unwritten "$doctor"
}

# Two hosts, da and db: shell A or B in the network namespace of this name. The remote shell takes
# a file $tmp/rc.HOST, whose commands stand around the agent.
cluster()
{
	[ "$(id -u)" = 0 ] && unshare -mn true 2>/dev/null || skip "namespaces need root"
	cat >"$tmp/ssh" <<-END
		host=\$1
		shift
		. "$tmp/rc.\$host"
		[ "\$host" = da ] || exec nsenter --net=/proc/\$(cat "$tmp/pid")/ns/net sh -c "\$*"
		exec sh -c "\$*"
	END
	: >"$tmp/rc.da"
	: >"$tmp/rc.db"
	printf 'da slots=2\n# a comment\ndb\n' >"$tmp/hosts"
	cat >"$tmp/both" <<-'END'
		unshare -n sleep 60 & pid=$!
		trap 'kill $pid' EXIT
		echo $pid >"$TMP/pid"
		n=0
		until [ "$(readlink /proc/$pid/ns/net)" != "$(readlink /proc/$$/ns/net)" ] ||
			[ $n = 200 ]; do sleep 0.05; n=$((n + 1)); done
		set -e
		ip link set lo up
		ip link add e0 type veth peer name e0 netns $pid
		ip link set e0 up && ip addr add 10.97.0.1/24 dev e0
		ip route add default via 10.97.0.2
		on() { nsenter --net=/proc/$pid/ns/net "$@"; }
		on ip link set lo up && on ip link set e0 up && on ip addr add 10.97.0.2/24 dev e0
		on ip route add default via 10.97.0.1
		eval "$PREPARE"
		set +e
		"$@"
	END
}

# hosts PREPARE OPTION...: tutti_doctor over both, in their namespaces prepared by these commands
hosts()
{
	PREPARE=$1
	shift
	export PREPARE
	TMP=$tmp timeout 60 unshare -mn sh "$tmp/both" "$doctor" --ssh "sh $tmp/ssh" \
		--hostfile "$tmp/hosts" "$@"
}

test_hosts()
{
	cluster
	hosts : >"$tmp/out" 2>&1
	[ $? -le 1 ] || die "$(cat "$tmp/out")"
	[ "$(grep -c '^  ok *firewall *reaches 2 addresses' "$tmp/out")" = 2 ] &&
		[ "$(grep -c '^  ok *ssh ' "$tmp/out")" = 2 ] &&
		[ "$(grep -c '^  ok *skew ' "$tmp/out")" = 2 ] &&
		[ "$(grep '^[a-z]' "$tmp/out" | paste -sd,)" = da,db ] || die "$(cat "$tmp/out")"
}

test_firewall()
{
	cluster
	command -v nft >/dev/null || skip "there is no nft"
	finds 2 FAIL firewall 'cannot connect to db: Connection timed out' hosts \
		'on nft add table inet f
		on nft "add chain inet f i { type filter hook input priority 0; }"
		on nft add rule inet f i "iifname e0 tcp flags & (syn | ack) == syn drop"'
	[ "$(grep -c 'cannot connect' "$tmp/out")" = 1 ] || die "$(cat "$tmp/out")"
	finds 2 FAIL firewall 'cannot connect to da' hosts 'ip link set e0 down'
}

test_host_differs()
{
	cluster
	finds 1 warn mtu 'the MTU is 1400 bytes, but 1500 on da' hosts 'on ip link set e0 mtu 1400'
	echo 'sh -c "$*" | sed -u "s/\"now\":/\"now\":1/"; exit' >"$tmp/rc.db"
	finds 1 warn skew 'its clock differs by' hosts :
	echo 'sh -c "$*" | sed -u "s/\"version\":\"/&9/"; exit' >"$tmp/rc.db"
	finds 2 FAIL versions 'tutti 9.* is there' hosts :
}

test_ssh()
{
	cluster
	echo 'exit 255' >"$tmp/rc.db"
	finds 2 FAIL ssh 'does not answer there' hosts :
	echo 'echo Welcome; echo to this host; exit' >"$tmp/rc.db"
	finds 2 FAIL ssh 'does not answer there' hosts :
	echo 'exec sleep 50' >"$tmp/rc.db" # silent
	finds 2 FAIL ssh 'does not answer there' unshare -mn "$doctor" --ssh "sh $tmp/ssh" -H db \
		--timeout 1
	mv "$tmp/rc.db" "$tmp/rc.da" && : >"$tmp/rc.db" # it leaves time to the host after it
	finds 2 FAIL ssh 'does not answer there' hosts : --timeout 6
	[ "$(grep -c '^  ok *firewall *reaches 1 addresses' "$tmp/out")" = 1 ] ||
		die "$(cat "$tmp/out")"
}

for t in plain limits rdma_memlock files memory names network libraries options hosts firewall \
	host_differs ssh; do
	run $t test_$t
done
finish
