#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The form of log lines, and warnings about waits.
only=$*
. "${TT_SRC:-$(dirname "$0")/../..}/tests/sh.inc"
suite log
unset TUTTI_LOG TUTTI_TRANSPORT

# expect FILE PATTERN
expect()
{
	grep -qE -e "$2" "$1" || die "expected '$2' in: $(cat "$1")"
}

# "2026-03-01 14:05:09.042 node7 tutti[3]: warn: ..."
test_line()
{
	host=$(uname -n)
	before=$(date '+%Y-%m-%d %H:%M:%S')
	TUTTI_LOG=info "$TT_BUILD/tutti_run" -n 2 "$TT_BUILD/tests/diag/rank" ok 0 >"$tmp/out" \
		2>&1 ||
		die "$(cat "$tmp/out")"
	TUTTI_NO_SUCH_VARIABLE=1 "$TT_BUILD/tests/diag/rank" ok 0 >"$tmp/alone" 2>&1
	after=$(date '+%Y-%m-%d %H:%M:%S')
	time='^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}'
	expect "$tmp/out" "$time $host tutti\[0\]: info: "
	expect "$tmp/out" "$time $host tutti\[1\]: info: "
	expect "$tmp/alone" "$time $host tutti: warn: unknown variable TUTTI_NO_SUCH_VARIABLE"
	# it is the local time, also with a zone
	TZ=EAST-5 TUTTI_NO_SUCH_VARIABLE=1 "$TT_BUILD/tests/diag/rank" ok 0 >"$tmp/zone" 2>&1
	hour=$(TZ=EAST-5 date +%H)
	expect "$tmp/zone" "^[0-9-]* ($hour|$(TZ=EAST-5 date -d '-5 seconds' +%H)):"
	first=$(sed -n 's/^\([0-9-]* [0-9:]*\)\..* tutti.*/\1/p' "$tmp/out" | head -n 1)
	printf '%s\n' "$before" "$first" "$after" | sort -C || die "$before, $first, $after"
}

# Rank 2 is late: a first warning, and another one when the wait is twice as long.
test_wait()
{
	TUTTI_LATE_AFTER=100ms "$TT_BUILD/tutti_run" -n 3 "$TT_BUILD/tests/diag/rank" sleepy 2 \
		>"$tmp/out" 2>&1 &
	launcher=$!
	i=0
	until [ "$(grep -c 'tutti\[0\].* waits for rank 2 .*has lasted' "$tmp/out")" -ge 2 ] ||
		[ $i = 100 ]; do
		sleep 0.1
		i=$((i + 1))
	done
	kill -TERM $launcher
	wait $launcher
	grep 'tutti\[0\]: warn: allreduce #.* waits for rank 2 on host .*, which ha[sd] not called it' \
		"$tmp/out" | sed -n 's/.*; the wait has lasted \([0-9.]*\) s$/\1/p' >"$tmp/lasted"
	awk 'NR == 1 { first = $1 } NR == 2 { exit !(first > 0.05 && $1 >= 1.9 * first) }
		END { if (NR < 2) exit 1 }' "$tmp/lasted" || die "$(cat "$tmp/lasted" "$tmp/out")"
}

for t in line wait; do
	run $t test_$t
done
finish
