#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# tutti_sim pipeline: bubbles, activations and messages against the formulas of the literature,
# times of messages by hand, deadlocks, drawings, files and complaints.
only=$*
. "${TT_SRC:-$(dirname "$0")/../..}/tests/sh.inc"
suite pipeline

sim()
{
	./tutti_sim pipeline "$@" >"$tmp/out" 2>&1 || die "$*: $(cat "$tmp/out")"
}

# milliseconds OPTION...
milliseconds()
{
	sim "$@" --width 0
	sed -n 's/^# time \([0-9.e+]*\) ms.*/\1/p' "$tmp/out"
}

# counted SCHEDULE P M V: the bubble in the JSON, and the stages' rows, against the formulas
counted()
{
	sim -S "$1" -n "$2" -m "$3" -c "$4" -F "$5" -B "$6" --width 0 --json "$tmp/a.json"
	grep -q "no deadlock, also if every message waits" "$tmp/out" || die "$(cat "$tmp/out")"
	{
		sed -n 's/^ "bubble": \(.*\),/bubble \1/p; s/^ "messages": \(.*\),/messages \1/p' \
			"$tmp/a.json"
		awk '$1 != "#"' "$tmp/out"
	} | awk -v s="$1" -v p="$2" -v m="$3" -v v="$4" '
		function min(a, b) { return a < b ? a : b }
		$1 == "bubble" { want = (p - 1) / (v * m + p - 1); d = $2 - want
			bubble = d < 1e-9 && d > -1e-9 }
		$1 == "messages" { messages = $2 == 2 * m * (p * v - 1) }
		NF == 7 { rows++; sends += $7
			held = min(v * m, 2 * (p - $1 - 1) + (v - 1) * p + 1)
			if (s == "gpipe") held = m
			if (s == "1f1b") held = min(m, p - $1)
			if ($5 != held || $6 != held) bad = 1 }
		END { if (sends != 2 * m * (p * v - 1) || rows != p) bad = 1
			exit bad || !bubble || !messages }' ||
		die "$*: $(cat "$tmp/out" "$tmp/a.json" | head -n 30)"
}

# For any ratio of the times of steps.
test_counts()
{
	for p in 1 2 3 4 7; do
		for m in $p $((2 * p)) $((5 * p)); do
			counted gpipe $p $m 1 1 2
			counted 1f1b $p $m 1 3 1
			[ $p = 1 ] || counted interleaved $p $m 3 1 1
		done
	done
	counted gpipe 5 2 1 1 1
	counted 1f1b 4 9 1 0.5 0.5
	counted interleaved 4 8 2 1 2
}

# A message takes alpha and its bytes by the bandwidth, there and back.
test_messages()
{
	link="--alpha 100 --bw 0.001 --overhead 0"
	[ "$(milliseconds -S gpipe -n 2 -m 1 -b 1000 $link)" = 8.2 ] || die "$(cat "$tmp/out")"
	# one that waits for a receive that is there takes as long
	[ "$(milliseconds -S gpipe -n 2 -m 1 -b 1000 $link --eager 0)" = 8.2 ] ||
		die "$(cat "$tmp/out")"
	# receives are there a step ahead
	[ "$(milliseconds -S gpipe -n 2 -m 2 -B 1 -b 1 --alpha 1000 --bw 1e6 --overhead 0 \
		--eager 0)" = 8 ] || die "$(cat "$tmp/out")"
	# a port sends one after the other: 2 (F + B) + 2 (3 of 10 ms + alpha)
	[ "$(milliseconds -S gpipe -n 2 -m 3 -b 10000 $link)" = 66.2 ] || die "$(cat "$tmp/out")"
	# the overhead, at both ends
	[ "$(milliseconds -S gpipe -n 2 -m 1 -b 1 --alpha 0 --bw 1e6 --overhead 250)" = 7 ] ||
		die "$(cat "$tmp/out")"
	# within hosts of two stages: 2 of 3 hops, there and back
	[ "$(milliseconds -S gpipe -m 1 -b 1 --alpha 1000,1000,0 --bw 1e6,1e6,1e6 --overhead 0 \
		--ranks-per-host 2)" = 14 ] || die "$(cat "$tmp/out")"
	# a stage that takes twice as long, and begins late
	[ "$(milliseconds -S gpipe -n 2 -m 4 --straggler 1:0:2)" = 27 ] || die "$(cat "$tmp/out")"
	[ "$(milliseconds -S gpipe -n 2 -m 4 --straggler 0:5000)" = 20 ] || die "$(cat "$tmp/out")"
}

test_drawing()
{
	sim -S gpipe -n 2 -m 2 -F 1 -B 2 --width 60
	sed '1,/^$/d' "$tmp/out" >"$tmp/drawn"
	diff - "$tmp/drawn" <<-end || exit 1
		   ms   |0              5
		stage 0 |F0-F1-.........B0====B1====
		stage 1 |...F0-F1-B0====B1====......
	end
	# in bands of whole names: 95 characters in rows of 51
	sim -S 1f1b -n 4 -m 8 --width 60
	[ "$(grep -c '^stage 3 |' "$tmp/out")" = 2 ] || die "$(cat "$tmp/out")"
	[ "$(grep -o '[FB]7' "$tmp/out" | wc -l)" = 8 ] || die "$(cat "$tmp/out")"
	! grep '^stage' "$tmp/out" | awk 'length > 60' | grep . || exit 1
	# a band cuts no name, and no time
	sim -S gpipe -n 3 -m 7 -B 2.7 --width 47
	[ "$(grep -o 'B0=' "$tmp/out" | wc -l)" = 3 ] || die "$(cat "$tmp/out")"
	sim -S gpipe -n 2 -m 9 -F 100 -B 230 --width 44
	sed -n 's/^ *ms *|//p' "$tmp/out" | tr -s ' ' '\n' | grep . | sort -nc ||
		die "$(cat "$tmp/out")"
	# one that is too long, without names
	sim -S gpipe -n 3 -m 1000 --width 100
	grep -q "drawn short" "$tmp/out" || die "$(tail -n 5 "$tmp/out")"
	[ "$(grep -c '^stage' "$tmp/out")" = 3 ] || die "$(tail -n 5 "$tmp/out")"
	sim --width 0
	! grep '^stage' "$tmp/out"
}

# The steps that were written, read again, are the same schedule.
test_read()
{
	sim -S interleaved -n 3 -m 6 -c 2 -b 1M --csv "$tmp/a.csv" --width 0
	[ "$(grep -c '^[0-2],' "$tmp/a.csv")" = 72 ] || die "$(cat "$tmp/a.csv")"
	awk -F, 'NR > 1 { line[$1] = line[$1] " " ($2 == "forward" ? "F" : "B") $3 "." $4 }
		END { for (s = 0; s < 3; s++) print line[s], "# stage", s }' "$tmp/a.csv" \
		>"$tmp/steps"
	grep -v 'bubble\|^# inter' "$tmp/out" | awk '{ print $1, $2, $3, $5, $7 }' >"$tmp/first"
	sim --read "$tmp/steps" -b 1M --csv "$tmp/b.csv" --width 0
	cmp "$tmp/a.csv" "$tmp/b.csv" || exit 1
	grep -v 'bubble\|^# /' "$tmp/out" | awk '{ print $1, $2, $3, $5, $7 }' | diff "$tmp/first" -
	name=$tmp/$(printf '\377')
	echo F0 B0 >"$name"
	says "or not UTF-8" ./tutti_sim pipeline --read "$name" --json "$tmp/a.json"
}

test_deadlock()
{
	printf 'F0 B0 F1 B1\n\nF0 F1 B0 B1 # never\n' >"$tmp/steps"
	says "deadlock: stage 0 at B0 waits for the input from stage 1, stage 1 at F1 waits for \
the input from stage 0" ./tutti_sim pipeline --read "$tmp/steps"
	printf 'F0 B0 F1 B1\nF0 B0 F1 B1\nF0 F1 B0 B1\n' >"$tmp/steps"
	says "stage 1 at B0 waits for the input from stage 2" \
		./tutti_sim pipeline --read "$tmp/steps"
	# messages of chunk 0 wait for a stage that has gone on to chunk 1
	rest="B2.1 B3.1 B0.0 B1.0 B2.0 B3.0"
	cat >"$tmp/steps" <<-end
		F0.0 F1.0 F2.0 F3.0 F0.1 F1.1 F2.1 F3.1 B0.1 B1.1 $rest
		F0.0 F0.1 B0.1 F1.0 F2.0 F3.0 F1.1 F2.1 F3.1 B1.1 $rest
	end
	sim --read "$tmp/steps"
	grep -q "deadlock if messages are longer than --eager: stage 0 at F3.0 waits for a receive \
of stage 1, stage 1 at F0.1 waits for the input from stage 0" "$tmp/out" || die "$(cat "$tmp/out")"
	sim --read "$tmp/steps" -b 8K
	says "deadlock: stage 0 at F3.0" ./tutti_sim pipeline --read "$tmp/steps" -b 9K
	sim --read "$tmp/steps" -b 9K --eager 16K
}

# bad_steps TEXT STEPS: a file of these is refused
bad_steps()
{
	printf "$2" >"$tmp/steps"
	says "$1" ./tutti_sim pipeline --read "$tmp/steps"
}

test_bad_steps()
{
	bad_steps "line 1: a NUL byte; --read takes text" 'F0 B0\0 F1\n'
	bad_steps "line 2: a step such as F0, B0 or B0.1, not 'G0'" '# one\nF0 G0\n'
	bad_steps "not 'F0.'" 'F0. B0\n'
	bad_steps "not 'F-1'" 'F-1 B0\n'
	bad_steps "not 'F99999999999999999999'" 'F99999999999999999999\n'
	bad_steps "no stage; a line for each" '# none\n'
	bad_steps "stage 1 has 4 steps, and stage 0 has 2" 'F0 B0\nF0 F1 B0 B1\n'
	bad_steps "stage 0 has 3 steps, but 2 micro-batches of 1 chunks need 4" 'F0 F1 B0\n'
	bad_steps "stage 1 has F1 where F0 comes next" 'F0 F1 B0 B1\nF1 F0 B0 B1\n'
	bad_steps "stage 0 has F0 twice" 'F0 F0 B1 B0\n'
	bad_steps "stage 0 has B0 before F0" 'B0 F0\n'
	bad_steps "a single stage has one chunk, not 2" 'F0.0 F0.1 B0.1 B0.0\n'
}

test_plot()
{
	command -v gnuplot >/dev/null || skip "gnuplot is missing"
	sim -S interleaved --plot "$tmp/a.svg"
	grep -q "backward, chunk 1" "$tmp/a.svg" || die "no legend"
	says "could not draw $tmp/none/a.png" ./tutti_sim pipeline --plot "$tmp/none/a.png"
}

run counts test_counts
run messages test_messages
run drawing test_drawing
run read test_read
run deadlock test_deadlock
run bad_steps test_bad_steps
run plot test_plot
pipeline="./tutti_sim pipeline"
run unknown_schedule says "did you mean 1f1b?" $pipeline -S 1f2b
run unknown_option says "did you mean --micro-batches?" $pipeline --microbatches 3
run unknown_far says "unknown option --bogus; tutti_sim pipeline --help lists them" \
	$pipeline --bogus
run unknown_letter says "unknown option -Z; tutti_sim pipeline --help lists them" $pipeline -Z
run unknown_word says "did you mean pipeline?" ./tutti_sim pipelin
run late_word says "pipeline comes before the options" ./tutti_sim -n 4 pipeline
run multiples says "the nearest are 8 and 12" $pipeline -S interleaved -m 10
run few_micros says "needs at least as many as the 4 stages" $pipeline -m 2
run one_chunk says "did you mean -S interleaved?" $pipeline -c 2
run few_chunks says "at least 2 chunks" $pipeline -S interleaved -c 1
run few_stages says "at least 2 stages" $pipeline -S interleaved -n 1
run link_of_none says "--alpha: of messages that take no time; give their bytes with -b" \
	$pipeline --alpha 3
run bad_straggler says "--straggler 4: not a stage of 4 (0 to 3)" $pipeline --straggler 4:1
run bad_time says "-F: a number" $pipeline -F 0
run bad_width says "0, or from 40 to 10000" $pipeline --width 39
# Every option with a number of its own: too small, too large, not one.
test_numbers()
{
	names_range $pipeline <<-END
		-n | from 1 to 4096 | 0 -1 4097 99999999999 x
		-m | from 1 to 65536 | 0 65537 99999999999 x
		-c | from 1 to 65536 | 0 65537 99999999999 x
		-F | from 1e-06 to 1000000000 | 0 1e10 x
		-B | from 1e-06 to 1000000000 | 0 1e10 x
		-b | from 1 to 70368744177664 | 0 65T x
		--width | from 0 to 10000 | -1 10001 99999999999 x
	END
}

run numbers test_numbers
run too_many says "more than 10000000 steps" $pipeline -n 4096 -m 4096
run plot_too_long says "1002000 steps are too many to draw" $pipeline -n 500 -m 1002 --width 0 \
	--plot "$tmp/long.svg"
run read_and_shape says "leave out -S, -n, -m and -c" $pipeline --read x -n 2
run no_file says "cannot read /nowhere/x" $pipeline --read /nowhere/x
run bad_plot says ".png, .svg or .pdf" $pipeline --plot figure.gif
run bad_file says "cannot write /nowhere/x.csv" $pipeline --csv /nowhere/x.csv
run full_device unwritten $pipeline
finish
