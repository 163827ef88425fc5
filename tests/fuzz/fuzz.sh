#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The fuzzers, each on its part of tests/fuzz/corpus. With libFuzzer (configure --enable-fuzz) for
# TT_FUZZ_SECONDS of processor time each, default 5, within twice that; or for TT_FUZZ_RUNS inputs,
# if that is set, within TT_FUZZ_SECONDS; then the decoders of codecs have as many each. Without
# libFuzzer on the corpus and 2,000 changed inputs. How many there were is printed.
only=$*
. "${TT_SRC:-$(dirname "$0")/../..}/tests/sh.inc"
suite fuzz
cd "$TT_BUILD" || exit 1
# Ranks here are threads. Of threads that first call libnuma at once, each fills its table of CPUs.
echo "leak:libnuma.so" >"$tmp/leaks"
export LSAN_OPTIONS="suppressions=$tmp/leaks:print_suppressions=0"

# once NAME SECONDS
once()
{
	dict=
	[ ! -f "$TT_SRC/tests/fuzz/$1.dict" ] || dict="-dict=$TT_SRC/tests/fuzz/$1.dict"
	# New inputs go to the first directory; what breaks is kept in the build tree.
	"tests/fuzz/fuzz_$1" -max_total_time="$2" ${TT_FUZZ_RUNS:+-runs=$TT_FUZZ_RUNS} \
		-timeout=120 -rss_limit_mb=2048 -print_final_stats=1 -verbosity=0 \
		-artifact_prefix="fuzz-found/$1-" $dict \
		"$tmp/$1" "$TT_SRC/tests/fuzz/corpus/$1" >"$tmp/$1.log" 2>&1 || {
		tail -n 60 "$tmp/$1.log"
		die "the input is in $TT_BUILD/fuzz-found"
	}
	cat "$tmp/$1.log" >>"$tmp/$1.logs"
}

# Processor time of what this shell has run, in $spent.
look_at_time()
{
	times >"$tmp/times"
	spent=$(sed -n '2s/[ms]/ /gp' "$tmp/times" |
		awk '{ print int(60 * $1 + $2 + 60 * $3 + $4) }')
}

libfuzzer()
{
	seconds=${TT_FUZZ_SECONDS:-5} spent=0 end=$(($(date +%s) + 2 * seconds))
	mkdir -p "$tmp/$1" "fuzz-found"
	once "$1" "$seconds"
	look_at_time
	# libFuzzer looks at the clock, and here others may have had the processor.
	while [ -z "${TT_FUZZ_RUNS:-}" ] && [ $((seconds - spent)) -ge 2 ] &&
		[ "$(date +%s)" -lt "$end" ]; do
		once "$1" $((seconds - spent))
		look_at_time
	done
	sed -n 's/^stat::number_of_executed_units: *//p' "$tmp/$1.logs" |
		awk -v n="$1${TT_FUZZ_CODEC:+ $TT_FUZZ_CODEC}" -v s="$spent" '{ k += $1 }
			END { print "  fuzz_" n ": inputs: " k ", " s " s of processor time" }' \
			>>"$tmp/counts"
}

fuzz()
{
	[ -x "tests/fuzz/fuzz_$1" ] || skip "fuzz_$1 was not built"
	if grep -q LLVMFuzzerRunDriver "tests/fuzz/fuzz_$1"; then
		libfuzzer "$1"
	else
		"tests/fuzz/fuzz_$1" "${TT_FUZZ_RUNS:-2000}" "$TT_SRC/tests/fuzz/corpus/$1"/* \
			>"$tmp/$1.log" 2>&1 ||
			die "$(tail -n 60 "$tmp/$1.log")"
		echo "  fuzz_$1: $(cat "$tmp/$1.log")" >>"$tmp/counts"
	fi
}

# decoder NAME: fuzz_codec on this codec alone, with logs of its own
decoder()
{
	TT_FUZZ_CODEC=$1
	export TT_FUZZ_CODEC
	rm -f "$tmp/codec.logs"
	fuzz codec
}

for name in link frames ctl wire ps accumulate env hosts tune state; do
	run $name fuzz $name
done
if [ -z "${TT_FUZZ_RUNS:-}" ]; then
	run codec fuzz codec
else
	for name in fp16 bf16 fp8:e4m3 fp8:e5m2 int8 qsgd:levels=5 onebit topk:1% threshold:1 \
		randomk:5% dgc:10%; do
		run "codec_$name" decoder "$name"
	done
fi
cat "$tmp/counts" 2>/dev/null
finish
