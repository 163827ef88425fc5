/* SPDX-License-Identifier: BSD-3-Clause */
/* The text of tutti_perf --help. */
#include <stdio.h>

#include "perf/options.h"

static const char usage[] = "usage: tutti_run -n RANKS tutti_perf COMMAND [OPTION]...\n"
			    "Measure and check the operations of tutti.\n";

static const char options[] =
	"\n"
	"Sizes (bytes; K, M and G are powers of 1024):\n"
	"  -b, --minbytes SIZE      smallest (default 32M; overlap 16M; forms, gossip, pair,\n"
	"                           elastic and ps 1M; partial, put, get and sends 64K;\n"
	"                           latencies 8; kernel, rules, codec 16K; checksum 64)\n"
	"  -e, --maxbytes SIZE      largest (the same default; kernel, rules, codec\n"
	"                           64M; checksum 16M)\n"
	"  -i, --stepbytes SIZE     fixed step between sizes (default 1M)\n"
	"  -f, --stepfactor FACTOR  multiply instead of adding\n"
	"Work:\n"
	"  -n, --iters N            timed iterations (default 20; barrier, threads, put, get\n"
	"                           and latencies 1000; ps and wakeup 200; partial, sends 100;\n"
	"                           forms 21; overlap 10)\n"
	"  -w, --warmup_iters N     untimed iterations before (default 5; those of 1000: 100;\n"
	"                           ps 20, partial, wakeup 10, overlap, forms, kernel, rules,\n"
	"                           codec, checksum 2)\n"
	"  -c, --check N            rounds of checking every element, 0: none (default 1)\n"
	"  -d, --datatype TYPE      int8 uint8 int16 uint16 int32 uint32 int64 uint64 bool\n"
	"                           half bfloat16 float double complex64 complex128\n"
	"                           int32_index int64_index float32_index float64_index\n"
	"                           or all (default float)\n"
	"  -o, --op OP              sum prod min max avg band bor bxor land lor\n"
	"                           lxor minloc maxloc or all (default sum)\n"
	"  -r, --root RANK          root of bcast, reduce, gather and scatter, or all\n"
	"                           (default 0)\n"
	"  -a, --average HOW        over ranks: 0 rank 0, 1 average, 2 min, 3 max (default 1)\n"
	"  -A, --atomic WHICH       fetch_add, compare_swap or all (default fetch_add)\n"
	"  -q, --tx-depth N         puts, gets or messages under way at once (default 128;\n"
	"                           sends 64)\n"
	"  -S, --servers N          ps: ranks that only serve (default 1)\n"
	"      --colocated N        ps: workers that serve as well (default 0)\n"
	"      --weights S:C        ps: how much a server keeps beside a co-located one (default\n"
	"                           1:1)\n"
	"      --tables N           ps: the bytes are in so many tables (default 1)\n"
	"      --softsync           ps: the mean of all workers' updates is applied, not each\n"
	"      --call WHICH         ps: get, pull, put, push, push_pull or all (default)\n"
	"      --sources N          kernel: so many, 1 to 16, or all: 2, 3, 4 and 8 (default)\n"
	"      --level WHICH        kernel, rules: scalar, base, avx2, avx512, best (default) or "
	"all\n"
	"      --codec NAME         codec, allreduce, ps: as tutti_codec_create takes it\n"
	"                           (default: several; allreduce, ps: none)\n"
	"      --fill WHAT          collectives: what is timed is zero (default) or random "
	"(default\n"
	"                           with --codec; float only)\n"
	"      --stores HOW         kernel: plain, stream, or auto, by the size (default)\n"
	"  -T, --transport LIST     sets TUTTI_TRANSPORT, e.g. shm or ofi\n"
	"      --stat               median, minimum, 99th percentile and bytes of iterations\n"
	"                           begun with a barrier and counted at the slowest rank\n"
	"      --malloc             plain buffers instead of tutti_alloc\n"
	"      --rotate N           collectives: use N pairs of buffers in turn (default 1)\n"
	"      --rows N, --cols N   allreduce_factors, power_sgd: the matrix (default 1024)\n"
	"      --products K         allreduce_factors: outer products of each rank (default 32)\n"
	"      --rank R             power_sgd: rank of the approximation (default 4)\n"
	"      --coll LIST          overlap, forms: names with commas, or all (default allreduce;\n"
	"                           forms all)\n"
	"      --graph NAME         neighbor_..., gossip: ring (default), torus, star, complete,\n"
	"                           exponential or one_peer (not gossip)\n"
	"      --partner HOW        pair: random (default) or one_peer\n"
	"      --alpha A            elastic: how far ranks and center move, 0 to 1 (default\n"
	"                           0.9 / ranks)\n"
	"      --quorum N           partial: ranks that decide a round: all (default), majority\n"
	"                           or a number\n"
	"      --cutoff TIME        partial: a round waits so long at most (us, ms or s; no "
	"limit)\n"
	"      --late RANK:TIME     partial: this rank comes so much later to each call\n"
	"      --drop               partial: late contributions are dropped, not carried\n"
	"Output:\n"
	"      --json FILE, --csv FILE  write the results there too\n"
	"      --plot FILE              draw them (png, svg, pdf) by gnuplot\n"
	"  -h, --help               show this\n"
	"  -V, --version            show the version\n";

int perf_help(void)
{
	const struct perf_command *cmd;

	if (!perf_is_rank0())
		return PERF_DONE;
	fputs(usage, stdout);
	for (cmd = perf_commands; cmd->name; cmd++) {
		if (cmd == perf_commands || cmd->group != cmd[-1].group)
			printf("\n%s:\n", perf_group_names[cmd->group]);
		printf("  %-18s %s\n", cmd->name, cmd->help);
	}
	fputs(options, stdout);
	return PERF_DONE;
}
