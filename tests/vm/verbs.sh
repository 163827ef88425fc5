#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Transport verbs on real verbs: one boot of the guest (guest.sh), with two devices, that runs
# inside.sh, or with TUTTI_TEST_VERBS=device the devices of this machine.
: "${TT_SRC:=$(cd "$(dirname "$0")/../.." && pwd)}"
: "${TT_BUILD:=$(pwd)}"
export TT_SRC TT_BUILD
cd "$TT_BUILD" || exit 1

skip_all()
{
	echo "skip verbs: $*"
	echo "# verbs: 0 passed, 0 failed, 1 skipped"
	exit 77
}

[ -x tests/conform/conform_verbs ] || skip_all "the programs for it were not built"
[ "${TUTTI_TEST_VERBS:-guest}" != device ] || exec sh "$TT_SRC/tests/vm/inside.sh" "$@"
why=$(sh "$TT_SRC/tests/vm/guest.sh" --prepare 2>&1) || skip_all "$(echo "$why" | tail -n 1)"
sh "$TT_SRC/tests/vm/guest.sh" -d 2 -t 1200 -- sh "$TT_SRC/tests/vm/inside.sh" "$@"
