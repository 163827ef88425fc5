#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Options of the programs that have no test of their own for them: numbers that are not decimal or
# out of range are refused before a job starts. The exit statuses of all programs whose command line
# is wrong.
only=$*
. "${TT_SRC:-$(dirname "$0")/../..}/tests/sh.inc"
suite options
cd "$TT_BUILD" || exit 1
LD_LIBRARY_PATH=$TT_BUILD/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
unset TUTTI_RANK TUTTI_NRANKS

# path PROGRAM: where it starts without the script that libtool puts before it
path()
{
	for path in "$(dirname "$1")/.libs/$(basename "$1")" "./$1"; do
		[ ! -x "$path" ] || { echo "$path"; return 0; }
	done
	return 1
}

# ranges PROGRAM [ARGUMENT...]: as names_range
ranges()
{
	program=$(path "$1") || skip "$1 was not built"
	shift
	names_range "$program" "$@"
}

test_gpt()
{
	ranges gpt <<-END
		--data | from 1 to 65536 | 0 65537 99999999999 2x
		--pipeline | from 1 to 65536 | 0 65537 x
		--tensor | from 1 to 65536 | 0 65537 x
		--chunks | from 2 to 65536 | 1 65537 x
		--micro | from 1 to 65536 | 0 65537 x
		--batch | from 1 to 1048576 | 0 1048577 x
		--steps | from 0 to 2147483647 | -1 2147483648 1e3 x
		--layers | from 1 to 4096 | 0 4097 x
		--hidden | from 1 to 65536 | 0 65537 x
		--heads | from 1 to 4096 | 0 4097 x
		--length | from 1 to 65536 | 0 65537 x
		--write | from 0 to 1000000 | -1 1000001 x
		--seed | from 0 to 2147483647 | -1 2147483648 x
		--digits | from 0 to 17 | -1 18 x
		--zero | from 0 to 2 | -1 3 x
		--servers | from 1 to 65536 | 0 65537 x
		--straggle | from 0 to 1000000 | -1 1000001 x
		--staleness | from 0 to 65536 | -1 65537 asynchronous
		--rate | from 0 to 1 | -1 2 0x1p-4 nan inf x
		--decay | from 0 to 1 | -1 2 0x1p-4 nan x
	END
}

test_rl()
{
	ranges rl --shape impala <<-END
		--goal | from 0 to 200 | -1 201 0x1p4 nan x
		--steps | from 1 to 2147483647 | 0 2147483648 x
		--batch | from 1 to 4096 | 0 4097 x
		--rate | from 0 to 1 | -1 2 0x1p-4 x
		--gamma | from 0 to 1 | -1 2 0x1p-4 x
		--entropy | from 0 to 1 | -1 2 0x1p-4 x
		--slots | from 1 to 4096 | 0 4097 x
		--lag | from 0 to 63 | -1 64 x
		--seed | from 0 to 2147483647 | -1 x
	END
}

test_ps_digits()
{
	ranges ps_digits <<-END
		--staleness | staleness cannot be | -1 x
		--fetch | fetch cannot be | 0 x
		--clocks | clocks cannot be | 0 2147483648 x
		--batch | batch cannot be | 0 x
		--hidden | hidden cannot be | 0 x
		--rate | rate cannot be | -1 0x1p-4 nan x
		--compute | compute cannot be | -1 inf x
		--straggle | straggle cannot be | -1 5ms x
		--second | second cannot be | -1 x
		--every | every cannot be | 0 x
		--seed | seed cannot be | -1 18446744073709551616 x
	END
}

test_train_decentralized()
{
	ranges train_decentralized <<-END
		--epochs | epochs cannot be | 0 2147483648 x
		--batch | batch cannot be | 0 x
		--hidden | hidden cannot be | 0 x
		--rate | rate cannot be | 0 -1 0x1p-4 nan x
		--momentum | momentum cannot be | -1 1 0x0 x
		--tau | tau cannot be | 0 x
		--alpha | alpha cannot be | 0 2 0x1 x
		--quorum | quorum cannot be | 0 x
		--compute | compute cannot be | -1 inf x
		--slow | slow cannot be | 0.5 x
		--seed | seed cannot be | -1 18446744073709551616 x
	END
}

test_train_elastic()
{
	ranges train_elastic <<-END
		--epochs | from 1 to 1000000 | 0 1000001 x
		--wait | from 1 to 3600000 | 0 3600001 x
		--lr | from 0 to 100 | -1 101 0x1 x
		--seed | from 0 to 18446744073709551615 | -1 x
	END
}

test_texts()
{
	ranges glove none <<-END
		--servers | usage: | 0 2147483648 2x
		--words | usage: | 1 60001 x
		--epochs | usage: | 0 x
		--seed | usage: | -1 x
	END
	ranges logreg none none <<-END
		--seed | usage: | -1 x
	END
	for epochs in 0 x 0x10 5x; do
		says "usage:" "$(path logreg)" none none $epochs
	done
}

# What measurements start.
test_perf()
{
	ranges perf/late_rank <<-END
		-b | usage: | 3 1073741825 x
		-l | usage: | 0 x
		-c | usage: | 0 x
		-s | usage: | 0 x
		-r | usage: | 0 x
	END
	for option in -t -d -l -m -b -r; do
		echo "$option | usage: | -1 2147483648 x"
	done | ranges perf/backward || exit
	for option in -l -s -r; do
		echo "$option | usage: | 0 x"
	done | ranges perf/urgent || exit
	ranges perf/neighbor_steps <<-END
		-s | -s: 1 to | 0 x
		-b | -b: 4 or more | 3 x
	END
}

# statuses: of each line "PROGRAM | STATUS | WORD..." of its input the program ends with the status,
# says why on standard error and nothing on standard output
statuses()
{
	while IFS='|' read -r program wrong_status words; do
		program=$(path "${program% }") || continue
		wrong_status=${wrong_status# } wrong_status=${wrong_status% }
		# shellcheck disable=SC2086
		wrong "" "$program" $words </dev/null
	done
}

# What is in a PATH begins its errors with its name.
test_statuses()
{
	cat >"$tmp/lines" <<-END
		tutti_run | 2 | --nothing true
		tutti_run | 2 | -Z true
		tutti_run | 2 | -n
		tutti_run | 2 | -n 0 true
		tutti_run | 2 | --verbose=2 true
		tutti_run | 2 | --hostfile /nowhere/hosts true
		tutti_run | 2 | -n 3 -H localhost:2 true
		tutti_run | 2 |
		tutti_info | 2 | --nothing
		tutti_info | 2 | -Z
		tutti_info | 2 | --json=1
		tutti_info | 2 | word
		tutti_doctor | 3 | --nothing
		tutti_doctor | 3 | -Z
		tutti_doctor | 3 | --timeout
		tutti_doctor | 3 | --timeout 0
		tutti_doctor | 3 | word
		tutti_sim | 2 | --nothing
		tutti_sim | 2 | -Z
		tutti_sim | 2 | -n
		tutti_sim | 2 | -n 0
		tutti_sim | 2 | nothing
		tutti_sim | 2 | bcast -n 4 -r 4
		tutti_sim | 2 | -n 4 -a nothing
		tutti_sim | 2 | -n 2 -b 8 allreduce more
		tutti_sim | 2 | pipeline --nothing
		tutti_sim | 2 | pipeline -n 0
		tutti_sim | 2 | pipeline -b 8 --straggler 4:1
		tutti_sim | 2 | pipeline word
		tutti_explain | 2 | --nothing
		tutti_explain | 2 | -Z
		tutti_explain | 2 | -n
		tutti_explain | 2 | -n 0
		tutti_explain | 2 | nothing
		tutti_explain | 2 | -n 4 -H 5
		tutti_explain | 2 | bcast -n 4 -r 4
		tutti_explain | 2 | allreduce more
		tutti_explain | 2 | ps --nothing
		tutti_explain | 2 | ps -n 0
		tutti_explain | 2 | ps word
		tutti_explain | 2 | codec --nothing
		tutti_explain | 2 | codec -n 0
		tutti_explain | 2 | codec nothing
		tutti_ps_check | 2 | --nothing
		tutti_ps_check | 2 | -Z
		tutti_ps_check | 2 | --hosts=1
		tutti_ps_check | 2 |
		tutti_tune | 2 | --nothing
		tutti_tune | 2 | -Z
		tutti_tune | 2 | -e 1
		tutti_tune | 2 | -c nothing
		tutti_tune | 2 | word
		tutti_blame | 2 | --nothing
		tutti_blame | 2 | -Z
		tutti_blame | 2 | --help=1
		tutti_blame | 2 |
		tutti_ras | 2 | --nothing
		tutti_ras | 2 | -Z
		tutti_ras | 2 | --pid 0
		tutti_ras | 2 | --watch --json
		tutti_ras | 2 | one two
		tutti_perf | 2 | --nothing
		tutti_perf | 2 | -Z
		tutti_perf | 2 | allreduce -n
		tutti_perf | 2 | allreduce -n 0
		tutti_perf | 2 | nothing
		tutti_perf | 2 | allreduce bcast
		tutti_perf | 2 | barrier -b 8
		tutti_perf | 2 |
	END
	for program in $(make -s print-programs); do
		grep -q "^$program |" "$tmp/lines" || die "no line for $program"
	done
	while IFS= read -r line; do
		echo "$line" >"$tmp/line"
		statuses <"$tmp/line"
		grep -q "^${line%% *}: " "$tmp/.says" || die "$line: $(cat "$tmp/.says")"
	done <"$tmp/lines"
}

test_statuses_of_examples()
{
	statuses <<-END
		train_digits | 2 | --nothing
		train_digits | 2 | -Z
		train_digits | 2 | --epochs
		train_digits | 2 | --no-feedback
		train_digits | 2 | word
		train_elastic | 2 | --nothing
		train_elastic | 2 | word
		train_decentralized | 2 | --nothing
		train_decentralized | 2 | --method nothing
		train_decentralized | 2 | word
		ps_digits | 2 | --nothing
		ps_digits | 2 | word
		gpt | 2 | --nothing
		gpt | 2 | --gather-again
		gpt | 2 | word
		gpt_double | 2 | --codec int8
		rl | 2 | --nothing
		rl | 2 | --shape a3c --batch 2
		rl | 2 |
		glove | 2 | --nothing
		glove | 2 |
		logreg | 2 | --nothing
		logreg | 2 | one
		perf/late_rank | 2 | -Z
		perf/neighbor_steps | 2 | -Z
		perf/backward | 2 | word
		perf/sharded | 2 | -Z
		perf/urgent | 2 | word
		perf/urgent_ps | 2 | -Z
		perf/essp | 2 |
		perf/waits | 2 |
		perf/waits | 2 | get 3x
		perf/first_call | 2 |
		perf/first_call | 2 | 1x
		perf/first_call | 2 | 0 2x
		perf/bare_verbs | 2 | send 8x 10 none 0 5000
		perf/bare_verbs | 2 | send 8 10 none 0x1 5000
	END
}

# A full device is no wrong option.
test_unwritten()
{
	for program in $(make -s print-programs); do
		case $program in
		tutti_doctor) wanted=3 ;;
		tutti_blame) wanted=2 ;;
		*) wanted=1 ;;
		esac
		for option in --help --version; do
			"$(path "$program")" $option >/dev/full 2>"$tmp/.says"
			[ $? = $wanted ] || die "$program $option: $(cat "$tmp/.says")"
			grep -q "^$program: cannot write to standard output" "$tmp/.says" ||
				die "$program: $(cat "$tmp/.says")"
		done
	done
}

run statuses test_statuses
run statuses_of_examples test_statuses_of_examples
run unwritten test_unwritten
run gpt test_gpt
run rl test_rl
run ps_digits test_ps_digits
run train_decentralized test_train_decentralized
run train_elastic test_train_elastic
run texts test_texts
run perf test_perf
finish
