#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# tutti_tune and its tables in jobs: made, used, seen by rank 0 alone, and no good.
only=$*
. "${TT_SRC:-$(dirname "$0")/../..}/tests/sh.inc"
suite tune
unset TUTTI_ALGO TUTTI_TRANSPORT
export TUTTI_TIMEOUT=60s

# sizes RANKS [COMMAND...]: all-reduces of some sizes, checked
sizes()
{
	n=$1
	shift
	timeout 100 ./tutti_run -n "$n" "$@" ./tutti_perf allreduce -b 8 -e 64K -f 32 -n 3 -w 1 \
		>"$tmp/perf" 2>&1 || {
		cat "$tmp/perf"
		exit 1
	}
}

make_table()
{
	[ -s "$tmp/t.json" ] ||
		timeout 100 ./tutti_run -n 3 ./tutti_tune -o "$tmp/t.json" -c allreduce,bcast \
		-e 64K \
		-f 64 -t 0.001 >"$tmp/tune" 2>&1 || { cat "$tmp/tune"; exit 1; }
}

test_made()
{
	make_table
	./tutti_explain -T "$tmp/t.json" -b 4 -e 16K -f 64 >"$tmp/out" || exit 1
	[ "$(grep -c '^\*' "$tmp/out")" = 3 ] || { cat "$tmp/out"; exit 1; }
	grep -q '3 ranks on 1 host, by' "$tmp/out" || { cat "$tmp/out"; exit 1; }
	awk '$1 == "*" && $7 == "-" { bad = 1 } END { exit bad }' "$tmp/out" ||
		die "$(cat "$tmp/out")"
}

# A second run keeps what the table has of other numbers of ranks.
test_merged()
{
	make_table
	cp "$tmp/t.json" "$tmp/m.json"
	timeout 100 ./tutti_run -n 2 ./tutti_tune -o "$tmp/m.json" --links -t 0.001 >"$tmp/out" \
		2>&1 || die "$(cat "$tmp/out")"
	[ "$(grep -c '"ranks"' "$tmp/m.json")" = 2 ] || die "$(cat "$tmp/m.json")"
}

# The table is saved even if what is printed is lost.
test_unwritten()
{
	unwritten timeout 100 ./tutti_run -n 2 ./tutti_tune -o "$tmp/u.json" --links -t 0.001
	grep -q '"ranks"' "$tmp/u.json" || die "no table"
}

# Only rank 0 sees it; were plans not the same on all ranks, results would be wrong or ranks wait
# for ever.
test_rank0()
{
	make_table
	cat >"$tmp/job" <<-END
		#!/bin/sh
		[ "\$TUTTI_RANK" = 0 ] && export TUTTI_TUNE_FILE=$tmp/t.json TUTTI_LOG=info ||
			export TUTTI_TUNE_FILE=none
		exec "\$@"
	END
	chmod +x "$tmp/job"
	sizes 3 "$tmp/job"
	grep -q "tuning table of hosts" "$tmp/perf" || die "$(cat "$tmp/perf")"
}

test_foreign()
{
	make_table
	sed 's/"hosts": "[^"]*"/"hosts": "mars,venus"/' "$tmp/t.json" >"$tmp/f.json"
	TUTTI_TUNE_FILE=$tmp/f.json sizes 2
	grep -q "has no table of hosts .*, only of mars,venus; the defaults are used" \
		"$tmp/perf" || die "$(cat "$tmp/perf")"
}

# bad FILE: all ranks fail, soon
bad()
{
	TUTTI_TUNE_FILE=$1 timeout 20 ./tutti_run -n 2 ./tutti_perf barrier -n 1
}

# Every rank says what is wrong with the table that rank 0 cannot read, and blames no other rank.
test_all_told()
{
	for i in 1 2 3; do
		! TUTTI_TUNE_FILE=$tmp/part.json timeout 20 ./tutti_run -n 4 ./tutti_perf barrier \
			-n 1 >"$tmp/out" 2>&1 || die "$i: the job ran"
		told=$(grep -c 'cannot join.*TUTTI_TUNE_FILE: .*not a valid' "$tmp/out")
		[ "$told" = 4 ] || die "$i: $told of 4 ranks: $(cat "$tmp/out")"
		! grep -q 'is gone' "$tmp/out" || die "$i: $(cat "$tmp/out")"
	done
}

# Where it is looked for by itself, it may be missing, and a bad one is no more than a warning.
test_default()
{
	mkdir -p "$tmp/config/tutti"
	export XDG_CONFIG_HOME="$tmp/config"
	unset TUTTI_TUNE_FILE
	sizes 2
	! grep -q "tuning table" "$tmp/perf" || die "$(cat "$tmp/perf")"
	echo '{' >"$tmp/config/tutti/tune.json"
	sizes 2
	grep -q "tune.json: not a valid tuning table.*the defaults are used" "$tmp/perf" ||
		die "$(cat "$tmp/perf")"
	make_table
	cp "$tmp/t.json" "$tmp/config/tutti/tune.json"
	TUTTI_LOG=info sizes 3
	grep -q "tuning table of hosts" "$tmp/perf" || die "$(cat "$tmp/perf")"
}

# Nothing is written that was not asked for.
test_not_installed()
{
	mkdir "$tmp/clean"
	HOME="$tmp/clean" XDG_CONFIG_HOME= ./tutti_run -n 2 ./tutti_tune --links -t 0.001 \
		>"$tmp/out" 2>&1 || die "$(cat "$tmp/out")"
	grep -q "not saved" "$tmp/out" || die "$(cat "$tmp/out")"
	for command in ./tutti_tune "./tutti_tune --install" \
		"./tutti_run -n 1 ./tutti_tune --install" \
		"./tutti_tune -o $tmp/clean/one.json"; do
		HOME="$tmp/clean" XDG_CONFIG_HOME= says "one rank is not enough" $command
	done
	[ -z "$(find "$tmp/clean" -type f)" ] || die "written: $(find "$tmp/clean" -type f)"
}

# Without a folder for settings there soon is one.
test_new_home()
{
	HOME="$tmp/new" XDG_CONFIG_HOME= ./tutti_run -n 2 ./tutti_tune --install --links -t 0.001 \
		>"$tmp/out" 2>&1 || die "$(cat "$tmp/out")"
	[ -s "$tmp/new/.config/tutti/tune.json" ] || die "there is no table in the new home"
}

# The reason why there can be no folder is said.
test_read_only_home()
{
	: >"$tmp/file"
	unset XDG_CONFIG_HOME
	HOME=$tmp/file says "cannot make the directory $tmp/file/.config: Not a dir" \
		./tutti_run -n 2 ./tutti_tune --install --links -t 0.001
	unshare -rm true 2>/dev/null || skip "no mount namespaces here"
	mkdir "$tmp/fixed"
	# shellcheck disable=SC2016
	HOME=$tmp/fixed says "cannot make the directory $tmp/fixed/.config: Read-only file" \
		unshare -rm sh -c 'mount -t tmpfs -o ro none "$HOME" && exec "$@"' sh \
		./tutti_run -n 2 ./tutti_tune --install --links -t 0.001
}

echo '{"tutti_tune": 1, "tables": [' >"$tmp/part.json"
run made test_made
run merged test_merged
run unwritten test_unwritten
run rank0 test_rank0
run foreign test_foreign
run missing says "cannot read the tuning table /nowhere/t.json" bad /nowhere/t.json
run part says "not a valid tuning table" bad "$tmp/part.json"
run all_told test_all_told
run default test_default
run not_installed test_not_installed
run new_home test_new_home
run read_only_home test_read_only_home
run not_ours says "not a valid tuning table" ./tutti_run -n 2 ./tutti_tune -o "$TT_SRC/LICENSE" \
	--links -t 0.001
run nowhere says "cannot write /nowhere/t.json: No such file" ./tutti_run -n 2 ./tutti_tune \
	-o /nowhere/t.json --links
# explained TEXT ARGUMENT...: tutti_explain says so
explained()
{
	text=$1
	shift
	./tutti_explain "$@" >"$tmp/out" || exit 1
	grep -q "$text" "$tmp/out" || die "$(cat "$tmp/out")"
}

# The bytes of the cache are measured, shown, and used by jobs of any number of ranks, unless
# TUTTI_CACHE is set. A table without them changes nothing.
test_cache()
{
	make_table
	grep -q 'in the cache (.* as described)' "$tmp/tune" || die "$(cat "$tmp/tune")"
	grep -q '"cache_bytes": [1-9]' "$tmp/t.json" || die "$(cat "$tmp/t.json")"
	sed 's/"cache_bytes": [0-9]*/"cache_bytes": 7340032/' "$tmp/t.json" >"$tmp/c.json"
	explained 'than 7.0 MiB .*(as tutti_tune has measured)' -T "$tmp/c.json" -n 1
	TUTTI_CACHE=3M explained 'than 3.0 MiB .*(by TUTTI_CACHE)' -T "$tmp/c.json"
	TUTTI_TUNE_FILE=$tmp/c.json TUTTI_LOG=info sizes 1
	grep -q 'finds up to 7340032 bytes in the cache' "$tmp/perf" || die "$(cat "$tmp/perf")"
	TUTTI_TUNE_FILE=$tmp/c.json TUTTI_LOG=info TUTTI_CACHE=3M sizes 2
	[ "$(grep -c 'finds up to 3145728 bytes' "$tmp/perf")" = 2 ] || die "$(cat "$tmp/perf")"
	tr -d '\n' <"$tmp/t.json" | sed 's/, *"cache_bytes": [0-9]*//' >"$tmp/old.json"
	explained '(as the kernel describes the caches)' -T "$tmp/old.json"
	TUTTI_TUNE_FILE=$tmp/old.json TUTTI_LOG=info sizes 2
	! grep -q 'bytes in the cache' "$tmp/perf" || die "$(cat "$tmp/perf")"
}

# A table of one rank, as a version before could leave, says nothing of messages.
test_one_rank()
{
	make_table
	sed 's/"ranks": 3/"ranks": 1/' "$tmp/t.json" >"$tmp/one.json"
	./tutti_explain -T "$tmp/one.json" | grep -q "by the defaults" ||
		die "$(./tutti_explain -T "$tmp/one.json")"
	TUTTI_TUNE_FILE="$tmp/one.json" sizes 1
}

run one_rank test_one_rank
run cache test_cache
run explain_part says "not a valid tuning table" ./tutti_explain -T "$tmp/part.json"
run explain_coll says "did you mean allreduce?" ./tutti_explain alreduce
run explain_root says "not a rank of 4 (0 to 3)" ./tutti_explain bcast -n 4 -r 4
run tune_option says "did you mean --links?" ./tutti_tune --lnks
# Every option with a number: too small, too large, not one.
test_numbers()
{
	names_range ./tutti_tune <<-END
		-e | from 64 to 17179869184 | 63 17G 99999999999999999999 x
		-f | from 1.1 to 1000 | 1 1001 1e308 nan x
		-t | from 0.001 to 60 | 0 61 1e308 x
	END
}

run tune_numbers test_numbers
run tune_two_places says "give one of them" ./tutti_tune --install -o "$tmp/x.json"
run tune_list says "names of collectives" ./tutti_tune -c alreduce
finish
