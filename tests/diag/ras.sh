#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# tutti_ras on running jobs: who is late, rates, links, a stopped rank, who may look and who may
# not; and --watch, into a file and on a terminal.
only=$*
. "${TT_SRC:-$(dirname "$0")/../..}/tests/sh.inc"
suite ras
TUTTI_LOG=none
export TUTTI_LOG
unset TUTTI_TRANSPORT
launcher='' watcher=''

# However a test ends.
end_all()
{
	# shellcheck disable=SC2086 # empty: there is none
	kill -TERM $launcher $watcher 2>/dev/null
}

# begin WHAT RANK [options]: a job in the background; a rank that answers is process $pid0
begin()
{
	what=$1 bad=$2
	shift 2
	"$TT_BUILD/tutti_run" -n 4 "$@" "$TT_BUILD/tests/diag/rank" "$what" "$bad" >"$tmp/out" \
		2>&1 &
	launcher=$!
	trap end_all EXIT
	i=0
	while :; do
		for pid0 in $(pgrep -P $launcher); do
			"$TT_BUILD/tutti_ras" -i 0 -p "$pid0" >"$tmp/look" 2>/dev/null && return
		done
		i=$((i + 1))
		[ $i != 100 ] || die "no job can be looked at: $(cat "$tmp/out")"
		sleep 0.1
	done
}

finish_job()
{
	kill -TERM $launcher
	wait $launcher
	launcher=
	return 0
}

look()
{
	"$TT_BUILD/tutti_ras" -p "$pid0" "$@" >"$tmp/look" 2>&1 ||
		die "status $?: $(cat "$tmp/look")"
}

expect()
{
	grep -qE -e "$1" "$tmp/look" || die "expected '$1' in: $(cat "$tmp/look")"
}

test_late()
{
	begin sleepy 2
	i=0
	until look -i 0 && grep -q '^late: rank 2$' "$tmp/look" || [ $i = 50 ]; do
		sleep 0.1
		i=$((i + 1))
	done
	expect '^late: rank 2$'
	expect '^job [0-9a-f]{32}: 4 ranks$'
	expect 'communicator [23] .spare.: idle after 0 collectives'
	expect \
		'in allreduce #[0-9]+ \(count 1000, float32, sum, in place\) for [0-9.]* s, .* it waits for rank 2 on host'
	expect '^rank 2 on .*, process [0-9]*, [0-9]+ operations$'
	[ "$(grep -c '^late' "$tmp/look")" = 1 ] || die "$(cat "$tmp/look")"
	finish_job
}

test_rates()
{
	begin busy 0 -x TUTTI_NODE=off
	unwritten "$TT_BUILD/tutti_ras" --list
	unwritten "$TT_BUILD/tutti_ras" -i 0 -p "$pid0"
	unwritten "$TT_BUILD/tutti_ras" --json -p "$pid0"
	look -i 0.3 --links
	expect '^rank 3 on .*per second: [1-9][0-9]* operations, [0-9.]*[1-9][0-9.]* MB put'
	expect '  link to rank [012]: shm, open$'
	look --json
	[ "$(grep -c '^{"rank":' "$tmp/look")" = 4 ] || die "$(cat "$tmp/look")"
	finish_job
}

# silent: the ranks that did not answer
silent()
{
	sed -n 's/^rank \([0-9]*\): no answer.*/\1/p' "$tmp/look" | tr '\n' ' '
}

# Beside other work those that go on may be slow, too, and get longer.
test_stopped()
{
	begin busy 0
	look -i 0 -w 10000
	# a leaf of the control tree, and not the rank that is asked
	set -- $(sed -n 's/^rank \([23]\) on .*, process \([0-9]*\),.*/\1 \2/p' "$tmp/look" |
		grep -v " $pid0\$" | head -n 1)
	[ $# = 2 ] || die "ranks 2 and 3 were not seen: $(cat "$tmp/look")"
	rank=$1 last=$2
	kill -STOP "$last"
	for ms in 500 1000 2000 4000; do
		look -i 0 -w $ms
		[ "$(silent)" != "$rank " ] || break
	done
	expect "^rank $rank: no answer within $ms ms"
	[ "$(silent)" = "$rank " ] || die "silent: $(silent); stopped: $rank"
	kill -CONT "$last"
	look -i 0 -w 10000
	[ -z "$(silent)" ] || die "it goes on, and $(silent)does not answer"
	finish_job
}

# A job that ends while it is asked is no job any more, and no broken pipe; whatever it had read
# until then.
test_ending()
{
	job=$(printf '%032d' $$)
	for bytes in 0 1 60; do
		"$TT_BUILD/tests/diag/door" "$job" $bytes &
		i=0
		until "$TT_BUILD/tutti_ras" --list | grep -q "^job $job: rank 0 is process $!" ||
			[ $i = 50 ]; do
			sleep 0.1
			i=$((i + 1))
		done
		says "no such job" "$TT_BUILD/tutti_ras" "$job"
		! grep -qiE 'broke|pipe|reset' "$tmp/.says" || die "$(cat "$tmp/.says")"
		wait $!
	done
}

# Any rank of this host can be asked, also when rank 0 is stopped, and when it is gone; without
# tutti_run.
test_without_0()
{
	pids=
	for r in 0 1 2 3; do
		TUTTI_BOOT_DIR=$tmp TUTTI_RANK=$r TUTTI_NRANKS=4 "$TT_BUILD/tests/diag/rank" stay \
			0 >"$tmp/out.$r" 2>&1 &
		pids="$pids $!"
	done
	set -- $pids
	id=
	i=0
	until [ -n "$id" ] || [ $i = 100 ]; do
		sleep 0.1
		id=$("$TT_BUILD/tutti_ras" --list |
			sed -n \
			"s/^job \([0-9a-f]*\): rank 0 is process $1 of .*, and 3 more.*/\1/p")
		i=$((i + 1))
	done
	kill -STOP "$1"
	i=0 # all of its threads have stopped
	until ! grep -qs '^State:[^T]*$' /proc/"$1"/task/*/status ||
		[ $i = 50 ]; do i=$((i + 1)); sleep 0.1; done
	i=0
	until "$TT_BUILD/tutti_ras" -i 0 -w 500 "$id" >"$tmp/look" 2>&1 &&
		grep -q '^rank 1 on ' "$tmp/look" || [ $i = 10 ]; do
		i=$((i + 1)) # beside other work the others may be slow, too
	done
	"$TT_BUILD/tutti_ras" -i 0 -w 500 -p "$3" >"$tmp/third" 2>&1
	kill -KILL "$1"
	i=0
	until "$TT_BUILD/tutti_ras" -i 0 "$id" >"$tmp/gone" 2>&1 &&
		grep -q 'rank 1 on .*' "$tmp/gone" &&
		[ "$(grep -c 'has failed: .*rank 0' "$tmp/gone")" -ge 3 ] || [ $i = 50 ]; do
		i=$((i + 1))
		sleep 0.1
	done
	kill -KILL "$2" "$3" "$4"
	# What is behind rank 0 in the tree can't be reached through it, until it is given up.
	for want in "^tutti_ras: rank 0, process $1, does not answer" \
		'^rank 0: no answer within 500 ms' \
		'^rank 1 on .*, process [0-9]*, [0-9]+ operations'; do
		grep -qE -e "$want" "$tmp/look" || die "expected '$want' in: $(cat "$tmp/look")"
	done
	grep -q '^rank 2 on ' "$tmp/third" || die "$(cat "$tmp/third")"
	for want in '^rank 0: gone$' '^rank 1 on ' '^rank 3 on ' \
		'communicator 1 has failed: .*rank 0'; do
		grep -qE -e "$want" "$tmp/gone" || die "expected '$want' in: $(cat "$tmp/gone")"
	done
}

test_strangers()
{
	[ "$(id -u)" = 0 ] || skip "only root can be somebody else"
	command -v setpriv >/dev/null || skip "setpriv is missing"
	begin busy 0
	# Another user can't read the key; tests/fault/test_strangers shows who has it the door.
	# The job goes on.
	says "cannot read" setpriv --reuid 65534 --clear-groups "$TT_BUILD/tutti_ras" -p "$pid0"
	! cat /proc/"$pid0"/cmdline /proc/$launcher/cmdline | grep -qi secret ||
		die "a secret in a command line"
	look -i 0
	expect '4 ranks'
	finish_job
}

# ---- --watch ----

# watch OPTION...: in the background, into $tmp/watch
watch()
{
	: >"$tmp/watch"
	"$TT_BUILD/tutti_ras" -p "$pid0" "$@" >"$tmp/watch" 2>&1 &
	watcher=$!
}

# seen TABLES PATTERN: so many more lines, in time, for so many tables
seen()
{
	i=0
	at=$(wc -l <"$tmp/watch")
	until [ "$(sed "1,${at}d" "$tmp/watch" | grep -cE -e "$2")" -ge "$1" ]; do
		i=$((i + 1))
		[ $i != 150 ] || die "expected '$2' in: $(tail -n 30 "$tmp/watch")"
		sleep 0.1
	done
}

# ends: the watcher ends by itself or by a signal, with status 0
ends()
{
	i=0
	while grep -qs '^State:[^Z]*$' "/proc/$watcher/status"; do
		i=$((i + 1))
		[ $i != 150 ] || die "it goes on: $(tail -n 30 "$tmp/watch")"
		sleep 0.1
	done
	wait $watcher || die "status $?: $(tail -n 30 "$tmp/watch")"
	watcher=
	! grep -q "$(printf '\033')" "$tmp/watch" || die "escapes in a file: $(cat "$tmp/watch")"
}

# A rank that sleeps in its program is late, and the call in which the others wait is shown.
test_watch_late()
{
	begin sleepy 2
	watch --watch=0.3
	seen 2 '^[0-9:]*  job [0-9a-f]{32}: 4 ranks on 1 host, every 0.3 s$'
	seen 1 '^late: rank 2; 3 waiting$'
	call='allreduce #[0-9]+ \(count 1000, float32, sum, in place\), communicator 1'
	seen 1 "^ +[0-9.]+ s  0-1,3 +2 +$call"
	seen 1 '^    2  [^ ]+ +[0-9]+  late +0 +0 +0 +0$'
	kill -INT $watcher
	ends
	finish_job
}

# A stopped rank is named, and who waits for it; it goes on; the end of the job is the end.
test_watch_stopped()
{
	begin busy 0
	watch --watch=0.3 -w 300
	seen 1 '^4 running$'
	seen 1 '^    1  [^ ]+ +[0-9]+  running +[0-9.]+k? '
	last=$(sed -n 's/^    3  [^ ]*  *\([0-9]*\)  .*/\1/p' "$tmp/watch" | tail -n 1)
	kill -STOP "$last"
	seen 1 '^stopped: rank 3; 3 waiting$'
	seen 1 '^ +[0-9.]+ s  0-2 +3 \(stopped\) +allreduce #[0-9]+ .*, communicator 1'
	seen 1 "^    3  [^ ]+ +$last  stopped [0-9]+ s +- +- +- +-\$"
	kill -CONT "$last"
	seen 1 '^4 running$'
	finish_job
	ends
	tail -n 1 "$tmp/watch" | grep -qE '^job [0-9a-f]{32} has ended$' ||
		die "$(tail "$tmp/watch")"
}

# The rank that is asked is stopped, and rank 0 of the tree with it: another one is asked.
test_watch_asked()
{
	begin busy 0
	watch --watch=0.3 -w 300
	seen 1 '^4 running$'
	asked=$(sed -n 's/^    0  [^ ]*  *\([0-9]*\)  .*/\1/p' "$tmp/watch" | tail -n 1)
	kill -STOP "$asked"
	seen 2 '^stopped: rank 0[;,]'
	seen 1 ' 0 \(stopped\) +allreduce #'
	kill -CONT "$asked"
	seen 1 '^4 running$'
	kill -TERM $watcher
	ends
	finish_job
}

# pictures N: waits until N of them are on the screen
pictures()
{
	for i in $(seq 150); do
		[ "$(grep -ac 'late: rank 2' "$tmp/screen")" -lt "$1" ] || return 0
		sleep 0.1
	done
}

# on_terminal KEYS [VARIABLE=VALUE...]: on one of 9 lines of 50 columns, until KEYS. ^C goes to the
# shell, too, which is to outlive it.
on_terminal()
{
	keys=$1
	shift
	: >"$tmp/screen"
	{
		pictures 4
		printf "$keys"
		sleep 0.5
	} | env TERM=xterm SHELL=/bin/sh "$@" timeout 30 script -qfec "trap : INT
		stty rows 9 cols 50
		'$TT_BUILD/tutti_ras' -p $pid0 --watch=0.2
		status=\$?; echo; echo status \$status; stty -a" "$tmp/screen" >/dev/null
	tr -d '\r' <"$tmp/screen" >"$tmp/look"
	expect '(^| )icanon'
	expect '(^| )echo( |$)'
	expect '^status 0$'
}

# The widest line and the most lines of a picture: not more than the terminal has; its head.
fits()
{
	awk -v esc="$(printf '\033')" 'BEGIN { RS = esc "\\[H"; most = wide = 0 }
		NR > 2 {
			sub(esc "\\[J.*", "")
			gsub(esc "\\[[0-9;?]*[A-Za-z]", "")
			n = split($0, line, "\n")
			most = n > most ? n : most
			for (i = 1; i <= n; i++)
				wide = length(line[i]) > wide ? length(line[i]) : wide
			pictures++
		}
		END { exit !(pictures >= 2 && most <= 9 && most > 7 && wide <= 50 && wide > 40) }' \
		"$tmp/look" || die "it does not fit: $(cat "$tmp/look")"
}

test_watch_terminal()
{
	command -v script >/dev/null || skip "script (package bsdutils) is missing"
	begin sleepy 2
	look -i 0
	red=$(printf '\033')'\[3[13]m'
	on_terminal q
	fits
	expect "$(printf '\033')\[\?25h" # the cursor
	expect "${red}late: rank 2"
	expect 'and [0-9]+ more ranks'
	on_terminal '\003' NO_COLOR=1
	fits
	expect 'late: rank 2'
	! grep -q "$red" "$tmp/look" || die "colours"
	on_terminal q TERM=dumb
	! grep -q "$(printf '\033')\[H" "$tmp/look" || die "escapes on a dumb terminal"
	finish_job
}

# One more than a rank serves is refused and says why; it is served as soon as another one ends.
test_many()
{
	begin sleepy 2
	watchers=
	until ! "$TT_BUILD/tutti_ras" -i 0 -p "$pid0" >"$tmp/look" 2>&1; do
		"$TT_BUILD/tutti_ras" -f -i 600 -p "$pid0" >"$tmp/watcher" 2>&1 &
		watchers="$watchers $!"
	done
	refused=$(cat "$tmp/look")
	kill $watchers 2>/dev/null # some may have been refused, too
	while kill -0 $launcher 2>/dev/null &&
		! "$TT_BUILD/tutti_ras" -i 0 -p "$pid0" >"$tmp/look" 2>&1; do
		sleep 0.1
	done
	expect '^job [0-9a-f]{32}: 4 ranks$'
	finish_job
	n=$(echo $watchers | wc -w)
	[ "$n" -ge 16 ] || die "refused after $n others: $refused"
	echo "$refused" | grep -q '; a rank serves at most 16 tutti_ras at a time$' ||
		die "$refused"
}

test_options()
{
	says "does not go with" "$TT_BUILD/tutti_ras" --watch --json
	says "from 0.05 to 86400" "$TT_BUILD/tutti_ras" --watch=0
	says "no such job" "$TT_BUILD/tutti_ras" --watch ffffffffffffffffffffffffffffffffff
	says "no such job" "$TT_BUILD/tutti_ras" ffffffffffffffffffffffffffffffffff
	says "from 0 to 86400" "$TT_BUILD/tutti_ras" -i -1
	says "a whole number" "$TT_BUILD/tutti_ras" -p x
	says "give one job" "$TT_BUILD/tutti_ras" a b
	names_range "$TT_BUILD/tutti_ras" <<-END
		--watch= | from 0.05 to 86400 | 0 86401 1e308 x
		-i | from 0 to 86400 | -1 86401 1e308 x
		-p | from 1 to 4194304 | 0 4194305 99999999999 x
		--wait | from 1 to 3600000 | 0 3600001 99999999999 x
	END
}

for t in late rates stopped ending without_0 strangers watch_late watch_stopped watch_asked \
	watch_terminal many options; do
	run $t test_$t
done
finish
