#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# tutti_sim from the outside: its figures, files and complaints.
only=$*
. "${TT_SRC:-$(dirname "$0")/../..}/tests/sh.inc"
suite tutti_sim

# column NUMBER OPTION...: that column of the rows
column()
{
	n=$1
	shift
	./tutti_sim "$@" | awk -v n="$n" '$1 != "#" { print $n }'
}

# 2(n-1) messages of alpha + 4 bytes / bw, n-1 of them reduced; overheads 0.
test_ring_time()
{
	t=$(column 4 -n 5 -b 20 -a ring --alpha 10 --bw 0.004 --gamma 0.001 --overhead 0)
	[ "$t" = "$(awk 'BEGIN { printf "%.2f", 8 * (10 + 1) + 4 * 4 }')" ] || die "time $t"
}

# Latency of rings is linear in the number of ranks, to 24,576.
test_linear()
{
	column 4 -n 2:24576 -b 8 -a ring >"$tmp/t"
	column 1 -n 2:24576 -b 8 -a ring >"$tmp/n"
	[ "$(tail -n 1 "$tmp/n")" = 24576 ] || die "the last number of ranks is not there"
	paste "$tmp/n" "$tmp/t" | awk '{ r = $2 / (2 * ($1 - 1)); if (r < 2.1 || r > 2.3) { print; bad = 1 } }
		END { exit bad || NR != 15 }'
}

test_recurrence()
{
	./tutti_sim -n 4096 -b 16M -a ring >"$tmp/out"
	grep -q recurrence "$tmp/out" || { cat "$tmp/out"; exit 1; }
	# 50 million operations are not reached
	[ "$(column 8 -n 64 -b 16M -a ring)" = events ]
}

test_files()
{
	./tutti_sim bcast -n 2:8 -b 1K -e 4K -a binomial --csv "$tmp/a.csv" --json "$tmp/a.json" >"$tmp/out" ||
		exit 1
	[ "$(grep -c '^[0-9]*,[0-9]*,binomial,' "$tmp/a.csv")" = 9 ] || { cat "$tmp/a.csv"; exit 1; }
	[ "$(grep -c '"algorithm": "binomial"' "$tmp/a.json")" = 9 ] || { cat "$tmp/a.json"; exit 1; }
	rows=$(awk '$1 != "#"' "$tmp/out" | wc -l)
	[ "$rows" = 9 ] || die "$rows rows"
}

test_plot()
{
	command -v gnuplot >/dev/null || { echo "gnuplot is missing"; exit 77; }
	for kind in png svg pdf; do
		./tutti_sim -n 2:8 -b 1K -e 4K -a ring --plot "$tmp/a.$kind" >"$tmp/out" 2>&1 ||
			{ cat "$tmp/out"; exit 1; }
		[ -s "$tmp/a.$kind" ] || die "a.$kind is empty"
	done
	grep -q ring "$tmp/a.svg" || die "no curve is called ring"
	! ./tutti_sim -n 2 -a ring --plot "$tmp/none/a.png" >"$tmp/out" 2>&1 || die "drawn in a folder that is not there"
	grep -q "could not draw $tmp/none/a.png" "$tmp/out" || die "$(cat "$tmp/out")"
}

# As on a machine without it: the figures are printed, and what is missing is named.
test_no_gnuplot()
{
	! PATH=$tmp ./tutti_sim -n 2:8 -b 1K -e 4K -a ring --plot "$tmp/never.png" >"$tmp/out" 2>"$tmp/err" ||
		die "drawn without gnuplot"
	[ ! -e "$tmp/never.png" ] || die "never.png is there"
	grep -q "gnuplot, which draws it, is not installed" "$tmp/err" || die "$(cat "$tmp/err")"
	[ "$(awk '$1 != "#"' "$tmp/out" | wc -l)" = 9 ] || die "$(cat "$tmp/out")"
}

test_check()
{
	./tutti_sim -n 1024 -b 4K -a ring --check
}

# Equal counts take as long as blocks do; blocks of 1, 2, 3 and 4 tenths reach the owner of the first through one port.
test_counts()
{
	for pair in allgather:allgatherv:ring alltoall:alltoallv:pairwise gather:gatherv:linear scatter:scatterv:linear; do
		IFS=: read -r blocks counts algo <<-end
			$pair
		end
		a=$(column 4 "$blocks" -n 12 -b 48K -a "$algo")
		b=$(column 4 "$counts" -n 12 -b 48K -a "$algo" --check)
		[ -n "$a" ] && [ "$a" = "$b" ] || die "$blocks takes $a us, $counts $b"
	done
	t=$(column 4 gatherv -n 4 -b 4000 -a linear --skew 4 --alpha 0 --bw 0.004 --overhead 0 --check)
	[ "$t" = 900.00 ] || die "time $t"
	./tutti_sim alltoallv -n 7 -b 1000 --skew 3 --check && ./tutti_sim reduce_scatter -n 7 -b 1000 --skew 3 --check
}

# Those of double trees grow with the logarithm: each doubling adds as much as the one before, or 3 steps more.
test_logarithmic()
{
	column 4 -n 2:24576 -b 8 -a dbt >"$tmp/t"
	awk '{ if (NR > 2 && $1 - last > 8) { print NR, $1, last; bad = 1 } last = $1 }
		END { exit bad || NR != 15 || last > 100 }' "$tmp/t" || { cat "$tmp/t"; exit 1; }
}

# The literature's table: volume of the busiest rank, steps and fan-in of 8 ranks.
test_table()
{
	./tutti_sim --table -n 8 -b 64K --lanes 1 >"$tmp/out" || { cat "$tmp/out"; exit 1; }
	awk '$1 == "#" { next }
		/^  ideal/ { n += $(NF - 3) == 114688 && $(NF - 1) == 3 }
		/^  single-master/ { n += $(NF - 3) == 458752 && $(NF - 1) == 2 && $NF == 7 }
		/^  parameter server/ { n += $(NF - 3) == 114688 && $(NF - 1) == 2 && $NF == 7 }
		/^  ring/ { n += $(NF - 3) == 114688 && $(NF - 1) == 14 && $NF == 1 }
		/^  recursive doubling/ { n += $(NF - 3) == 196608 && $(NF - 1) == 3 && $NF == 1 }
		/^  halving-doubling/ { n += $(NF - 3) == 114688 && $(NF - 1) == 6 && $NF == 1 }
		/^  double binary tree/ { n += $(NF - 3) <= 131072 && $NF <= 2 }
		END { exit n != 7 }' "$tmp/out" || { cat "$tmp/out"; exit 1; }
}

run ring_time test_ring_time
run table test_table
run counts test_counts
run linear test_linear
run logarithmic test_logarithmic
run recurrence test_recurrence
run files test_files
run plot test_plot
run no_gnuplot test_no_gnuplot
run check test_check
run unknown_option says "did you mean --table?" ./tutti_sim --tabel
run unknown_collective says "did you mean allreduce?" ./tutti_sim alreduce
run unknown_algorithm says "did you mean ring?" ./tutti_sim -a rng
run skew_of_none says "allgather has no counts per rank" ./tutti_sim allgather --skew 2
run pairs says "at most 2048 ranks" ./tutti_sim alltoallv -n 4096
run bad_ranks says "-n: a number from 1" ./tutti_sim -n 0
run bad_fraction says "whole numbers of ranks, not 4.7" ./tutti_sim -n 4.7
run bad_straggler says "a rank is a whole number, not 1.5" ./tutti_sim --straggler 1.5:3
run bad_range says "8 is more than 4" ./tutti_sim -n 8:4
run bad_root says "they are 0 to 3" ./tutti_sim bcast -n 4 -r 4
run bad_plot says ".png, .svg or .pdf" ./tutti_sim --plot figure.gif
run bad_file says "cannot write /nowhere/x.csv" ./tutti_sim --csv /nowhere/x.csv
finish
