#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Everything that needs an RDMA device, run where there is one: in the guest, or on a machine that has
# it. Called by verbs.sh in the build folder; names of tests as arguments run those alone.
only=$*
. "${TT_SRC:-$(dirname "$0")/../..}/tests/sh.inc"
suite verbs

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
		timeout 120 ./tutti_run -n "$ranks" "$@"
	)
}

# Right results of tutti_perf, and that verbs really carried them.
perf()
{
	ranks=$1
	shift
	job verbs "$ranks" ./tutti_perf "$@" >"$tmp/out" 2>&1 || { cat "$tmp/out"; exit 1; }
	grep -q '^# Out of bounds values : 0 OK' "$tmp/out" || { cat "$tmp/out"; exit 1; }
}

test_info()
{
	./tutti_info >"$tmp/out" 2>&1
	grep -q 'verbs:.*/1' "$tmp/out" || { cat "$tmp/out"; exit 1; }
}

test_chosen()
{
	TUTTI_LOG=info
	export TUTTI_LOG
	job verbs,ofi 2 ./tutti_perf barrier -n 2 >"$tmp/out" 2>&1
	grep -q 'is reached over verbs over' "$tmp/out" || { cat "$tmp/out"; exit 1; }
	# Different hosts, as far as the library knows: verbs before ofi without being told.
	for r in 0 1; do
		echo 'TUTTI_HOST_ID=h$TUTTI_RANK exec ./tutti_perf barrier -n 2' >"$tmp/host.sh"
	done
	timeout 60 ./tutti_run -n 2 sh "$tmp/host.sh" >"$tmp/out" 2>&1
	grep -q 'is reached over verbs over' "$tmp/out" || { cat "$tmp/out"; exit 1; }
}

test_no_such_device()
{
	! TUTTI_VERBS_DEVICE=none7 job verbs 2 ./tutti_perf barrier -n 2 >"$tmp/out" 2>&1 &&
		grep -q 'no device none7' "$tmp/out" || { cat "$tmp/out"; exit 1; }
}

# Without the right to lock more memory the error must say what to raise.
test_memlock()
{
	command -v setpriv >/dev/null || skip "setpriv is missing (package util-linux)"
	! job verbs 2 setpriv --bounding-set -ipc_lock --inh-caps -ipc_lock \
		sh -c 'ulimit -l 512; exec ./tutti_perf allreduce -b 8M -e 8M -n 1' >"$tmp/out" 2>&1 ||
		{ cat "$tmp/out"; exit 1; }
	grep -q "ulimit -l" "$tmp/out" || { cat "$tmp/out"; exit 1; }
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
		job $transport 2 ./train_digits --data "$data" --epochs 2 --csv "$tmp/$transport.csv" -q ||
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
	perf 2 latency -b 8 -e 64K -f 256 -n 10 -w 2
	perf 3 allreduce -b 4 -e 256K -f 64 -n 2 -w 1
	perf 4 bcast -b 300001 -e 300001 -d uint8 -n 2 -w 0 --malloc
}

# Of the suite what differs most, as the guest's processor is a slow one.
brief="put_sizes note_values many_puts flood_puts get amo msg_flood triangle stale_key arm close_drops_ops
	close_is_a_fence peer_close contract"

conform() { program tests/conform/conform_verbs; }
conform_qps() { program tests/conform/conform_verbs_qps put_sizes many_puts get close_is_a_fence; }
conform_fault() { TUTTI_TEST_SEED=${TUTTI_TEST_SEED:-1} program tests/conform/conform_fault_verbs $brief; }

# libfabric listens at an address of the device's interface.
conform_ofi()
{
	[ -n "${TUTTI_IF:-}" ] || TUTTI_IF=$(ip -4 -o addr show dev dummy0 2>/dev/null |
		sed 's/.* inet \([0-9.]*\).*/\1/')
	[ -n "$TUTTI_IF" ] || skip "TUTTI_IF does not name the address of an RDMA device"
	export TUTTI_IF
	program tests/conform/conform_ofi_verbs $brief
}
collectives() { program tests/mp/test_coll verbs; }
collectives_tiny() { program tests/mp/test_coll verbs_tiny; }
zero_copy() { program tests/mp/test_counters zero_copy_verbs; }
one_sided() {
	program tests/mp/test_rma verbs
	program tests/mp/test_atomics verbs
}
messages() { program tests/mp/test_p2p verbs; }
failures() { program tests/vm/test_verbs; }
death() { program tests/mp/test_kill kill_verbs; }

run info test_info
run chosen test_chosen
run no_such_device test_no_such_device
run memlock test_memlock
run conform conform
run conform_qps conform_qps
run conform_fault conform_fault
run conform_ofi conform_ofi
run collectives collectives
run collectives_tiny collectives_tiny
run zero_copy zero_copy
run one_sided one_sided
run messages messages
run death death
run perf test_perf
run train test_train
run failures failures
finish
