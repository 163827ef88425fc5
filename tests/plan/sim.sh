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
	paste "$tmp/n" "$tmp/t" |
		awk '{ r = $2 / (2 * ($1 - 1)); if (r < 2.1 || r > 2.3) { print; bad = 1 } }
		END { exit bad || NR != 15 }'
}

test_recurrence()
{
	./tutti_sim -n 4096 -b 16M -a ring >"$tmp/out"
	grep -q recurrence "$tmp/out" || { cat "$tmp/out"; exit 1; }
	# 50 million operations are not reached
	[ "$(column 8 -n 64 -b 16M -a ring)" = events ]
}

# Half the bytes take half the time, if encoding and decoding cost nothing.
test_codec()
{
	./tutti_sim -n 4 -b 1M --codec fp16 --bw 0.001 --alpha 0 --overhead 0 --gamma 1e6 \
		--coding 1e6 --lanes 4 -a codec_direct,direct_rsag -c >"$tmp/out" || exit 1
	coded=$(awk '$1 != "#" && $3 == "codec_direct" { print $4 }' "$tmp/out")
	plain=$(awk '$1 != "#" && $3 == "direct_rsag" { print $4 }' "$tmp/out")
	echo "$coded $plain" | awk '{ r = $2 / $1; exit !(NF == 2 && r > 1.9 && r < 2.1) }' ||
		{ cat "$tmp/out"; exit 1; }
	lists=codec_gather,codec_lists,codec_dense
	# three lists of 2622 entries leave each rank, and may queue where they arrive
	./tutti_sim -n 4 -b 1M --codec topk:1% --bw 0.001 --alpha 0 --overhead 0 -c \
		--coding 1e6 -a codec_gather >"$tmp/out" || exit 1
	awk '$1 != "#" { r = $4 / (3 * 15190); exit !(r > 0.98 && r < 1.7) }' "$tmp/out" ||
		{ cat "$tmp/out"; exit 1; }
	# as long as these, by their density; and the one that all ranks choose by it is no slower
	./tutti_sim -n 4 -b 1M --codec threshold:1 --density 1 --bw 0.001 --alpha 0 --overhead 0 \
		-a $lists -c --coding 1e6 >"$tmp/out" || exit 1
	awk '$3 == "codec_gather" { r = $4 / (3 * 15190); g = $4 }
		$3 == "codec_lists" { l = $4 } $3 == "codec_dense" { d = $4 }
		END { exit !(r > 0.98 && r < 1.7 && l <= g && d > 10 * l) }' "$tmp/out" ||
		{ cat "$tmp/out"; exit 1; }
	./tutti_sim -n 4 -b 1M --codec threshold:1 --density 90 --bw 0.001 --alpha 0 -a $lists -c \
		>"$tmp/out"
	awk '$3 == "codec_gather" { g = $4 } $3 == "codec_dense" { d = $4 }
		$3 == "codec_lists" { l = $4 } END { exit !(d > 0 && l < 1.1 * d && l < g) }' \
		"$tmp/out" || { cat "$tmp/out"; exit 1; }
	# ranks of a host encode together what leaves it
	./tutti_sim -n 8 -b 1M --codec int8 --bw 0.0125 --ranks-per-host 4 \
		-a codec_direct,hier_codec -c >"$tmp/out"
	awk '$3 == "codec_direct" { d = $4 } $3 == "hier_codec" { h = $4 }
		END { exit !(h > 0 && h < d / 2) }' "$tmp/out" || { cat "$tmp/out"; exit 1; }
	./tutti_sim -n 4 -b 1M --codec int8 --density 3 2>"$tmp/out" && exit 1
	grep -q "codec of lists" "$tmp/out" || { cat "$tmp/out"; exit 1; }
	./tutti_sim -n 4 -b 1M >"$tmp/out"
	! grep codec "$tmp/out"
}

test_files()
{
	./tutti_sim bcast -n 2:8 -b 1K -e 4K -a binomial --csv "$tmp/a.csv" --json "$tmp/a.json" \
		>"$tmp/out" ||
		exit 1
	[ "$(grep -c '^[0-9]*,[0-9]*,binomial,' "$tmp/a.csv")" = 9 ] ||
		{ cat "$tmp/a.csv"; exit 1; }
	[ "$(grep -c '"algorithm": "binomial"' "$tmp/a.json")" = 9 ] ||
		{ cat "$tmp/a.json"; exit 1; }
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
	! ./tutti_sim -n 2 -a ring --plot "$tmp/none/a.png" >"$tmp/out" 2>&1 ||
		die "drawn in a folder that is not there"
	grep -q "could not draw $tmp/none/a.png" "$tmp/out" || die "$(cat "$tmp/out")"
}

# As on a machine without it: the figures are printed, and what is missing is named.
test_no_gnuplot()
{
	! PATH=$tmp ./tutti_sim -n 2:8 -b 1K -e 4K -a ring --plot "$tmp/never.png" >"$tmp/out" \
		2>"$tmp/err" ||
		die "drawn without gnuplot"
	[ ! -e "$tmp/never.png" ] || die "never.png is there"
	grep -q "gnuplot is not installed" "$tmp/err" || die "$(cat "$tmp/err")"
	[ "$(awk '$1 != "#"' "$tmp/out" | wc -l)" = 9 ] || die "$(cat "$tmp/out")"
}

# A step that is longer than any number goes to the largest size.
test_far_step()
{
	rows=$(timeout 60 ./tutti_sim -n 2 -b 32768G -e 61440G -f 1e6 -a recursive_doubling \
		--chunk 65536G --lanes 1 | awk '$1 != "#" { print $2 / 2 ^ 30 }')
	[ "$(echo $rows)" = "32768 61440" ] || die "$(echo "$rows" | head -n 4)"
}

test_check()
{
	./tutti_sim -n 1024 -b 4K -a ring --check
}

# Equal counts take as long as blocks do; blocks of 1, 2, 3 and 4 tenths reach the owner of the
# first through one port.
test_counts()
{
	for pair in allgather:allgatherv:ring alltoall:alltoallv:pairwise gather:gatherv:linear \
		scatter:scatterv:linear; do
		IFS=: read -r blocks counts algo <<-end
			$pair
		end
		a=$(column 4 "$blocks" -n 12 -b 48K -a "$algo")
		b=$(column 4 "$counts" -n 12 -b 48K -a "$algo" --check)
		[ -n "$a" ] && [ "$a" = "$b" ] || die "$blocks takes $a us, $counts $b"
	done
	t=$(column 4 gatherv -n 4 -b 4000 -a linear --skew 4 --alpha 0 --bw 0.004 --overhead 0 \
		--check)
	[ "$t" = 900.00 ] || die "time $t"
	./tutti_sim alltoallv -n 7 -b 1000 --skew 3 --check &&
		./tutti_sim reduce_scatter -n 7 -b 1000 --skew 3 --check
}

# Those of double trees grow with the logarithm: each doubling adds as much as the one before, or 3
# steps more.
test_logarithmic()
{
	column 4 -n 2:24576 -b 8 -a dbt >"$tmp/t"
	awk '{ if (NR > 2 && $1 - last > 8) { print NR, $1, last; bad = 1 } last = $1 }
		END { exit bad || NR != 15 || last > 100 }' "$tmp/t" || { cat "$tmp/t"; exit 1; }
}

# table OPTION...: name, bytes sent, inbound and total, steps, fan-in and time of the port, without
# blanks in names
table()
{
	./tutti_sim --table "$@" >"$tmp/out" || die "$(cat "$tmp/out")"
	awk '$1 != "#" { name = $1
		for (i = 2; i <= NF - 8; i++)
			name = name "_" $i
		print name, $(NF - 6), $(NF - 4), $(NF - 3), $(NF - 2), $(NF - 1), $NF }' "$tmp/out"
}

# formulas RANKS BYTES: the same, as published for powers of two and as the headers of lib/coll
# have it for a fold
formulas()
{
	awk -v P="$1" -v N="$2" 'function row(name, sent, total, steps, fan) {
			printf "%s %d %d %d %d %d %.2f\n", name, sent, sent, total, steps, fan,
				sent / 12.5e3
		}
		BEGIN {
			for (p = 1; 2 * p <= P; p *= 2)
				log2++
			e = P - p
			best = 2 * (P - 1) * N / P
			row("bounds", best, 2 * (P - 1) * N, e ? log2 + 1 : log2, 1)
			row("naive", (P - 1) * N, P * (P - 1) * N, 1, P - 1)
			for (k = 1; k <= 4; k *= 2)
				row(k "_dedicated_server" (k > 1 ? "s" : ""), P > k ? P * N / k : N,
					2 * P * N, 2, P)
			row("single_master", (P - 1) * N, 2 * (P - 1) * N, 2, P - 1)
			row("P_servers,_one_a_rank", best, 2 * (P - 1) * N, 2, P - 1)
			row("ring", best, 2 * (P - 1) * N, 2 * (P - 1), 1)
			row("recursive_doubling", log2 * N + (e ? N : 0), p * log2 * N + 2 * e * N,
				log2 + (e ? 2 : 0), 1)
			row("halving-doubling", 2 * (p - 1) * N / p + (e ? N : 0),
				2 * (p - 1) * N + 2 * e * N,
				2 * log2 + (e ? 2 : 0), 1)
		}'
}

# The literature's table at its default size, which all parts divide.
test_table()
{
	for p in $(seq 2 33); do
		table -n "$p" >"$tmp/table"
		n=$(sed -n 's/^# all-reduce.* \([0-9]*\) bytes:.*/\1/p' "$tmp/out")
		[ $((n % p)) = 0 ] && [ "$n" -ge 65536 ] || die "$n bytes of $p ranks"
		formulas "$p" "$n" >"$tmp/formulas"
		grep -v ^double "$tmp/table" | diff "$tmp/formulas" - ||
			die "$p ranks: formulas (<) and table (>) differ"
		# two trees: at most 2N, fan-in 2, up and down
		awk -v P="$p" -v N="$n" '/^double/ {
			while (2 ^ depth < P)
				depth++
			full = 2 ^ depth == P
			seen = $2 <= 2 * N && (P < 4 || $2 == 2 * N) && $4 == 2 * (P - 1) * N &&
				(full ? $5 == 2 * depth : $5 <= 2 * depth) && $6 == (P < 4 ? 1 : 2)
			} END { exit !seen }' "$tmp/table" || die "$(cat "$tmp/out")"
	done
}

# Steps are those of the algorithm where ranks have nothing to send, and where there are many
# slices.
test_table_steps()
{
	for size in 8 64M; do
		steps=$(table -n 16 -b $size |
			awk '/^ring|^recursive|^halving|^double/ { print $5 }' | tr '\n' ' ')
		[ "$steps" = "30 4 8 8 " ] || die "$size: steps $steps"
	done
	table -n 12 -b 12M --servers 3,24 |
		awk '/^3_/ { n += $2 == 4 * 12582912 } /^24_/ { n += $2 == 12582912 } END {
			exit n != 2 }'
}

# steps N [OPTION...]: the row of N ranks
steps()
{
	n=$1
	shift
	./tutti_sim --steps 0.01:100 -n "$n" "$@" | awk '!/^#/'
}

# P = 1 - (1 - q)^n, full = compute + P delay, gossip = compute + q delay; a quorum of all is the
# full step, one of fewer lies between both; of one rank no step waits.
test_steps()
{
	for n in 2 8 64; do
		{ steps $n; steps $n --without 0; steps $n --without $n; } | awk -v n=$n '
			function is(a, b, by) { d = a - b; return (d < 0 ? -d : d) <= by * b }
			{ p = 1 - 0.99 ^ n }
			!is($2, p, 1e-4) || !is($3, 10 + 100 * p, 0.01) || $5 != 11 { bad = 1 }
			NR == 1 && ($4 < 10.5 || $4 > $3 * 1.05) { bad = 1 }
			NR == 2 && !is($4, $3, 0.05) { bad = 1 }
			NR == 3 && !is($4, 11, 0.05) { bad = 1 }
			bad { print }
			END { exit bad || NR != 3 }' || die "$n ranks"
	done
	# a probability too small for 1 - q
	[ "$(./tutti_sim --steps 1e-9:1 -n 1000 | awk '!/^#/ { print $2 }')" = 0.000001 ]
}

run steps test_steps
run bad_steps says "Q from 0 to 1" ./tutti_sim --steps 2:1
run steps_of_others says "--steps: only for allreduce" ./tutti_sim bcast --steps 0.1:1
run ring_time test_ring_time
run table test_table
run table_steps test_table_steps
run counts test_counts
run linear test_linear
run logarithmic test_logarithmic
run recurrence test_recurrence
run far_step test_far_step
run codec test_codec
run files test_files
run plot test_plot
run no_gnuplot test_no_gnuplot
run check test_check
# Every option with numbers: too small, too large, not one.
test_numbers()
{
	names_range ./tutti_sim <<-END
		-n | from 1 to 1048576 | 0 -1 1048577 1e308 x 4: :8
		-b | from 0 to 70368744177664 | -1 64T 65T 99999999999999999999 x
		-e | from 1 to 70368744177664 | 0 -1 65T 99999999999999999999 x
		-f | from 1.001 to 1000000 | 1 0 1e308 nan x
		-r | from 0 to 1048575 | -1 1048576 99999999999 x
		--chunk | from 4 to 70368744177664 | 3 65T x
		--lanes | from 1 to 32 | 0 33 99999999999 x
		--skew | from 1 to 1000000 | 0 1e308 x
		--density | from 1e-06 to 100 | 0 101 x
		--servers | from 1 to 1048576 | 0 1048577 x 2, 2,x
		--steps | from 0 to 1000000000 | -1:1 0.5:1e10 x 0.5:
		--without | from 0 to 1048576 | -1 1048577 99999999999 x
		--alpha | from 0 to 1000000000 | -1 1e10 x 1, 1,x
		--bw | from 1e-06 to 1000000 | 0 1e7 x 1,
		--gamma | from 1e-06 to 1000000 | 0 1e7 x
		--coding | from 1e-06 to 1000000 | 0 1e7 x 1,
		--overhead | from 0 to 1000000000 | -1 1e10 x
		--eager | from 0 to 70368744177664 | -1 65T x
		--buffer | from 0 to 70368744177664 | -1 65T x
		--ranks-per-host | from 1 to 1048576 | 0 1048577 99999999999 x
		--hosts-per-leaf | from 1 to 1048576 | 0 1048577 99999999999 x
		--rails | from 1 to 64 | 0 65 99999999999 x
		--cores | from 1 to 4096 | 0 4097 99999999999 x
		--oversub | from 1 to 1000 | 0 1001 x
		--straggler | from 0 to 1000000000 | -1:1 1:1e10 x 1:
		--jitter | from 0 to 1000000000 | -1 1e10 x
		--seed | from 0 to 9e+15 | -1 1e16 x
	END
}

# An algorithm that cannot do the call is left out.
test_nothing_left()
{
	status=0
	./tutti_sim allgather -n 3 -a hier_ring >"$tmp/out" 2>"$tmp/err" || status=$?
	[ $status = 1 ] && grep -q "nothing was left" "$tmp/err" || die "$status: $(cat "$tmp/err")"
}

run numbers test_numbers
run unknown_option says "did you mean --table?" ./tutti_sim --tabel
run unknown_collective says "did you mean allreduce?" ./tutti_sim alreduce
run unknown_algorithm says "did you mean ring?" ./tutti_sim -a rng
run skew_of_none says "allgather has no counts per rank" ./tutti_sim allgather --skew 2
run pairs wrong "at most 2048 ranks, not 4096" ./tutti_sim alltoallv -n 4:4096
run bad_ranks says "-n: a number from 1" ./tutti_sim -n 0
run bad_fraction says "whole numbers of ranks, not 4.7" ./tutti_sim -n 4.7
run bad_straggler says "a rank is a whole number, not 1.5" ./tutti_sim --straggler 1.5:3
run codec_unknown says "did you mean" ./tutti_sim --codec int9
run codec_elsewhere says "--codec: only for allreduce" ./tutti_sim bcast --codec fp16
run bad_coding says "--coding" ./tutti_sim --coding 0
run bad_range says "8 is more than 4" ./tutti_sim -n 8:4
run bad_root says "not a rank of 4 (0 to 3)" ./tutti_sim bcast -n 4 -r 4
run bad_servers says "whole numbers, not 1.5" ./tutti_sim --table --servers 1.5
run bad_plot wrong ".png, .svg or .pdf" ./tutti_sim --plot figure.gif
run nothing_left test_nothing_left
run bad_file says "cannot write /nowhere/x.csv" ./tutti_sim --csv /nowhere/x.csv
finish
