#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The fuzzers, each on its part of tests/fuzz/corpus. With libFuzzer (configure --enable-fuzz) for TT_FUZZ_SECONDS
# each, default 5, at most, and TT_FUZZ_RUNS inputs, if that is set; without it on the corpus and 2,000 changed inputs.
# How many there were is printed.
only=$*
. "${TT_SRC:-$(dirname "$0")/../..}/tests/sh.inc"
suite fuzz
cd "$TT_BUILD" || exit 1

libfuzzer()
{
	limit="-max_total_time=${TT_FUZZ_SECONDS:-5} ${TT_FUZZ_RUNS:+-runs=$TT_FUZZ_RUNS}"
	mkdir -p "$tmp/$1" "fuzz-found"
	dict=
	[ ! -f "$TT_SRC/tests/fuzz/$1.dict" ] || dict="-dict=$TT_SRC/tests/fuzz/$1.dict"
	# New inputs go to the first directory; what breaks is kept in the build tree.
	"tests/fuzz/fuzz_$1" $limit -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 -verbosity=0 \
		-artifact_prefix="fuzz-found/$1-" $dict "$tmp/$1" "$TT_SRC/tests/fuzz/corpus/$1" >"$tmp/$1.log" 2>&1 || {
		tail -n 60 "$tmp/$1.log"
		die "the input is in $TT_BUILD/fuzz-found"
	}
	sed -n "s/^stat::number_of_executed_units: */  fuzz_$1: inputs: /p" "$tmp/$1.log" >>"$tmp/counts"
}

fuzz()
{
	[ -x "tests/fuzz/fuzz_$1" ] || skip "fuzz_$1 was not built"
	if grep -q LLVMFuzzerRunDriver "tests/fuzz/fuzz_$1"; then
		libfuzzer "$1"
	else
		"tests/fuzz/fuzz_$1" "${TT_FUZZ_RUNS:-2000}" "$TT_SRC/tests/fuzz/corpus/$1"/* >"$tmp/$1.log" 2>&1 ||
			die "$(tail -n 60 "$tmp/$1.log")"
		echo "  fuzz_$1: $(cat "$tmp/$1.log")" >>"$tmp/counts"
	fi
}

for name in link frames ctl wire ps env hosts tune; do
	run $name fuzz $name
done
cat "$tmp/counts" 2>/dev/null
finish
