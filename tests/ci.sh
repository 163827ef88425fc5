#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# All tests, over a tree that quickstart.sh has built: make check, then subsets with sanitizers and
# valgrind, the fuzzers, then make distcheck. Every test program prints "# NAME: P passed, F
# failed, S skipped"; the last line here is their sum.
#
# Tests wait for much of their time, so two run at once in the quick run, but for alone_tests, and
# with sanitizers. What tests leave of the processors goes to what no clock looks at (stage_beside),
# below everything else's priority.
#
# sh tests/ci.sh [check] [asan] [tsan] [valgrind] [fuzz] [distcheck]	default: all of them
# sh tests/ci.sh names	only whether the tests exist that are named here; make check does that, too
#	sh tests/ci.sh arm64	unit and plan tests of a cross-build, under qemu-user
#	sh tests/ci.sh asan_all tsan_all	every test that can run with sanitizers
#	sh tests/ci.sh quick	make check without long_tests, and nothing else
set -u
cd "$(dirname "$0")/.." || exit 1
top=$PWD
jobs=$(nproc)
lanes=1
passed=0 failed=0 skipped=0
unsteady=0 tries=0
werror=
[ "${CI:-}" != true ] || werror=--enable-werror

# Which programs (patterns over the list of make check) run where else.
asan_tests="tests/unit/* tests/plan/test_check tests/plan/test_choose tests/plan/test_tune
	tests/conform/conform_self
	tests/conform/conform_shm tests/conform/conform_ofi_tcp tests/conform/conform_fault_shm
	tests/conform/conform_fault_ofi_tcp
	tests/diag/test_flight tests/fault/test_nth tests/fault/test_strangers
	tests/mp/comm/test_comm tests/mp/coll/test_random tests/mp/coll/test_alltoallw
	tests/mp/coll/test_own_counts tests/mp/coll/test_root_counts tests/mp/coll/test_node
	tests/mp/coll/test_node_comms
	tests/mp/coll/test_rings tests/mp/coll/test_streams
	tests/mp/coll/test_neighbors tests/mp/coll/test_partial*
	tests/mp/coll/test_codec_failures tests/mp/coll/test_factors
	tests/mp/coll/test_persistent_random
	tests/mp/p2p/test_p2p tests/mp/p2p/test_pull tests/mp/p2p/test_layout tests/mp/p2p/test_flow
	tests/mp/rma/test_rma tests/mp/rma/test_strided
	tests/mp/ps/test_ps tests/mp/ps/test_ps_copies tests/mp/ps/test_ps_codec
	tests/mp/ps/test_ps_save tests/mp/ps/test_ps_damaged tests/mp/ps/test_ps_resize
	tests/mp/ps/test_ps_errors
	tests/mp/train/test_reducer tests/mp/train/test_sharded tests/mp/train/test_sharded_errors
	tests/mp/gossip/test_gossip"
asan_all_tests="tests/unit/* tests/plan/test_check tests/plan/test_choose tests/plan/test_tune
	tests/conform/conform_self
	tests/conform/conform_shm tests/conform/conform_ofi_tcp tests/conform/conform_fault_shm
	tests/conform/conform_fault_ofi_tcp tests/mp/*/test_[!bc]* tests/mp/coll/test_colls
	tests/mp/coll/test_codec_* tests/mp/coll/test_factors
	tests/mp/coll/test_power_sgd* tests/fault/test_partial_deaths
	tests/mp/comm/test_comm tests/mp/comm/test_core
	tests/diag/test_flight tests/fault/test_nth tests/fault/test_strangers"
tsan_tests="tests/unit/test_lock tests/unit/test_boot_[!f]* tests/unit/test_mem tests/unit/test_self
	tests/unit/test_shm
	tests/mp/comm/test_comm tests/mp/p2p/test_threads tests/mp/coll/test_ways
	tests/mp/coll/test_group tests/mp/coll/test_rings tests/mp/coll/test_streams
	tests/mp/rma/test_accumulate_mapped
	tests/mp/ps/test_ps_codec tests/mp/ps/test_ps_end
	tests/mp/ps/test_ps_soak tests/mp/ps/test_ps_stale tests/mp/ps/test_ps_traffic"
tsan_all_tests="$tsan_tests
	tests/mp/coll/test_partial* tests/mp/coll/test_random
	tests/mp/ps/test_ps_chain tests/mp/ps/test_ps_codec_*
	tests/mp/ps/test_ps_modes tests/mp/ps/test_ps_softsync"
valgrind_tests="tests/unit/test_env tests/unit/test_mem
	tests/unit/test_topo tests/unit/test_reduce tests/plan/test_check tests/plan/test_choose
	tests/plan/test_tune tests/plan/test_sim"

# What the quick run leaves to the whole one: training on real data, tools, and faults, of which the
# quick run has others.
long_tests="tests/mp/programs/digits.sh tests/mp/programs/gpt.sh tests/mp/programs/trained.sh
	tests/mp/programs/decentralized.sh tests/mp/programs/perf.sh tests/mp/programs/tune.sh
	tests/plan/sim.sh tests/python/torch.sh tests/fault/test_guarded tests/fault/test_shortage
	tests/fault/test_late_news tests/mp/p2p/test_p2p_errors
	tests/fault/test_points tests/fault/test_nth* tests/fault/test_grow
	tests/plan/test_huge tests/mp/ps/test_ps_soak tests/diag/test_mismatch
	tests/fault/test_cut_off tests/fault/test_stopped tests/fault/test_net
	tests/fault/test_subsets tests/fault/secret.sh
	tests/vm/pair.sh tests/mp/programs/preload.sh tests/mp/programs/cluster.sh
	tests/mp/coll/test_args tests/mp/coll/test_random tests/mp/p2p/test_deadlines
	tests/mp/comm/test_errors tests/mp/comm/test_disagree tests/mp/comm/test_start
	tests/mp/ps/test_ps_errors tests/mp/ps/test_ps_chain
	tests/mp/ps/test_ps_copies tests/conform/conform_fault_ofi_*"

# Programs of make check that only compute: they run beside the others.
beside_tests="tests/plan/test_* tests/unit/test_reduce tests/unit/test_weigh tests/unit/test_mix
	tests/unit/test_xxh tests/unit/test_codec*"
lane=

# Those that run alone, after the others: they install what the others run, start the daemons of a
# cluster, or need an answer within a second.
alone_tests="tests/install/install.sh tests/python/python.sh tests/python/torch.sh
	tests/mp/programs/cluster.sh tests/mp/ps/test_ps_errors tests/mp/ps/test_ps_copies"
# Those that run first, as they take longest.
first_tests="tests/vm/verbs.sh"
# Those that wait for most of their time: they run beside the guest, which keeps one processor busy,
# and two at a time.
waiting_tests="tests/mp/coll/test_args tests/mp/comm/test_disagree tests/mp/p2p/test_deadlines
	tests/diag/test_mismatch tests/mp/p2p/test_p2p_errors tests/mp/gossip/test_pair
	tests/unit/test_boot_refuse tests/unit/test_boot_find tests/unit/test_ofi_ends
	tests/mp/comm/test_core tests/mp/comm/test_kill tests/mp/comm/test_start
	tests/mp/comm/test_errors tests/mp/comm/test_lateness tests/mp/ps/test_ps_silent
	tests/mp/ps/test_ps_close
	tests/fault/test_guarded tests/fault/test_late_news tests/fault/test_strangers
	tests/diag/blame.sh tests/diag/ras.sh tests/diag/doctor.sh"

say()
{
	echo "== $* ($(date +%H:%M:%S))"
}

# matches TEST PATTERNS
matches()
{
	set -f # the patterns are not about files here
	for p in $2; do
		case $1 in $p) set +f && return 0 ;; esac
	done
	set +f
	return 1
}

# some PATTERNS TEST...: those of the tests that match one of the patterns, and with -v those that
# match none
some()
{
	want=0
	[ "$1" != -v ] || { want=1 && shift; }
	patterns=$1
	shift
	for t in "$@"; do
		matches "$t" "$patterns"
		[ $? != $want ] || echo "$t"
	done
}

add()
{
	passed=$((passed + $1))
	failed=$((failed + $2))
	skipped=$((skipped + $3))
}

# count LOG STATUS NAME: add what the program counted itself; one that died without counting, or
# failed with nothing counted as failed, is one failure.
count()
{
	set -- "$1" "$2" "$3" $(sed -n \
		's/^# .*: \([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped$/\1 \2 \3/p' \
		"$1" |
		awk '{ p += $1; f += $2; s += $3 } END { print p + 0, f + 0, s + 0, NR }')
	add "$4" "$5" "$6"
	case $2 in
	PASS | 0) [ "$7" != 0 ] || add 1 0 0 ;;
	SKIP | 77) [ "$7" != 0 ] || add 0 0 1 ;;
	*) [ "$5" != 0 ] || add 0 1 0 ;;
	esac
	grep '^skip ' "$1"
	case $2 in
	PASS | SKIP | 0 | 77) ;;
	*)
		echo "---- $3: what failed, and the end of $1"
		grep -E '^FAIL|\.[ch]:[0-9]+: ' "$1" | head -n 20 | sed 's/^/  /'
		tail -n 40 "$1" | sed 's/^/  | /'
		failure "$3 (log: $1)" "$1"
		;;
	esac
}

# failure WHAT [LOG]: for the summary at the end, with the first lines of the log that say what
# failed
failure()
{
	{
		echo "FAILED: $1"
		[ -z "${2:-}" ] || grep -E '^FAIL|\.[ch]:[0-9]+: |ERROR: |^  why: ' "$2" |
			head -n 8 | sed 's/^/    /'
		[ -z "${again:-}" ] || echo "    again: $again"
	} >>build/log/failures
}

# weight TEST...: their seconds as tests/seconds has them
weight()
{
	echo "$@" | tr ' ' '\n' | awk 'FILENAME != "-" { if (!/^#/) of[$2] = $1; next }
		$1 { sum += $1 in of ? of[$1] : 2 }
		END { print sum }' tests/seconds -
}

# weights TEST...: " TEST=SECONDS ... ", as weight has them
weights()
{
	echo "$@" | tr ' ' '\n' | awk 'FILENAME != "-" { if (!/^#/) of[$2] = $1; next }
		$1 { printf " %s=%d", $1, $1 in of ? of[$1] : 2 }
		END { print " " }' tests/seconds -
}

# weight_in WEIGHTS TEST: of: its seconds
weight_in()
{
	of="$1 $2=2 "
	of=${of#* "$2"=}
	of=${of%% *}
}

# under_way WEIGHTS NOW [TEST=START ...]: had: the seconds, as weights has them, that these tests
# have had. Without a process: it runs for each result, with all tests under way.
under_way()
{
	known=$1 until=$2 had=0
	shift 2
	for one; do
		weight_in "$known" "${one%=*}"
		one=$((until - ${one##*=}))
		had=$((had + (one < of ? one : of)))
	done
}

# The results of make check as they come, each with its seconds, and how much is left: progress
# TEST...; run_some tells of starts.
progress()
{
	count=$# ended=0 start=$(date +%s) began=" "
	all=$(weight "$@") over=0 each=$(weights "$@")
	while read -r result name; do
		now=$(date +%s)
		case $result in
		START:)
			began="$began$name=$now "
			continue
			;;
		PASS: | FAIL: | SKIP: | ERROR: | XFAIL: | XPASS:) ;;
		*) continue ;;
		esac
		since=${began##* "$name"=}
		since=${since%% *}
		began=${began%% "$name"=*}\ ${began#* "$name=$since "}
		ended=$((ended + 1))
		weight_in "$each" "$name"
		over=$((over + of))
		# shellcheck disable=SC2086 # a list
		under_way "$each" "$now" $began
		had=$((over + had))
		left=$(((now - start) * (all - had) / had))
		echo \
			"$result $name ($((now - since)) s; $ended of $count, about $((left / 60)) min $((left % 60)) s left)"
	done
}

result_of()
{
	sed -n 's/^:global-test-result: //p' "$1.trs"
}

# unsteady TEST: one of the main tree has failed, but passes twice when it is run again. Such a test
# is listed and its first log kept, so that somebody finds the cause, and it refuses no change that
# has nothing to do with it. At most two are run again, none with TT_STRICT=1, and none of a
# sanitizer's tree, where one finding is proof. Else the first result stays.
unsteady()
{
	[ -z "${TT_STRICT:-}" ] && [ "$tries" -lt 2 ] || return
	tries=$((tries + 1)) tree=build limit=10 base=build/${1%.sh}
	echo "again: $1"
	cp "$base.log" "$base.first.log"
	cp "$base.trs" "$base.first.trs"
	for turn in 1 2; do
		rm -f "$base.trs"
		run_some 1 "$1" >>build/log/again.log
		[ -f "$base.trs" ] && [ "$(result_of "$base")" = PASS ] && continue
		cp "$base.first.log" "$base.log"
		cp "$base.first.trs" "$base.trs"
		return
	done
	unsteady=$((unsteady + 1))
	{
		echo "UNSTEADY: $1 failed once, then passed twice (log: $base.first.log)"
		grep -E '^FAIL|\.[ch]:[0-9]+: |ERROR: |^  why: ' "$base.first.log" | head -n 8 |
			sed 's/^/    /'
	} >>build/log/unsteady
}

# collect TREE TESTS: automake keeps NAME.trs and NAME.log for each.
collect()
{
	for t in $2; do
		base=$1/${t%.sh}
		again="make -C $1 check-TESTS TESTS=$t"
		[ "$1" != build ] || [ ! -f "$base.trs" ] || [ "$(result_of "$base")" != FAIL ] ||
			unsteady "$t"
		if [ -f "$base.trs" ]; then
			count "$base.log" "$(result_of "$base")" "$t"
		else
			echo \
				"---- $1: $t has no result: it did not end in time, or could not be run"
			failure "$t has no result in $1"
			add 0 1 0
		fi
	done
	again=
}

# Those of the tree's tests that match one of the patterns; not shell ones.
choose()
{
	some "$2" $(some -v "*.sh" $(make -s -C "$1" print-tests))
}

# Each pattern above is one of some test of make check; else that test would be dropped in silence.
stage_names()
{
	all=$(make -s -C "${TT_BUILD:-build}" print-tests)
	set -f
	for p in $asan_tests $asan_all_tests $tsan_all_tests $valgrind_tests $beside_tests \
		$long_tests $alone_tests $first_tests $waiting_tests \
		$(awk '!/^#/ { print $2 }' tests/seconds); do
		found=no
		for t in $all; do
			case $t in
			"$p") found=yes && break ;;
			*.sh) ;;
			$p) found=yes && break ;;
			esac
		done
		[ $found = yes ] ||
			{ echo "---- tests/ci.sh or tests/seconds names $p, which is no test of make check"; add 0 \
			1 0; }
	done
	set +f
}

# build_tests TREE TESTS: with no result left of before
build_tests()
{
	log=build/log/check-$(basename "$1").log
	for t in $2; do
		rm -f "$1/${t%.sh}.trs" "$1/${t%.sh}.log" "$1/${t%.sh}".first.*
	done
	if [ "$1" = build ]; then
		make -C build -j"$jobs" check TESTS=
	else
		build_some "$1" "$2"
	fi >"$log" 2>&1 && return
	tail -n 20 "$log"
	echo "---- $1: the tests do not build; see $log"
	add 0 1 0
	return 1
}

# build_some TREE TESTS: these, what they start, and the library
build_some()
{
	make -C "$1" -j"$jobs" libtutti.la tutti_ps_check $2
}

# run_some LANES TESTS: so many at a time
run_some()
{
	[ "$2" ] || return
	# shellcheck disable=SC2086
	timeout -k 30 "$limit"m $wrap make -k -j"$1" -C "$tree" check-TESTS $only \
		TESTS_ENVIRONMENT='echo "START: $$f";' TESTS="$(echo $2)" 2>&1
}

# run_tests TREE MINUTES TESTS: with a line for each as it ends
run_tests()
{
	tree=$1 limit=$2
	log=build/log/check-$(basename "$tree").log
	only=
	[ "$tree" = build ] || only="check_PROGRAMS= check_LTLIBRARIES="
	{
		if [ "$tree" = build ] && [ "$lanes" = 1 ] && [ "$jobs" -gt 1 ]; then
			run_some 2 "$(some "$first_tests" $3
				some "$waiting_tests" $3)"
			run_some 1 "$(some -v "$first_tests $waiting_tests $alone_tests" $3)"
		else
			run_some "$lanes" "$(some "$first_tests" $3
				some -v "$first_tests $alone_tests" $3)"
		fi
		run_some 1 "$(some "$alone_tests" $3)"
	} | tee "$log" | progress $3
}

# two_lanes COMMAND...: two tests at a time, with more than one processor
two_lanes()
{
	[ "$jobs" = 1 ] || lanes=2
	"$@"
	lanes=1
}

check_tree()
{
	build_tests "$1" "$3" || return
	run_tests "$1" "$2" "$3"
	collect "$1" "$3"
}

# sanitizer_tree NAME SANITIZERS [OPTION...]: with -O1, which takes half the time to compile. Two of
# gcc's warnings are right with -O2 only, and are given in the main tree.
sanitizer_tree()
{
	name=$1 sanitizers=$2
	shift 2
	mkdir -p "build/$name"
	[ -f "build/$name/Makefile" ] || (
		cd "build/$name" &&
			"$top/configure" -q $werror \
			--disable-static --without-python --without-torch --without-mpi-preload \
			--with-sanitizer="$sanitizers" \
			CFLAGS="-g1 -O1 -Wno-format-truncation -Wno-maybe-uninitialized" \
			"$@"
	) >"build/log/configure-$name.log" 2>&1 && return
	tail -n 20 "build/log/configure-$name.log"
	add 0 1 0
	return 1
}

# ---- beside make check ----

# A process of its own: what is asked for, in this order; each leaves a log and its status.
stage_beside()
{
	for what in $beside; do
		"beside_$what" >"build/log/beside-$what.log" 2>&1
		echo $? >"build/log/beside-$what.status"
	done
}

beside_tests()
{
	make -k -C build check-TESTS TEST_SUITE_LOG=test-suite-beside.log \
		TESTS="$(echo $(choose build "$beside_tests"))"
}

beside_asan()
{
	sanitizer_tree asan address,undefined &&
		build_some build/asan "$(choose build/asan "$asan_tests")"
}

beside_tsan()
{
	sanitizer_tree tsan thread --without-verbs &&
		build_some build/tsan "$(choose build/tsan "$tsan_tests")"
}

# Each leaves its status beside its log.
beside_valgrind()
{
	tests=$(choose build "$valgrind_tests")
	for t in $tests; do
		echo 1 >"build/log/valgrind-$(basename "$t").log.status"
		: >"build/log/valgrind-$(basename "$t").log"
	done
	build_some build "$tests" || return
	for t in $tests; do
		log=$top/build/log/valgrind-$(basename "$t").log
		(
			cd build &&
				TT_TRIALS=30 timeout -k 10 600 ./libtool --mode=execute valgrind \
				-q --error-exitcode=99 \
				--leak-check=full --errors-for-leak-kinds=definite "$t"
		) >"$log" 2>&1
		echo $? >"$log.status"
	done
}

# What is not in the tree of the fuzzers: clang reads it, with the settings of the main one.
clang_transports()
{
	flags=$(sed -n 's/^\(TT\|VERBS\|OFI\)_CFLAGS = //p' build/Makefile)
	for t in verbs ofi; do
		grep -qi "^#define HAVE_$t 1" build/config.h || continue
		# shellcheck disable=SC2086
		clang -fsyntax-only $flags -Werror -D_GNU_SOURCE -DHAVE_CONFIG_H -Ibuild -I. \
			-Iinclude transports/$t/*.c || return
	done
}

beside_fuzz()
{
	command -v clang >/dev/null || return 77
	clang_transports || return
	mkdir -p build/fuzz
	[ -f build/fuzz/Makefile ] || (
		cd build/fuzz &&
			"$top/configure" -q --disable-static --enable-fuzz \
			--without-verbs --without-ofi CC=clang CFLAGS="-g1 -O1"
	) || return
	make -C build/fuzz -j"$jobs" -s fuzzers || return
	TT_SRC=$top TT_BUILD=$top/build/fuzz TT_FUZZ_SECONDS=8 timeout -k 10 20m \
		sh tests/fuzz/fuzz.sh >build/log/fuzz.log 2>&1
}

# The distribution has all files, and builds and installs out of these alone.
beside_distcheck()
{
	XZ_OPT=-0 timeout -k 30 30m make -C build -j"$jobs" distcheck \
		TESTS=tests/unit/test_env check_PROGRAMS=tests/unit/test_env \
		check_LTLIBRARIES=libtttest.la \
		AM_DISTCHECK_CONFIGURE_FLAGS="--disable-static --without-torch CFLAGS=-O0" ||
		return
	[ ! -e .git ] || left_out
}

# Tracked files that the distribution lacks: none, but for what only a clone needs.
left_out()
{
	tar tf build/tutti-*.tar.xz | sed 's,^[^/]*/,,' | sort >build/log/distributed
	git ls-files | grep -vE '^\.(ci/|git|clang-format)' | sort |
		comm -23 - build/log/distributed | sed 's/^/not distributed: /' >build/log/left-out
	cat build/log/left-out
	[ ! -s build/log/left-out ]
}

beside_arm64()
{
	TT_SRC=$top TT_BUILD=$top/build timeout -k 30 30m sh tests/vm/arm64.sh \
		>build/log/arm64.log 2>&1
}

# start_beside WHAT...: those of the stages that will come, and the tests. Not with one processor,
# where nothing is left.
start_beside()
{
	[ "$jobs" -gt 1 ] || return
	idle="nice -n 19"
	! chrt --idle 0 true 2>/dev/null || idle="chrt --idle 0"
	# timeout gives it a process group, which ends with it
	TT_BESIDE="$*" $idle timeout -k 10 60m sh tests/ci.sh beside >build/log/beside.log 2>&1 &
	lane=$!
	trap 'kill $lane 2>/dev/null' EXIT
	trap 'exit 1' INT TERM HUP
}

# What runs beside is to be as important as this, or below it.
weigh()
{
	for p in $([ -z "$lane" ] || pgrep -g "$lane"); do
		chrt "$1" -p 0 "$p" 2>/dev/null
	done
}

# Until that is done, or the process has ended without; false: it is not done.
await()
{
	[ -e "build/log/beside-$1.status" ] || weigh --other
	while [ -n "$lane" ] && [ ! -e "build/log/beside-$1.status" ] &&
		kill -0 "$lane" 2>/dev/null; do
		sleep 0.5
	done
	weigh --idle
	[ -e "build/log/beside-$1.status" ]
}

# ---- the stages ----

# check_with TESTS STAGE...: the tests, and beside them those that only compute, and what the
# stages need built
check_with()
{
	all=$1
	shift
	build_tests build "$all" || return
	start_beside tests "$@"
	if [ -z "$lane" ]; then
		run_tests build 65 "$all"
	else
		run_tests build 65 "$(some -v "$beside_tests" $all)"
		await tests || run_tests build 10 "$(some "$beside_tests" $all)"
	fi
	grep -hE '^(PASS|FAIL|SKIP|ERROR|XFAIL|XPASS):' build/log/beside-tests.log 2>/dev/null
	collect build "$all"
}

stage_check()
{
	check_with "$(make -s -C build print-tests)" \
		$(some "asan tsan valgrind fuzz distcheck arm64" $stages)
}

# What a newcomer runs: all but what is long and in the whole run; less in the guest.
stage_quick()
{
	TT_BRIEF=1
	export TT_BRIEF
	two_lanes check_with "$(some -v "$long_tests" $(make -s -C build print-tests))"
}

stage_asan()
{
	await asan
	sanitizer_tree asan address,undefined || return
	two_lanes check_tree build/asan 26 "$(choose build/asan "$asan_tests")"
}

# All that can run there: half an hour and more.
stage_asan_all()
{
	sanitizer_tree asan address,undefined || return
	check_tree build/asan 120 "$(choose build/asan "$asan_all_tests")"
}

# tsan_some TESTS: nothing here needs verbs, so this is also the tree that is built without.
tsan_some()
{
	sanitizer_tree tsan thread --without-verbs || return
	# ThreadSanitizer can't place its shadow where addresses are random over too wide a range.
	! setarch -R true 2>/dev/null || wrap="setarch -R"
	check_tree build/tsan 20 "$(choose build/tsan "$1")"
	wrap=
	grep -q 'libibverbs\.so' build/tsan/.libs/libtutti.so || return 0
	echo "---- build/tsan: libibverbs is used, in spite of --without-verbs"
	add 0 1 0
}

stage_tsan()
{
	await tsan
	two_lanes tsan_some "$tsan_tests"
}

stage_tsan_all()
{
	tsan_some "$tsan_all_tests"
}

stage_valgrind()
{
	await valgrind || beside=valgrind stage_beside
	for t in $(choose build "$valgrind_tests"); do
		log=$top/build/log/valgrind-$(basename "$t").log
		status=$(cat "$log.status")
		echo "valgrind $t: status $status"
		count "$log" "$status" "$t"
	done
}

# The fuzzers with libFuzzer, 8 s each; make soak runs them for 10^7 inputs.
stage_fuzz()
{
	await fuzz || { rm -f build/log/fuzz.log; beside=fuzz stage_beside; }
	status=$(cat build/log/beside-fuzz.status)
	if [ "$status" = 77 ] && [ ! -f build/log/fuzz.log ]; then
		echo "skip fuzz: there is no clang"
		add 0 0 1
		return
	fi
	if [ ! -f build/log/fuzz.log ]; then
		tail -n 20 build/log/beside-fuzz.log
		echo "---- build/fuzz: clang does not build the fuzzers or the transports; see" \
			"build/log/beside-fuzz.log"
		add 0 1 0
		return
	fi
	grep -E '^(ok|FAIL|skip|  fuzz_)' build/log/fuzz.log
	count build/log/fuzz.log $status tests/fuzz/fuzz.sh
}

stage_distcheck()
{
	await distcheck || beside=distcheck stage_beside
	if [ "$(cat build/log/beside-distcheck.status)" = 0 ]; then
		echo "ok distcheck"
		add 1 0 0
	else
		echo "FAIL distcheck"
		tail -n 40 build/log/beside-distcheck.log | sed 's/^/  /'
		add 0 1 0
	fi
}

stage_arm64()
{
	await arm64 || beside=arm64 stage_beside
	grep -E '^(ok|FAIL|skip)' build/log/arm64.log
	count build/log/arm64.log "$(cat build/log/beside-arm64.status)" tests/vm/arm64.sh
}

wrap=
again=
if [ "$*" = names ]; then
	stage_names
	[ "$failed" = 0 ]
	exit
fi
mkdir -p build/log
if [ "$*" = beside ]; then
	beside=$TT_BESIDE
	stage_beside
	exit
fi
rm -f build/log/failures build/log/unsteady build/log/again.log build/log/fuzz.log \
	build/log/beside-*.status build/log/valgrind-*.status
stages=${*:-check asan tsan valgrind fuzz distcheck}
stage_names
for stage in $stages; do
	say "$stage"
	"stage_$stage"
done
say "finished; logs are in build/log and beside the test programs"
[ ! -s build/log/unsteady ] || cat build/log/unsteady
[ ! -s build/log/failures ] || cat build/log/failures
[ "$unsteady" = 0 ] || echo "unsteady: $unsteady"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
