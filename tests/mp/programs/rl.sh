#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# rl: each shape learns cart-pole, actors that are killed change nothing else, wrong options.
only=$*
. "${TT_SRC:-.}/tests/sh.inc"
suite rl

# job RANKS OPTION...
job()
{
	ranks=$1
	shift
	timeout 120 "$TT_BUILD/tutti_run" -n "$ranks" "$TT_BUILD/rl" "$@" \
		>"$tmp/out" 2>"$tmp/err" ||
		{ status=$?; cat "$tmp/out" "$tmp/err" >&2; return $status; }
}

# learned: the mean of the last 100 episodes is at least 195
learned()
{
	sed -n 's/^mean return \([0-9.]*\) of 100 episodes after .*/\1/p' "$tmp/out" |
		awk '{ n++; good = $1 >= 195 } END { exit !(n == 1 && good) }' ||
		die "$(cat "$tmp/out")"
}

test_a3c()
{
	job 3 --shape a3c --seed 1 --steps 600000 || exit 1
	learned
	grep -q "^staleness tau: [0-9.]* updates" "$tmp/out" || die "$(cat "$tmp/out")"
}

test_impala()
{
	job 3 --shape impala --seed 1 --steps 600000 || exit 1
	learned
	grep -q "^policy lag: [0-9.]* updates on average, [0-9]* at most" "$tmp/out" ||
		die "$(cat "$tmp/out")"
}

# Weights of 5 updates ago make a lag of 5 or more, after the first 5 updates.
test_lag()
{
	job 2 --shape impala --lag 5 --steps 20000 --goal 200
	[ $? = 1 ] || die "the goal was reached: $(cat "$tmp/out")"
	sed -n 's/^policy lag: \([0-9.]*\) updates on average.*/\1/p' "$tmp/out" |
		awk '{ n = $1 } END { exit !(n >= 4 && n < 9) }' || die "$(cat "$tmp/out")"
}

test_seed()
{
	job 3 --shape seed --seed 1 --steps 600000 || exit 1
	learned
	grep -q "^inference: [0-9]* requests in batches of [0-9.]*$" "$tmp/out" ||
		die "$(cat "$tmp/out")"
}

# lines N: waits until rank 0 has told of so many updates
lines()
{
	for _ in $(seq 6000); do
		told=$(grep -c "^update" "$tmp/out.0" 2>/dev/null) # rank 0 may not have begun
		[ "${told:-0}" -lt "$1" ] || return 0
		sleep 0.02
	done
	kill "$pid0" "$pid1" "$pid2" "$pid3"
	die "it does not learn: $(cat "$tmp"/err.*)"
}

# killed SHAPE RANK...: these of four ranks are killed, the first after the first line, others after
# 2 more lines each; the rest reach the goal. The rate is low, so that they need some time for that.
killed()
{
	shape=$1
	shift
	rm -rf "${tmp:?}/boot"
	mkdir "$tmp/boot" || exit 1
	for rank in 3 2 1 0; do
		limit="timeout 120"
		case " $* " in *" $rank "*) limit= ;; esac # this process is the one to kill
		TUTTI_BOOT_DIR=$tmp/boot TUTTI_NRANKS=4 TUTTI_RANK=$rank $limit "$TT_BUILD/rl" \
			--shape "$shape" --steps 3000000 --rate 0.0005 \
			>"$tmp/out.$rank" 2>"$tmp/err.$rank" &
		eval "pid$rank=\$!"
	done
	n=1
	for rank in "$@"; do
		lines $n
		eval "kill -9 \"\$pid$rank\"" ||
			die "rank $rank has ended: $(cat "$tmp/err.$rank")"
		n=$((n + 2))
	done
	for rank in 0 1 2 3; do
		eval "wait \"\$pid$rank\""
		status=$?
		case " $* " in *" $rank "*) continue ;; esac
		[ $status = 0 ] || die "rank $rank: status $status: $(cat "$tmp"/err.*)"
	done
	mv "$tmp/out.0" "$tmp/out"
	learned
	for rank in "$@"; do
		grep -q "rank $rank .*is gone" "$tmp/err.0" || die "no death: $(cat "$tmp/err.0")"
	done
}

test_refused()
{
	says "not a3c, impala or seed" "$TT_BUILD/rl" --shape dqn
	says "missing: a3c" "$TT_BUILD/rl"
	says "not a number from 0 to 63" "$TT_BUILD/rl" --shape impala --lag 64
	says "not a number from 0 to 1" "$TT_BUILD/rl" --shape impala --rate -1
	says "2 ranks or more" timeout 60 "$TT_BUILD/tutti_run" -n 1 "$TT_BUILD/rl" --shape seed
}

run a3c test_a3c
run impala test_impala
run seed test_seed
run lag test_lag
run a3c_killed killed a3c 2 3
run impala_killed killed impala 2
run seed_killed killed seed 2
run refused test_refused
finish
