#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# tutti_run alone, with shell commands as ranks; two "hosts" are this one behind a fake ssh.
only=$*
. "${TT_SRC:-$(dirname "$0")/../..}/tests/sh.inc"
suite run
tutti_run=$TT_BUILD/tutti_run
TUTTI_TEST_SSH_LOG=$tmp/ssh.log
export TUTTI_TEST_SSH_LOG
unset TUTTI_IF
# Ranks that are looked for later sleep for a time that nobody else sleeps.
MARK=$((100000 + $$))
export MARK
fake_ssh="sh $TT_SRC/tests/mp/programs/fake_ssh.sh"

launch()
{
	timeout -k 5 30 "$tutti_run" "$@"
}

hosts()
{
	launch --ssh "$fake_ssh" -H alpha:2,beta:2 "$@"
}

# expect WANTED FOUND
expect()
{
	[ "$1" = "$2" ] || die "expected: $1
found:    $2"
}

# expect_text WANTED FILE
expect_text()
{
	grep -q -- "$1" "$2" || die "expected '$1' in: $(cat "$2")"
}

test_environment()
{
	launch -n 3 sh \
		-c 'echo $TUTTI_RANK $TUTTI_NRANKS $TUTTI_LOCAL_RANK ${#TUTTI_JOB_ID} ${TUTTI_STORE_FD:+store}' \
		>"$tmp/out" || die "status $?"
	expect "0 3 0 32 store
1 3 1 32
2 3 2 32" "$(sort "$tmp/out" | sed 's/ $//')"
}

test_store()
{
	# Rank 0 inherits a listening socket; all are told the same loopback address and job.
	launch -n 3 sh -c 'echo $TUTTI_STORE $TUTTI_JOB_ID' >"$tmp/out" || die "status $?"
	expect 1 "$(sort -u "$tmp/out" | wc -l)"
	grep -q '^127\.0\.0\.1:[1-9][0-9]* ' "$tmp/out" ||
		die "no loopback store: $(cat "$tmp/out")"
	launch -n 1 sh -c 'readlink /proc/self/fd/$TUTTI_STORE_FD' >"$tmp/out"
	expect_text '^socket:' "$tmp/out"
}

test_secret()
{
	# 32 bytes, the same for all ranks, each from a descriptor of its own; another one for each
	# job.
	launch -n 3 sh -c 'echo $(od -An -v -tx1 /proc/self/fd/$TUTTI_SECRET_FD | tr -d " \n")' \
		>"$tmp/out"
	expect 3 "$(wc -l <"$tmp/out")"
	expect 1 "$(sort -u "$tmp/out" | wc -l)"
	expect 65 "$(head -n 1 "$tmp/out" | wc -c)"
	launch -n 1 sh -c 'echo $(od -An -v -tx1 /proc/self/fd/$TUTTI_SECRET_FD | tr -d " \n")' \
		>"$tmp/out2"
	! grep -qf "$tmp/out2" "$tmp/out" || die "two jobs with one secret"
}

test_secret_hidden()
{
	# Hex and raw bytes of the secret against the command lines and environments of everybody.
	cat >"$tmp/look.sh" <<-'END'
		cat /proc/self/fd/$TUTTI_SECRET_FD >$OUT/secret.$TUTTI_RANK
		cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ >$OUT/seen.$TUTTI_RANK 2>/dev/null
		exit 0
	END
	OUT=$tmp hosts -v -x OUT sh "$tmp/look.sh" >"$tmp/log" 2>&1 ||
		die "status $?: $(cat "$tmp/log")"
	expect 32 "$(wc -c <"$tmp/secret.0")"
	cmp "$tmp/secret.0" "$tmp/secret.3" || exit 1
	cat "$TUTTI_TEST_SSH_LOG" "$tmp/log" "$tmp"/seen.? >"$tmp/all"
	expect_text tutti_run "$tmp/all"
	od -An -v -tx1 "$tmp/secret.0" | tr -d ' \n' >"$tmp/hex"
	! grep -qiaf "$tmp/hex" "$tmp/all" || die "the secret is visible in hexadecimal"
	od -An -v -tx1 "$tmp/all" | tr -d ' \n' | grep -qf "$tmp/hex" && die "the secret is visible"
	return 0
}

test_tags()
{
	launch -n 2 --tag-output sh -c 'echo out; printf unfinished >&2' >"$tmp/out" 2>"$tmp/err"
	expect "[0]: out
[1]: out" "$(sort "$tmp/out")"
	expect "[0]: unfinished
[1]: unfinished" "$(sort "$tmp/err")"
	expect 100000 "$(launch --tag-output sh -c 'head -c 99994 /dev/zero | tr "\0" x' |
		tr -d '\n' |
		sed 's/\[0\]: //2' | wc -c | sed 's/99999/100000/')"
}

test_stdin()
{
	expect "0: text" "$(echo text |
		launch -n 3 sh -c 'read line && echo $TUTTI_RANK: $line; true')"
	head -c 300000 /dev/zero | tr '\0' y >"$tmp/in"
	hosts wc -c <"$tmp/in" >"$tmp/out"
	expect "0 0 0 300000" "$(echo $(sort -n "$tmp/out"))"
}

test_status()
{
	launch -n 3 sh -c 'test $TUTTI_RANK != 1 || exit 7; exec sleep 30' 2>"$tmp/err"
	expect 7 $?
	expect_text 'rank 1 on .* ended with status 7 first' "$tmp/err"
	launch -n 3 sh -c 'test $TUTTI_RANK != 2 || kill -9 $$; exec sleep 30' 2>"$tmp/err"
	expect 137 $?
	expect_text 'rank 2 on .* killed by signal 9' "$tmp/err"
	expect 1 "$(wc -l <"$tmp/err")"
}

test_grace()
{
	# The others may say what they saw before they are ended, and are killed if they do not
	# listen.
	launch -n 2 sh -c 'test $TUTTI_RANK = 0 && exit 3; sleep 0.5; echo I saw it; exit 4' \
		>"$tmp/out" 2>"$tmp/err"
	expect 3 $?
	expect_text 'I saw it' "$tmp/out"
	launch -n 2 sh \
		-c 'test $TUTTI_RANK = 0 && exit 3; trap "echo TERM" TERM
		while :; do sleep 0.1; done' \
		>"$tmp/out" 2>&1
	expect 3 $?
	expect_text TERM "$tmp/out"
}

test_nothing_left()
{
	launch -n 2 sh -c 'sleep ${MARK}1 & sleep ${MARK}1 & test $TUTTI_RANK = 0 && exit 5; wait' \
		2>/dev/null
	expect 5 $?
	! pgrep -f "^sleep ${MARK}1\$" || die "processes are left"
	hosts sh -c 'sleep ${MARK}2 & test $TUTTI_RANK = 3 && exit 6; wait' 2>/dev/null
	expect 6 $?
	! pgrep -f "^sleep ${MARK}2\$" || die "processes are left behind the remote shell"
}

test_launcher_killed()
{
	"$tutti_run" -n 2 sleep ${MARK}3 &
	pid=$!
	"$tutti_run" --ssh "$fake_ssh" -H alpha:2 sleep ${MARK}3 &
	pid2=$!
	i=0
	until [ "$(pgrep -fc "^sleep ${MARK}3\$")" = 4 ] ||
		[ $i = 100 ]; do sleep 0.1; i=$((i + 1)); done
	expect 4 "$(pgrep -fc "^sleep ${MARK}3\$")"
	kill -9 $pid $pid2
	i=0
	while pgrep -f "^sleep ${MARK}3\$" >/dev/null &&
		[ $i != 50 ]; do sleep 0.1; i=$((i + 1)); done
	! pgrep -f "^sleep ${MARK}3\$" || die "ranks outlive a killed launcher"
}

# What ranks have started ends too, here and behind a remote shell; and when it is the agent that
# is killed.
test_launcher_killed_shells()
{
	: >"$TUTTI_TEST_SSH_LOG"
	launch_shells 4 -n 2
	a=$pid
	launch_shells 8 --ssh "$fake_ssh" -H alpha:2
	kill -9 $a $pid
	shells_end "a killed launcher"
	: >"$TUTTI_TEST_SSH_LOG"
	launch_shells 4 --ssh "$fake_ssh" -H alpha:2
	kill -9 "$(cut -d ' ' -f 1 "$TUTTI_TEST_SSH_LOG")"
	wait $pid 2>/dev/null
	shells_end "a killed agent"
}

# launch_shells COUNT OPTION...: ranks that are shells with children, COUNT processes sleep in all
launch_shells()
{
	want=$1
	shift
	"$tutti_run" "$@" sh -c 'sleep ${MARK}4 & sleep ${MARK}4; wait' 2>/dev/null &
	pid=$!
	i=0
	until [ "$(pgrep -fc "^sleep ${MARK}4\$")" = $want ] ||
		[ $i = 100 ]; do sleep 0.1; i=$((i + 1)); done
	expect $want "$(pgrep -fc "^sleep ${MARK}4\$")"
}

shells_end()
{
	i=0
	while pgrep -f "^sleep ${MARK}4\$" >/dev/null &&
		[ $i != 100 ]; do sleep 0.1; i=$((i + 1)); done
	! pgrep -f "^sleep ${MARK}4\$" || die "what ranks have started outlives $1"
}

# named STATUS TEXT OPTION... : what tutti_run says of a job in which rank 1 goes wrong
named()
{
	want=$1 text=$2
	shift 2
	launch "$@" >"$tmp/out" 2>"$tmp/err"
	expect "$want" $?
	grep "^tutti_run" "$tmp/err" >"$tmp/said"
	expect_text "$text" "$tmp/said"
	expect 1 "$(wc -l <"$tmp/said")"
}

# The rank that went wrong is named, whoever is reported first, and if it left with status 0.
test_first()
{
	rank=$TT_BUILD/tests/diag/rank
	[ -x "$rank" ] || skip "tests/diag/rank was not built"
	for _ in 1 2 3; do
		named 3 "rank 1 on .* ended with status 3 first" -n 2 "$rank" fail 1
	done
	named 3 "rank 1 on .* ended with status 3 first" --ssh "$fake_ssh" -H alpha,beta "$rank" \
		fail 1
	named 4 \
		"rank 1 on .* ended with status 0 before the others were done; then rank [02] on .* ended with status 4" \
		-n 3 "$rank" leave 1
}

# by_hand COMMAND...: three ranks without tutti_run, rank 1 with TUTTI_IF=$if1; what they say in
# $tmp/err.0 to 2
by_hand()
{
	for r in 0 1 2; do
		[ $r = 1 ] && if=$if1 || if=
		TUTTI_IF=$if TUTTI_RANK=$r TUTTI_NRANKS=3 TUTTI_INIT_TIMEOUT=120s timeout 60 "$@" \
			>"$tmp/err.$r" 2>&1 &
	done
	wait
}

# A rank that fails before it joins tells the others, which do not wait for TUTTI_INIT_TIMEOUT.
test_refuse()
{
	[ -x "$TT_BUILD/hello" ] || skip "examples/hello was not built"
	mkdir -p "$tmp/by_hand"
	if1=nowhere
	TUTTI_BOOT_DIR=$tmp/by_hand by_hand "$TT_BUILD/hello"
	expect_text "TUTTI_IF=nowhere" "$tmp/err.1"
	expect_text "rank 1 on .* cannot start: TUTTI_IF=nowhere" "$tmp/err.0"
	expect_text "rank 1 on .* cannot start: TUTTI_IF=nowhere" "$tmp/err.2"
	if1=
	TUTTI_BOOT_DIR=$tmp/by_hand by_hand "$TT_BUILD/hello"
	expect_text "rank 1 of 3: the average is 1" "$tmp/err.1"
}

# A rank that is killed after its first contact ends the start of the others at once; so does rank
# 0.
test_lost_early()
{
	[ -x "$TT_BUILD/hello" ] || skip "examples/hello was not built"
	for victim in 1 0; do
		mkdir -p "$tmp/early.$victim"
		for r in 0 1; do # rank 2 never comes
			TUTTI_BOOT_DIR=$tmp/early.$victim TUTTI_RANK=$r TUTTI_NRANKS=3 \
				TUTTI_INIT_TIMEOUT=120s TUTTI_LOG=debug \
				timeout 60 "$TT_BUILD/hello" >"$tmp/early.$victim/err.$r" 2>&1 &
			eval pid$r=$!
		done
		i=0
		until grep -q "rank 1 is there, on" "$tmp/early.$victim/err.0" ||
			[ $i = 400 ]; do sleep 0.05; i=$((i + 1)); done
		eval "pkill -9 -P \$pid$victim; kill -9 \$pid$victim"
		wait
	done 2>/dev/null
	expect_text \
		"tutti_init: rank 1 on .* \(ended before it joined\|was lost during the start\)" \
		"$tmp/early.1/err.0"
	expect_text "tutti_init: rank 0 at .* was lost during the start" "$tmp/early.0/err.1"
}

test_loopback_down()
{
	[ -x "$TT_BUILD/hello" ] || skip "examples/hello was not built"
	unshare -n true 2>/dev/null ||
		skip "no network namespace of its own: no rights, or no util-linux"
	timeout 60 unshare -n "$tutti_run" -n 2 "$TT_BUILD/hello" >"$tmp/out" 2>&1
	expect 1 $?
	expect_text "ip link set lo up" "$tmp/out"
	if1=
	TUTTI_STORE=127.0.0.1:9999 by_hand unshare -n "$TT_BUILD/hello"
	for r in 0 1 2; do
		expect_text "ip link set lo up" "$tmp/err.$r"
	done
}

# TCP gives a rank that waits for rank 0 the port of rank 0 as its own now and then (an even one, as
# listeners get odd ones): the rank reaches itself, and must not keep rank 0 from the port.
test_reached_itself()
{
	[ -x "$TT_BUILD/hello" ] || skip "examples/hello was not built"
	unshare -n true 2>/dev/null ||
		skip "no network namespace of its own: no rights, or no util-linux"
	cat >"$tmp/few_ports" <<-'EOF'
		ip link set lo up
		echo 40000 40007 >/proc/sys/net/ipv4/ip_local_port_range
		for port in 40000 40002 40004 40006; do
			export TUTTI_STORE=127.0.0.1:$port TUTTI_NRANKS=2 TUTTI_INIT_TIMEOUT=30s
			TUTTI_RANK=1 timeout 60 "$1" & late=$!
			sleep 1.5
			TUTTI_RANK=0 timeout 60 "$1" || exit
			wait $late || exit
		done
	EOF
	unshare -n sh "$tmp/few_ports" "$TT_BUILD/hello" >"$tmp/out" 2>&1
	expect 0 $?
	[ "$(grep -c 'the average is 0.5' "$tmp/out")" = 8 ] || die "$(cat "$tmp/out")"
}

# Limits that cannot do are said at once, before many processes are started.
test_limits()
{
	for n in 100 100000; do
		(ulimit -n 64 && launch -n $n -x OUT="$tmp" sh -c ': >$OUT/started; exec sleep 20' \
			2>"$tmp/err")
		expect 1 $?
		expect_text \
			"$n ranks on this host need [0-9]* file descriptors here, 64 are allowed; raise 'ulimit -n'" "$tmp/err"
		[ ! -e "$tmp/started" ] || die "a rank was started"
	done
	(ulimit -f 8 && launch -n 2 true 2>"$tmp/err") || die "status $?: $(cat "$tmp/err")"
	expect_text "'ulimit -f' allows files of" "$tmp/err"
	# The environment must fit in a quarter of the stack.
	env -i PATH="$PATH" LD_LIBRARY_PATH="$LD_LIBRARY_PATH" sh -c \
		'ulimit -s 63; exec "$0" true' "$tutti_run" 2>"$tmp/err" ||
		die "status $?: $(cat "$tmp/err")"
	expect_text "'ulimit -s' allows stacks of 63 KiB: programs that use tutti need 64" \
		"$tmp/err"
	# tutti_run lives through a limit of which a rank dies, and names the signal.
	(ulimit -f 64 && launch -n 2 -x OUT="$tmp" \
		sh -c 'exec head -c 200000 /dev/zero >$OUT/big.$TUTTI_RANK' 2>"$tmp/err")
	expect 153 $?
	expect_text "rank [01] on .* was killed by signal 25 (File size limit exceeded)" "$tmp/err"
	[ -x "$TT_BUILD/hello" ] || return 0
	# Rank 0 needs a descriptor for each other rank, and does not wait for ranks that it could
	# not let in.
	(ulimit -n 64 &&
		TUTTI_INIT_TIMEOUT=120s TUTTI_RANK=0 TUTTI_NRANKS=60 TUTTI_STORE=127.0.0.1:9998 \
		timeout 60 "$TT_BUILD/hello") >"$tmp/out" 2>&1
	expect_text \
		"file descriptors are left, the start of a job of 60 ranks needs .* raise 'ulimit -n'" "$tmp/out"
}

# signals NAME STATUS LAUNCHER...: a signal sent to the launcher reaches every rank
signals()
{
	sig=$1 want=$2
	shift 2
	rm -f "$tmp"/up.* "$tmp"/got.*
	OUT=$tmp
	export OUT
	"$@" -x OUT -n 2 sh -c 'trap "echo > $OUT/got.$TUTTI_RANK; exit 9" '"$sig"'
		echo > $OUT/up.$TUTTI_RANK; i=0
		while test $i != 600; do sleep 0.1; i=$((i+1)); done' 2>"$tmp/err" &
	pid=$!
	i=0
	until [ -e "$tmp/up.0" ] && [ -e "$tmp/up.1" ] ||
		[ $i = 300 ]; do sleep 0.1; i=$((i + 1)); done
	kill -"$sig" $pid
	wait $pid
	expect "$want" $?
	[ -e "$tmp/got.0" ] && [ -e "$tmp/got.1" ] ||
		die "SIG$sig did not reach both: $(cat "$tmp/err")"
}

test_signals()
{
	for s in TERM HUP USR1 USR2; do
		signals $s 9 "$tutti_run"
	done
	signals TERM 9 "$tutti_run" --ssh "$fake_ssh" -H alpha:1,beta:1
}

test_signal_death()
{
	"$tutti_run" -n 2 sleep 30 2>"$tmp/err" &
	pid=$!
	sleep 0.5
	kill -TERM $pid
	wait $pid
	expect 143 $?
}

test_timeout()
{
	launch -n 2 --timeout 300ms sleep 30 2>"$tmp/err"
	expect 124 $?
	expect_text 'timeout, 2 of 2 ranks' "$tmp/err"
}

test_options()
{
	launch --tag-outptu true 2>"$tmp/err"
	expect 2 $?
	expect_text 'did you mean --tag-output' "$tmp/err"
	launch --verb=2 true 2>"$tmp/err"
	expect 2 $?
	expect_text '--verbose takes no value' "$tmp/err"
	for bad in '-n 0' '-n x' '-n +2' '--timeout soon' '--timeout 0x10' '--timeout 1e3' \
		'--bind socket' '-x TUTTI_TEST_NOT_THERE' \
		'-H a:0' \
		'-H a,a' '-H -oProxy' '-n 3 -H localhost:2' ''; do
		launch $bad $([ -z "$bad" ] || echo true) 2>"$tmp/err"
		expect 2 $?
		expect 1 "$(wc -l <"$tmp/err")"
	done
	launch --wdir /nowhere/at/all true 2>"$tmp/err"
	expect 1 $?
	expect 1 "$(wc -l <"$tmp/err")"
	names_range "$tutti_run" <<-END
		-n | from 1 to 1048576 | 0 -1 1048577 99999999999999999999 +2 x
		--replace | from 0 to 1048576 | -1 1048577 99999999999 x
		--timeout | from 1ms to 100000h | 0 0.5ms 100001h 1e3 soon
	END
	for slots in 0 65537 99999999999999999999 x ''; do
		says "from 1 to 65536" "$tutti_run" -H "a:$slots" true
	done
	launch -n 2 tutti_no_such_program 2>"$tmp/err"
	expect 1 $?
	expect_text 'cannot find program tutti_no_such_program' "$tmp/err"
	launch -np 2 true 2>"$tmp/err"
	expect 2 $?
	expect_text 'write -n N or --np N' "$tmp/err"
	launch "" 2>"$tmp/err"
	expect 1 $?
	expect_text 'name of the program is empty' "$tmp/err"
	launch "$tmp" 2>"$tmp/err"
	expect 1 $?
	expect_text 'Is a directory' "$tmp/err"
	launch --help | grep -q -- '--hostfile' || die "no help"
	launch --version | grep -q '^tutti_run [0-9]' || die "no version"
}

test_lookup()
{
	# A program beside tutti_run is found without PATH.
	cp "$tutti_run" "$tmp/tutti_run"
	printf '#!/bin/sh\necho found\n' >"$tmp/tt_neighbour"
	chmod +x "$tmp/tt_neighbour"
	expect found "$("$tmp/tutti_run" tt_neighbour)"
}

test_export()
{
	A=1 launch -n 1 -x A -x B=2 sh -c 'echo $A$B' >"$tmp/out"
	expect 12 "$(cat "$tmp/out")"
	TUTTI_CHUNK=64K TUTTI_RANK=9 hosts -n 3 -x B=2 sh -c 'echo $TUTTI_RANK $TUTTI_CHUNK $B' \
		>"$tmp/out"
	expect "0 64K 2,1 64K 2,2 64K 2" "$(sort "$tmp/out" | paste -sd,)"
}

test_wdir()
{
	mkdir -p "$tmp/there"
	expect "$tmp/there" "$(launch --wdir "$tmp/there" pwd)"
	expect "$tmp/there" "$(cd "$tmp" && hosts -n 1 --wdir there pwd)"
	expect "$tmp" "$(cd "$tmp" && hosts -n 1 pwd)"
}

test_bind()
{
	[ "$(nproc)" -gt 1 ] || skip "one CPU only"
	launch -n 2 --bind core sh -c 'grep Cpus_allowed_list /proc/self/status' >"$tmp/out"
	expect 2 "$(sort -u "$tmp/out" | wc -l)"
	! grep -q '[-,]' "$tmp/out" || die "not one core each: $(cat "$tmp/out")"
	launch -n 2 --bind none sh -c 'grep Cpus_allowed_list /proc/self/status' >"$tmp/out"
	expect 1 "$(sort -u "$tmp/out" | wc -l)"
	taskset -c 1 timeout 30 "$tutti_run" -n 2 sh -c 'grep Cpus_allowed_list /proc/self/status' |
		sort -u >"$tmp/out"
	expect 1 "$(sed 's/[^0-9]//g' "$tmp/out")"
	# The shares of two ranks, without asking for them, have nothing in common.
	[ "$(nproc)" = "$(getconf _NPROCESSORS_ONLN)" ] || skip "this test is bound itself"
	launch -n 2 sh -c 'grep Cpus_allowed_list /proc/self/status' >"$tmp/out"
	expect 2 "$(sort -u "$tmp/out" | wc -l)"
	launch -n $(($(nproc) + 1)) sh -c 'grep Cpus_allowed_list /proc/self/status' >"$tmp/out"
	expect 1 "$(sort -u "$tmp/out" | wc -l)"
}

test_hostfile()
{
	printf '# two hosts\nalpha slots=2\n\n  beta # one slot\n' >"$tmp/good"
	launch --ssh "$fake_ssh" --hostfile "$tmp/good" sh \
		-c 'echo $TUTTI_RANK $TUTTI_NRANKS $TUTTI_TEST_HOST' \
		>"$tmp/out" || die "status $?"
	expect "0 3 alpha,1 3 alpha,2 3 beta" "$(sort "$tmp/out" | paste -sd,)"
	printf 'alpha slots=2\n\nbeta slots=many\n' >"$tmp/bad"
	launch --hostfile "$tmp/bad" true 2>"$tmp/err"
	expect 2 $?
	expect_text "bad:3: .*'many'" "$tmp/err"
	printf 'alpha\nbeta solts=2\n' >"$tmp/bad"
	launch --hostfile "$tmp/bad" true 2>"$tmp/err"
	expect_text "bad:2: .*'solts=2'" "$tmp/err"
	printf '# none\n' >"$tmp/bad"
	launch --hostfile "$tmp/bad" true 2>"$tmp/err"
	expect_text 'names no host' "$tmp/err"
	launch --hostfile "$tmp" true 2>"$tmp/err"
	expect 2 $?
	expect_text 'Is a directory' "$tmp/err"
	launch --hostfile "$tmp/none" true 2>"$tmp/err"
	expect_text 'No such file' "$tmp/err"
}

test_remote()
{
	# One shell a host; ranks, local ranks, store, tags and the failing rank's host are right.
	: >"$TUTTI_TEST_SSH_LOG"
	hosts --tag-output sh \
		-c 'echo $TUTTI_LOCAL_RANK $TUTTI_TEST_HOST $TUTTI_STORE ${TUTTI_STORE_FD:+fd}' \
		>"$tmp/out" || die "status $?"
	expect 2 "$(wc -l <"$TUTTI_TEST_SSH_LOG")"
	expect "[0]: 0 alpha fd,[1]: 1 alpha,[2]: 0 beta,[3]: 1 beta" \
		"$(sort "$tmp/out" | sed 's/ 127[^ ]*//; s/ $//' | paste -sd,)"
	expect 1 "$(grep -o '127[^ ]*' "$tmp/out" | sort -u | wc -l)"
	hosts sh -c 'test $TUTTI_RANK = 3 && exit 8; exec sleep 30' 2>"$tmp/err"
	expect 8 $?
	expect_text 'rank 3 on beta ended with status 8 first' "$tmp/err"
}

test_remote_mixed()
{
	# Rank 0 here, others elsewhere.
	launch --ssh "$fake_ssh" -H localhost:1,beta:1 sh \
		-c 'echo $TUTTI_RANK ${TUTTI_TEST_HOST:-here} ${TUTTI_STORE_FD:+fd}' \
		>"$tmp/out" || die "status $?"
	expect "0 here fd,1 beta" "$(sort "$tmp/out" | sed 's/ $//' | paste -sd,)"
}

test_remote_failures()
{
	launch --ssh "$fake_ssh" -H alpha,refused true 2>"$tmp/err"
	expect 1 $?
	expect_text 'host refused: the remote shell ended before' "$tmp/err"
	launch --ssh "$fake_ssh" -H noisy true 2>"$tmp/err"
	expect 1 $?
	expect_text 'login script' "$tmp/err"
	launch --ssh /nowhere/ssh -H alpha true 2>"$tmp/err"
	expect 1 $?
	expect_text 'cannot run the remote shell /nowhere/ssh' "$tmp/err"
	hosts tutti_no_such_program 2>"$tmp/err"
	expect 1 $?
	expect_text 'cannot find program' "$tmp/err"
}

test_remote_shell_dies()
{
	: >"$TUTTI_TEST_SSH_LOG"
	"$tutti_run" --ssh "$fake_ssh" -H alpha,beta sleep ${MARK}4 2>"$tmp/err" &
	pid=$!
	i=0
	until [ "$(pgrep -fc "^sleep ${MARK}4\$")" = 2 ] ||
		[ $i = 100 ]; do sleep 0.1; i=$((i + 1)); done
	kill -9 "$(awk '$2 == "beta" { print $1 }' "$TUTTI_TEST_SSH_LOG")"
	i=0
	while kill -0 $pid 2>/dev/null && [ $i != 100 ]; do sleep 0.1; i=$((i + 1)); done
	kill -9 $pid 2>/dev/null && die "the launcher did not notice"
	wait $pid
	expect 1 $?
	expect_text 'host beta: connection lost' "$tmp/err"
	! pgrep -f "^sleep ${MARK}4\$" || die "processes are left"
}

test_replace()
{
	# In the place of the killed one a process without a rank, in the same place of the host;
	# the directory goes.
	cat >"$tmp/re.sh" <<-'END'
		echo "$TUTTI_RANK/$TUTTI_NRANKS/$TUTTI_LOCAL_RANK/$TUTTI_JOIN/${TUTTI_STORE:+store}" >>$OUT/re
		echo $TUTTI_BOOT_DIR >$OUT/dir
		[ "$TUTTI_RANK" != 1 ] || kill -9 $$
		[ -n "$TUTTI_RANK" ] || exec sleep 30
		n=0
		until grep -q "^//1/1/" $OUT/re || [ $n = 500 ]; do sleep 0.02; n=$((n + 1)); done
	END
	OUT=$tmp launch -n 3 --replace 2 sh "$tmp/re.sh" >"$tmp/log" 2>&1 ||
		die "status $?: $(cat "$tmp/log")"
	expect "//1/1/
0/3/0//store
1/3/1//store
2/3/2//store" "$(sort "$tmp/re")"
	expect_text "a new process joins in its place" "$tmp/log"
	[ ! -e "$(cat "$tmp/dir")" ] || die "the directory is left"
}

test_replace_status()
{
	# Killed ones are forgiven as long as one ends well; other failures are not.
	launch -n 2 --replace 0 sh -c '[ $TUTTI_RANK = 0 ] || kill -9 $$' || die "status $?"
	launch -n 2 --replace 0 sh -c 'kill -9 $$'
	expect 137 $?
	launch -n 2 --replace 3 sh -c '[ -n "$TUTTI_JOIN" ] && exec sleep 30; kill -9 $$'
	expect 137 $?
	launch -n 2 --replace 3 sh -c 'exit $((TUTTI_RANK * 3))'
	expect 3 $?
	(unset TUTTI_BOOT_DIR; hosts --replace 1 true) >"$tmp/log" 2>&1
	expect 1 $?
	expect_text "on another host (alpha) needs TUTTI_BOOT_DIR" "$tmp/log"
	TUTTI_BOOT_DIR=/nowhere/shared hosts --replace 1 true >"$tmp/log" 2>&1
	expect 1 $?
	expect_text "TUTTI_BOOT_DIR=/nowhere/shared: new processes cannot join through it" \
		"$tmp/log"
}

# A rank that fails because another one was killed says so, unless its own end is reported first;
# one that has gone on without it does not.
test_replace_cause()
{
	rank=$TT_BUILD/tests/diag/rank
	[ -x "$rank" ] || skip "tests/diag/rank was not built"
	for where in here there; do
		[ $where = here ] && set -- -n 3 || set -- --ssh "$fake_ssh" -H alpha:2,beta
		launch "$@" --replace 0 "$rank" kill 2 2>"$tmp/err"
		case $? in
		4) expect_text "ended with status 4 first, because of rank 2 on " "$tmp/err" ;;
		137) expect_text "rank 2 on .* was killed by signal 9 (Killed) first" "$tmp/err" ;;
		*) die "$(cat "$tmp/err")" ;;
		esac
	done
	for how in shrink tolerate; do
		TUTTI_TOLERANT=1 launch -n 3 --replace 0 "$rank" $how 1 2>"$tmp/err"
		expect 3 $?
		expect_text "rank 0 on .* ended with status 3 first" "$tmp/err"
		! grep "because of" "$tmp/err" || die "$how: it had gone on"
	done
}

test_replace_remote()
{
	# A rank of a host in whose place nobody is left, and one of another; with the secret, and
	# where they were.
	mkdir -p "$tmp/gate"
	rm -f "$tmp/re"
	cat >"$tmp/re.sh" <<-'END'
		secret=$(od -An -tx1 /proc/self/fd/$TUTTI_SECRET_FD | cksum)
		echo "$TUTTI_RANK/$TUTTI_NRANKS/$TUTTI_LOCAL_RANK/$TUTTI_JOIN/$TUTTI_TEST_HOST:$secret:$TUTTI_BOOT_DIR" >>$OUT/re
		case $TUTTI_RANK in 1 | 2) kill -9 $$ ;; esac
		[ -n "$TUTTI_RANK" ] || exec sleep ${MARK}5
		n=0
		until [ $(grep -c "^//" $OUT/re) = 2 ] || [ $n = 500 ]; do
			sleep 0.02; n=$((n + 1))
		done
	END
	: >"$TUTTI_TEST_SSH_LOG"
	TUTTI_BOOT_DIR=$tmp/gate launch --ssh "$fake_ssh" -H localhost:1,alpha:1,beta:2 \
		--replace 2 -x OUT="$tmp" -x MARK \
		sh "$tmp/re.sh" >"$tmp/log" 2>&1 || die "status $?: $(cat "$tmp/log")"
	expect "//0/1/alpha
//0/1/beta
0/4/0//
1/4/0//alpha
2/4/0//beta
3/4/1//beta" "$(cut -d: -f1 "$tmp/re" | sort)"
	expect 1 "$(cut -d: -f2- "$tmp/re" | grep ":$tmp/gate\$" | sort -u | wc -l)"
	expect 2 "$(grep -c "a new process joins in its place" "$tmp/log")"
	expect 2 "$(wc -l <"$TUTTI_TEST_SSH_LOG")"
	! pgrep -f "^sleep ${MARK}5\$" || die "processes are left"
	[ -d "$tmp/gate" ] || die "the directory of TUTTI_BOOT_DIR is gone"
}

# The directory that was made for new processes goes with a killed launcher too.
test_replace_killed()
{
	rm -f "$tmp"/dir.?
	OUT=$tmp "$tutti_run" -n 2 --replace 1 sh -c \
		': >$TUTTI_BOOT_DIR/file; echo $TUTTI_BOOT_DIR >$OUT/dir.$TUTTI_RANK; exec sleep 60' &
	pid=$! i=0
	until [ -s "$tmp/dir.0" ] && [ -s "$tmp/dir.1" ] ||
		[ $i = 200 ]; do sleep 0.05; i=$((i + 1)); done
	dir=$(cat "$tmp/dir.0")
	[ -d "$dir" ] || die "no directory"
	kill -9 $pid
	i=0
	while [ -e "$dir" ] && [ $i != 200 ]; do sleep 0.05; i=$((i + 1)); done
	[ ! -e "$dir" ] || die "the directory is left"
}

# The remote shell of a host dies, and its ranks with it: the others go on, and end well.
test_replace_host_dies()
{
	: >"$TUTTI_TEST_SSH_LOG"
	rm -f "$tmp/goes" "$tmp/up".*
	"$tutti_run" --ssh "$fake_ssh" -H alpha,beta --replace 0 -x OUT="$tmp" sh -c \
		': >$OUT/up.$TUTTI_RANK; n=0; until [ -e $OUT/goes ] || [ $n = 500 ]; do sleep 0.02; n=$((n + 1)); done' \
		2>"$tmp/err" &
	pid=$! i=0
	until [ -e "$tmp/up.0" ] && [ -e "$tmp/up.1" ] ||
		[ $i = 200 ]; do sleep 0.05; i=$((i + 1)); done
	kill -9 "$(awk '$2 == "beta" { print $1 }' "$TUTTI_TEST_SSH_LOG")"
	i=0
	until grep -q "the ranks on beta are gone; the others go on" "$tmp/err" ||
		[ $i = 200 ]; do sleep 0.05; i=$((i + 1)); done
	: >"$tmp/goes"
	wait $pid || die "status $?: $(cat "$tmp/err")"
	expect_text 'host beta: connection lost' "$tmp/err"
	expect_text 'the ranks on beta are gone; the others go on' "$tmp/err"
}

# New processes that never joined are ended with those that were there, on whatever host they are.
test_replace_dismissed()
{
	mkdir -p "$tmp/gate"
	TUTTI_BOOT_DIR=$tmp/gate hosts --replace 2 -x OUT="$tmp" -x MARK sh -c \
		'[ -z "$TUTTI_JOIN" ] || { : >$OUT/in.$TUTTI_TEST_HOST; exec sleep ${MARK}6; }
		 case $TUTTI_RANK in 1 | 2) kill -9 $$ ;; esac
		 n=0; until [ -e $OUT/in.alpha ] && [ -e $OUT/in.beta ] || [ $n = 500 ]; do
			sleep 0.02; n=$((n + 1)); done' \
		>"$tmp/log" 2>&1 || die "status $?: $(cat "$tmp/log")"
	! pgrep -f "^sleep ${MARK}6\$" || die "processes are left"
}

# The text names what gave the rank.
test_origin()
{
	says "this is rank 0 of 2 (TUTTI_RANK)" env TUTTI_RANK=0 TUTTI_NRANKS=2 \
		"$TT_BUILD/tutti_perf" barrier
	says "(tutti_run) within" launch -n 2 -x TUTTI_INIT_TIMEOUT=100ms sh -c \
		'[ $TUTTI_RANK = 0 ] && exec sleep 5; TUTTI_STORE=127.0.0.1:1 exec "$0" barrier' \
		"$TT_BUILD/tutti_perf"
}

# Why each transport cannot be used, and nothing that speaks for one.
test_no_transport()
{
	# shellcheck disable=SC2016
	launch -n 2 sh -c 'export TUTTI_TRANSPORT
		[ $TUTTI_RANK = 0 ] && TUTTI_TRANSPORT=shm || TUTTI_TRANSPORT=ofi
		exec "$0" barrier' "$TT_BUILD/tutti_perf" >"$tmp/out" 2>&1 && die "it went on"
	! grep -q "there is no transport" "$tmp/out" || skip "built without libfabric"
	expect_text "no transport to rank [01] .*shm: not .*ofi: not " "$tmp/out"
	grep -q -e "shm: not open at rank 1.*ofi: not in TUTTI_TRANSPORT of rank 0" \
		-e "shm: not in TUTTI_TRANSPORT of rank 1.*ofi: not open at rank 0" "$tmp/out" ||
		die "$(cat "$tmp/out")"
	! grep -q "are the same" "$tmp/out" || die "$(cat "$tmp/out")"
	launch -n 2 sh -c 'TUTTI_HOST_ID=h$TUTTI_RANK TUTTI_TRANSPORT=shm exec "$0" barrier' \
		"$TT_BUILD/tutti_perf" >"$tmp/out" 2>&1 && die "it went on"
	expect_text "no transport to rank [01] .*: shm: TUTTI_HOST_ID differs" "$tmp/out"
}

# What cannot be written is an error of every program.
test_unwritten()
{
	for p in run info perf sim explain tune ras blame doctor ps_check; do
		unwritten "$TT_BUILD/tutti_$p" --help
		unwritten "$TT_BUILD/tutti_$p" --version
	done
	! [ -x "$TT_BUILD/train_digits" ] || unwritten "$TT_BUILD/train_digits" --help
	for o in "" --config --devices --json; do
		unwritten "$TT_BUILD/tutti_info" $o
	done
	! "$TT_BUILD/tutti_info" >&- 2>"$tmp/err" || die "tutti_info >&- succeeded"
	expect_text "cannot write to standard output: Bad file descriptor" "$tmp/err"
	unwritten "$TT_BUILD/tutti_sim" -n 2 -b 8
	unwritten "$TT_BUILD/tutti_explain" -n 2 -b 8
	unwritten "$TT_BUILD/tutti_explain" ps
	unwritten "$TT_BUILD/tutti_perf" kernel -b 64 -e 64 -n 1
}

for t in environment store secret secret_hidden tags stdin status first refuse \
	lost_early loopback_down reached_itself limits grace nothing_left origin no_transport \
	unwritten launcher_killed launcher_killed_shells signals signal_death timeout options \
	lookup export wdir bind hostfile remote remote_mixed remote_failures remote_shell_dies \
	replace replace_killed replace_status replace_cause replace_remote replace_host_dies \
	replace_dismissed; do
	run $t test_$t
done
finish
