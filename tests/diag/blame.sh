#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Flight recorders and tutti_blame, on ranks that are really killed, stopped, late or of another
# mind.
only=$*
. "${TT_SRC:-$(dirname "$0")/../..}/tests/sh.inc"
suite blame
TUTTI_DUMP=$tmp/d
TUTTI_LOG=none
export TUTTI_DUMP TUTTI_LOG
unset TUTTI_TRANSPORT TUTTI_NODE

# job STATUSES WHAT RANK [tutti_run's options]
job()
{
	want=$1 what=$2 bad=$3
	shift 3
	rm -f "$tmp"/d.*
	timeout -k 5 40 "$TT_BUILD/tutti_run" -n 4 "$@" "$TT_BUILD/tests/diag/rank" "$what" "$bad" \
		>"$tmp/out" 2>&1
	status=$?
	case " $want " in *" $status "*) ;; *) die "status $status, not $want: $(cat \
		"$tmp/out")" ;; esac
}

# verdict LINE...: tutti_blame over all dumps prints these
verdict()
{
	"$TT_BUILD/tutti_blame" "$tmp"/d.* >"$tmp/verdict" || die "status $?: $(cat "$tmp/verdict")"
	for line in "$@"; do
		grep -qE -e "$line" "$tmp/verdict" ||
			die "expected '$line' in: $(cat "$tmp/verdict")"
	done
}

dumps()
{
	[ "$(ls "$tmp" | grep -c '^d\.')" = "$1" ] || die "not $1 dumps: $(ls "$tmp")"
}

test_fine()
{
	job 0 ok 0
	dumps 0
}

test_killed()
{
	job '137 4' kill 2
	dumps 4
	unwritten "$TT_BUILD/tutti_blame" "$tmp"/d.*
	verdict '^culprit: rank 2 on ' \
		'^call: allreduce #[0-9]+ of communicator 1, count 1000, float32, sum$' \
		'killed by signal 9' 'last call was allreduce #[0-9]+ .*finished'
}

test_stopped()
{
	job 4 stop 1 -x TUTTI_HEARTBEAT=100ms -x TUTTI_HEARTBEAT_LIMIT=1s
	dumps 4
	verdict '^culprit: rank 1 on ' '^call: allreduce #[0-9]+ ' 'silent for' \
		'last call was allreduce #[0-9]+'
}

test_count()
{
	job 4 count 3
	verdict '^culprit: rank 3 on ' '^field: count$' 'it called allreduce #[0-9]+ .*count 999' \
		'[23] others? .*count 1000'
}

test_type()
{
	job 4 type 0 -x TUTTI_NODE=off
	verdict '^culprit: rank 0 on ' '^field: datatype$' 'int32.*float32'
}

test_call()
{
	job 4 call 1 -x TUTTI_NODE=off
	verdict '^culprit: rank 1 on ' '^field: collective$' 'it called bcast .*called allreduce'
}

test_root()
{
	job 4 root 1
	verdict '^culprit: rank 1 on ' '^field: root$' 'root 1.*root 0'
}

test_late()
{
	# Late is no error; never is one at the deadline.
	job 0 late 2
	dumps 0
	job 4 never 2 -x TUTTI_TIMEOUT=1s
	dumps 4
	verdict '^culprit: rank 2 on ' '^call: allreduce #[0-9]+ ' 'never called that' \
		'last call was allreduce #[0-9]+'
}

test_unstarted()
{
	job 4 unstarted 2 -x TUTTI_TIMEOUT=1s
	verdict '^culprit: rank 2 on ' '^call: allreduce init #1, start #1 of communicator 1' \
		'never called that' 'last call was allreduce #[0-9]+'
}

# edit RANK FILTER: its dump; $at is a time.
edit()
{
	jq -c --argjson at "$at" "$2" "$tmp/d.$1" >"$tmp/edited" || die "jq: $2"
	mv "$tmp/edited" "$tmp/d.$1"
}

# One rank gives up first: rank 3 if it reached its deadline. The next sees it go, and leaves; the
# last sees that one go.
test_one_after_another()
{
	command -v jq >/dev/null || skip "jq is missing"
	job 4 never 2 -x TUTTI_TIMEOUT=1s
	for order in '3 0 1' '0 1 3' '1 0 3'; do
		set -- $order
		[ -z "$(jq 'select(.communicator == 1 and .error == -110)' "$tmp/d.$1")" ] || break
	done
	at=$(jq 'select(.communicator == 1 and .error) | .error_time' "$tmp/d.$1")
	gone='.error = -4097 | .error_text = "gone" | .error_rank ='
	edit "$1" 'if .error and .communicator != 1 then .error_time = $at + 0.003 else . end'
	edit "$2" "if .error then .error_time = \$at + 0.001 | $gone $1 else . end"
	edit "$3" "if .error then .error_time = \$at + 0.002 | $gone $2 else . end"
	edit 2 'if .error then .error_time = $at + 0.003 else . end'
	cat "$tmp/d.$2" "$tmp/d.$3" | grep -c '"gone"' >"$tmp/edited"
	[ "$(cat "$tmp/edited")" -ge 2 ] || die "nothing to edit: $(cat "$tmp/d.$2")"
	verdict '^culprit: rank 2 on ' '^call: allreduce #[0-9]+ ' 'never called that'
}

test_order()
{
	job 4 order 3 -x TUTTI_TIMEOUT=1s
	verdict '^culprit: rank 3 on ' '^field: order$' 'different orders' 'communicator 1' \
		'communicator [23] .spare.'
}

# It exits with status 0 and leaves no dump: its host is known to the others.
test_left()
{
	job 4 leave 2
	verdict "^culprit: rank 2 on $(uname -n)\$"
}

# seen LAUNCHER LINES PATTERN: tutti_ras shows so many of them
seen()
{
	[ "$("$TT_BUILD/tutti_ras" -i 0 -p "$(pgrep -n -P "$1")" 2>"$tmp/said" |
		grep -cE -e "$3")" = "$2" ]
}

# hung WHAT RANK LINES PATTERN: once tutti_ras shows so many of these lines, the job is asked for
# its dumps. Its launcher is $pid, for end_job.
hung()
{
	rm -f "$tmp"/d.*
	timeout -k 5 40 "$TT_BUILD/tutti_run" -n 4 "$TT_BUILD/tests/diag/rank" "$1" "$2" \
		>"$tmp/out" 2>&1 &
	wrapper=$!
	i=0
	until pid=$(pgrep -P $wrapper) && seen "$pid" "$3" "$4"; do
		i=$((i + 1))
		[ $i != 100 ] || die "nobody waits: $(cat "$tmp/out")"
		sleep 0.1
	done
	kill -USR2 "$pid"
	i=0
	until [ "$(ls "$tmp" | grep -c '^d\.[0-9]$')" = 4 ] ||
		[ $i = 50 ]; do sleep 0.1; i=$((i + 1)); done
	dumps 4
}

end_job()
{
	kill -TERM "$pid"
	wait $wrapper
	return 0
}

# A hung job, asked by a signal: it goes on, and all that ranks are in can be seen.
test_signal()
{
	hung sleepy 1 1 '^late: rank 1$'
	kill -0 "$pid" || die "the job has ended: $(cat "$tmp/out")"
	verdict '^culprit: rank 1 on ' 'has not called that yet'
	end_job
}

# Rank 0 has not called the all-reduce because it waits for a message of rank 1.
test_receive()
{
	hung recv 1 1 'in recv from rank 1 '
	verdict '^culprit: rank 1 on ' '^call: recv of communicator 1, .*from rank 1, tag 5$' \
		'it has not sent that yet, for which rank 0 waits; its last call was allreduce' \
		'^rank 0 .*: recv of communicator 1, .*from rank 1, tag 5: running, 0 bytes$'
	end_job
}

test_ring()
{
	hung ring 0 4 'in recv from rank '
	verdict '^culprit: rank 0 on ' '^field: order$' \
		'ranks wait in a circle: it waits in recv .* for rank 1, which waits in recv '
	end_job
}

# Rank 0 receives from any rank, so it waits for none.
test_any()
{
	hung any 0 4 'in recv from '
	verdict '^culprit: rank 0 on ' '^call: recv of communicator 1, .*from rank 0, tag 5$' \
		'it has not sent that yet, for which rank 1 waits; it was in recv .*from any rank,'
	end_job
}

test_any_ring()
{
	hung any_ring 0 4 'in recv from '
	verdict '^culprit: rank 1 on ' '^field: order$' \
		'it waits in recv .* for rank 2, which waits in recv '
	! grep 'rank -1' "$tmp/verdict" || die "rank -1"
	end_job
}

test_format()
{
	command -v jq >/dev/null || skip "jq is missing"
	job '137 4' kill 2
	for f in "$tmp"/d.?; do
		jq -e . "$f" >/dev/null || die "$f is not JSON"
		[ "$(stat -c %a "$f")" = 600 ] || die "$f can be read by others"
	done
	[ "$(jq -r 'select(.tutti_dump) | "\(.rank) \(.nranks) \(.reason)"' "$tmp/d.2")" = \
		"2 4 killed by signal 9" ] || die "$(head -n 1 "$tmp/d.2")"
	jq -c 'select(.name == "spare" and .size == 4 and .communicator > 1)' "$tmp/d.2" |
		grep -q . ||
		die "no name in $(cat "$tmp/d.2")"
	# The 20 all-reduces, done, and not the last one; with an algorithm, bytes and times in
	# order.
	jq -c \
		'select(.call == "allreduce" and .in_place == 1 and .communicator == 1 and
			.state == "done" and .count == 1000 and
		.type == "float32" and .op == "sum" and .algorithm != null and .rounds == .of and
			.rounds > 0 and
		.bytes > 0 and .end >= .start)' "$tmp/d.2" >"$tmp/ops"
	[ "$(wc -l <"$tmp/ops")" = 20 ] || die "$(cat "$tmp/ops" "$tmp/d.2")"
	jq -c 'select(.state == "failed" and .status == -4097)' "$tmp/d.0" | grep -q . ||
		die "$(tail -n 3 "$tmp/d.0")"
	now=$(date +%s)
	jq -e -s --argjson now "$now" \
		'map(select(.start)) | last | .start > $now - 60 and .start < $now + 60' \
		"$tmp/d.2" >/dev/null || die "the time is wrong: $now, $(tail -n 1 "$tmp/d.2")"
}

test_bad_files()
{
	job '137 4' kill 2
	says "already read" "$TT_BUILD/tutti_blame" "$tmp/d.0" "$tmp/d.0"
	sed 's/"job":"[0-9a-f]*"/"job":"0123456789abcdef0123456789abcdef"/' "$tmp/d.1" >"$tmp/other"
	cmp -s "$tmp/d.1" "$tmp/other" && die "a dump without its job: $(head -n 1 "$tmp/d.1")"
	says "of another job" "$TT_BUILD/tutti_blame" "$tmp/d.0" "$tmp/other"
	# What a terminal would obey is not shown.
	sed 's/"host":"/&\\u001b[31m\\u009b/' "$tmp/d.0" >"$tmp/colour"
	"$TT_BUILD/tutti_blame" "$tmp/colour" "$tmp/d.1" "$tmp/d.2" "$tmp/d.3" >"$tmp/verdict" ||
		die "status $?"
	grep -q '??*\[31m??*' "$tmp/verdict" || die "$(cat -v "$tmp/verdict")"
	! LC_ALL=C grep -q '[^ -~]' "$tmp/verdict" || die "$(cat -v "$tmp/verdict")"
	head -c 100 "$tmp/d.0" >"$tmp/cut"
	says "not a line of JSON" "$TT_BUILD/tutti_blame" "$tmp/cut"
	echo '{"a":1}' >"$tmp/other"
	says "not the dump" "$TT_BUILD/tutti_blame" "$tmp/other"
	says "can't read" "$TT_BUILD/tutti_blame" "$tmp/none"
	: >"$tmp/empty"
	says "empty" "$TT_BUILD/tutti_blame" "$tmp/empty"
}

for t in fine killed stopped count type call root late unstarted one_after_another order \
	left signal receive ring any any_ring format bad_files; do
	run $t test_$t
done
finish
