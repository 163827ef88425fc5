#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# gpt on grids: the same loss on all of them, counts, checkpoints, wrong options.
only=$*
. "${TT_SRC:-.}/tests/sh.inc"
suite gpt

# A text of its own, so that the test needs no download.
text=$tmp/text
awk 'BEGIN {
	for (i = 0; i < 3000; i++)
		printf "%d and %d are %d.\n", i, i % 7, i + i % 7
}' >"$text"
tiny="--layers 4 --hidden 16 --heads 4 --length 8 --batch 8 --digits 14 --write 0 --text $text"

# losses PROGRAM RANKS OPTION...: the loss of each step, a line each
losses()
{
	program=$1 ranks=$2
	shift 2
	# shellcheck disable=SC2086
	timeout 120 "$TT_BUILD/tutti_run" -n "$ranks" "$TT_BUILD/$program" $tiny "$@" \
		>"$tmp/out" 2>"$tmp/err" || { cat "$tmp/out" "$tmp/err" >&2; exit 1; }
	sed -n 's/^step \([0-9]*\) loss \([0-9.]*\),.*/\1 \2/p' "$tmp/out"
}

# same FILE FILE LIMIT STEPS: as many steps in both, and no loss differs more
same()
{
	paste "$1" "$2" | awk -v limit="$3" -v steps="$4" '
		{ d = $2 - $4; if (d < 0) d = -d; if (d > most) most = d }
		$1 != $3 { wrong = 1 }
		END {
			printf "%d steps, largest difference %g\n", NR, most
			exit wrong || NR != steps || !(most <= limit)
		}'
}

# curves PROGRAM LIMIT
curves()
{
	losses "$1" 1 --steps 50 >"$tmp/one" || exit 1
	awk 'NR == 1 { first = $2 } END { exit !($2 < first - 1) }' "$tmp/one" ||
		die "the loss does not fall: $(cat "$tmp/one")"
	for grid in "8 --data 8" "4 --pipeline 4" "4 --tensor 4" \
		"8 --data 2 --pipeline 2 --tensor 2 --schedule 1f1b" \
		"4 --pipeline 2 --schedule interleaved --tensor 2"; do
		# shellcheck disable=SC2086
		losses "$1" $grid --steps 50 >"$tmp/grid" || exit 1
		same "$tmp/one" "$tmp/grid" "$2" 50 || die "$grid differs"
	done
}

# program_refuses PROGRAM TEXT RANKS OPTION...
program_refuses()
{
	program=$1 says=$2 ranks=$3
	shift 3
	# shellcheck disable=SC2086
	says "$says" timeout 60 "$TT_BUILD/tutti_run" -n "$ranks" "$TT_BUILD/$program" $tiny "$@"
}

# refuses TEXT RANKS OPTION...
refuses() { program_refuses gpt "$@"; }

# The library's count of the tensor communicator: 4 all-reduces a layer, two of them forward.
test_tensor()
{
	losses gpt 4 --pipeline 2 --tensor 2 --micro 4 --steps 3 >/dev/null || exit 1
	grep -q "^tensor: 96 all-reduces on this rank, 2 layers x 4 micro-batches x 3 steps x 4$" \
		"$tmp/out" || die "$(cat "$tmp/out")"
}

# sent OPTION...: the bytes that rank 0 of two sends in a step, in rings
sent()
{
	rm -f "$tmp"/prom.*
	TUTTI_PROMETHEUS=$tmp/prom TUTTI_TRANSPORT=shm \
		TUTTI_ALGO="allreduce:ring;allgather:ring;reduce_scatter:ring" \
		losses gpt_double 2 --tensor 2 --steps 1 "$@" >/dev/null || exit 1
	awk '$1 ~ /^tutti_put_bytes_total/ { print $2 }' "$tmp/prom.0.prom"
}

# kept OPTION...: the activations that 4 ranks of a layer keep each, outside the matrices
kept()
{
	losses gpt 4 --tensor 4 --steps 1 "$@" >/dev/null || exit 1
	sed -n 's/^activations kept on this rank: .*, \([0-9]*\) of them outside .*/\1/p' \
		"$tmp/out"
}

# Each all-reduce is an all-gather and a reduce-scatter; the losses and the text are the same.
test_sequence_parallel()
{
	losses gpt_double 1 --steps 50 --write 20 >"$tmp/one" || exit 1
	sed -n '/^the model writes/,$p' "$tmp/out" >"$tmp/text_one"
	whole=$(sed -n 's/^activations kept on this rank: \([0-9]*\) bytes.*/\1/p' "$tmp/out")
	for grid in "2 --tensor 2" "4 --tensor 4" \
		"8 --data 2 --pipeline 2 --tensor 2 --schedule 1f1b --zero 2"; do
		# shellcheck disable=SC2086
		losses gpt_double $grid --sequence-parallel --steps 50 --write 20 >"$tmp/grid" ||
			exit 1
		same "$tmp/one" "$tmp/grid" 1e-10 50 || die "$grid differs"
		sed -n '/^the model writes/,$p' "$tmp/out" | cmp - "$tmp/text_one" ||
			die "$grid writes another text"
	done
	count="2 layers x 4 micro-batches x 50 steps x 8 and 3 sums of gradients x 50 steps"
	grep -q "^tensor: 3350 collectives on this rank, $count$" "$tmp/out" ||
		die "$(cat "$tmp/out")"
	# beside it the gradients: 6 x 16 in each of 4 layers, 264 x 16 embedded, 2 x 16 at the end
	plain=$(sent) && sliced=$(sent --sequence-parallel) || exit 1
	[ $((sliced - plain)) = $(((4 * 96 + 264 * 16 + 32) * 8)) ] ||
		die "$sliced bytes instead of $plain"
	# gathered again: 2 of the layer's inputs on their way, 32 x 16 of each of 8 micro-batches
	more=$(sent --sequence-parallel --gather-again) || exit 1
	[ $((more - sliced)) = $((8 * 2 * 32 * 16 * 8 / 2)) ] || die "$more bytes, not $sliced"
	plain=$(kept) && sliced=$(kept --sequence-parallel) || exit 1
	[ "$sliced" -gt 0 ] && [ $((4 * sliced)) = "$plain" ] ||
		die "$sliced bytes are kept instead of $plain"
	# all that 4 ranks keep: what one does, without two inputs of each layer and micro-batch
	losses gpt_double 4 --tensor 4 --sequence-parallel --gather-again --steps 50 >"$tmp/grid" ||
		exit 1
	same "$tmp/one" "$tmp/grid" 1e-10 50 || die "gathered again it differs"
	again=$(sed -n 's/^activations kept on this rank: \([0-9]*\) bytes.*/\1/p' "$tmp/out")
	grep -q "2 micro-batches x 50 steps x 10 and 6 sums" "$tmp/out" || die "$(cat "$tmp/out")"
	[ $((4 * again + 8 * 2 * 32 * 16 * 8)) = "$whole" ] ||
		die "4 x $again bytes are kept instead of $whole"
}

# put HOSTS OPTION...: the bytes that each of 4 ranks writes to peers; neighbours in rank are on
# different HOSTS. On one host ranks read each other's memory, and write nothing.
put()
{
	hosts=$1
	shift
	rm -f "$tmp"/put.*
	# shellcheck disable=SC2086,SC2016
	TUTTI_PROMETHEUS=$tmp/put TUTTI_IF=lo timeout 120 "$TT_BUILD/tutti_run" -n 4 sh -c \
		'TUTTI_HOST_ID=h$((TUTTI_RANK % $0)) exec "$@"' "$hosts" "$TT_BUILD/gpt" $tiny \
		--data 2 --tensor 2 --micro 1 --steps 2 "$@" >"$tmp/out" 2>&1 ||
		{ cat "$tmp/out" >&2; exit 1; }
	cat "$tmp"/put.[0-3].prom | sed -n 's/^tutti_put_bytes_total.* //p'
}

# more FILE FILE BYTES...: how many more bytes ranks have put in the second run
more()
{
	old=$1 new=$2
	shift 2
	more=$(paste "$old" "$new" | awk '{ printf "%s%d", (NR > 1 ? " " : ""), $2 - $1 }')
	[ "$more" = "$*" ] || die "$more more bytes, not $*"
}

# Twice the sequences are twice the activations, and not a byte more between hosts that have whole
# tensor groups. With a rank on each host, bytes say how many all-reduces there are, each of which
# makes each of two ranks send all elements: 4 a layer in training; and 2 forward alone, of one
# sequence for each byte that the first replica writes.
test_hosts()
{
	put 2 --batch 8 >"$tmp/inside.8"
	put 2 --batch 16 >"$tmp/inside.16"
	more "$tmp/inside.8" "$tmp/inside.16" 0 0 0 0
	put 2 --batch 8 --sequence-parallel >"$tmp/inside.8"
	put 2 --batch 16 --sequence-parallel >"$tmp/inside.16"
	more "$tmp/inside.8" "$tmp/inside.16" 0 0 0 0
	put 4 --batch 8 >"$tmp/between.8"
	put 4 --batch 16 >"$tmp/between.16"
	sequence=$((8 * 16 * 4)) layers=4 steps=2
	train=$((4 * layers * steps * 4 * sequence))
	more "$tmp/between.8" "$tmp/between.16" $train $train $train $train
	put 4 --batch 8 --write 10 >"$tmp/write"
	write=$((2 * layers * 10 * sequence))
	more "$tmp/between.8" "$tmp/write" $write $write 0 0
}

test_bubble()
{
	losses gpt 4 --pipeline 4 --micro 8 --steps 1 --schedule 1f1b >/dev/null || exit 1
	grep -q "bubble 27.3 % (6 of 22 slots), 4 micro-batches live" "$tmp/out" ||
		die "$(cat "$tmp/out")"
	losses gpt 2 --pipeline 2 --micro 8 --steps 1 --schedule interleaved >/dev/null || exit 1
	grep -q "bubble 5.9 % (2 of 34 slots), 5 micro-batches live" "$tmp/out" ||
		die "$(cat "$tmp/out")"
}

# 20 steps at once; and 10, then 10 more on another grid.
test_restart()
{
	losses gpt_double 1 --steps 20 | tail -n 10 >"$tmp/one"
	losses gpt_double 8 --data 2 --pipeline 2 --tensor 2 --steps 10 --save "$tmp/saved" \
		>/dev/null || exit 1
	[ ! -e "$tmp/saved.part" ] || die "an unfinished file is left"
	for grid in "4 --pipeline 4" "2 --tensor 2"; do
		# shellcheck disable=SC2086
		losses gpt_double $grid --steps 20 --load "$tmp/saved" >"$tmp/grid" || exit 1
		same "$tmp/one" "$tmp/grid" 1e-10 10 || die "$grid differs"
	done
}

# ZeRO has the losses of the plain optimizer, and its state continues with other replicas.
test_zero()
{
	losses gpt_double 1 --steps 20 >"$tmp/one" || exit 1
	tail -n 10 "$tmp/one" >"$tmp/late"
	for stage in 1 2; do
		losses gpt_double 8 --data 2 --pipeline 2 --tensor 2 --zero $stage --steps 20 \
			>"$tmp/grid" || exit 1
		same "$tmp/one" "$tmp/grid" 1e-10 20 || die "--zero $stage differs"
		losses gpt_double 3 --data 3 --batch 6 --zero $stage --steps 10 \
			--save "$tmp/saved" >/dev/null || exit 1
	done
	losses gpt_double 8 --data 4 --pipeline 2 --zero 2 --steps 10 --save "$tmp/saved" \
		>/dev/null || exit 1
	losses gpt_double 4 --data 2 --pipeline 2 --zero 1 --steps 20 --load "$tmp/saved" \
		>"$tmp/grid" || exit 1
	same "$tmp/late" "$tmp/grid" 1e-10 10 || die "the restored run differs"
	# a save that is interrupted between moments and model leaves the checkpoint as it was
	mkdir "$tmp/saved.part"
	if (losses gpt_double 2 --pipeline 2 --zero 1 --steps 13 --load "$tmp/saved" \
		--save "$tmp/saved") >/dev/null 2>&1; then
		die "it was saved without a model"
	fi
	rmdir "$tmp/saved.part"
	# and the first save leaves no states without a model
	mkdir "$tmp/first.part"
	(losses gpt_double 2 --pipeline 2 --zero 1 --steps 2 --save "$tmp/first") >/dev/null 2>&1 &&
		die "it was saved without a model"
	rmdir "$tmp/first.part"
	set -- "$tmp"/first*
	[ "$*" = "$tmp/first*" ] || die "left behind: $*"
	losses gpt_double 2 --pipeline 2 --zero 1 --steps 20 --load "$tmp/saved" \
		>"$tmp/grid" || exit 1
	same "$tmp/late" "$tmp/grid" 1e-10 10 || die "model and moments are of two steps"
	losses gpt_double 2 --pipeline 2 --zero 1 --steps 12 --load "$tmp/saved" \
		--save "$tmp/saved" >/dev/null || exit 1
	set -- "$tmp"/saved.zero-2x1-*
	[ $# = 2 ] || die "states of another step are left: $*"
	program_refuses gpt_double "was saved with --zero: load it so" 2 --load "$tmp/saved" \
		--pipeline 2
	program_refuses gpt_double "by --pipeline 2 --tensor 1: only --data and --servers may" 2 \
		--load "$tmp/saved" --zero 1
}

# line REPLICA STEP: the number of the line that tells it
line()
{
	grep -n "^replica $1 step $2 " "$tmp/out" | cut -d : -f 1
}

# ahead STEPS: how many steps replica 0 told before replica 1 told the one that many steps earlier
ahead()
{
	awk -v steps="$1" '/^replica/ { at[$2, $4] = NR }
		END { for (i = steps + 1; i <= 20; i++) n += at[0, i] < at[1, i - steps]
			print n + 0 }' "$tmp/out"
}

# fell REPLICA STEP: its loss, from the first step to this one
fell()
{
	awk -v replica="$1" -v step="$2" '
		/^replica/ && $2 == replica && $4 == 1 { first = $6 }
		/^replica/ && $2 == replica && $4 == step { last = $6 }
		END { exit !(last > 0 && last < first - 0.4) }' "$tmp/out"
}

# replicas: the mean loss of all replicas in each step of the last run
replicas()
{
	awk '/^replica/ { sum[$4] += $6; n[$4]++ }
		END { for (i = 1; i < 100; i++) if (i in n) printf "%d %.14f\n", i, sum[i] / n[i] }
		' "$tmp/out"
}

# parameters: how many the model of the last run has
parameters() { sed -n 's/^data .*: \([0-9]*\) parameters.*/\1/p' "$tmp/out"; }

# Replicas of several ranks on a parameter server.
test_downpour()
{
	# no steps apart: the sums of gradients, each replica with the loss of its sequences
	losses gpt_double 1 --steps 20 >"$tmp/one" || exit 1
	for grid in "3" "10 --pipeline 2 --tensor 2 --servers 2 --sequence-parallel"; do
		# shellcheck disable=SC2086
		losses gpt_double $grid --staleness 0 --steps 20 >/dev/null || exit 1
		replicas >"$tmp/grid"
		same "$tmp/one" "$tmp/grid" 1e-10 20 || die "$grid differs"
	done
	# a slow replica holds up none, or one that would be more than two steps ahead
	losses gpt 9 --pipeline 2 --tensor 2 --staleness async --straggle 50 --steps 20 \
		>/dev/null || exit 1
	[ "$(line 0 20)" -lt "$(line 1 17)" ] || die "it waited: $(cat "$tmp/out")"
	fell 0 20 && fell 1 20 || die "the loss does not fall: $(cat "$tmp/out")"
	losses gpt 3 --staleness 2 --straggle 20 --steps 20 >/dev/null || exit 1
	# a replica tells a step after the push that the other one waits for, now and then too late;
	# one step more is seen in more than 10 of 17
	[ "$(ahead 3)" -le 5 ] || die "too far apart: $(cat "$tmp/out")"
	refuses "1 ranks, 1 of them servers (--servers): none is left to train" 1 --staleness 1
	refuses "the communicator's 3 ranks are no multiple of 2" 4 --staleness 1 --pipeline 2
	refuses "--staleness x: not a number from 0 to 65536, or async" 2 --staleness x
	refuses "only with --staleness" 2 --servers 1
	refuses "--zero: not with --staleness: its servers have" 2 --staleness 0 --zero 1
}

# resumed PROGRAM RANKS OPTION...: steps 11 to 20 without a restart, and after one
resumed()
{
	losses "$@" --staleness 0 --steps 20 >/dev/null || exit 1
	replicas | tail -n 10 >"$tmp/one"
	losses "$@" --staleness 0 --steps 10 --save "$tmp/served" >/dev/null || exit 1
	losses "$@" --staleness 0 --steps 20 --load "$tmp/served" >/dev/null || exit 1
	replicas >"$tmp/grid"
	same "$tmp/one" "$tmp/grid" 0 10 || die "$*: a restart changes digits"
}

# The servers' state continues, on other numbers of replicas and servers, too.
test_downpour_restart()
{
	resumed gpt_double 10 --pipeline 2 --tensor 2 --servers 2
	losses gpt_double 5 --pipeline 2 --tensor 2 --staleness 0 --steps 20 --load "$tmp/served" \
		>/dev/null || exit 1
	replicas >"$tmp/grid"
	same "$tmp/one" "$tmp/grid" 1e-10 10 || die "one replica on one server differs"
	losses gpt_double 10 --pipeline 2 --tensor 2 --servers 2 --staleness async --steps 20 \
		--load "$tmp/served" --save "$tmp/served" >/dev/null || exit 1
	set -- "$tmp"/served* # without those of step 10
	[ "$*" = "$tmp/served $tmp/served.servers-2x2-step20" ] || die "there are $*"
	program_refuses gpt_double "was saved with --staleness and without --codec: load it so" 4 \
		--load "$tmp/served"
	rm "$tmp/served.servers-2x2-step20"
	program_refuses gpt_double "ps_restore: can't open $tmp/served.servers-2x2-step20" 5 \
		--load "$tmp/served" --staleness 0 --pipeline 2 --tensor 2
	# the model is the servers', after the steps of the slow replica, too
	losses gpt_double 3 --staleness async --straggle 20 --steps 5 --save "$tmp/served" \
		>/dev/null || exit 1
	header=$(od -An -tu8 -N8 "$tmp/served.servers-1x1-step5")
	cmp -n $(($(parameters) * 8)) -i 64:$((8 + header)) \
		"$tmp/served" "$tmp/served.servers-1x1-step5" ||
		die "the model is not that of the servers"
}

# What a codec leaves out is pushed later, also after a restart.
test_downpour_codec()
{
	losses gpt 3 --staleness 0 --steps 20 >/dev/null || exit 1
	replicas >"$tmp/plain"
	# a codec that leaves out nothing
	losses gpt 3 --staleness 0 --steps 20 --codec topk:100% >/dev/null || exit 1
	replicas >"$tmp/grid"
	same "$tmp/plain" "$tmp/grid" 0 20 || die "topk:100% differs"
	# fp16: half of the bytes of 20 pushes of all elements
	losses gpt 3 --staleness 0 --steps 20 --codec fp16 >/dev/null || exit 1
	replicas >"$tmp/grid"
	same "$tmp/plain" "$tmp/grid" 1e-3 20 || die "fp16 is far off"
	bytes=$((20 * $(parameters) * 2))
	grep -q "^pushes: $bytes bytes by this rank, encoded from $((2 * bytes))$" "$tmp/out" ||
		die "$(cat "$tmp/out")"
	resumed gpt 6 --tensor 2 --servers 2 --codec topk:10%
	refuses "was saved with --staleness and --codec: load it so" 3 --load "$tmp/served" \
		--staleness 0 --tensor 2
	refuses "codec auto:fp16,int8 chooses for all-reduces" 2 --staleness 0 --codec auto
}

test_codec()
{
	losses gpt 1 --steps 30 >"$tmp/one" || exit 1
	losses gpt 2 --data 2 --codec int8 --steps 30 >"$tmp/grid" || exit 1
	same "$tmp/one" "$tmp/grid" 0.05 30 || die "int8 is far off"
	! cmp -s "$tmp/one" "$tmp/grid" || die "nothing was encoded"
	# ranks that share parameters keep one copy: one rank goes on as they do; and they go on
	# after a restart as without one
	for grid in "--tensor 2 --codec dgc:1%" "--pipeline 2 --codec topk:1%"; do
		# shellcheck disable=SC2086
		losses gpt 4 --data 2 $grid --steps 20 --save "$tmp/coded" >/dev/null || exit 1
		# shellcheck disable=SC2086
		losses gpt 4 --data 2 $grid --steps 25 --save "$tmp/all" >"$tmp/whole" || exit 1
		# shellcheck disable=SC2086
		losses gpt 4 --data 2 $grid --steps 25 --load "$tmp/coded" --save "$tmp/again" \
			>"$tmp/grid" || exit 1
		tail -n 5 "$tmp/whole" | cmp - "$tmp/grid" || die "$grid: a restart changes digits"
		cmp "$tmp/all" "$tmp/again" || die "$grid: a restart changes the state"
		losses gpt 1 --steps 21 --load "$tmp/coded" >"$tmp/one" || exit 1
		head -n 1 "$tmp/grid" >"$tmp/next"
		same "$tmp/one" "$tmp/next" 1e-7 1 || die "$grid: copies differ"
	done
}

# The divided optimizer encodes gradients itself, once, and keeps what encodings leave out.
test_codec_zero()
{
	losses gpt 1 --steps 30 >"$tmp/one" || exit 1
	losses gpt 2 --data 2 --codec int8 --zero 1 --steps 30 >"$tmp/grid" || exit 1
	same "$tmp/one" "$tmp/grid" 0.05 30 || die "int8 is far off"
	! cmp -s "$tmp/one" "$tmp/grid" || die "nothing was encoded"
	losses gpt 2 --data 2 --codec int8 --zero 2 --steps 30 | cmp - "$tmp/grid" ||
		die "--zero 2 changes digits"
	awk 'NR == 1 { first = $2 } END { exit !($2 < first - 0.5) }' "$tmp/grid" ||
		die "the loss does not fall: $(cat "$tmp/grid")"
	# of 4 + 4 bytes for an element, 1 + 4 are left; by encoded all-reduces 2 + 4 would be
	put 4 --data 4 --tensor 1 --zero 2 >"$tmp/plain"
	put 4 --data 4 --tensor 1 --zero 2 --codec int8 >"$tmp/coded"
	paste "$tmp/plain" "$tmp/coded" | awk '!($2 < 0.7 * $1) { exit 1 }' ||
		die "it sends $(paste "$tmp/plain" "$tmp/coded")"
	for grid in "--tensor 2 --codec dgc:10%" "--pipeline 2 --codec topk:10%" "--codec qsgd"; do
		# shellcheck disable=SC2086
		losses gpt 4 $grid --zero 2 --steps 20 --save "$tmp/all" >"$tmp/whole" || exit 1
		# shellcheck disable=SC2086
		losses gpt 4 $grid --zero 2 --steps 12 --save "$tmp/sharded" >/dev/null || exit 1
		# shellcheck disable=SC2086
		losses gpt 4 $grid --zero 2 --steps 20 --load "$tmp/sharded" --save "$tmp/again" \
			>"$tmp/grid" || exit 1
		tail -n 8 "$tmp/whole" | cmp - "$tmp/grid" || die "$grid: a restart changes digits"
		cmp "$tmp/all" "$tmp/again" || die "$grid: a restart changes the model"
	done
	losses gpt 2 --codec int8 --zero 1 --steps 21 --load "$tmp/again" >/dev/null || exit 1
	refuses "is for all-reduces; name one codec" 2 --zero 1 --codec auto
}

# left FILE COPIES: what the encodings of all replicas have left out of each parameter
left()
{
	n=$(parameters)
	tail -c +$((65 + 3 * 4 * n)) "$1" | od -An -v -tf4 -w4 | awk -v n="$n" -v copies="$2" '
		int((NR - 1) / n) % copies == 0 { sum[(NR - 1) % n] += $1 }
		END { for (i = 0; i < n; i++) printf "%d %.9g\n", i, sum[i] }'
}

# Other grids have what replicas of the first one had left out, all of it, but for rounding.
test_codec_grids()
{
	losses gpt 4 --data 4 --codec topk:1% --steps 5 --save "$tmp/coded" >/dev/null || exit 1
	left "$tmp/coded" 2 >"$tmp/left"
	awk '$2 != 0 { n++ } END { exit !(n > NR / 2) }' "$tmp/left" || die "nothing is left out"
	for grid in "2 4 --tensor 2" "2 2 --pipeline 2" "6 2 --data 3 --pipeline 2 --batch 6" \
		"4 4 --data 2 --tensor 2" "5 2 --batch 5"; do
		ranks=${grid%% *} grid=${grid#* }
		# shellcheck disable=SC2086
		losses gpt "$ranks" ${grid#* } --codec topk:2% --steps 5 --load "$tmp/coded" \
			--save "$tmp/coded" >/dev/null || exit 1
		left "$tmp/coded" "${grid%% *}" >"$tmp/moved"
		same "$tmp/left" "$tmp/moved" 1e-6 "$(parameters)" || die "$grid: some is lost"
	done
	truncate -s -4 "$tmp/coded"
	refuses "Input/output error" 2 --load "$tmp/coded" --codec topk:1%
	losses gpt 1 --steps 6 --load "$tmp/coded" >/dev/null || exit 1
}

test_writes()
{
	losses gpt 4 --data 2 --pipeline 2 --steps 1 --write 30 >/dev/null || exit 1
	grep -q "^the model writes: And God said, " "$tmp/out" || die "$(cat "$tmp/out")"
}

test_wrong()
{
	refuses "data 3 x pipeline 2 x tensor 1 is 6 ranks, but the communicator has 4" 4 \
		--data 3 --pipeline 2
	refuses "4 layers (--layers) cannot be divided by 3 parts" 3 --pipeline 3
	refuses "2 heads (--heads) cannot be divided by 4 ranks (--tensor)" 4 --tensor 4 --heads 2
	refuses "9 positions (--length) cannot be divided by 2 ranks (--tensor) with" 2 --tensor 2 \
		--sequence-parallel --length 9
	refuses "only with --sequence-parallel" 1 --gather-again
	refuses "8 sequences (--batch) cannot be divided by 3 replicas" 3
	refuses "2 micro-batches are fewer than the 4 stages" 4 --pipeline 4 --micro 2 \
		--schedule 1f1b
	refuses "sh quickstart.sh fetches build/data/bible.txt" 2 --text "$tmp/none"
	refuses "too few for sequences of 8" 1 --text /dev/null
	refuses "--steps x: not a number" 1 --steps x
	refuses "--schedule zigzag: not gpipe, 1f1b or interleaved" 1 --schedule zigzag
	refuses "only --schedule interleaved has chunks" 1 --chunks 2
	refuses "unexpected argument more" 1 more
	head -c 100 /dev/zero >"$tmp/zeros"
	refuses "is no checkpoint of gpt" 2 --load "$tmp/zeros"
	mkdir "$tmp/folder"
	refuses "$tmp/folder: Is a directory" 2 --text "$tmp/folder"
	refuses "$tmp/folder exists and is no regular file" 2 --save "$tmp/folder"
	losses gpt 1 --steps 1 --save "$tmp/saved" >/dev/null || exit 1
	refuses "has another model: --layers 4 --hidden 16 --heads 4 --length 8, 4 bytes" 2 \
		--load "$tmp/saved" --heads 2
	truncate -s 1000 "$tmp/saved"
	refuses "Input/output error" 2 --load "$tmp/saved"
}

run double_curves curves gpt_double 1e-10
run float_curves curves gpt 1e-4
run tensor test_tensor
run sequence_parallel test_sequence_parallel
run hosts test_hosts
run bubble test_bubble
run restart test_restart
run zero test_zero
run downpour test_downpour
run downpour_restart test_downpour_restart
run downpour_codec test_downpour_codec
run codec test_codec
run codec_zero test_codec_zero
run codec_grids test_codec_grids
run writes test_writes
run wrong test_wrong
finish
