#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Options of the programs that have no test of their own for them: numbers that are not decimal or
# out of range are refused before a job starts.
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

run gpt test_gpt
run rl test_rl
run ps_digits test_ps_digits
run train_decentralized test_train_decentralized
run train_elastic test_train_elastic
run texts test_texts
run perf test_perf
finish
