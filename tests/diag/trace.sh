#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# TUTTI_TRACE and TUTTI_PROMETHEUS: files that their readers can read, with what really happened.
only=$*
. "${TT_SRC:-$(dirname "$0")/../..}/tests/sh.inc"
suite trace
unset TUTTI_TRANSPORT TUTTI_NODE
command -v jq >/dev/null || skip_all "jq is missing"

job()
{
	timeout -k 5 40 "$TT_BUILD/tutti_run" -n 3 "$@" "$TT_BUILD/tests/diag/rank" ok 0 \
		>"$tmp/out" 2>&1 ||
		die "status $?: $(cat "$tmp/out")"
}

# count FILTER: how many events of rank 1 it leaves
count()
{
	jq "[.[] | select($1)] | length" "$tmp/t.1.json"
}

test_trace()
{
	job -x TUTTI_TRACE="$tmp/t" -x TUTTI_NODE=off
	[ "$(ls "$tmp" | grep -c '^t\.[0-2]\.json$')" = 3 ] || die "$(ls "$tmp")"
	jq -s add "$tmp"/t.?.json >/dev/null || die "not JSON"
	# All 21 all-reduces of 1000 floats: begun, ended, in that order, with rounds inside.
	calls='.name == "allreduce" and .cat == "call"'
	[ "$(count "$calls and .ph == \"b\" and .args.count == 1000 and .args.status == 0")" = 21 \
		] ||
		die "$(head -n 5 "$tmp/t.1.json")"
	jq -e '[.[] | select(.cat == "call")] | group_by(.id) | all(length == 2 and
		((map(select(.ph == "b"))[0].ts) <= (map(select(.ph == "e"))[0].ts)))' \
			"$tmp/t.1.json" >/dev/null ||
		die "calls do not begin before they end"
	jq -e \
		'(map(select(.ph == "b")) | map({key: (.id | tostring), value: .args.rounds}) |
			from_entries) as $want |
		[.[] | select(.cat == "round")] | group_by(.args.operation) |
		all(length == $want[.[0].args.operation | tostring])' "$tmp/t.1.json" >/dev/null ||
		die "rounds are missing"
	[ "$(count '.cat == "round" and .dur >= 0')" -ge 42 ] || die "$(grep round "$tmp/t.1.json")"
	now=$(date +%s)
	jq -e --argjson now "$now" \
		'map(select(.ts)) | all(.ts / 1e6 > $now - 60 and .ts / 1e6 < $now + 60)' \
		"$tmp/t.1.json" >/dev/null || die "the time is wrong"
}

test_trace_node()
{
	job -x TUTTI_TRACE="$tmp/t"
	[ "$(count \
		'.cat == "call" and .ph == "b" and .name == "allreduce" and .args.count == 1000')" \
		= 21 ] ||
		die "$(cat "$tmp/t.1.json")"
	says "cannot write" timeout 40 "$TT_BUILD/tutti_run" -n 1 -x TUTTI_TRACE="$tmp/no/t" \
		"$TT_BUILD/tests/diag/rank" ok 0
}

# value NAME FILE
value()
{
	sed -n "s/^tutti_$1{rank=\"[0-9]\",job=\"[0-9a-f]*\"} \([0-9]*\)\$/\1/p" "$2"
}

test_prometheus()
{
	job -x TUTTI_PROMETHEUS="$tmp/p" -x TUTTI_NODE=off
	[ "$(ls "$tmp" | grep -c '^p\.')" = 3 ] || die "$(ls "$tmp")"
	# All-reduces, those of dup and of the end: messages, and as many bytes.
	[ "$(value operations_total "$tmp/p.2.prom")" -ge 22 ] || die "$(cat "$tmp/p.2.prom")"
	[ "$(value put_bytes_total "$tmp/p.2.prom")" -ge 84000 ] || die "$(cat "$tmp/p.2.prom")"
	[ "$(value communicators_failed "$tmp/p.2.prom")" = 0 ] || die "$(cat "$tmp/p.2.prom")"
	[ "$(value registrations_total "$tmp/p.2.prom")" -ge 1 ] || die "$(cat "$tmp/p.2.prom")"
	# All of struct tutti_stats.
	for name in $(sed -n '/^struct tutti_stats/,/^}/s/^	uint64_t \([a-z_]*\);.*/\1/p' \
		"$TT_SRC/include/tutti/comm.h"); do
		grep -qE "^tutti_$name(_total)?\{" "$tmp/p.2.prom" || die "no $name"
	done
	# Each metric has a type and a help line, and nothing else is there.
	awk '/^# HELP tutti_[a-z_]+ [A-Z].*\.$/ { h[$3]; next }
		/^# TYPE tutti_[a-z_]+ (counter|gauge)$/ { t[$3]; next }
		{
			n = $1
			sub(/\{.*/, "", n)
			if (!(n in h) || !(n in t) || $2 !~ /^[0-9]+$/)
				exit 1
		}' "$tmp/p.2.prom" ||
		die "$(cat "$tmp/p.2.prom")"
}

test_prometheus_period()
{
	timeout -k 5 40 "$TT_BUILD/tutti_run" -n 2 -x TUTTI_PROMETHEUS="$tmp/q" \
		-x TUTTI_PROMETHEUS_PERIOD=100ms \
		"$TT_BUILD/tests/diag/rank" busy 0 >"$tmp/out" 2>&1 &
	wrapper=$!
	i=0
	until [ -s "$tmp/q.0.prom" ] || [ $i = 100 ]; do sleep 0.1; i=$((i + 1)); done
	a=$(value operations_total "$tmp/q.0.prom")
	exec 3<"$tmp/q.0.prom" # a reader that takes its time
	b=$a i=0
	until [ "$b" -gt "$a" ] || [ $i = 100 ]; do
		sleep 0.1
		b=$(value operations_total "$tmp/q.0.prom")
		i=$((i + 1))
	done
	kill -TERM "$(pgrep -P $wrapper)"
	wait $wrapper
	[ "$b" -gt "$a" ] || die "$a, then $b"
	# It reads the file that it has opened, and that to its end.
	cat <&3 >"$tmp/old"
	exec 3<&-
	old=$(value operations_total "$tmp/old")
	[ "$old" -ge "$a" ] && [ "$old" -lt "$b" ] ||
		die "$a, then $b, and a reader from before got '$old'"
	[ "$(tail -n 1 "$tmp/old" | cut -d'{' -f1)" = tutti_ranks_late ] ||
		die "it is cut: $(cat "$tmp/old")"
}

for t in trace trace_node prometheus prometheus_period; do
	run $t test_$t
done
finish
