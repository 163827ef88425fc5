#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The main job end to end: however many ranks, over whichever transport, the same loss curve, and a
# model that reads digits.
. "${TT_SRC:-.}/tests/sh.inc"
. "$TT_SRC/tests/mp/programs/digits.inc"
suite digits

[ -x ./train_digits ] || skip_all "train_digits was not built: zlib is missing"
have_digits ./train_digits --epochs 1 || skip_all "no digits.csv.gz: sh quickstart.sh fetches it"

# train RANKS TRANSPORT CSV OPTION...: TRANSPORT - leaves the choice to the library.
train() {
	ranks=$1 transport=$2 csv=$3
	shift 3
	(
		unset TUTTI_TRANSPORT
		[ "$transport" = - ] || export TUTTI_TRANSPORT="$transport"
		timeout 300 ./tutti_run -n "$ranks" ./train_digits --csv "$csv" -q "$@"
	)
}

learned() {
	awk -F, 'END { print "accuracy " $3; exit !($3 >= 0.96) }' "$1"
}

for transport in - shm ofi; do
	for ranks in 1 4; do
		csv=$tmp/$transport.$ranks.csv
		name=$(echo "$transport" | sed 's/-/default/')_$ranks
		run "train_$name" train $ranks $transport "$csv"
		run "accuracy_$name" learned "$csv"
		[ "$transport.$ranks" = -.1 ] || run "curve_$name" same_curve "$tmp/-.1.csv" "$csv"
	done
done

# Slices of unequal size, and more ranks than samples in the last batch.
run train_uneven_1 train 1 - "$tmp/u1.csv" --epochs 3 --batch 7
run train_uneven_3 train 3 - "$tmp/u3.csv" --epochs 3 --batch 7
run curve_uneven same_curve "$tmp/u1.csv" "$tmp/u3.csv"

# With codecs: the accuracy of plain training to half a point, and the same bits from run to run.
near() {
	awk -F, 'FNR == 1 { k++ } { last[k] = $3 }
		END { print last[1], last[2]; exit !(last[2] >= last[1] - 0.005) }' "$1" "$2"
}
for codec in none bf16 int8 onebit qsgd fp8:e5m2; do
	run "train_$codec" train 4 - "$tmp/$codec.csv" --codec $codec
	run "accuracy_$codec" near "$tmp/-.1.csv" "$tmp/$codec.csv"
done
# PowerSGD: likewise.
for approx in 1 4; do
	run "train_power_sgd_$approx" train 4 - "$tmp/power$approx.csv" --power-sgd $approx
	run "accuracy_power_sgd_$approx" near "$tmp/-.1.csv" "$tmp/power$approx.csv"
done
run train_power_sgd_again train 4 - "$tmp/again.csv" --power-sgd 4
run same_power_sgd_again cmp "$tmp/power4.csv" "$tmp/again.csv"
run power_sgd_approximates sh -c '! cmp -s "$1" "$2"' sh "$tmp/-.1.csv" "$tmp/power4.csv"
# Every option with a number: too small, too large, not one.
test_numbers()
{
	names_range ./train_digits <<-END
		--epochs | from 1 to 1000000 | 0 1000001 99999999999999999999 x
		--batch | from 1 to 1000000 | 0 1000001 x
		--hidden | from 1 to 4096 | 0 4097 x
		--lr | from 0 to 100 | -1 101 1e308 nan x
		--momentum | from 0 to 1 | -1 2 x
		--seed | from 0 to 18446744073709551615 | -1 99999999999999999999 x
		--power-sgd | from 1 to 256 | 0 257 x
	END
}

run numbers test_numbers
run power_sgd_rank says "cannot be '257'" ./tutti_run -n 2 ./train_digits --power-sgd 257
run power_sgd_or_codec says "does not go with" ./tutti_run -n 2 ./train_digits --power-sgd 2 \
	--codec int8
power_sgd_advised() {
	train 2 - "$tmp/advise.csv" --power-sgd 2 --advise --epochs 12 >"$tmp/out" 2>&1 &&
		grep -q "^verdict: .*PowerSGD " "$tmp/out" || die "$(cat "$tmp/out")"
}
run power_sgd_advise power_sgd_advised
run train_again train 4 - "$tmp/again.csv" --codec int8
run same_again cmp "$tmp/int8.csv" "$tmp/again.csv"
run train_onebit_alone train 4 - "$tmp/alone.csv" --codec onebit --no-feedback
run feedback_matters sh -c '! cmp -s "$1" "$2"' sh "$tmp/onebit.csv" "$tmp/alone.csv"
run no_feedback_of_what says "needs --codec" ./tutti_run -n 2 ./train_digits --no-feedback
# The verdict follows from the four quantities, which may say either where the gain is printed as
# 1.00; the codec's training is that without --advise.
test_advise()
{
	train 4 - "$tmp/advise.csv" --codec int8 --advise >"$tmp/out" 2>&1 ||
		die "$(cat "$tmp/out")"
	awk '/T_orig/ { for (i = 1; i <= NF; i++) { if ($i == "T_orig") t = $(i + 1)
			if ($i == "I_orig") n = $(i + 1) } orig = t * n }
		/T_comp/ { for (i = 1; i <= NF; i++) { if ($i == "T_comp") t = $(i + 1)
			if ($i == "I_comp") n = $(i + 1) } comp = t * n }
		/^verdict: int8 / { gain = $6; word = $3 }
		END { r = orig / comp; exit !(orig > 0 && comp > 0 && gain > 0.98 * r - 0.01 &&
			gain < 1.02 * r + 0.01 &&
			(gain == 1 || (word == "pays:") == (gain > 1))) }' "$tmp/out" ||
		die "$(cat "$tmp/out")"
	tail -n 25 "$tmp/advise.csv" >"$tmp/second"
	tail -n 25 "$tmp/int8.csv" | cmp - "$tmp/second" || die "$(cat "$tmp/second")"
}
run advise test_advise
run advise_plain says "needs --codec" ./tutti_run -n 2 ./train_digits --advise
run unknown_codec says "did you mean 'int8'" ./tutti_run -n 2 ./train_digits --codec int9

run unknown_option says "did you mean '--epochs'" ./tutti_run -n 2 ./train_digits --epoch5 3
run missing_data says "sh quickstart.sh" ./tutti_run -n 2 ./train_digits --data "$tmp/none"
echo "1,2,3" >"$tmp/bad.csv"
run bad_data says "line 1" ./tutti_run -n 2 ./train_digits --data "$tmp/bad.csv"
finish
