#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Two hosts that share nothing but a cable: two guests (guest.sh -c), two ranks in each, started
# without a remote shell. First a job that must give right results, then one in the middle of which
# a host dies.
#
# Within a guest this is called again, as pair.sh --host END.
: "${TT_SRC:=$(cd "$(dirname "$0")/../.." && pwd)}"
: "${TT_BUILD:=$(pwd)}"
export TT_SRC TT_BUILD
# Seconds of a quiet machine: until a guest has come up and a job has begun, and until the
# survivors have told who is gone, and ended. Where the guests' processors are shared with others,
# both are multiplied by how many runnable processes there are for each processor of the machine,
# at most by MOST.
START=60 TELL=30 MOST=5

# ---- in a guest ----

# job NAME SECONDS PROGRAM ARGUMENT...: this host's two ranks of four
job()
{
	name=$1 limit=$2
	shift 2
	i=0
	while [ $i -lt 2 ]; do
		rank=$((2 * end - 2 + i))
		{
			TUTTI_RANK=$rank TUTTI_LOCAL_RANK=$i timeout "$limit" "$@" 2>&1
			echo "ended $?"
		} | sed -u "s/^/$name $rank: /" &
		i=$((i + 1))
	done
	wait
}

busy()
{
	awk -v n="$(nproc)" -v most="$MOST" '{
		split($4, run, "/")
		load = ($1 > run[1] + 0) ? $1 : run[1]
		f = int(load / n) + 1
		print (f > most ? most : f)
	}' /proc/loadavg
}

in_guest()
{
	end=$1
	START=$((START * TT_BUSY)) TELL=$((TELL * TT_BUSY))
	TUTTI_NRANKS=4 TUTTI_STORE=10.78.0.1:7800 TUTTI_SECRET_FILE=$PWD/secret
	TUTTI_TRANSPORT=shm,verbs TUTTI_LOG=info
	export TUTTI_NRANKS TUTTI_STORE TUTTI_SECRET_FILE TUTTI_TRANSPORT TUTTI_LOG
	job sum "$START" "$TT_BUILD/tutti_perf" allreduce -b 4 -e 64K -f 128 -n 2 -w 1
	TUTTI_STORE=10.78.0.1:7801
	job death $((START + TELL)) "$TT_BUILD/tutti_perf" allreduce -b 8K -e 64M -i 4 -n 2 -w 0
}

if [ "${1:-}" = --host ]; then
	in_guest "$2"
	exit
fi

# ---- on this machine ----

. "$TT_SRC/tests/sh.inc"
only=$*
suite pair
guests=
cd "$tmp" || exit 1 # a guest keeps the folder it is called in

unplug()
{
	# shellcheck disable=SC2086
	[ -z "$guests" ] || kill $guests 2>/dev/null
	wait
	cd / && rm -rf "$tmp"
}
trap unplug EXIT

# until_says SECONDS PATTERN END...: each of these guests has printed it
until_says()
{
	began=$(date +%s) seconds=$1 pattern=$2 factor=1
	shift 2
	for e in "$@"; do
		until grep -q "$pattern" "$tmp/out$e"; do
			now=$(busy) # it may become busy while this waits
			[ "$now" -le "$factor" ] || factor=$now
			[ "$(($(date +%s) - began))" -lt "$((seconds * factor))" ] ||
				die "no '$pattern' in time from host $e: $(cat "$tmp"/out?)"
			sleep 0.1
		done
	done
}

# has PATTERN END
has()
{
	grep -q "$1" "$tmp/out$2" || die "no '$1' from host $2: $(cat "$tmp/out$2")"
}

test_sum()
{
	for rank in 0 1 2 3; do
		until_says "$START" "^sum $rank: ended" $((rank / 2 + 1))
		has "^sum $rank: ended 0" $((rank / 2 + 1))
	done
	has '^sum 0: # Out of bounds values : 0 OK' 1
	has '^sum .* is reached over verbs over rxe0' 1
	has '^sum .* is reached over shm' 1
}

# The processor of host 2 is gone between two instructions: nobody there says goodbye.
test_death()
{
	until_says "$START" '^death 0: *8196 ' 1
	! grep -q '^death [0-3]: ended' "$tmp"/out? || die "$(cat "$tmp"/out?)"
	kill -KILL "$(cat "$tmp/2.pid")"
	until_says "$TELL" '^death 0: ended' 1
	until_says "$TELL" '^death 1: ended' 1
	for rank in 0 1; do
		has "^death $rank: ended 1" 1
		has "^death $rank: tutti_perf: rank $rank: .*: rank [23] on host tutti-guest2 is gone" 1
	done
}

why=$(sh "$TT_SRC/tests/vm/guest.sh" --prepare 2>&1) || skip_all "$(echo "$why" | tail -n 1)"
TT_BUSY=$MOST # what a guest does is watched from here
export TT_BUSY
(umask 077 && head -c 32 /dev/urandom | base64 >"$tmp/secret")
for e in 1 2; do
	sh "$TT_SRC/tests/vm/guest.sh" -t $((180 * MOST)) -m 1G -c "$tmp:$e" -- \
		sh "$TT_SRC/tests/vm/pair.sh" --host $e >"$tmp/out$e" 2>&1 &
	guests="$guests $!"
done
run sum test_sum
run death test_death
finish
