#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Everything that needs an RDMA device, run where there is one: in the guest, or on a machine that
# has it. Called by verbs.sh in the build folder; names of tests as arguments run those alone.
only=$*
. "${TT_SRC:-$(dirname "$0")/../..}/tests/sh.inc"
suite verbs
bare tutti_run tutti_perf tutti_info tutti_doctor

# program NAME ARGUMENT...: a test program; its own skips are ours.
program()
{
	timeout 150 "$@" >"$tmp/out" 2>&1
	status=$?
	if [ $status = 77 ]; then
		sed -n 's/^skip [^:]*: //p' "$tmp/out" | tail -n 1
		exit 77
	fi
	[ $status = 0 ] || { grep -v '^ok' "$tmp/out"; echo "status $status"; exit 1; }
	grep -q '^ok' "$tmp/out" || die "it ran no test"
}

# job TRANSPORT RANKS PROGRAM ARGUMENT...
job()
{
	ranks=$2
	(
		export TUTTI_TRANSPORT="$1"
		shift 2
		timeout 120 $tutti_run -n "$ranks" "$@"
	)
}

# Right results of tutti_perf, and that verbs really carried them.
perf()
{
	ranks=$1
	shift
	job verbs "$ranks" $tutti_perf "$@" >"$tmp/out" 2>&1 || { cat "$tmp/out"; exit 1; }
	grep -q '^# Out of bounds values : 0 OK' "$tmp/out" || { cat "$tmp/out"; exit 1; }
}

test_info()
{
	$tutti_info >"$tmp/out" 2>&1
	grep -q 'verbs:.*/1' "$tmp/out" || { cat "$tmp/out"; exit 1; }
}

test_chosen()
{
	TUTTI_LOG=info
	export TUTTI_LOG
	job verbs,ofi 2 $tutti_perf barrier -n 2 >"$tmp/out" 2>&1
	grep -q 'is reached over verbs over' "$tmp/out" || { cat "$tmp/out"; exit 1; }
	# Different hosts, as far as the library knows: verbs before ofi without being told.
	for r in 0 1; do
		echo 'TUTTI_HOST_ID=h$TUTTI_RANK exec $tutti_perf barrier -n 2' >"$tmp/host.sh"
	done
	timeout 60 $tutti_run -n 2 sh "$tmp/host.sh" >"$tmp/out" 2>&1
	grep -q 'is reached over verbs over' "$tmp/out" || { cat "$tmp/out"; exit 1; }
}

# A connection that verbs cannot make goes over ofi with one warning, or fails where
# TUTTI_TRANSPORT names verbs.
test_slower()
{
	cat >"$tmp/slower.sh" <<-'END'
		[ "$TUTTI_RANK" = 0 ] || export TUTTI_VERBS_CM=rdmacm
		TUTTI_HOST_ID=h$TUTTI_RANK exec $tutti_perf barrier -n 2
	END
	timeout 60 $tutti_run -n 3 sh "$tmp/slower.sh" >"$tmp/out" 2>&1 ||
		{ cat "$tmp/out"; exit 1; }
	[ "$(grep -c 'over ofi instead of verbs.*TUTTI_VERBS_CM' "$tmp/out")" = 1 ] ||
		{ cat "$tmp/out"; exit 1; }
	! job shm,verbs,ofi 3 sh "$tmp/slower.sh" >"$tmp/out" 2>&1 || { cat "$tmp/out"; exit 1; }
	grep -q 'no transport to rank .*verbs: TUTTI_VERBS_CM' "$tmp/out" ||
		{ cat "$tmp/out"; exit 1; }
}

# siw would be a second software device; doc/STATUS.md says that this kernel has none.
test_siw()
{
	config=
	for f in "${TT_VM_DIR:-$TT_SRC/build/vm}" "$TT_BUILD/vm"; do
		[ -n "$config" ] || config=$(ls "$f"/fetch/root/boot/config-* 2>/dev/null |
			head -n 1)
	done
	[ -n "$config" ] || skip "the kernel's configuration is not there"
	! grep -q '^CONFIG_RDMA_SIW=' "$config" ||
		skip "this kernel has siw, on which nothing is tested yet"
}

test_no_such_device()
{
	! TUTTI_VERBS_DEVICE=none7 job verbs 2 $tutti_perf barrier -n 2 >"$tmp/out" 2>&1 &&
		grep -q 'no device none7' "$tmp/out" || { cat "$tmp/out"; exit 1; }
}

test_no_such_mask()
{
	! TUTTI_VERBS_MASK=imm,immm job verbs 2 $tutti_perf barrier -n 2 >"$tmp/out" 2>&1 &&
		grep -q 'must be a list of imm, atomic, placed, srq' "$tmp/out" ||
		{ cat "$tmp/out"; exit 1; }
}

# Without the right to lock more memory the error must say what to raise.
test_memlock()
{
	command -v setpriv >/dev/null || skip "setpriv is missing (package util-linux)"
	! job verbs 2 setpriv --bounding-set -ipc_lock --inh-caps -ipc_lock \
		sh -c 'ulimit -l 512; exec $tutti_perf allreduce -b 8M -e 8M -n 1' >"$tmp/out" \
		2>&1 ||
		{ cat "$tmp/out"; exit 1; }
	grep -q "ulimit -l" "$tmp/out" || { cat "$tmp/out"; exit 1; }
}

# limited OBJECTS COMMAND...: where the kernel lets this many objects of the device be, in a cgroup.
limited()
{
	echo "$device hca_handle=max hca_object=$1" >"$tmp/cg/limited/rdma.max" || return 1
	shift
	sh -c 'echo $$ >"$1/cg/limited/cgroup.procs"; shift; exec "$@"' sh "$tmp" "$@"
}

# Whatever runs out, the error names it, says what there is and what to do; with enough, all is
# well.
test_limits()
{
	[ "${TUTTI_TEST_VERBS:-guest}" != device ] || skip "only in the guest: it changes cgroups"
	device=$($tutti_info 2>/dev/null | sed -n 's/^ *verbs:\([^/ ]*\)\/.*/\1/p' | head -n 1)
	mkdir "$tmp/cg" && mount -t cgroup2 none "$tmp/cg" 2>/dev/null ||
		skip "no right to make a cgroup"
	echo +rdma >"$tmp/cg/cgroup.subtree_control" 2>/dev/null &&
		mkdir "$tmp/cg/limited" 2>/dev/null ||
		{ umount "$tmp/cg"; skip "no cgroup controller rdma"; }
	seen= bad=0 enough=
	for n in 5 9 10 11 40; do
		TUTTI_TRANSPORT=verbs TUTTI_TIMEOUT=20s limited $n timeout 60 $tutti_run -n 2 \
			$tutti_perf barrier -n 2 >"$tmp/out" 2>&1 && enough=$n && break
		what=$(grep \
			-Eo 'protection domain|completion channel|completion queue|shared receive queue|memory regions?|queue pair' "$tmp/out" | head -n 1)
		[ -n "$what" ] && grep -Eq 'it has [0-9]+|its [0-9]+|can have [0-9]+' "$tmp/out" ||
			{ echo "with $n objects:"; cat "$tmp/out"; bad=1; }
		seen="$seen $what,"
	done
	echo "ran out of:$seen enough: $enough"
	rmdir "$tmp/cg/limited"
	umount "$tmp/cg"
	[ -n "$enough" ] && [ $bad = 0 ] && echo "$seen" | grep -Eq 'queue pair|memory region'
}

# The loss curve over shared memory, number for number.
test_train()
{
	[ -x ./train_digits ] || skip "train_digits was not built: zlib is missing"
	data=
	for f in build/data data ../data "$TT_SRC/build/data"; do
		[ ! -s "$f/digits.csv.gz" ] || data=$f/digits.csv.gz
	done
	[ -n "$data" ] || skip "no digits.csv.gz: sh quickstart.sh fetches it"
	for transport in shm verbs; do
		job $transport 2 ./train_digits --data "$data" --epochs 2 \
			--csv "$tmp/$transport.csv" -q ||
			die "training over $transport failed"
		cut -d, -f1-3 "$tmp/$transport.csv" >"$tmp/$transport.curve"
	done
	[ "$(wc -l <"$tmp/verbs.curve")" -ge 3 ] || { cat "$tmp/verbs.csv"; exit 1; }
	diff "$tmp/shm.curve" "$tmp/verbs.curve"
}

test_perf()
{
	perf 2 put -b 8 -e 512K -f 256 -n 10 -w 2
	perf 2 get -b 8 -e 512K -f 256 -n 10 -w 2
	perf 2 put_lat -b 8 -e 64K -f 256 -n 10 -w 2
	job verbs 2 $tutti_perf amo_lat -n 10 -w 2 -A all || exit 1
	perf 3 allreduce -b 4 -e 256K -f 64 -n 2 -w 1
	perf 4 bcast -b 300001 -e 300001 -d uint8 -n 2 -w 0 --malloc
}

# Jobs connected by rdma_cm, and on a device that can do less.
test_rdmacm()
{
	TUTTI_VERBS_CM=rdmacm TUTTI_LOG=info
	export TUTTI_VERBS_CM TUTTI_LOG
	perf 4 allreduce -b 4 -e 256K -f 64 -n 2 -w 1
	grep -q 'is reached over verbs over .*rdma_cm' "$tmp/out" || { cat "$tmp/out"; exit 1; }
}

# Ranks 0 and 1 are in one InfiniBand subnet, as far as the library knows, and rank 2 is in
# another: only the pairs with rank 2 are connected by rdma_cm.
test_subnets()
{
	cat >"$tmp/subnets.sh" <<-'END'
		export TUTTI_VERBS_MASK=subnet=$((TUTTI_RANK / 2))
		TUTTI_HOST_ID=h$TUTTI_RANK exec $tutti_perf alltoall -b 64 -e 64K -f 1024 \
			-n 2 -w 0 -c 1
	END
	TUTTI_LOG=info job verbs 3 sh "$tmp/subnets.sh" >"$tmp/out" 2>&1 ||
		{ cat "$tmp/out"; exit 1; }
	grep -q '^# Out of bounds values : 0 OK' "$tmp/out" || { cat "$tmp/out"; exit 1; }
	[ "$(grep -c 'another subnet is connected by rdma_cm' "$tmp/out")" = 4 ] ||
		{ cat "$tmp/out"; exit 1; }
	! TUTTI_VERBS_CM=bootstrap job verbs 3 sh "$tmp/subnets.sh" >"$tmp/out" 2>&1 ||
		{ cat "$tmp/out"; exit 1; }
	grep -q 'another InfiniBand subnet.*takes rdma_cm: TUTTI_VERBS_CM=bootstrap' "$tmp/out" ||
		{ cat "$tmp/out"; exit 1; }
}

# A third device, on an interface without an address: rdma_cm does not use it, and says why.
test_rdmacm_no_address()
{
	need_rails
	[ -e /sys/class/net/dummy0 ] || skip "devices can only be added in the guest"
	ip link add ttbare type dummy && ip link set ttbare up &&
		rdma link add rxe8 type rxe netdev ttbare ||
		die "rxe8 cannot be made"
	(
		TUTTI_VERBS_DEVICE=rxe0,rxe8 TUTTI_VERBS_CM=rdmacm
		export TUTTI_VERBS_DEVICE TUTTI_VERBS_CM
		ip addr flush dev ttbare
		perf 2 allreduce -b 1M -e 1M -n 2 -w 0 -c 1
		grep -q 'rxe8/1 is not used: .*IP address' "$tmp/out" || { cat "$tmp/out"; exit 1; }
	)
	status=$?
	rdma link delete rxe8
	ip link delete ttbare
	return $status
}

# warned TEXT MEND: what tutti_doctor says of rxe8
warned()
{
	$tutti_doctor >"$tmp/out" 2>&1
	grep -A 2 "warn device *verbs:rxe8/1: .*$1" "$tmp/out" | grep -q "mend: *$2" ||
		die "$(cat "$tmp/out")"
}

# tutti_doctor says what mends a port that is down, and one without a GID.
test_doctor()
{
	[ -e /sys/class/net/dummy0 ] || skip "devices can only be added in the guest"
	ip link add ttbare type dummy && rdma link add rxe8 type rxe netdev ttbare ||
		die "rxe8 cannot be made"
	(
		warned 'its link is down' 'ibstat; connect the port'
		ip link set ttbare up
		export TUTTI_VERBS_GID=60000
		warned 'it has no GID' 'unset TUTTI_VERBS_GID'
	)
	status=$?
	rdma link delete rxe8
	ip link delete ttbare
	return $status
}

# TUTTI_VERBS_MASK is heeded: without that the tests under it show nothing.
masked()
{
	$tutti_info >"$tmp/info" 2>&1
	case $TUTTI_VERBS_MASK in
	*imm*) grep -q 'no immediate data' "$tmp/info" ||
		die "TUTTI_VERBS_MASK=imm is not heeded" ;;
	esac
	case $TUTTI_VERBS_MASK in
	*srq*) grep -q 'no shared receive queues' "$tmp/info" ||
		die "TUTTI_VERBS_MASK=srq is not heeded" ;;
	esac
	case $TUTTI_VERBS_MASK in
	*atomic*) grep -q 'no atomics' "$tmp/info" || die "TUTTI_VERBS_MASK=atomic is not heeded" ;;
	esac
}

test_mask()
{
	export TUTTI_VERBS_MASK
	for TUTTI_VERBS_MASK in imm imm,atomic,placed; do
		masked
		perf 2 allreduce -b 4 -e 256K -f 256 -n 2 -w 1
	done
}

# Devices as others are: the library asks for less inline data until they agree.
test_inline()
{
	TUTTI_LOG=info
	export TUTTI_LOG TUTTI_VERBS_MASK
	for n in 255:124 188:124 128:124 101:101 96:96 80:80 48:48 0:0; do
		TUTTI_VERBS_MASK=inline=${n%:*}
		perf 2 allreduce -b 64 -e 512 -f 8 -n 1 -w 0
		grep -q "verbs: ${n#*:} bytes travel inside" "$tmp/out" ||
			{ cat "$tmp/out"; exit 1; }
	done
}

# Messages and puts of all lengths around what fits, and more of them than there are buffers.
conform_inline()
{
	export TUTTI_VERBS_MASK
	for TUTTI_VERBS_MASK in inline=96 imm,placed,inline=0; do
		program tests/conform/conform_verbs put_sizes msg_sizes msg_flood amo peer_close
	done
}

# Receives of each connection, and several completion queues, which are never resized.
test_queues()
{
	TUTTI_LOG=info
	export TUTTI_LOG
	TUTTI_VERBS_MASK=srq,resize masked
	TUTTI_VERBS_MASK=resize perf 6 alltoall -b 1K -e 1K -n 1 -w 0
	grep -q 'verbs: .*: completion queue 2' "$tmp/out" || { cat "$tmp/out"; exit 1; }
	TUTTI_VERBS_MASK=srq,resize perf 4 alltoall -b 4 -e 64K -f 128 -n 2 -w 0
	unset TUTTI_LOG
	TUTTI_VERBS_MASK=srq,resize program tests/conform/conform_verbs_qps put_sizes many_puts \
		msg_flood triangle \
		close_any_state close_is_a_fence peer_close
	TUTTI_VERBS_MASK=srq TUTTI_VERBS_CM=rdmacm program tests/conform/conform_verbs put_sizes \
		msg_flood
}

# Notifications that nobody reads for a while do not hold up what comes behind them.
flood()
{
	program tests/mp/rma/test_rma flood_verbs
	TUTTI_VERBS_MASK=srq,inline=0 program tests/mp/rma/test_rma flood_verbs
}

# Of the suite what differs most, as the guest's processor is a slow one.
brief="put_sizes note_values many_puts flood_puts get amo msg_flood triangle stale_key arm
	close_drops_ops
	bounds read_only read_only_map close_is_a_fence peer_close contract"

# A test of several rails counts what each device has sent, as the guest's do.
sent()
{
	cat "/sys/class/infiniband/$1/ports/1/hw_counters/sent_pkts"
}

need_rails()
{
	[ -r /sys/class/infiniband/rxe1/ports/1/hw_counters/sent_pkts ] || skip "no rxe0 and rxe1"
}

test_rails()
{
	need_rails
	TUTTI_VERBS_DEVICE=
	export TUTTI_VERBS_DEVICE
	before0=$(sent rxe0) before1=$(sent rxe1)
	perf 2 allreduce -b 4M -e 4M -n 2 -w 0 -c 1
	before0=$(($(sent rxe0) - before0)) before1=$(($(sent rxe1) - before1))
	# Twice 4 MiB for each rank, in packets of at most 4 KiB.
	[ "$before0" -ge 2000 ] && [ "$before1" -ge 2000 ] ||
		die "rxe0 sent $before0 packets, rxe1 $before1; expected 2000 and more"
	before1=$(sent rxe1)
	TUTTI_VERBS_RAILS=1 perf 2 allreduce -b 1M -e 1M -n 2 -w 0 -c 1
	TUTTI_VERBS_DEVICE=rxe0:1 perf 2 allreduce -b 1M -e 1M -n 2 -w 0 -c 1
	[ "$(sent rxe1)" = "$before1" ] ||
		die "rxe1 was used against TUTTI_VERBS_RAILS or TUTTI_VERBS_DEVICE"
}

# A third device, four times as fast: soft-RoCE on a veth, which says that it has 10 Gbit/s.
with_faster()
{
	need_rails
	[ -e /sys/class/net/dummy0 ] || skip "devices can only be added in the guest"
	ip link add ttfast type veth peer name ttpeer && ip link set ttpeer mtu 9000 up &&
		ip link set ttfast mtu 9000 up && ip addr add 10.77.9.1/24 dev ttfast &&
		rdma link add rxe9 type rxe netdev ttfast || die "rxe9 cannot be made"
	(
		TUTTI_VERBS_DEVICE=rxe9,rxe0,rxe1
		export TUTTI_VERBS_DEVICE
		"$@"
	)
	status=$?
	rdma link delete rxe9
	ip link delete ttfast
	return $status
}

unequal_rails()
{
	$tutti_info | grep -q 'rail 0 of 0 to 2, 67 %' || die "$($tutti_info)"
	program tests/vm/test_verbs rails_carry_their_shares
	program tests/conform/conform_verbs_qps put_sizes many_puts get amo arm close_is_a_fence
}

# A job whose port goes down fails with an error that names rank, device and port. If nothing was
# under way on that port, it ends over the other one, and a warning names the port.
test_rail_down()
{
	need_rails
	[ -e /sys/class/net/dummy1 ] || skip "only the guest's port may be taken down"
	# The job outlasts TUTTI_VERBS_PORT_WAIT: a port that is back before is used again, unsaid.
	TUTTI_VERBS_PORT_WAIT=100 TUTTI_VERBS_DEVICE=rxe0,rxe1 job verbs 2 $tutti_perf allreduce \
		-b 256K -e 256K -n 300 -w 0 -c 10 >"$tmp/out" 2>&1 &
	# Once a thousand packets have gone over it, the job is under way.
	before=$(sent rxe1) i=0
	while [ $(($(sent rxe1) - before)) -lt 1000 ] && [ $i -lt 600 ]; do
		sleep 0.1
		i=$((i + 1))
	done
	ip link set dummy1 down
	wait $!
	status=$?
	ip link set dummy1 up
	if [ $status = 0 ]; then
		grep -q 'rxe1/1 is no longer used' "$tmp/out" &&
			grep -q "^# Out of bounds values : 0 OK" "$tmp/out"
	else
		grep -q 'rank [01].*rxe1/1: ' "$tmp/out"
	fi || { cat "$tmp/out"; die "the job ended with status $status"; }
}

conform_one_rail() { TUTTI_VERBS_RAILS=1 program tests/conform/conform_verbs $brief; }
conform() { program tests/conform/conform_verbs; }
conform_qps() { program tests/conform/conform_verbs_qps put_sizes many_puts get close_is_a_fence; }
conform_fault() { TUTTI_TEST_SEED=${TUTTI_TEST_SEED:-1} program tests/conform/conform_fault_verbs \
	$brief; }

# libfabric listens at an address of the device's interface.
ofi()
{
	[ -n "${TUTTI_IF:-}" ] || TUTTI_IF=$(ip -4 -o addr show dev dummy0 2>/dev/null |
		sed 's/.* inet \([0-9.]*\).*/\1/')
	[ -n "$TUTTI_IF" ] || skip "TUTTI_IF does not name the address of an RDMA device"
	FI_MR_CACHE_MAX_COUNT=0 # as tutti_run sets it
	export TUTTI_IF FI_MR_CACHE_MAX_COUNT
	program "$@"
}

conform_ofi() { ofi tests/conform/conform_ofi_verbs $brief; }
conform_fault_ofi()
{
	TUTTI_TEST_SEED=${TUTTI_TEST_SEED:-1} ofi tests/conform/conform_fault_ofi_verbs $brief
}
unmapped_ofi() { export TUTTI_OFI_PROVIDER=verbs; ofi tests/mp/rma/test_rma unmapped_ofi; }
conform_rdmacm()
{
	TUTTI_VERBS_CM=rdmacm program tests/conform/conform_verbs connect_orders put_sizes \
		triangle arm \
		close_is_a_fence peer_close
}
conform_mask()
{
	export TUTTI_VERBS_MASK
	TUTTI_VERBS_MASK=imm,atomic,placed
	masked
	program tests/conform/conform_verbs $brief
	TUTTI_VERBS_MASK=imm
	masked
	program tests/conform/conform_verbs_qps put_sizes many_puts msg_flood
}
cache() { program tests/unit/test_cache; program tests/mp/coll/test_counters cache_verbs; }
collectives()
{
	program tests/mp/comm/test_idup verbs
	program tests/mp/coll/test_coll verbs
	program tests/mp/coll/test_alltoallw verbs
	program tests/mp/coll/test_neighbors verbs
	program tests/mp/coll/test_neighbor_hier verbs
	program tests/mp/coll/test_push_sum verbs
	program tests/mp/coll/test_codec_allreduce verbs
	program tests/mp/coll/test_codec_failures death_verbs
}
factors()
{
	program tests/mp/coll/test_factors verbs
	program tests/mp/coll/test_power_sgd verbs
	program tests/mp/coll/test_power_sgd_failures verbs
}
priorities() { program tests/mp/coll/test_priority overtakes_verbs same_verbs; }
collectives_tiny() { program tests/mp/coll/test_coll verbs_tiny; }
random_programs() { program tests/mp/coll/test_random verbs; }
zero_copy() { program tests/mp/coll/test_counters zero_copy_verbs; }
one_sided() {
	program tests/mp/rma/test_rma verbs unmapped_verbs
	program tests/mp/rma/test_atomics verbs verbs_device verbs_mixed
	program tests/mp/rma/test_notify verbs
	program tests/mp/rma/test_allocate verbs
	program tests/mp/rma/test_accumulate verbs
	program tests/mp/rma/test_strided verbs
	program tests/mp/rma/test_put_layout verbs
	program tests/mp/rma/test_win_priority verbs
}
win_priorities() { program tests/mp/rma/test_win_priority verbs_long; }
gossip() {
	program tests/mp/gossip/test_gossip verbs
	program tests/mp/gossip/test_pair verbs
	program tests/mp/gossip/test_elastic verbs
}
parameter_server() {
	program tests/mp/ps/test_ps verbs
	program tests/mp/ps/test_ps_hammer verbs
	program tests/mp/ps/test_ps_copies one_verbs
	program tests/mp/ps/test_ps_codec conserve_verbs
	program tests/mp/ps/test_ps_essp verbs
	program tests/mp/ps/test_ps_deaths worker_dies_verbs
	program tests/mp/ps/test_ps_codec_killed killed_verbs
	program tests/mp/ps/test_ps_versions verbs
}
parameter_server_modes() {
	program tests/mp/ps/test_ps_hammer idle_verbs
	program tests/mp/ps/test_ps_save verbs
	program tests/mp/ps/test_ps_codec_copies values_verbs
	program tests/mp/ps/test_ps_codec_rows conserve_verbs killed_verbs
	program tests/mp/ps/test_ps_relay verbs
	program tests/mp/ps/test_ps_modes verbs
	program tests/mp/ps/test_ps_softsync verbs
	program tests/mp/ps/test_ps_steady steady_verbs
	program tests/mp/ps/test_ps_priority over_verbs
}
messages()
{
	program tests/mp/p2p/test_p2p verbs
	program tests/mp/p2p/test_layout verbs
}
failures() { program tests/vm/test_verbs; }
death() { program tests/mp/comm/test_kill kill_verbs; }
survive()
{
	program tests/fault/test_survive shrink_verbs
	TT_FORKS=${TT_FORKS:-30} program tests/fault/test_fork verbs
	TT_ONLY=verbs TT_POINTS=${TT_POINTS:-20} program tests/fault/test_points
}
# A few of each kind, each kind of way to connect; make soak takes every one.
nth() { TT_TIMES=${TT_TIMES:-1} program tests/fault/test_nth verbs verbs_cm verbs_files; }
listen() { sh "$TT_SRC/tests/fault/listen.sh" verbs; }
death_rdmacm() { TUTTI_VERBS_CM=rdmacm program tests/mp/comm/test_kill kill_verbs; }
turned_away() { program tests/vm/test_cm; }
atomics_mask()
{
	TUTTI_VERBS_MASK=imm,atomic
	export TUTTI_VERBS_MASK
	masked
	program tests/mp/rma/test_atomics verbs
}

# In make soak, or when named.
more()
{
	[ -z "${TT_MORE:-}$only" ] || run "$@"
}

# Not in the quick run.
whole()
{
	[ "${TT_BRIEF:-}" ] && [ -z "$only" ] || run "$@"
}

run info test_info
whole doctor test_doctor
run chosen test_chosen
whole slower test_slower
run siw test_siw
run no_such_device test_no_such_device
run no_such_mask test_no_such_mask
run memlock test_memlock
whole limits test_limits
run conform conform
more conform_one_rail conform_one_rail
whole conform_qps conform_qps
whole conform_fault conform_fault
more conform_ofi conform_ofi
more unmapped_ofi unmapped_ofi
whole conform_rdmacm conform_rdmacm
whole conform_mask conform_mask
whole conform_fault_ofi conform_fault_ofi
run collectives collectives
more factors factors
run priorities priorities
whole collectives_tiny collectives_tiny
whole random_programs random_programs
run zero_copy zero_copy
whole cache cache
run one_sided one_sided
more win_priorities win_priorities
run gossip gossip
run parameter_server parameter_server
more parameter_server_modes parameter_server_modes
run messages messages
run death death
run survive survive
whole nth nth
more listen listen
run rdmacm test_rdmacm
whole rdmacm_no_address test_rdmacm_no_address
whole subnets test_subnets
more death_rdmacm death_rdmacm
whole turned_away turned_away
whole mask test_mask
more atomics_mask atomics_mask
whole inline test_inline
more conform_inline conform_inline
whole queues test_queues
whole flood flood
run rails test_rails
whole rail_down test_rail_down
more unequal_rails with_faster unequal_rails
more perf test_perf
more train test_train
whole failures failures
finish
