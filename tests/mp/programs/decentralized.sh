#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# train_decentralized: every method learns to read digits on eight ranks.
. "${TT_SRC:-.}/tests/sh.inc"
. "$TT_SRC/tests/mp/programs/digits.inc"
suite decentralized

[ -x ./train_decentralized ] || skip_all "train_decentralized was not built: zlib is missing"
have_digits ./tutti_run -n 2 ./train_decentralized --epochs 1 ||
	skip_all "no digits.csv.gz: sh quickstart.sh fetches it"

# learns METHOD OPTION...
learns() {
	timeout 120 ./tutti_run -n 8 ./train_decentralized --csv "$tmp/csv" --compute 1 \
		--epochs 40 --method "$@" >"$tmp/out" 2>&1 || die "$(cat "$tmp/out")"
	cat "$tmp/out"
	awk '/accuracy/ { a = $(NF - 1) } END { exit !(a >= 95) }' "$tmp/out" ||
		die "accuracy below 95 %"
	[ "$(wc -l <"$tmp/csv")" = 41 ] || die "$(cat "$tmp/csv")"
}

for method in allreduce gossip pairwise easgd easgd-sync neighbor local partial; do
	run $method learns $method
done

run help sh -c './train_decentralized --help | grep -q "method NAME"'
run unknown_method says "the methods are allreduce gossip" ./train_decentralized --method x
run bad_tau says "tau cannot be '0'" ./train_decentralized --tau 0
run bad_alpha says "alpha cannot be '2'" ./train_decentralized --alpha 2
run bad_quorum says "quorum cannot be '0'" ./train_decentralized --quorum 0
run bad_slow says "slow cannot be '0.5'" ./train_decentralized --slow 0.5
run bad_csv says "train_decentralized: --csv $tmp/none/csv: No such file" \
	./tutti_run -n 2 ./train_decentralized --csv "$tmp/none/csv"
run no_data says "sh quickstart.sh" ./tutti_run -n 2 ./train_decentralized --data "$tmp/none"

curves() {
	sh "$TT_SRC/perf/decentral_curves" -n 4 -e 1 -R "" -m "gossip local" \
		-o "$tmp/curves" >"$tmp/out" 2>&1 ||
		die "$(cat "$tmp/out")"
	[ "$(wc -l <"$tmp/curves.csv")" = 5 ] || die "$(cat "$tmp/curves.csv")"
	grep -q "^gossip .* %" "$tmp/out" || die "$(cat "$tmp/out")"
}
run curves curves
finish
