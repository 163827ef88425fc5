#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# tutti_explain: bytes as the plans have them; NUMA nodes; neighbours in graphs. tutti_explain ps:
# times and shares worked out by hand, files, and complaints.
only=$*
. "${TT_SRC:-$(dirname "$0")/../..}/tests/sh.inc"
suite tutti_explain
unset TUTTI_TUNE_FILE
export HOME="$tmp" XDG_CONFIG_HOME="$tmp"

# rows OPTION...: the CSV without what was asked: way, time, best, share and bytes of a dedicated
# server, of a co-located one, bytes of a worker, weights
rows()
{
	./tutti_explain ps --csv "$tmp/t.csv" "$@" >"$tmp/out" || die "$(cat "$tmp/out")"
	cut -d, -f6- "$tmp/t.csv" | tail -n +2
}

# same EXPECTED OPTION...
same()
{
	expected=$1
	shift
	got=$(rows "$@")
	[ "$got" = "$expected" ] || die "expected
$expected
got
$got"
}

# D = 16 + 8 - 4 = 20: 0.3 M and 0.1 M; 1 MB/s. Gains 20/16 over all-reduce, 20/12 over the servers
# alone.
test_four_and_two()
{
	same "allreduce,1500000,0,0,0,0,0,1500000,0,0
colocated,1500000,0,0,0,250000,1500000,0,0,1
server,2000000,0,500000,2000000,0,0,1000000,1,0
split,1200000,1,300000,1200000,100000,1200000,0,6,2" -n 4 -k 2 -b 1000000 --bw 0.001
	awk '$1 == "*" { exit !($3 == "split" && $5 == "1.250" && $6 == "1.667" && $7 == "30.00" &&
		$9 == "10.00" &&
		$12 == "6:2") }' "$tmp/out" || die "$(cat "$tmp/out")"
}

# D = 64 + 24 - 6 = 82; 8/3 of 82000 do not come out even.
test_eight_and_three()
{
	same "allreduce,143500,0,0,0,0,0,143500,0,0
colocated,143500,0,0,0,10250,143500,0,0,1
server,218666.667,0,27333.3333,218666.667,0,0,82000,1,0
split,112000,1,14000,112000,5000,112000,0,14,5" -n 8 -k 3 -b 82000 --bw 0.001
}

# Half of the workers' machines: D = 4 * 2 + 2 * 2 = 12.
test_some_colocated()
{
	same "allreduce,18000,0,0,0,0,0,18000,0,0
colocated,24000,0,0,0,6000,24000,12000,0,1
server,24000,0,6000,24000,0,0,12000,1,0
split,16000,1,4000,16000,2000,16000,12000,4,2" -n 4 -k 2 -c 2 -b 12000 --bw 0.001
}

# No server, as many as workers, and more; one worker, who sends nothing.
test_ends()
{
	same "allreduce,6000,1,0,0,0,0,6000,0,0
colocated,6000,0,0,0,1000,6000,0,0,1
split,6000,0,0,0,1000,6000,0,0,1" -n 4 -k 0 -b 4000 --bw 0.001
	same "allreduce,6000,0,0,0,0,0,6000,0,0
server,4000,1,1000,4000,0,0,4000,1,0
split,4000,0,1000,4000,0,0,4000,1,0" -n 4 -k 4 -c 0 -b 4000 --bw 0.001
	rows -n 4 -k 8 -b 4000 --bw 0.001 | grep -qx 'server,4000,1,500,2000,0,0,4000,1,0' ||
		die "$(cat "$tmp/t.csv")"
	rows -n 1 -k 2 -b 4000 --bw 0.001 | grep -qx 'split,0,0,0,0,4000,0,0,0,1' ||
		die "$(cat "$tmp/t.csv")"
}

# A server's weight is at most 65535; 70000 : 34990 is the ratio here.
test_large()
{
	rows -n 35001 -k 11 -b 1M --bw 0.001 | grep -q ',35000,17495$' || die "$(cat "$tmp/t.csv")"
}

# Shares of every way make up the vector, and the split is the best of all, for many n, k and c.
test_sums()
{
	for n in 2 3 5 16 100; do
		for k in 1 2 7 99; do
			for c in 1 $((n / 2)) "$n"; do
				./tutti_explain ps -n "$n" -k "$k" -c "$c" -b 1G --bw 1 \
					--csv "$tmp/s.csv" >"$tmp/out" || exit 1
				awk -F, 'NR > 1 && $6 != "allreduce" { all = $9 * $2 + $11 * $3
						if (all < $4 * 0.999999 || all > $4 * 1.000001) {
							print; bad = 1 }
						if (!least || $7 < least) least = $7
						split_time = $7 }
					END { exit bad || split_time > least * 1.000001 }' \
						"$tmp/s.csv" || die "$(cat "$tmp/s.csv")"
			done
		done
	done
}

test_files()
{
	./tutti_explain ps -n 4 -k 2 -b 1M -e 4M --bw 1 --json "$tmp/a.json" >"$tmp/out" || exit 1
	[ "$(grep -c '"way": "split"' "$tmp/a.json")" = 3 ] || die "$(cat "$tmp/a.json")"
	[ "$(grep -c '"best": true' "$tmp/a.json")" = 3 ] || die "$(cat "$tmp/a.json")"
	[ "$(grep -c '^\*' "$tmp/out")" = 3 ] || die "$(cat "$tmp/out")"
	# the default bandwidth is there without a table
	./tutti_explain ps | grep -q 'GB/s each way' || exit 1
}

# counted OPTION...: of each algorithm, rounds and the busiest rank's bytes sent, inbound and
# reduced
counted()
{
	TUTTI_LANES=1 TUTTI_CHUNK=64M ./tutti_explain -a "$@" >"$tmp/out" || die "$(cat "$tmp/out")"
	sed -n 's/^[* ] *[0-9]* //p' "$tmp/out" |
		awk '{ print $1, $(NF - 3), $(NF - 2), $(NF - 1), $NF }' | sort
}

# All-reduces with a rank on each host, by the formulas in the headers of lib/coll, of a size that
# all parts divide.
test_counts()
{
	for p in 2 3 4 7 8 16 33; do
		n=$((p * 32 * 4 * 4))
		awk -v P="$p" -v N="$n" 'function row(name, rounds, sent, reduced) {
				print name, rounds, sent, sent, reduced
			}
			BEGIN {
				for (p = 1; 2 * p <= P; p *= 2)
					log2++
				up = p < P ? log2 + 1 : log2
				fold = p < P ? N : 0
				best = 2 * (P - 1) * N / P
				row("circulant_rsag", 2 * up, best, best / 2)
				row("direct_rsag", 2, best, best / 2)
				row("halving_doubling", 2 * log2 + (fold ? 2 : 0),
					2 * (p - 1) * N / p + fold,
					(p - 1) * N / p + fold)
				if (P <= 8)
					row("radix", 1, (P - 1) * N, (P - 1) * N)
				row("recursive_doubling", log2 + (fold ? 2 : 0), log2 * N + fold,
					log2 * N + fold)
				row("ring", 2 * (P - 1), best, best / 2)
				row("single_master", 2, (P - 1) * N, (P - 1) * N)
			}' >"$tmp/formulas"
		counted -n "$p" -H "$p" -b "$n" >"$tmp/counted"
		awk -v P="$p" '!/^dbt|^circulant / && (P <= 8 || !/^radix/)' "$tmp/counted" |
			diff "$tmp/formulas" - ||
			die "$p ranks: formulas (<) and tutti_explain (>) differ"
		# one slice: rank 0 sends or receives it in every round; inner ranks have four
		# halves, adding up two
		awk -v P="$p" -v N="$n" 'BEGIN { while (2 ^ q < P) q++ }
			/^circulant / { n += $2 == 2 * q && $3 == q * N && $4 == q * N &&
				$5 == q * N }
			/^dbt/ { n += P < 4 ? $3 <= 2 * N : $3 == 2 * N && $4 == 2 * N && $5 == N }
			END { exit n != 2 }' "$tmp/counted" || die "$p ranks: $(cat "$tmp/counted")"
	done
	[ "$(counted -n 16 -H 16 -b 8 | grep -c '^ring 6 16 16 8$')" = 1 ] ||
		die "$(cat "$tmp/out")"
}

# Counts per rank, two levels, the memory of a host: each column has a unit, and a figure or a dash.
test_columns()
{
	for coll in allreduce bcast barrier reduce reduce_scatter_block reduce_scatter allgather \
		allgatherv gather gatherv \
		scatter scatterv alltoall alltoallv scan exscan; do
		# in two levels; and on one host
		for where in 3 $([ $coll = allreduce ] && echo 1 || :); do
			./tutti_explain $coll -n 6 -H "$where" -a -b 4K >"$tmp/out" ||
				die "$coll $where: $(cat "$tmp/out")"
			awk '/^[* ]/ { rows++; sub(/^[*]/, ""); bad += NF != 11 } END { exit bad ||
				!rows }' "$tmp/out" ||
				die "$(cat "$tmp/out")"
		done
	done
	grep \
		-q '^# *size (B) *algorithm *chunk (B) *lanes *predicted (us) *measured (us) *time (us) *rounds *sent (B) *inbound (B) *reduced (B)$' \
		"$tmp/out" || die "$(cat "$tmp/out")"
	[ "$(counted alltoallv -n 6 -H 6 -b 4K | grep -c '^linear 1 20480 20480 0$')" = 1 ] ||
		die "$(cat "$tmp/out")"
	[ "$(counted gatherv -n 6 -H 6 -b 4K | grep -c '^linear 1 4096 20480 0$')" = 1 ] ||
		die "$(cat "$tmp/out")"
	./tutti_explain -n 1000 -H 1000 -a -b 64G | grep -q ' ring .* - *- *- *-$' ||
		die "a long ring was counted"
	./tutti_explain ps |
		grep \
		-q '^# *size (B) *way *time (us) *x allreduce *x server *dedicated (%) *sends (B)' ||
		die "$(./tutti_explain ps)"
}

# Two levels on NUMA nodes where many ranks share one, else not; whoever else may do it is shown.
test_numa()
{
	for ranks in 4 64; do
		./tutti_explain allreduce -n "$ranks" -c "$ranks" -N 2 -b 64M -a >"$tmp/$ranks" ||
			exit 1
		grep -q ' node_pull ' "$tmp/$ranks" && grep -q ' hier_ring ' "$tmp/$ranks" ||
			die "$(cat "$tmp/$ranks")"
	done
	grep -q '^\* .* node_pull ' "$tmp/4" || die "$(cat "$tmp/4")"
	grep -q '^\* .* hier_' "$tmp/64" || die "$(cat "$tmp/64")"
	./tutti_explain allreduce -n 4 -b 64M -a | grep hier_ && exit 1
	return 0
}

# predicted COLUMN CODEC [OPTION...]: of the row of a codec; 4: sent, 5: coding, 6: wire, 7: total
predicted()
{
	at=$1 name=$2
	shift 2
	[ "$name" = plain ] || set -- "$@" "$name"
	./tutti_explain codec -T none "$@" >"$tmp/out" || die "$(cat "$tmp/out")"
	awk -v at="$at" -v name="$name" '{ sub(/^[*]/, "") }
		$2 == name || index($2, name ":") == 1 { print $at }' "$tmp/out"
}

# near A B PERCENT
near()
{
	echo "$1 $2 $3" | awk '{ d = $1 > $2 ? $1 - $2 : $2 - $1; exit !(NF == 3 && $1 > 0 &&
		100 * d <= $3 * $2) }' || die "$1 is not $2: $(cat "$tmp/out")"
}

# Worked out by hand: 2 * 3/4 * 16 MiB at 12.5 MB/s, of which a codec leaves half, or 1.125/32.
test_codec_links()
{
	slow="--bw 0.0125 --latency 0 --coding 1e6"
	near "$(predicted 7 plain $slow)" 2013266 1
	near "$(predicted 7 fp16 $slow)" 1006633 1
	near "$(predicted 7 onebit $slow)" 70779 1
	near "$(predicted 4 onebit $slow)" 884736 0
	near "$(predicted 8 onebit $slow)" 28.44 1
	near "$(predicted 9 onebit $slow)" 28.44 1
	# and as much computing as sending: half of the gain of halving
	near "$(predicted 9 fp16 $slow --compute 2013266)" 1.333 1
}

# N encoded and (2n - 1)/n N decoded: 16 MiB at 1 GB/s, 28 MiB at 2.
test_codec_rates()
{
	near "$(predicted 5 int8 --bw 1000 --latency 0 --coding 1,2)" 31457 3
	predicted 5 int8 --coding table --json "$tmp/t.json" >"$tmp/table"
	grep -q '"encode_ns_per_byte": 0.25[,0]' "$tmp/t.json" || die "$(cat "$tmp/t.json")"
	# a table with a fast copy, which is one in the cache, makes no codec faster
	cat >"$tmp/table.json" <<-END
	{"tutti_tune": 1, "tables": [{"hosts": "a,b,c,d", "ranks": 4, "gamma_ns_per_byte": 0.01,
	"copy_ns_per_byte": 0.01, "inside": [], "between": [], "measured": []}]}
	END
	predicted 5 int8 --coding table -T "$tmp/table.json" >"$tmp/fast"
	near "$(cat "$tmp/fast")" "$(cat "$tmp/table")" 20
	predicted 5 int8 --processes 2 --json "$tmp/t.json" >"$tmp/measured"
	awk -F '[:,]' '/_ns_per_byte/ { n++; bad += $2 < 0.001 || $2 > 100 }
		END { exit bad || n != 2 }' "$tmp/t.json" || die "$(cat "$tmp/t.json")"
}

# The simulator, which runs the plans, has the same time.
test_codec_sim()
{
	for codec in fp16 int8 onebit; do
		./tutti_sim -n 4 -b 16M --codec $codec -a codec_direct --lanes 4 --bw 0.125 \
			--alpha 12 --overhead 4 --coding 1,2 >"$tmp/sim" || die "$(cat "$tmp/sim")"
		sim=$(awk '$1 != "#" && $3 == "codec_direct" { print $4 }' "$tmp/sim")
		near "$(TUTTI_CHUNK=256K TUTTI_LANES=4 predicted 7 $codec --bw 0.125 --latency 12 \
			--coding 1,2)" "$sim" 10
	done
}

# The asterisk is at the shortest time, on slow links, fast ones, and shared memory.
test_codec_best()
{
	for where in "--bw 0.0125" "--bw 1" "--bw 1000" "-H 1"; do
		./tutti_explain codec -T none -b 4K -e 64M -f 16 --coding table $where \
			--json "$tmp/t.json" >"$tmp/out" || die "$(cat "$tmp/out")"
		awk '$1 == "#" { next } $1 == "*" { sub(/^[*]/, ""); best[$1] = $7 }
			$2 == "plain" { plain[$1] = $7 }
			{ if (!($1 in least) || $7 < least[$1]) least[$1] = $7 }
			END { for (s in least) { n++; bad += !(s in best) ||
				best[s] > (plain[s] == best[s] ? 1.12 : 1.02) * least[s] }
				exit bad || n != 4 }' "$tmp/out" ||
			die "$(cat "$tmp/out")"
		[ "$(grep -c '"auto": true' "$tmp/t.json")" = 4 ] || die "$(cat "$tmp/t.json")"
	done
	grep -q '^\*.* plain ' "$tmp/out" || die "$(cat "$tmp/out")"
	grep -q ' loses$' "$tmp/out" || die "$(cat "$tmp/out")"
}

# moved CALL OPTION...: of the row of a call of neighbours: plan, and the busiest rank's bytes sent,
# inbound and reduced, and what leaves the busiest host
moved()
{
	call=$1
	shift
	./tutti_explain "$@" >"$tmp/out" || die "$(cat "$tmp/out")"
	awk -v call="$call" '/^#/ { next } { sub(/^[*]/, "") }
		$2 == call { print $3, $8, $9, $10, $11 }' "$tmp/out"
}

# Of 12 ranks: the most neighbours of a rank, times the bytes.
test_neighbors()
{
	n=4000
	for graph in ring:2 torus:4 star:11 complete:11 exponential:4 one_peer:1; do
		all=$((${graph#*:} * n))
		for coll in allreduce allgather alltoall; do
			sum=0
			[ $coll = allreduce ] && sum=$n
			got=$(moved neighbor_$coll neighbor_$coll -n 12 -H 12 -b $n \
				-g "${graph%:*}")
			[ "$got" = "direct $all $all $sum $all" ] || die "$graph, $coll: $got"
		done
		got=$(moved neighbor_allreduce neighbor_allreduce -n 12 -b $n -g "${graph%:*}")
		[ "$got" = "direct $all $all $n 0" ] || die "$graph, one host: $got"
	done
	grep -q '^# graph of 12 ranks: one_peer, 4 steps, in-degree 1, ' "$tmp/out" ||
		die "$(cat "$tmp/out")"
	./tutti_explain neighbor_alltoall -n 8 | grep -q '|lambda2| 0.8047$' ||
		die "the ring of 8 contracts by another factor"
}

# 3 hosts of 4 ranks: a quarter of the vector to each of 2 hosts; by messages also 3 quarters within
# the host, twice. On one host short vectors are in slots.
test_neighbor_levels()
{
	n=4096
	set -- neighbor_hier_allreduce neighbor_hier_allreduce -n 12 -b $n
	got=$(moved "$@" -H 3)
	[ "$got" = "hier 2048 2048 2048 8192" ] || die "$got: $(cat "$tmp/out")"
	grep -q '^[*].* neighbor_hier_allreduce .*hosts share memory' "$tmp/out" ||
		die "$(cat "$tmp/out")"
	grep -q '^# graph of 3 hosts: ring' "$tmp/out" || die "$(cat "$tmp/out")"
	got=$(TUTTI_NODE=off moved "$@" -H 3)
	[ "$got" = "direct 8192 8192 2048 8192" ] || die "$got: $(cat "$tmp/out")"
	grep -q 'by messages: TUTTI_NODE=off$' "$tmp/out" || die "$(cat "$tmp/out")"
	got=$(moved "$@" -H 12)
	[ "$got" = "direct 8192 8192 4096 8192" ] || die "$got: $(cat "$tmp/out")"
	grep -q 'each rank is alone on its host$' "$tmp/out" || die "$(cat "$tmp/out")"
	got=$(moved "$@" -H 1,11)
	[ "${got%% *}" = hier ] || die "$got: $(cat "$tmp/out")"
	./tutti_explain neighbor_hier_allreduce -n 4 -b 3K -e 6K >"$tmp/out"
	short=$(awk '$NF == "slots" { print $2, $3 }' "$tmp/out")
	[ "$short" = "3072 neighbor_hier_allreduce" ] || die "$(cat "$tmp/out")"
}

# One neighbour: alpha, the bytes and their sum. Three calls are compared.
test_neighbor_times()
{
	export TUTTI_LANES=1 TUTTI_CHUNK=64M
	./tutti_explain neighbor_allreduce -n 16 -H 16 -b 4M -g one_peer >"$tmp/out" || exit 1
	awk '/^[* ]/ { rows++ } $1 == "*" { print $7 } END { exit rows != 3 }' "$tmp/out" \
		>"$tmp/time" || die "$(cat "$tmp/out")"
	near "$(cat "$tmp/time")" 4183 2 # 4 MiB at 1.15 GB/s, and at 8 GB/s
	[ "$(./tutti_explain neighbor_allgather -n 4 -b 8 -e 32 | grep -c '^[*]')" = 3 ] ||
		die "not one row for each size"
}

run counts test_counts
run neighbors test_neighbors
run neighbor_levels test_neighbor_levels
run neighbor_times test_neighbor_times
run neighbor_name says "did you mean neighbor_allreduce?" ./tutti_explain neighbour_allreduce
run neighbor_graph says "did you mean ring?" ./tutti_explain neighbor_allreduce -g rign
run neighbor_many says "at most 4096 ranks" ./tutti_explain neighbor_allreduce -n 5000
run neighbor_numa says "neighbor_alltoall does not use it" ./tutti_explain neighbor_alltoall -N 2
run no_graph says "allreduce does not use a graph" ./tutti_explain -g ring
run codec_links test_codec_links
run codec_rates test_codec_rates
run codec_sim test_codec_sim
run codec_best test_codec_best
run codec_varies says "depends on the data" ./tutti_explain codec threshold
run codec_auto says "name the codecs of its list" ./tutti_explain codec auto:fp16
run codec_list ./tutti_explain codec -b 1M topk:1% dgc randomk:1%
run codec_name says "did you mean 'int8'?" ./tutti_explain codec int9
run codec_rate says "--coding: a number from" ./tutti_explain codec --coding slow
run codec_hosts says "not equally many on each" ./tutti_explain codec -n 4 -H 3
run codec_json says "tutti_explain: --json: cannot write '/nowhere/t.json'" \
	./tutti_explain codec --coding 1 --json /nowhere/t.json
run codec_table says "'table' or rates such as" ./tutti_explain codec --coding tabel
run sizes_kb ./tutti_explain codec -b 64KB --coding 1
# Every option with numbers: too small, too large, not one.
test_numbers()
{
	names_range ./tutti_explain <<-END
		-n | from 1 to 1048576 | 0 1048577 99999999999 x
		-H | from 1 to 1048576 | 0 1048577 99999999999 x 2, 2,x
		-N | from 1 to 1024 | 0 1025 99999999999 x
		-b | from 0 to 70368744177664 | -1 65T x
		-e | from 0 to 70368744177664 | -1 65T x
		-f | from 1.001 to 1000000 | 1 1e308 nan x
		-c | from 1 to 65536 | 0 65537 99999999999 x
		-r | from 0 to 1048575 | -1 1048576 99999999999 x
	END
	names_range ./tutti_explain ps <<-END
		-n | from 1 to 65536 | 0 65537 99999999999 x
		-k | from 0 to 65536 | -1 65537 99999999999 x
		-c | from 0 to 65536 | -1 65537 99999999999 x
		-b | from 1 to 70368744177664 | 0 65T x
		-e | from 1 to 70368744177664 | 0 65T x
		-f | from 1.001 to 1000000 | 1 1e308 nan x
		--bw | from 1e-06 to 1000000 | 0 1e7 x
	END
	names_range ./tutti_explain codec <<-END
		-n | from 1 to 1048576 | 0 1048577 99999999999 x
		-H | from 1 to 1048576 | 0 1048577 99999999999 x
		-b | from 1 to 70368744177664 | 0 65T x
		-e | from 1 to 70368744177664 | 0 65T x
		-f | from 1.001 to 1000000 | 1 1e308 nan x
		-c | from 1 to 65536 | 0 65537 99999999999 x
		--bw | from 1e-06 to 1000000 | 0 1e7 x
		--latency | from 0 to 1e+12 | -1 1e13 x
		--compute | from 0 to 1e+12 | -1 1e13 x
		--coding | from 1e-06 to 1000000 | 0 1e7 x 1,
		--processes | from 1 to 1024 | 0 1025 99999999999 x
	END
}

run numbers test_numbers
run hosts_comma says "-H: a value is missing" ./tutti_explain -n 2 -H 2,
run hosts_none says "a number from 1 to" ./tutti_explain -H 1,0
run hosts_text says "a number from 1 to 1048576, not 'x'" ./tutti_explain -H 3,x
run hosts_space says "a whole number from 1 to" ./tutti_explain -H ' 3'
run hosts_half says "whole numbers of ranks" ./tutti_explain -H 1.5,2.5
run hosts_sum says "-H: 3 ranks on its hosts, but -n 4" ./tutti_explain -H 1,2 -n 4
run columns test_columns
run four_and_two test_four_and_two
run eight_and_three test_eight_and_three
run some_colocated test_some_colocated
run ends test_ends
run large test_large
run sums test_sums
run files test_files
run numa test_numa
run numa_hosts says "needs one host, with at least one rank" ./tutti_explain -n 4 -N 2 -H 2
run too_many says "-c: 5 of 4 workers' machines cannot serve" ./tutti_explain ps -n 4 -c 5
run workers says "a whole number from 1" ./tutti_explain ps -n 0
run option says "did you mean --workers?" ./tutti_explain ps --wokers 3
run nowhere says "cannot write /nowhere/t.csv" ./tutti_explain ps --csv /nowhere/t.csv
run table says "cannot read the tuning table /nowhere/t.json" ./tutti_explain ps -T /nowhere/t.json
finish
