#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What is trained on a parameter server, on real data: the digits, with and without stragglers, and
# the news.
only=$*
. "${TT_SRC:-.}/tests/sh.inc"
. "$TT_SRC/tests/mp/programs/digits.inc"
suite trained

# skipped REASON NAME...: a line for each
skipped()
{
	reason=$1
	shift
	for name; do
		run "$name" skip "$reason"
	done
}

# digits LEAST OPTION...: percent right at least
digits()
{
	least=$1
	shift
	timeout 60 ./tutti_run -n 4 ./ps_digits --compute 0 --rate 0.1 --clocks 150 \
		--csv "$tmp/csv" "$@" >"$tmp/out" 2>&1 ||
		{ cat "$tmp/out"; exit 1; }
	awk -v least="$least" \
		'match($0, /accuracy [0-9.]+/) { a = substr($0, RSTART + 9, RLENGTH - 9) }
		END { exit !(a >= least) }' "$tmp/out" || { cat "$tmp/out"; exit 1; }
	[ "$(wc -l <"$tmp/csv")" -eq 32 ] || { cat "$tmp/csv"; exit 1; }
}

# second CLOCK: every clock is applied as a whole, in the order of ranks, so a second server
# changes no bit of the losses
second()
{
	digits 85
	cut -d, -f1,3 "$tmp/csv" >"$tmp/alone"
	digits 85 --second "$1"
	grep "^from clock $1 on two servers" "$tmp/out" || { cat "$tmp/out"; exit 1; }
	cut -d, -f1,3 "$tmp/csv" | diff - "$tmp/alone" || exit 1
}

# As many looks at the loss as are asked for, to the last clock.
looks()
{
	timeout 60 ./tutti_run -n 2 ./ps_digits --compute 0 --clocks 450 --every 1 --batch 1 \
		--hidden 2 --csv "$tmp/csv" >"$tmp/out" 2>&1 ||
		{ cat "$tmp/out"; exit 1; }
	tail -n 1 "$tmp/csv" | grep -q '^450,' && [ "$(wc -l <"$tmp/csv")" -eq 452 ] ||
		{ tail -n 3 "$tmp/csv"; exit 1; }
}

# news RANKS SUBJECT: keep what is said of the test
news()
{
	timeout 60 ./tutti_run -n "$1" ./logreg "$data/Reuters$2-train.arff" \
		"$data/Reuters$2-test.arff" 4 >"$tmp/out" 2>&1 ||
		{ cat "$tmp/out"; exit 1; }
	grep '^test' "$tmp/out" | tail -n 1 >"$tmp/news.$1.$2"
}

# encoded NAME LOSS F1 OPTION...: all-reduces instead of servers, with the same quality
encoded()
{
	name=$1 most=$2 least=$3
	shift 3
	timeout 60 ./tutti_run -n 4 ./logreg "$@" "$data/ReutersGrain-train.arff" \
		"$data/ReutersGrain-test.arff" 6 >"$tmp/out" 2>&1 || { cat "$tmp/out"; exit 1; }
	grep '^test' "$tmp/out" | tail -n 1 | awk -v most="$most" -v least="$least" '
		{ gsub(",", ""); print; exit !($3 < most && $NF > least) }' ||
		{ cat "$tmp/out"; exit 1; }
	sed -n 's/^rank 0 sent \([0-9]*\) bytes in .*/\1/p' "$tmp/out" >"$tmp/sent.$name"
}

# Bytes are counted where messages carry them.
env_ring()
{
	TUTTI_ALGO=allreduce:ring:0-inf
	export TUTTI_ALGO
	"$@"
}

# Without feedback words that are rare get no weight.
alone()
{
	encoded alone 9 0 --codec onebit --no-feedback
	! (encoded alone 0.4 0.6 --codec onebit --no-feedback) >/dev/null
}

# Fewer than a twelfth of the bytes of float32.
fewer()
{
	[ "$(($(cat "$tmp/sent.plain") / 12))" -gt "$(cat "$tmp/sent.onebit")" ] ||
		die "$(cat "$tmp/sent.plain") and $(cat "$tmp/sent.onebit")"
}

# same SUBJECT LOSS F1: many learn as well as one, and well enough
same()
{
	awk -v most="$2" -v least="$3" '{ gsub(",", ""); loss[NR] = $3; f1[NR] = $NF }
		END { exit !(NR == 2 && loss[1] < most && loss[2] < most && f1[1] > least &&
			f1[2] > least &&
			     loss[1] / loss[2] < 1.15 && loss[2] / loss[1] < 1.15) }' \
			     "$tmp/news.1.$1" "$tmp/news.4.$1" ||
		{ cat "$tmp/news.1.$1" "$tmp/news.4.$1"; exit 1; }
}

if [ -x ./ps_digits ] && have_digits ./tutti_run -n 2 ./ps_digits --clocks 1; then
	run bad_option says "usage" ./ps_digits --clocks 0
	run digits_bsp digits 85
	run digits_ssp digits 85 --staleness 2 --straggle 5
	run digits_essp digits 85 --staleness 2 --essp
	run digits_aware digits 80 --staleness async --aware
	run digits_second second 70
	run digits_looks looks
	run digits_bound sh "$TT_SRC/perf/staleness" -q -o "$tmp/staleness"
else
	skipped "no ps_digits (it needs zlib), or no digits.csv.gz: quickstart.sh fetches it" \
		digits_bsp digits_ssp digits_essp digits_aware digits_second digits_looks \
		digits_bound
fi
for data in data ../data "$TT_SRC/build/data" none; do
	[ ! -s "$data/ReutersCorn-train.arff" ] || break
done
if [ "$data" != none ]; then
	for subject in Corn Grain; do
		for ranks in 1 4; do
			run "news_${subject}_$ranks" news $ranks $subject
		done
	done
	run same_corn same Corn 0.2 0.4
	run same_grain same Grain 0.2 0.6
	run encoded_plain env_ring encoded plain 0.2 0.6 --allreduce
	run encoded_int8 encoded int8 0.2 0.6 --codec int8
	run encoded_onebit encoded onebit 0.2 0.6 --codec onebit
	run encoded_fewer fewer
	run encoded_alone alone
else
	skipped "no ReutersCorn-train.arff: quickstart.sh fetches it" \
		news_Corn_1 news_Corn_4 news_Grain_1 news_Grain_4 same_corn same_grain \
		encoded_plain encoded_int8 encoded_onebit encoded_fewer encoded_alone
fi
# glove RANKS: word vectors, and what is said of the loss at the end
glove()
{
	timeout 100 ./tutti_run -n "$1" ./glove --servers 2 --words 200 --epochs 4 \
		--vectors "$tmp/vectors.$1" "$text" >"$tmp/out" 2>&1 ||
		{ cat "$tmp/out"; exit 1; }
	awk 'NF != 33 { bad = 1 } END { exit bad || NR != 200 }' "$tmp/vectors.$1" ||
		{ head "$tmp/vectors.$1"; exit 1; }
	# numbers stand beside numbers; which are the closest depends on the order of pushes
	grep "^two: " "$tmp/out" | awk '{ for (i = 2; i <= NF; i++)
		n += $i ~ /^(hundred|thousand|three)$/ } END { exit !(n >= 2) }' ||
		{ cat "$tmp/out"; exit 1; }
	sed -n 's/^at the end: loss \([0-9.]*\) .*/\1/p' "$tmp/out" >>"$tmp/losses"
}

# All-reduces of encoded gradients instead of servers.
glove_encoded()
{
	timeout 100 ./tutti_run -n 4 ./glove --codec int8 --words 200 --epochs 4 \
		--vectors "$tmp/vectors.int8" "$text" >"$tmp/out" 2>&1 ||
		{ cat "$tmp/out"; exit 1; }
	awk 'NF != 33 { bad = 1 } END { exit bad || NR != 200 }' "$tmp/vectors.int8" ||
		{ head "$tmp/vectors.int8"; exit 1; }
	awk '/^at the end/ { print; loss = $5 } END { exit !(loss > 0.1 && loss < 0.13) }' \
		"$tmp/out" || { cat "$tmp/out"; exit 1; }
}

# Two servers and four workers learn what one process does: within 2 % when both have run for long;
# this is short, and goes from -3 to 5 %.
near()
{
	awk '{ l[NR] = $1 } END { d = l[2] / l[1] - 1; print l[1], l[2]; exit !(NR == 2 &&
		l[1] < 0.2 && d < 0.1 && d > -0.1) }' \
		"$tmp/losses"
}

# Words that are close for one process are close for many: the cosines of all pairs of words
# correlate. 0.76 to 0.79 were seen, and 0.0 for vectors that were not learnt; the vectors
# themselves may be turned.
close()
{
	awk -v a="$tmp/vectors.1" -v b="$tmp/vectors.6" '
		function cosines(file, c,    line, n, pairs, i, j, d, w, v, len, dot) {
			while ((getline line < file) > 0) {
				n++
				split(line, w, " ")
				for (d = 2; d <= 33; d++) {
					v[n, d] = w[d]
					len[n] += w[d] * w[d]
				}
			}
			for (i = 2; i <= n; i++)
				for (j = 1; j < i; j++) {
					dot = 0
					for (d = 2; d <= 33; d++)
						dot += v[i, d] * v[j, d]
					c[++pairs] = dot / sqrt(len[i] * len[j] + 1e-12)
				}
			return pairs
		}
		BEGIN {
			n = cosines(a, x)
			same = n && n == cosines(b, y)
			for (i = 1; i <= n; i++) {
				sx += x[i]; sy += y[i]; sxx += x[i] ^ 2; syy += y[i] ^ 2
				sxy += x[i] * y[i]
			}
			d = (n * sxx - sx ^ 2) * (n * syy - sy ^ 2)
			r = (n * sxy - sx * sy) / sqrt(d + 1e-12)
			print n " pairs, correlation " r
			exit !(same && r > 0.6)
		}'
}

for text in data/bible.txt ../data/bible.txt "$TT_SRC/build/data/bible.txt" none; do
	[ ! -s "$text" ] || break
done
if [ "$text" != none ]; then
	run glove_1 glove 1
	run glove_6 glove 6
	run glove_same near
	run glove_close close
	run glove_encoded glove_encoded
else
	skipped "no bible.txt: quickstart.sh fetches it" glove_1 glove_6 glove_same glove_close \
		glove_encoded
fi
# perf/training in short, by perf/kit: a verdict for each of three codecs and three tasks, and the
# bytes that the codecs promise: a block of int8 has 260 for 1024, top-k at most 6 for 400 in each
# of three passes.
training()
{
	sh "$TT_SRC/perf/kit" -q -p training -R "" -o "$tmp/short" >"$tmp/out" 2>&1 ||
		die "$(cat "$tmp/out")"
	! grep -q "^# training: left out" "$tmp/out" || skip "$(grep "^no " "$tmp/out")"
	says "training: not done after 0 s (-b): -c goes on" \
		sh "$TT_SRC/perf/training" -q -b 0 -o "$tmp/none"
	sed 's/[{}"]//g; s/,$//' "$tmp/short-training.json" | awk -F', ' '/^task: / {
			for (i = 1; i <= NF; i++) {
				split($i, field, ": ")
				value[field[1]] = field[2]
			}
			share = value["bytes"] / (bytes[value["task"]] + 1e-9)
			if (value["codec"] == "plain")
				bytes[value["task"]] = value["bytes"]
			else if (value["codec"] == "int8")
				bad = bad || share < 0.25 || share > 0.27
			else
				bad = bad || share < 0.03 || share > 0.1
			if (value["verdict"] !~ /^(plain|ok|short|worse|no worse)$/)
				bad = 1
			if (!value["median"])
				bad = 1
			n++
		} END { exit bad || n != 12 }' || die "$(cat "$tmp/short-training.json")"
	# three tasks: one pass of plain, one of int8, three of two more
	[ "$(wc -l <"$tmp/short-training.csv")" -eq 25 ] || die "$(cat "$tmp/short-training.csv")"
}
if [ -x ./train_digits ]; then
	run training training
else
	skipped "no train_digits (it needs zlib)" training
fi

# Two parts by perf/kit, of which the following tests look at the numbers; each is in both files.
kit()
{
	says "kit: not done after 0 s (-b): tokens left" sh "$TT_SRC/perf/kit" -b 0 -p tokens \
		-o "$tmp/kit"
	echo "tokens,of an earlier run,of_first,1" >>"$tmp/kit.csv"
	for part in shares tokens; do # the second keeps what the first has measured
		sh "$TT_SRC/perf/kit" -q -c -p $part -o "$tmp/kit" >>"$tmp/kit.out" \
			2>"$tmp/kit.err" || die "$(cat "$tmp/kit.out" "$tmp/kit.err")"
		grep -q "^# part 1 of 1, $part: after [0-9]* s, about [0-9]* s to go$" \
			"$tmp/kit.err" || die "$(cat "$tmp/kit.err")"
	done
	rows=$(wc -l <"$tmp/kit-shares.csv")
	[ "$(grep -c '^shares,' "$tmp/kit.csv")" = $((2 * rows - 2)) ] ||
		die "$(cat "$tmp/kit.csv")"
	grep -q '^tokens,3 --staleness 0 --straggle 40,of_first,[0-9.]*$' "$tmp/kit.csv" ||
		die "$(cat "$tmp/kit.csv")"
	[ "$(grep -c '"value": [0-9.]*}' "$tmp/kit.json")" = $((2 * rows - 2 + 6)) ] &&
		[ "$(grep -c '"status": 0, "seconds"' "$tmp/kit.json")" = 2 ] ||
		die "$(cat "$tmp/kit.json")"
	! command -v python3 >/dev/null || python3 -m json.tool "$tmp/kit.json" >"$tmp/out" ||
		die "$(cat "$tmp/kit.json")"
	says "no part 'token'" sh "$TT_SRC/perf/kit" -p token
}
run kit kit

# perf/shares: three ways and the least on each link. The link carries 2.4 MB, 2.5 with headers, in
# 200 ms, of which a backward pass of 15 ms hides 15. Without root there is no link.
shares()
{
	links=2
	! grep -q "^# no hosts" "$tmp/kit.out" || links=1
	awk -F, -v links=$links 'NR > 1 {
			share = 100 * $4 / ($4 + 15)
			bad = bad || $3 != 15 || share < $5 - 0.6 || share > $5 + 0.6
			bad = bad || ($1 == "100 Mbit/s" && $5 < 85)
			least = $1 == "100 Mbit/s" && $2 == "least"
			bad = bad || (least && ($4 < 185 || $4 > 186.5))
			seen[$1]++
		}
		END {
			for (link in seen) {
				n++
				bad = bad || seen[link] != 4
			}
			exit bad || n != links
		}' "$tmp/kit-shares.csv" || die "$(cat "$tmp/kit.out" "$tmp/kit-shares.csv")"
}
run shares shares

tokens()
{
	sed '1,/^## tokens/d' "$tmp/kit.out" >"$tmp/out"
	# both replicas wait for the slow one: 16 tokens in 40 ms or more
	awk '!/^#/ { n++; rate[n] = $1; of[n] = $2; ranks[n] = $3 }
		END { share = rate[2] / (rate[1] + 1e-9)
			exit n != 3 || !rate[2] || of[1] != 1 || share < of[2] - 0.01 ||
				share > of[2] + 0.01 || ranks[3] != 3 || !rate[3] || rate[3] > 400
		}' "$tmp/out" || die "$(cat "$tmp/out")"
	says "tokens: not done after 0 s (-b)" sh "$TT_SRC/perf/tokens" -b 0
}
run tokens tokens

# ends COMMAND...: within a minute
ends()
{
	timeout 60 "$@"
	status=$?
	[ $status != 124 ] || echo "it did not end: $*"
	return $status
}

# refuses TEXT COMMAND...: all ranks end, and one says why
refuses()
{
	text=$1
	shift
	says "$text" ends "$@"
	! grep -q "it did not end" "$tmp/.says" || die "$(cat "$tmp/.says")"
}

echo "'a text',2" >"$tmp/bad.arff"
sed -i '1i @data' "$tmp/bad.arff"
run bad_text refuses "is not a quoted string" ./tutti_run -n 2 ./logreg "$tmp/bad.arff" \
	"$tmp/bad.arff"
# words of letters that no two have in the same order
awk 'BEGIN { print "@data"; printf "\047"; for (i = 0; i < 9000; i++) {
	for (k = i; k; k = int(k / 26))
	printf "%c", 97 + k % 26; printf "zz " } print "\047,1" }' >"$tmp/long.arff"
run long_text refuses "different words" ./tutti_run -n 2 ./logreg "$tmp/long.arff" \
	"$tmp/long.arff" 1
finish
