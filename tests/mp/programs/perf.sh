#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# tutti_perf: every subcommand on tiny sizes, what it writes to files, and its complaints.
. "${TT_SRC:-.}/tests/sh.inc"
suite perf
bare tutti_run tutti_perf

# perf RANKS ARGUMENT...
perf() {
	ranks=$1
	shift
	timeout 120 $tutti_run -n "$ranks" $tutti_perf "$@"
}

# clean ROWS ARGUMENT...: on two ranks, with the right number of JSON and CSV rows and nothing
# wrong.
clean() {
	rows=$1
	shift
	perf 2 "$@" --json "$tmp/j" --csv "$tmp/c" || return 1
	tests/mp/programs/perf_json "$tmp/j" "$rows" || return 1
	[ "$(wc -l <"$tmp/c")" = $((rows + 1)) ] || { cat "$tmp/c"; return 1; }
	[ "$(tr -dc ',\n' <"$tmp/c" | sort -u | wc -l)" = 1 ] || { cat "$tmp/c"; return 1; }
}

header() {
	[ "$(head -n 1 "$tmp/c")" = "$1" ] || { head -n 1 "$tmp/c"; return 1; }
}

# sent LEAST MOST ARGUMENT...: bytes of an all-reduce of two ranks by messages, in place and not
sent() {
	least=$1 most=$2
	shift 2
	TUTTI_NODE=off TUTTI_ALGO=allreduce:ring:0-inf perf 2 allreduce -n 3 --stat --csv "$tmp/c" \
		"$@" >/dev/null || return 1
	awk -F, -v least="$least" -v most="$most" '
		NR == 1 { for (i = 1; i <= NF; i++) if ($i ~ /sent_bytes$/) at[++n] = i; next }
		{ for (i = 1; i <= n; i++) if ($at[i] < least || $at[i] > most) bad = 1 }
		END { exit bad || n != 2 || NR != 2 }' "$tmp/c" || { cat "$tmp/c"; return 1; }
}

# footers ARGUMENT...: the lines that scripts for nccl-tests look for.
footers() {
	perf 3 "$@" >"$tmp/out" || return 1
	grep -q '^# Out of bounds values : 0 OK$' "$tmp/out" &&
		grep -Eq '^# Avg bus bandwidth    : [0-9.e+-]+$' "$tmp/out" &&
		grep -q 'size .*count .*type .*redop .*root .*time .*algbw .*busbw #wrong' \
		"$tmp/out" ||
		{ cat "$tmp/out"; return 1; }
}

# only_loopback VARIABLE=VALUE...: while a job of one host runs, all that its processes listen on
# is there.
only_loopback() {
	command -v ss >/dev/null || skip "ss (package iproute2) is not installed"
	env "$@" $tutti_run -n 2 $tutti_perf barrier -n 100000000 >/dev/null 2>&1 &
	job=$!
	tries=0
	until ss -ltnpH | grep -q '"[^"]*tutti_perf"'; do
		tries=$((tries + 1))
		[ $tries -lt 100 ] || { kill $job; die "the job does not listen"; }
		sleep 0.1
	done
	sleep 0.3
	ss -ltnpH | grep '"[^"]*tutti_perf"' >"$tmp/listen"
	kill $job
	wait $job
	! awk '{ print $4 }' "$tmp/listen" | grep -v '^127\.0\.0\.1:' || die "$(cat "$tmp/listen")"
}

# overlaps ROWS: as many rows of either kind, and figures that belong to each other, in the table
# before.
overlaps() {
	awk -F, -v rows="$1" 'NR > 1 {
		exposed = $6 > $5 ? $6 - $5 : 0
		hidden = exposed < $4 ? 100 * (1 - exposed / $4) : 0
		if (($7 - exposed) ^ 2 > 1e-3 || ($8 - hidden) ^ 2 > 1e-3)
			bad = 1
		if ($4 <= 0 || $5 < $4 || $9 <= 0)
			bad = 1
		n[$3]++
	}
	END { exit bad || n["caller"] != rows || n["thread"] != rows }' "$tmp/c" ||
		{ cat "$tmp/c"; return 1; }
}

# beside COUNT: so many rows of forms, in the table before, have times, and one for each collective
# that has a nonblocking form.
beside() {
	awk -F, -v rows="$1" '
	NR > 1 { n++; bad = bad || $4 <= 0 || $5 <= 0 || $6 <= 0; names[$1] = 1 }
	END { for (i in names) colls++; exit bad || n != rows || colls != rows }' "$tmp/c" ||
		{ cat "$tmp/c"; return 1; }
}

# slept HOW PATTERN: in so many of 20 iterations, while ranks wait as HOW says.
slept() {
	TUTTI_WAIT=$1 perf 2 wakeup -n 20 -w 0 --csv "$tmp/c" >/dev/null || return 1
	! cut -d, -f3 "$tmp/c" | tail -n 2 | grep -qv "^$2\$" || { cat "$tmp/c"; return 1; }
}

# Rows of a doubling scan: 8 to 64K is 14 sizes.
run allreduce clean 14 allreduce -b 8 -e 64K -f 2 -n 3 -w 1
run csv_header header \
	size,count,type,redop,root,oop_time_us,oop_algbw_gbs,oop_busbw_gbs,oop_wrong,ip_time_us,ip_algbw_gbs,ip_busbw_gbs,ip_wrong
# A factor near 1: no size twice, though sizes are rounded to elements (of 4 bytes, of 2 ranks).
run allreduce_near_one clean 9 allreduce -b 64 -e 96 -f 1.01 -n 1 -w 0
run alltoall_near_one clean 5 alltoall -b 64 -e 96 -f 1.01 -n 1 -w 0
run gossip_near_one clean 9 gossip -b 64 -e 96 -f 1.01 -n 1 -w 0 -d float
run allreduce_empty clean 1 allreduce -b 0 -e 0 -n 2
run allreduce_stat clean 2 allreduce -b 1K -e 2K -i 1K -n 5 -w 1 --stat
run csv_header_stat sh -c 'head -n 1 "$1" | grep -q oop_p50_us,oop_min_us,oop_p99_us,oop_sent' \
	sh "$tmp/c"
run allreduce_sent sent 100000 100000 -b 100000 -e 100000
run allreduce_sent_int8 sent 25390 26000 -b 100000 -e 100000 --codec int8
run allreduce_malloc clean 1 allreduce -b 300001 -e 300001 -n 2 -w 0 --malloc -d uint8 -o max
# 8 integer types with 11 operators each, bool 3, 4 floats 5, 2 complex 3, 4 pairs 2
run allreduce_all clean 125 allreduce -b 5000 -e 5000 -n 1 -w 0 -d all -o all
run bcast clean 4 bcast -b 8 -e 64K -f 20 -n 3 -w 1 -r 1
run bcast_all_roots clean 2 bcast -b 1M -e 1M -n 2 -w 0 -r all
# all types and all operations that a scan has: 8 times 10, 3, 4 times 4, 2 times 2, 4 times 2
run scan_all clean 111 scan -b 5000 -e 5000 -n 1 -w 0 -d all -o all
run exscan clean 3 exscan -b 8 -e 64K -f 64 -n 2 -w 1 -o prod -d half
run sendrecv clean 4 sendrecv -b 8 -e 2M -f 64 -n 2 -w 1
run sendrecv_alone perf 1 sendrecv -b 8K -e 8K -n 2
run sendrecv_three footers sendrecv -b 1M -e 1M -n 2 -d uint8
run hypercube clean 4 hypercube -b 8 -e 2M -f 64 -n 2 -w 1
run hypercube_four perf 4 hypercube -b 300000 -e 300000 -n 2 -w 0 -d double
run hypercube_three says "power of two" perf 3 hypercube -b 8 -e 8
run reduce clean 6 reduce -b 8 -e 64K -f 64 -n 2 -w 1 -r all -o avg
run reduce_scatter clean 4 reduce_scatter -b 8 -e 2M -f 64 -n 2 -w 1 -d bfloat16
run allgather clean 4 allgather -b 8 -e 2M -f 64 -n 2 -w 1 --malloc
run gather clean 6 gather -b 8 -e 64K -f 64 -n 2 -w 1 -r all
run scatter clean 6 scatter -b 8 -e 64K -f 64 -n 2 -w 1 -r all
run alltoall clean 4 alltoall -b 8 -e 2M -f 64 -n 2 -w 1 --stat
run barrier clean 1 barrier -n 10
run barrier_stat clean 1 barrier -n 10 --stat
# Without and with the progress thread: two rows for each size.
run overlap clean 4 overlap -b 4K -e 64K -f 16 -n 2 -w 1
run overlap_columns header \
	collective,size,progress,pure_us,compute_us,overall_us,exposed_us,overlap_percent,work_percent,wrong
run overlap_figures overlaps 2
run overlap_ofi clean 2 overlap -T ofi -b 300004 -e 300004 -n 2 -w 0
run overlap_colls clean 12 overlap --coll bcast,reduce_scatterv,alltoallv -b 4K -e 64K -f 16 -n 2 \
	-w 1
run overlap_none says "no nonblocking form" perf 2 overlap --coll bcast,sendrecv
run overlap_unknown says "did you mean 'bcast'" perf 2 overlap --coll bcats
run forms clean 16 forms -b 60000 -e 60000 -n 3 -w 1
run forms_columns header collective,size,buffers,blocking_us,nonblocking_us,ratio,wrong
run forms_all beside 16
run forms_three perf 3 forms --coll all -b 8 -e 8 -n 3 -w 1 --malloc
run forms_ofi clean 16 forms -T ofi -b 40000 -e 40000 -n 2 -w 0
run reduce_scatterv perf 3 reduce_scatterv -b 30000 -e 30000 -n 2 -w 0 -c 2
run allgatherv perf 3 allgatherv -b 30000 -e 30000 -n 2 -w 0 -c 2
run gatherv perf 3 gatherv -b 30000 -e 30000 -n 2 -w 0 -r all
run scatterv perf 3 scatterv -b 30000 -e 30000 -n 2 -w 0 -r all
run alltoallv perf 3 alltoallv -b 30000 -e 30000 -n 2 -w 0 -c 2
# averaged RANKS GRAPH...: along each of these graphs, in all types that have averages
averaged() {
	ranks=$1
	shift
	for graph; do
		perf "$ranks" neighbor_allreduce --graph "$graph" -b 5000 -e 300000 -f 60 -n 3 \
			-w 1 -d all --json "$tmp/j" >/dev/null || die "$graph"
		tests/mp/programs/perf_json "$tmp/j" 8 || return 1
		grep -q "\"graph\": \"$graph\"" "$tmp/j" || { cat "$tmp/j"; return 1; }
	done
}

# swapped RANKS GRAPH...: blocks of any type
swapped() {
	ranks=$1
	shift
	for graph; do
		perf "$ranks" neighbor_allgather --graph "$graph" -b 30000 -e 30000 -n 2 -d all \
			>/dev/null || die "all-gather, $graph"
		perf "$ranks" neighbor_alltoall --graph "$graph" -b 30000 -e 30000 -n 2 --malloc \
			>/dev/null || die "all-to-all, $graph"
	done
}

# busbw_is DEGREE: in the table before, busbw is so many times algbw
busbw_is() {
	awk -F, -v degree="$1" 'NR > 1 && ($8 <= 0 || ($8 / $7 - degree) ^ 2 > 1e-6) { bad = 1 }
		END { exit bad || NR != 4 }' "$tmp/c" || { cat "$tmp/c"; return 1; }
}

# Each rank of a ring of 5 writes to 2 neighbours, and the center of a star to 4: a head of 64 bytes
# before each vector.
posted() {
	for pair in ring:2 star:4 torus:2 exponential:3; do
		perf 5 gossip --graph "${pair%:*}" -d double -b 4000 -e 4000 -n 3 -c 2 \
			--csv "$tmp/c" >/dev/null || die "${pair%:*}: $(cat "$tmp/c")"
		awk -F, -v most="${pair#*:}" 'NR == 2 && $7 > 0 && $7 <= 4064 * most { ok = 1 }
			END { exit !ok }' "$tmp/c" || die "${pair%:*}: $(cat "$tmp/c")"
	done
}

# All at once, and in turn, in integers without a rounding.
paired() {
	for partner in random one_peer; do
		perf 5 pair --partner $partner -d int64 -b 4000 -e 4000 -n 50 -c 3 \
			--csv "$tmp/c" >"$tmp/out" || die "$(cat "$tmp/out")"
		awk -F, -v partner=$partner 'NR == 2 && $4 == partner && $8 == 0 { ok = 1 }
			END { exit !ok }' "$tmp/c" || die "$(cat "$tmp/c")"
	done
}

# took LEAST:MOST LEAST:MOST ARGUMENT...: bounds of the ranks of 3 that take part in a step, and of
# the microseconds of its median
took() {
	part=$1 time=$2
	shift 2
	perf 3 partial "$@" -d int64 -b 8000 -e 8000 -n 20 -w 2 -c 2 --csv "$tmp/c" \
		--json "$tmp/j" >"$tmp/out" || die "$(cat "$tmp/out")"
	awk -F, -v part="$part" -v time="$time" 'BEGIN { split(part, r, ":"); split(time, t, ":") }
		NR == 2 && $6 >= r[1] && $6 <= r[2] && $4 >= t[1] && $4 <= t[2] && $5 >= $4 &&
			$7 == 0 { ok = 1 }
		END { exit !ok }' "$tmp/c" || die "$*: $(cat "$tmp/c")"
}

# A rank that is 50 ms late is waited for, or left out by quorum or cutoff.
took_part() {
	took 3:3 30000:300000 --late 1:50ms || return 1
	took 2:2.5 0:30000 --late 1:50ms --quorum 2 || return 1
	grep -q '"quorum": 2' "$tmp/j" && grep -q '"late_rank": 1' "$tmp/j" || die "$(cat "$tmp/j")"
	took 2:2.5 0:30000 --late 1:50ms --quorum majority --drop || return 1
	# a cutoff so long that a rank in time makes it on a busy machine
	took 2:2.6 24900:90000 --late 1:100ms --cutoff 25ms || return 1
	grep -q '"cutoff_us": 25000' "$tmp/j" || die "$(cat "$tmp/j")"
	took 1:3 0:30000 --quorum 1
}

# elastic_alpha ALPHA ARGUMENT...: on 5 ranks with this alpha; figures belong to each other
elastic_alpha() {
	alpha=$1
	shift
	perf 5 elastic "$@" -d all -b 4000 -e 300000 -f 75 -n 5 -w 1 -c 3 --csv "$tmp/c" \
		--json "$tmp/j" >"$tmp/out" || die "$(cat "$tmp/out")"
	grep -q " alpha: $alpha " "$tmp/out" || die "$(cat "$tmp/out")"
	awk -F, 'NR > 1 { bad = bad || $4 <= 0 || $5 <= 0 || $8 != 0 ||
			($4 / $5 / $6 - 1) ^ 2 > 1e-6 || ($1 / $4 / 1e3 / $7 - 1) ^ 2 > 1e-6 }
		END { exit bad || NR != 5 }' "$tmp/c" || die "$(cat "$tmp/c")"
}

# A center that stays, one that leaves the range of the models, and the default.
elastic_alphas() {
	elastic_alpha 0 --alpha 0 && elastic_alpha 0.18 && elastic_alpha 1 --alpha 1 || return 1
	grep -q '"alpha": 1.0' "$tmp/j" || die "$(cat "$tmp/j")"
}

run neighbor_allreduce clean 3 neighbor_allreduce -b 8 -e 32K -f 64 -n 2 -w 1
run neighbor_busbw busbw_is 1
run neighbor_stat clean 1 neighbor_allreduce -b 64K -e 64K -n 2 --stat --rotate 2 -T ofi
run neighbor_allgather clean 3 neighbor_allgather -b 8 -e 32K -f 64 -n 2 -w 1
run neighbor_alltoall clean 3 neighbor_alltoall -b 8 -e 32K -f 64 -n 2 -w 1
run neighbor_averages averaged 5 ring star complete exponential one_peer
run neighbor_torus averaged 6 torus
run neighbor_blocks swapped 5 ring star complete exponential one_peer
run neighbor_complete sh -c 'timeout 60 $tutti_run -n 4 $tutti_perf neighbor_allreduce -n 2 \
	--graph complete -b 8 -e 32K -f 64 --csv "$1"' sh "$tmp/c"
run neighbor_degree busbw_is 3
run neighbor_types says "not for int8" perf 2 neighbor_allreduce -d int8
run unknown_graph says "did you mean 'one_peer'" perf 2 neighbor_allreduce --graph one-peer
run unknown_graphs says 'it is one of ring, torus, star' perf 2 neighbor_allreduce --graph xyzzyx
run gossip clean 3 gossip -b 8 -e 32K -f 64 -n 3 -w 1
run gossip_header header "size,count,type,post_us,mix_us,flush_us,sent_bytes,wrong"
run gossip_graphs posted
run gossip_changes says "stays the same" perf 2 gossip --graph one_peer
run gossip_type says "gossip is for float and double, not for int32" perf 2 gossip -d int32
run pair clean 12 pair -d all -b 8 -e 32K -f 64 -n 3 -w 1
run pair_header header "size,count,type,partner,time_us,waits,moved_bytes,wrong"
run pair_partners paired
run pair_type says "not for int8" perf 2 pair -d int8
run unknown_partner says "did you mean 'random'" perf 2 pair --partner randm
run partial clean 12 partial -d all -b 8 -e 32K -f 64 -n 3 -w 1
run partial_header header "size,count,type,time_us,p99_us,participants,wrong"
run partial_ofi clean 1 partial -T ofi --quorum 1 -b 300000 -e 300000 -n 3 --malloc
run partial_took took_part
run partial_type says "partial is for int32, int64, float and double, not for int8" \
	perf 2 partial -d int8
run partial_quorum says "more than the 2 ranks" perf 2 partial --quorum 3
run partial_no_quorum says "did you mean 'majority'" perf 2 partial --quorum majorty
run partial_zero says "--quorum '0' is not a whole number from 1 to" perf 2 partial --quorum 0
run partial_cutoff says "--cutoff '5' is not a time from 1us" perf 2 partial --cutoff 5
run partial_late says "--late: 2 is not a rank" perf 2 partial --late 2:1ms
run partial_no_late says "--late '1' is not RANK:TIME" perf 2 partial --late 1
run elastic clean 6 elastic -d all -b 8 -e 32K -f 64 -n 3 -w 1
run elastic_header header "size,count,type,elastic_us,allreduce_us,ratio,algbw_gbs,wrong"
run elastic_alphas elastic_alphas
run elastic_ofi clean 1 elastic -T ofi -b 300000 -e 300000 -n 3 -c 2 --malloc
run elastic_type says "elastic is for float and double, not for int32" perf 2 elastic -d int32
run elastic_option says "did you mean '--alpha'" perf 2 elastic --alhpa 0.5
run neighbor_alone says "needs 2 ranks" perf 1 neighbor_alltoall
run threads clean 9 threads -n 40 -w 3
run threads_columns header \
	call,communicators,threads,calls,time_us,calls_per_ms,speedup,wrong
run threads_ofi clean 9 threads -T ofi -n 20 -w 2
run wakeup clean 2 wakeup -n 5 -w 1
run wakeup_columns header call,iterations,slept,awake_us,asleep_us,wakeup_us,p99_us,max_us
run wakeup_sleeps slept sleep "[1-9][0-9]*"
run wakeup_spins slept spin 0
run put clean 3 put -b 8 -e 512K -f 256 -n 20 -w 2
run put_malloc clean 1 put -b 64K -n 20 -w 2 --malloc
run get clean 3 get -b 8 -e 512K -f 256 -n 20 -w 2
run put_lat clean 3 put_lat -b 8 -e 512K -f 256 -n 20 -w 2
run put_lat_shm clean 1 put_lat -T shm -n 20 -w 2
run put_flush clean 3 put_flush -b 8 -e 512K -f 256 -n 20 -w 2
run get_lat clean 3 get_lat -b 8 -e 512K -f 256 -n 20 -w 2
run send_lat clean 3 send_lat -b 8 -e 512K -f 256 -n 20 -w 2 -c 3
run send clean 3 send -b 8 -e 512K -f 256 -n 4 -w 1 -q 8
run send_bi clean 3 send_bi -b 8 -e 512K -f 256 -n 4 -w 1 --malloc
run send_columns header bytes,iterations,pairs,bandwidth_mb_s,msg_rate,wrong
run send_pairs perf 5 send_pairs -b 8 -e 512K -f 256 -n 4 -w 1 -q 8
run send_ofi clean 1 send_pairs -T ofi -n 4 -w 1 -q 8
run ps clean 2 ps -b 4K -e 1M -f 256 -n 10 -w 2
run ps_nobody says "no rank serves: pass --servers" perf 2 ps --servers 0
run ps_servers says "2 ranks are too few for --servers 2 and a worker" perf 2 ps --servers 2
run ps_colocated says "2 ranks are too few for --servers 1 --colocated 5" perf 2 ps --colocated 5
run ps_codec clean 2 ps -b 4K -e 1M -f 256 -n 10 -w 2 --codec int8
run ps_topk clean 2 ps -b 4K -e 1M -f 256 -n 10 -w 2 --codec topk:1%
run put_lat_ofi clean 1 put_lat -T ofi -n 20 -w 2
run amo_lat clean 2 amo_lat -n 20 -w 2 -A all
latencies=bytes,iterations,t_min_us,t_max_us,t_typical_us,t_avg_us,t_stdev_us,p99_us,p999_us,wrong
run amo_lat_columns header "$latencies,atomic"
run acc_lat clean 3 acc_lat -b 8 -e 512K -f 256 -n 20 -w 2 -c 3
run acc_lat_malloc clean 3 acc_lat -b 8 -e 512K -f 256 -n 20 -w 2 --malloc
run acc_lat_ofi clean 1 acc_lat -T ofi -n 20 -w 2
run get_acc_lat clean 3 get_acc_lat -b 8 -e 512K -f 256 -n 20 -w 2 -c 3
run get_acc_lat_columns header "$latencies,type,operation"
run get_acc_lat_malloc clean 1 get_acc_lat -n 20 -w 2 --malloc -o prod -d half
run amo_lat_ofi clean 1 amo_lat -T ofi -n 20 -w 2 --malloc
run put_ofi clean 1 put -T ofi -n 20 -w 2
run get_ofi clean 1 get -T ofi -n 20 -w 2
# every type, operation and level there is, in pieces that do not fill vectors: 68 of each
levels=2
! grep -qw avx2 /proc/cpuinfo || levels=3
! grep -qw avx512bw /proc/cpuinfo || levels=4
run kernel_all clean $((125 * levels)) kernel -b 1003 -n 1 -w 0 -d all -o all --sources 3 \
	--level all
run kernel_stream clean 2 kernel -b 40001 -e 40003 -i 2 -n 2 -w 0 -d half -o avg --stores stream \
	--sources 5
run rules clean $((7 * levels)) rules -b 1003 -n 1 -w 0 -d bfloat16 --level all
run codec clean 33 codec -b 1004 -e 1012 -i 4 -n 1 -w 0
run codec_named clean 1 codec -b 1004 -n 1 -w 0 --codec int8:block=16
run codec_filled clean 1 allreduce -b 4K -e 4K -n 40 -w 1 --codec int8
run fill_random clean 1 allreduce -b 4K -e 4K -n 200 -w 1 --fill random
run fill_type says "is for -d float" perf 2 allreduce -b 64 -n 1 -d int32 --fill random
run fill_unknown says "did you mean 'random'" perf 1 allreduce --fill randem
run codec_unknown says "did you mean 'int8'" perf 1 codec --codec int9
# fewer ROWS: so many of them have sent fewer bytes than the all-reduce in the first row.
fewer() {
	awk -F, -v rows="$1" 'NR == 2 { plain = $5 } NR > 2 { n += $5 > 0 && 2 * $5 < plain }
		END { exit n != rows }' "$tmp/c" || { cat "$tmp/c"; return 1; }
}
run factors clean 5 allreduce_factors --rows 300 --cols 70 --products 3 -n 2 -w 0 -T ofi
run factors_columns header \
	rows,cols,products,way,sent_bytes,fewer_bytes,time_us,min_us,gain,wrong
run factors_sent fewer 3 # gather, factors, chosen
run factors_shm clean 5 allreduce_factors --rows 1 --cols 900 --products 40 -n 1 -w 0 --malloc
run power_sgd clean 3 power_sgd --rows 300 --cols 70 --rank 3 -n 2 -w 0 -T ofi
run power_sgd_columns header rows,cols,rank,way,sent_bytes,fewer_bytes,time_us,min_us,gain,wrong
run power_sgd_sent fewer 2
run power_sgd_plain clean 3 power_sgd --rows 8 --cols 5 --rank 4 -n 2 -w 0 # gains nothing
run power_sgd_rank says "1 to 256" perf 2 power_sgd --rank 257
run factors_rows says "'16777217' is not a whole number from 1 to 16777216" \
	perf 1 allreduce_factors --rows 16777217
run factors_none says "from 1" perf 1 allreduce_factors --cols 0
run rules_float says "are for floats" perf 1 rules -d int32
run kernel clean 8 kernel -b 100 -e 64K -f 655 -n 2 -w 0 --malloc
run listen_shm only_loopback TUTTI_TRANSPORT=shm
run listen_ofi only_loopback TUTTI_TRANSPORT=ofi
run listen_rdm only_loopback TUTTI_TRANSPORT=ofi TUTTI_OFI_EP=rdm "TUTTI_OFI_PROVIDER=tcp;ofi_rxm"
run footers footers allreduce -b 64 -e 64 -n 2
# blocks of 3 ranks: sizes that do not divide are rounded down, to nothing too
run footers_blocks footers alltoall -b 8 -e 4K -f 5 -n 2
run footers_root footers scatter -b 100 -e 1K -f 3 -n 2 -r 1
run no_check clean 1 allreduce -b 64 -e 64 -n 2 -c 0

# one_write COMMAND ARGUMENT...: which complains on a datagram socket, so each write is a message
one_write() {
	python3 -c '
import socket, subprocess, sys
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
status = subprocess.run(sys.argv[1:], stderr=theirs, stdout=subprocess.DEVNULL).returncode
theirs.close()
ours.settimeout(5)
text = ours.recv(65536)
ours.setblocking(False)
try:
    sys.exit("more follows %r: %r" % (text, ours.recv(65536)))
except (BlockingIOError, ConnectionResetError):
    sys.exit(0 if status and text.endswith(b"\n") else "status %d, %r" % (status, text))
' "$@"
}

run help sh -c '$tutti_perf --help | grep -q -e --minbytes'
run version sh -c '$tutti_perf --version | grep -q "[0-9]\.[0-9]"'
run unknown_option says "did you mean '--minbytes'" perf 2 allreduce --minbyts 8
run unknown_letter says "unknown option '-Z'" perf 2 allreduce --stat -Zb
run value_of_none says "option '--malloc' takes no value" perf 2 allreduce --malloc=yes
run value_of_short_name says "option '--malloc' takes no value" perf 2 allreduce --mal=yes
run two_steps says "--stepbytes and --stepfactor exclude each other" perf 2 allreduce -i 10 -f 2
run steps_of_most sh -c '$tutti_perf checksum -i 8M -n 1 | grep -q "16777216 step: 8388608(bytes)"'
run unknown_command says "did you mean 'allreduce'" perf 2 alreduce
run one_write one_write $tutti_perf allreduce --minbyts 8
run one_write_run one_write $tutti_run -n 0 true
run one_write_tune one_write ./tutti_tune --stepfactor 0
run one_write_doctor one_write ./tutti_doctor --timeout x
run unknown_type says "did you mean 'float'" perf 2 allreduce -d flaot
run upper_case says "did you mean 'sum'" perf 2 allreduce -o SUM
run unknown_op says "did you mean 'sum'" perf 2 allreduce -o sun
run unknown_atomic says "did you mean 'fetch_add'" perf 2 amo_lat -A fetch_ad
run op_of_type says "operation bxor has no meaning for -d float" perf 2 allreduce -d float -o bxor
run op_of_scan says "no meaning for exscan" perf 2 exscan -o avg
run op_of_accumulate says "no meaning for get_acc_lat" perf 2 get_acc_lat -o avg
# refused TEXT ARGUMENT...: the command line, before anything is measured; rank 0 says so
# with the prefix, and nothing is on stdout.
refused() {
	text=$1
	shift
	status=0
	TUTTI_RANK=0 $tutti_perf "$@" >"$tmp/out" 2>"$tmp/err" || status=$?
	[ "$status" = 2 ] || { echo "$*: status $status"; return 1; }
	[ ! -s "$tmp/out" ] || { cat "$tmp/out"; return 1; }
	grep -q "^tutti_perf: $text" "$tmp/err" || { cat "$tmp/err"; return 1; }
}

# Every option that not all commands use, with each command that does not use it.
unused() {
	while IFS='|' read -r option commands; do
		for command in $commands; do
			# shellcheck disable=SC2086
			refused "$command does not use --[a-z]" "$command" $option || return 1
		done
	done <<-END
		-b 8 | barrier wakeup threads amo_lat power_sgd
		-c 1 | barrier wakeup threads checksum
		-d int8 | barrier overlap forms wakeup threads put send_lat ps checksum codec
		-o max | bcast allgather gather alltoall barrier overlap put send ps codec rules
		-o max | neighbor_allreduce neighbor_alltoall
		-r 0 | allreduce allgather alltoall scan barrier forms put send_bi ps kernel
		-a 2 | overlap forms wakeup threads put get_lat send_pairs amo_lat ps kernel codec
		--stat | overlap forms wakeup threads put_lat send ps kernel checksum rules
		-q 4 | allreduce barrier overlap put_lat get_lat send_lat acc_lat ps kernel codec
		-A all | allreduce put acc_lat ps
		-S 1 | allreduce put kernel
		--colocated 0 | barrier
		--weights 1:1 | allgather
		--tables 2 | put
		--softsync | threads
		--call put | put
		--sources 2 | allreduce rules codec
		--stores plain | rules checksum
		--level best | allreduce codec checksum
		--codec int8 | bcast reduce forms put kernel
		--fill zero | barrier overlap forms put ps kernel codec
		--rotate 2 | overlap put codec
		--coll all | allreduce ps power_sgd neighbor_allreduce
		--graph ring | allreduce barrier forms ps pair
		--partner random | gossip neighbor_allreduce partial elastic
		--alpha 0.5 | allreduce gossip pair partial
		--quorum 1 | pair elastic
		--cutoff 1ms | allreduce
		--late 0:1ms | gossip
		--drop | barrier
		--rows 8 | allreduce codec
		--cols 8 | put
		--products 3 | power_sgd allreduce
		--rank 2 | allreduce_factors bcast
		--malloc | barrier threads pair
	END
}

bad_alpha() {
	for alpha in 1.01 -0.5 nan 0.5x . 0x0 +0.5 ""; do
		refused "--alpha '$alpha' is not a number from 0 to 1" elastic --alpha "$alpha" ||
			return 1
	done
}

run unused unused
run elastic_bad_alpha bad_alpha
run unused_before refused "bcast does not use --codec" --codec int8 bcast
run codec_type refused "--codec is for -d float" allreduce -d double --codec int8
run codec_op refused "--codec is for --op sum and avg" allreduce -o max --codec int8
run unknown_level says "did you mean 'avx512'" perf 1 kernel --level avx51
run many_sources says "'17' is not a whole number from 1 to 16" perf 1 kernel --sources 17
run near_command says "did you mean 'alltoall'" perf 2 altoall
run bad_size says "is not a size" perf 2 allreduce -b 12Q
run bad_number says "'+5' is not a whole number from 1 to" perf 2 allreduce -n +5
# Every option with a number: too small, too large, not one.
numbers() {
	names_range $tutti_perf <<-END
		-b | from 0 to 4294967295G | -1 4294967296G 99999999999999999999 12Q x
		-e | from 0 to 4294967295G | -1 4294967296G 99999999999999999999 x
		-i | from 1 to 4294967295G | 0 -1 4294967296G x
		-f | above 1, up to 1000000000 | 1 0 -2 1e308 inf nan 0x1p1 x 2x
		-n | from 1 to 2147483647 | 0 -1 2147483648 99999999999 99999999999999999999 1.5 x
		-w | from 0 to 2147483647 | -1 99999999999 x
		-c | from 0 to 2147483647 | -1 99999999999 x
		-r | from 0 to 2147483647 | -1 99999999999 x
		-a | from 0 to 3 | -1 4 99999999999 x
		-q | from 1 to 2147483647 | 0 99999999999 x
		-S | from 0 to 2147483647 | -1 99999999999 x
		--colocated | from 0 to 2147483647 | -1 99999999999 x
		--weights | from 1 to 65535 | 0:1 1:65536 3 x 0x3:1 3:+1
		--tables | from 1 to 64 | 0 65 99999999999 x
		--sources | from 1 to 16 | 0 17 99999999999 x
		--rotate | from 1 to 64 | 0 65 99999999999 x
		--rows | from 1 to 16777216 | 0 16777217 99999999999 x
		--cols | from 1 to 16777216 | 0 16777217 99999999999 x
		--products | from 1 to 16777216 | 0 16777217 99999999999 x
		--rank | from 1 to 16777216 | 0 16777217 99999999999 x
		--quorum | from 1 to 2147483647 | 0 -1 99999999999
		--cutoff | from 1us to 1000s | 0us 1001s 5 x 0x5us 1e3us
		--late | from 0 to 2147483647 and | -1:5ms 99999999999:5ms 3 x 0x3:5ms
		--late | from 1us to 1000s | 3:0us 3:1001s 3:5 3:x 3:0x5ms
	END
}

run numbers numbers
run bad_order says "less than" perf 2 allreduce -b 64 -e 8
run bad_root says "not a rank" perf 2 bcast -r 2 -b 8 -e 8
run one_rank says "needs 2 ranks" perf 1 put
# plots RANKS PATTERN COMMAND...: a picture of its table, with this text
plots() {
	ranks=$1 pattern=$2
	shift 2
	rm -f "$tmp/p.svg"
	perf "$ranks" "$@" --plot "$tmp/p.svg" >/dev/null 2>"$tmp/err" || die "$(cat "$tmp/err")"
	! grep -q 'line [0-9]' "$tmp/err" || die "gnuplot: $(cat "$tmp/err")"
	grep -qE "$pattern" "$tmp/p.svg" || die "no '$pattern' in the picture"
}

# Curves against sizes and threads, bars, panels for each unit, numbers that are not there.
plot() {
	command -v gnuplot >/dev/null || skip "gnuplot is missing"
	plots 2 '>time out of place<' allreduce -b 1K -e 64K -f 4 -n 2 || return 1
	plots 2 '>GB/s<' allreduce -b 1K -e 64K -f 4 -n 2 --stat || return 1
	plots 2 '>double<' bcast -b 1K -e 4K -f 2 -n 2 -d all -c 0 || return 1
	plots 2 'neighbor_alltoall, star' neighbor_alltoall --graph star -b 1K -e 4K -f 2 -n 2 ||
		return 1
	plots 2 '>ranks that took part<' partial -b 1K -e 4K -f 2 -n 2 || return 1
	plots 2 'elastic, alpha 0.25' elastic --alpha 0.25 -b 1K -e 4K -f 2 -n 2 ||
		return 1
	plots 2 '>barrier<' barrier -n 10 || return 1
	plots 2 '>typical<' send_lat -b 8 -e 64 -f 2 -n 10 || return 1
	plots 2 '>messages/s<' send -b 8 -e 64 -f 2 -n 2 || return 1
	plots 2 '>BW peak|peak<' put -b 8 -e 64 -f 2 -n 200 || return 1
	plots 2 '>threads of each rank<' threads -n 20 || return 1
	plots 2 '>int8<' acc_lat -b 8 -e 64 -f 2 -n 10 -d all || return 1
	plots 2 '>compare_swap<' amo_lat -A all -n 20 || return 1
	plots 2 '>put_notify<' wakeup -n 5 -w 0 || return 1
	plots 2 '>thread, pure<' overlap -b 1K -e 4K -f 2 -n 2 || return 1
	plots 2 '>ratio of times<' forms --coll bcast,allgather -b 1K -e 1K -n 2 || return 1
	plots 3 '>push pull<' ps -b 4K -e 16K -f 2 -n 2 || return 1
	plots 1 '>% of the copy<' kernel -b 1K -e 4K -f 2 -n 2 || return 1
	plots 1 '>int8, encode<' codec -b 1K -e 4K -f 2 -n 2 || return 1
	plots 2 '>times as fast<' power_sgd -n 2 --rows 64 --cols 64
}

# The other formats; what cannot be drawn is said before anything is measured.
plot_files() {
	command -v gnuplot >/dev/null || skip "gnuplot is missing"
	for kind in png pdf; do
		perf 2 barrier -n 10 --plot "$tmp/p.$kind" >/dev/null || return 1
		[ -s "$tmp/p.$kind" ] || die "p.$kind is empty"
	done
	mkdir -p "$tmp/bin"
	for program in sh ls sed dirname basename cat expr; do
		ln -sf "$(command -v $program)" "$tmp/bin" # what a script of libtool runs
	done
	! (PATH=$tmp/bin $tutti_perf barrier -n 10 --plot "$tmp/n.svg") >"$tmp/out" 2>"$tmp/err" ||
		die "drawn without gnuplot"
	grep -q 'gnuplot is not installed (Debian package gnuplot-nox)' "$tmp/err" ||
		die "$(cat "$tmp/err")"
	! grep -q iterations "$tmp/out" || die "measured first: $(cat "$tmp/out")"
}

# Each command is in one group of the help.
groups() {
	$tutti_perf --help >"$tmp/help" || return 1
	awk '/^Sizes/ { exit } /^[A-Z].*:$/ { group = $0 } /^  [a-z_]+ / { print $1 ":" group }' \
		"$tmp/help" >"$tmp/in"
	for pair in 'allreduce:Collectives:' 'allgatherv:Collectives with a count for each rank:' \
		'neighbor_alltoall:Collectives of neighbours in a graph:' \
		'send_bi:Point-to-point messages:' 'put_lat:One-sided operations:' \
		'ps:Parameter server:' 'kernel:Work of one rank, without communication:'; do
		grep -qx "$pair" "$tmp/in" || die "$pair is not in: $(cat "$tmp/in")"
	done
	[ "$(cut -d : -f 1 "$tmp/in" | sort -u | wc -l)" = "$(wc -l <"$tmp/in")" ] ||
		die "twice: $(cat "$tmp/in")"
	for command in $(cut -d : -f 1 "$tmp/in"); do # and in a list of the page
		grep -qE "^\.It Cm (.* , )?$command( ,|\$)" "$TT_SRC/man/tutti_perf.1" ||
			die "$command is not in its page"
	done
}

run plot plot
run plot_files plot_files
run groups groups
run bad_plot says ".png, .svg or .pdf" perf 2 barrier --plot "$tmp/x.gif"
run no_plot_folder says "cannot write" perf 2 barrier -n 1 --plot "$tmp/none/x.svg"
run empty_file says "tutti_perf: --json: cannot write ''" perf 2 barrier -n 1 --json ""
run too_large says "has no memory for 2 buffers" perf 2 allreduce -e 99999999G
run no_file says "cannot write" perf 2 allreduce -b 8 -e 8 --csv "$tmp/none/x"
run no_memory says "no memory" perf 2 allreduce -b 1000000G -e 1000000G
run no_memory_malloc says "no memory" perf 2 allreduce -b 1000000G -e 1000000G --malloc
finish
