#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The short examples do what they say.
. "${TT_SRC:-.}/tests/sh.inc"
suite examples

# example RANKS TRANSPORT PROGRAM TEXT
example()
{
	TUTTI_TRANSPORT=$2 timeout 60 ./tutti_run -n "$1" "./$3" >"$tmp/out" 2>&1 &&
		grep -q "$4" "$tmp/out" || { cat "$tmp/out"; exit 1; }
}

# Two ranks that a launcher has bound to one CPU are told; more ranks than CPUs need no warning.
test_one_cpu()
{
	[ "$(nproc)" -gt 1 ] || skip "one CPU only"
	cpu=$(taskset -pc $$ | sed 's/.*[ ,-]//')
	taskset -c "$cpu" timeout 60 ./tutti_run -n 2 ./hello >"$tmp/out" 2>&1 || die "status $?"
	grep -q 'warn: 2 ranks of this host, among them 0 and 1, take turns on 1 of its' "$tmp/out" ||
		die "no warning: $(cat "$tmp/out")"
	timeout 60 ./tutti_run -n $(($(nproc) + 1)) ./hello >"$tmp/out" 2>&1 || die "status $?"
	! grep warn "$tmp/out" || die "a warning"
	TUTTI_WAIT=spin timeout 60 ./tutti_run -n $(($(nproc) + 1)) ./hello >"$tmp/out" 2>&1 ||
		die "status $?"
	grep -q 'warn: TUTTI_WAIT=spin: .* ranks of this host spin on' "$tmp/out" ||
		die "no warning: $(cat "$tmp/out")"
}

# In a cpuset of one CPU nothing can be done about it.
test_cpuset()
{
	set=/sys/fs/cgroup/cpuset/tutti-test-$$
	mkdir "$set" 2>/dev/null || skip "needs root and cgroup v1 cpusets"
	cat "${set%/*}/cpuset.mems" >"$set/cpuset.mems"
	taskset -pc $$ | sed 's/.*[ ,-]//' >"$set/cpuset.cpus"
	sh -c 'echo $$ >"$0/tasks" && exec timeout 60 ./tutti_run -n 2 ./hello' "$set" \
		>"$tmp/out" 2>&1
	status=$?
	rmdir "$set"
	[ "$status" = 0 ] || die "status $status: $(cat "$tmp/out")"
	! grep warn "$tmp/out" || die "a warning"
}

run hello example 3 shm hello 'the average is 1$'
run halo_shm example 4 shm halo 'heat 300.000 of 300.000'
run halo_alone example 1 shm halo 'heat 0.000 of 0.000'
# 17: the last expert gets no token
for n in 1 4 17; do
	run experts_$n example $n shm experts 'differs from a rank alone by at most [0-9]'
done
run experts_ofi example 3 ofi experts 'differs from a rank alone by at most [0-9]'
run one_cpu test_one_cpu
run cpuset test_cpuset
finish
