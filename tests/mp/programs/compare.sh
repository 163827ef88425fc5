#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# perf/compare: its verdicts on known times, and its drivers' results.
only=$*
. "${TT_SRC:-$(dirname "$0")/../..}/tests/sh.inc"
suite compare
compare=$TT_SRC/perf/compare

# rows RUN OPERATION BYTES TUTTI MALLOC OPENMPI MPICH: the same in three rounds
rows()
{
	for round in 0 1 2; do
		echo "host2 $1 $2 tutti $round $3 $4"
		echo "host2 $1 $2 tutti-malloc $round $3 $5"
		echo "host2 $1 $2 openmpi $round $3 $6"
		echo "host2 $1 $2 mpich $round $3 $7"
	done
}

known_times()
{
	rows 1 bcast 8 2 1 1 3 # slower than Open MPI twice with pool memory
	rows 1 bcast 64 1 2 2 1.9 # slower than MPICH once with malloc
	rows 1 bcast 1024 1 4 4 5
	rows 1 barrier 0 1 1 2 2
	rows 2 bcast 8 2 1 1 3
	rows 2 bcast 64 1 2 2 2.1
}

report()
{
	known_times >"$tmp/raw"
	echo machine >"$tmp/machine"
	awk -v rounds=3 -v bar=0.97 -v machine="$tmp/machine" -v csv="$tmp/c.csv" \
		-v json="$tmp/c.json" -v cells="$tmp/cells" "$@" -f "$compare/report.awk" \
		"$tmp/raw" >"$tmp/out" || exit 1
}

# has FILE LINE
has()
{
	grep -qFx -e "$2" "$1" || die "no line '$2' in: $(cat "$1")"
}

test_verdicts()
{
	report
	has "$tmp/cells" host2,bcast,8,tutti,2.0000,openmpi,1.0000,0.500,0.500,red
	has "$tmp/cells" host2,bcast,8,tutti-malloc,1.0000,openmpi,1.0000,1.000,1.000,good
	has "$tmp/cells" host2,bcast,64,tutti-malloc,2.0000,mpich,1.9000,0.950,1.000,once
	has "$tmp/cells" host2,barrier,0,tutti,1.0000,openmpi,2.0000,2.000,,good
	has "$tmp/c.csv" host2,bcast,1024,openmpi,4.0000,0.2560,4
	tail -n 1 "$tmp/out" | grep -q '^1 of 7 cells are red' || die "$(cat "$tmp/out")"
	grep -A 1 '^the worst' "$tmp/out" | grep -q 'bcast  *8 tutti ' || die "$(cat "$tmp/out")"
	# the cube root of 0.5 * 1.9 * 4, above the 1.5 for moving data only without rounding
	grep -q '^bcast  *1.56  *1.5   *0.98  *1.1!' "$tmp/out" || die "$(cat "$tmp/out")"
}

test_measured_again()
{
	report -v list=host2
	printf 'bcast:8\nbcast:64\n' | cmp - "$tmp/out"
}

all_cells()
{
	sed -n 's/^[ \t{]*\(COLL(\|ONE_SIDED(\|.name = \)"\([a-z_]*\)".*/\2/p' \
		"$compare/operations.c"
}

# build_driver [SOURCE]
build_driver()
{
	${CC:-cc} -O1 -D_GNU_SOURCE -I"$TT_SRC" -I"$TT_SRC/include" "$compare/drive.c" \
		"$compare/operations.c" "${1:-$compare/drive_tutti.c}" -L"$TT_BUILD/.libs" -ltutti \
		-Wl,-rpath,"$TT_BUILD/.libs" -o "$tmp/drive" || exit 1
}

# Every operation, with results that are right; 21 floats cannot be divided among 2 or 4.
test_driver()
{
	[ -e "$TT_BUILD/.libs/libtutti.so" ] || skip "no shared library"
	build_driver
	cells=$(all_cells | sed 's/$/:84/')
	[ "$(echo "$cells" | wc -l)" = 26 ] || die "$cells"
	for n in 2 4; do
		for memory in 0 1; do
			# shellcheck disable=SC2086
			COMPARE_MALLOC=$memory timeout 60 ./tutti_run -n $n "$tmp/drive" each \
				0.001 $cells >"$tmp/driven" || exit 1
			awk '$2 != 84 || $3 <= 0 || $4 != 0 { exit 1 }' "$tmp/driven" ||
				die "$(cat "$tmp/driven")"
			# some operations are between two ranks only
			[ "$(wc -l <"$tmp/driven")" = $((n == 2 ? 26 : 18)) ] ||
				die "$(cat "$tmp/driven")"
		done
	done
}

# A result that is not right is counted.
test_wrong_results()
{
	[ -e "$TT_BUILD/.libs/libtutti.so" ] || skip "no shared library"
	sed -e 's/TUTTI_SUM, 0, world/TUTTI_MAX, 0, world/' -e 's/TUTTI_UINT32, TUTTI_SUM/&1/' \
		-e 's/TUTTI_SUM1/TUTTI_REPLACE/' -e 's/1, value, 0/1, 2 * value, 0/' \
		"$compare/drive_tutti.c" >"$tmp/wrong.c"
	build_driver "$tmp/wrong.c"
	timeout 60 ./tutti_run -n 2 "$tmp/drive" each 0.001 reduce:84 allreduce:84 \
		acc_latency:84 get_acc_latency:84 fop_latency:8 >"$tmp/driven" || exit 1
	awk '{ print $1, $2, $4 }' "$tmp/driven" >"$tmp/out"
	printf '%s 21\n%s 0\n%s 21\n%s 21\n%s 1\n' 'reduce 84' 'allreduce 84' 'acc_latency 84' \
		'get_acc_latency 84' 'fop_latency 8' | cmp - "$tmp/out"
}

run verdicts test_verdicts
run measured_again test_measured_again
run driver test_driver
run wrong_results test_wrong_results
finish
