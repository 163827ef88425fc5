# SPDX-License-Identifier: BSD-3-Clause
# For the tests written in shell: counting, and a place for files. Sourced after setting suite.
# Runs in the top build directory, as make check does.
top_srcdir=${srcdir:-$(dirname "$0")/../..}
passed=0
failed=0
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM

# check NAME COMMAND...: passes if the command does; shows what it said if not.
check() {
	check_name=$1
	shift
	if "$@" >"$tmp/check.out" 2>&1; then
		echo "ok $suite.$check_name"
		passed=$((passed + 1))
	else
		echo "FAIL $suite.$check_name: $*"
		tail -n 20 "$tmp/check.out" | sed 's/^/  /'
		failed=$((failed + 1))
	fi
}

# says TEXT COMMAND...: the command fails, and TEXT is in what it says.
says() {
	text=$1
	shift
	! "$@" >"$tmp/says.out" 2>&1 || { echo "succeeded: $*"; return 1; }
	grep -qF -e "$text" "$tmp/says.out" || { cat "$tmp/says.out"; return 1; }
}

skip_all() {
	echo "skip $suite: $*"
	echo "# $suite: 0 passed, 0 failed, 1 skipped"
	exit 77
}

finish() {
	echo "# $suite: $passed passed, $failed failed, 0 skipped"
	[ "$failed" = 0 ]
	exit
}
