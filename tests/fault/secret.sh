#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A job's secret is on no command line, in no environment, in no file of /dev/shm and in nothing
# that is logged, whether tutti_run makes it or a file has it.
only=$*
. "${TT_SRC:-$(dirname "$0")/../..}/tests/sh.inc"
suite secret
cd "$TT_BUILD" || exit 1
[ -x tutti_run ] && [ -x tutti_perf ] || skip_all "tutti_run and tutti_perf were not built"

hex()
{
	od -An -v -tx1 "$@" | tr -d ' \n'
}

# clean HEX FILE...: none of the files has these bytes, nor their hexadecimal digits.
clean()
{
	secret=$1
	shift
	for file in "$@"; do
		[ -r "$file" ] || continue
		text=$(hex "$file" 2>/dev/null)
		digits=$(printf %s "$secret" | hex)
		case $text in
		*"$secret"* | *"$digits"*) die "the secret is in $file" ;;
		esac
	done
	return 0
}

# Of the processes of one job: its launcher and all that it started.
watched()
{
	for pid in $1 $(pgrep -P "$1"); do
		echo "/proc/$pid/cmdline /proc/$pid/environ"
	done
}

# job [VARIABLE=VALUE]: runs one that logs everything; its secret as a rank sees it is in $tmp/hex.
job()
{
	cat >"$tmp/rank" <<-'END'
		s=${TUTTI_SECRET_FILE:-/proc/self/fd/$TUTTI_SECRET_FD}
		[ "$TUTTI_RANK" != 0 ] || od -An -v -tx1 "$s" | tr -d ' \n' >"$1"
		sleep 0.3
		exec ./tutti_perf allreduce -b 8 -e 4K 2>&1
	END
	rm -f "$tmp/hex"
	env TUTTI_LOG=trace "$@" ./tutti_run -n 2 sh "$tmp/rank" "$tmp/hex" >"$tmp/log" 2>&1 &
	launcher=$!
	looks=0
	while kill -0 $launcher 2>/dev/null && [ $looks -lt 100 ]; do
		sleep 0.05
		looks=$((looks + 1))
		[ -s "$tmp/hex" ] || continue
		clean "$(cat "$tmp/hex")" $(watched $launcher)
	done
	wait $launcher
	[ "$(wc -c <"$tmp/hex")" -ge 32 ] || die "no secret was seen: $(cat "$tmp/log")"
	clean "$(cat "$tmp/hex")" "$tmp/log" $(find /dev/shm -type f -user "$(id -u)" 2>/dev/null)
	grep -q 'tutti\[0\]: debug' "$tmp/log" ||
		die "the job logged nothing: $(head -n 5 "$tmp/log")"
}

made() { job TUTTI_IF=lo; }

given()
{
	(umask 077 && echo "a secret of $$ that is long enough" >"$tmp/secret")
	job TUTTI_IF=lo TUTTI_SECRET_FD= TUTTI_SECRET_FILE="$tmp/secret"
}

# What this test looks for it would find.
seen()
{
	printf 'x%sy' "0123456789abcdef" >"$tmp/leak"
	(clean "$(printf 0123456789abcdef | hex)" "$tmp/leak") && die "bytes were not found"
	(clean 0123456789abcdef "$tmp/leak") && die "digits were not found"
	return 0
}

readable()
{
	echo "a secret that others can read" >"$tmp/open"
	chmod 644 "$tmp/open"
	says "can be read by others" env TUTTI_RANK=0 TUTTI_NRANKS=2 TUTTI_STORE=127.0.0.1:1 \
		TUTTI_SECRET_FILE="$tmp/open" ./tutti_perf allreduce -b 8 -e 8
}

run made made
run given given
run seen seen
run readable readable
finish
