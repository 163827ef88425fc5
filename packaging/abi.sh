#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The binary interface of libtutti beside its description in the tree: what was removed or changed
# fails, what was added does not. "update" writes the description.
only=$*
. "${TT_SRC:-.}/tests/sh.inc"
suite abi
lib=$TT_BUILD/.libs/libtutti.so
description=$TT_SRC/packaging/libtutti.abi

# describe FILE
describe()
{
	abidw --exported-interfaces-only --no-elf-needed --headers-dir "$TT_SRC/include" \
		--no-corpus-path --no-comp-dir-path --no-show-locs \
		--drop-private-types --type-id-style hash "$lib" >"$tmp/description" || return
	sed '1a<!-- SPDX-License-Identifier: BSD-3-Clause -->' "$tmp/description" >"$1"
}

# Structs that callers see whole. Those that begin with their size may grow (mp/comm/test_structs
# guards their members), and those without members in a public header are the library's own.
fixed_structs()
{
	cat "$TT_SRC"/include/tutti/*.h | awk '/^struct tutti_[a-z_]* \{$/ { name = $2; next }
		name && !/^\t *(\/\*|\*)/ { if (!/^\tsize_t size;/) print name; name = "" }' |
		paste -sd '|'
}

# compare OLD NEW: fails, with what abidiff says, for removals and changes
compare()
{
	sed 2d "$1" >"$tmp/old" # abidiff does not bear the comment
	sed 2d "$2" >"$tmp/new"
	printf '[suppress_type]\n  type_kind = struct\n  name_not_regexp = ^(%s)$\n' \
		"$(fixed_structs)" >"$tmp/suppressions"
	abidiff --no-added-syms --suppressions "$tmp/suppressions" \
		"$tmp/old" "$tmp/new" >"$tmp/report" 2>&1 ||
		die "status $?: $(cat "$tmp/report")
(intended? make abi-update, and the library's version in Makefile.am)"
}

test_unchanged()
{
	compare "$description" "$tmp/now"
}

# A call less, another value and another size of a fixed struct are noticed. A call more and another
# member of a struct that may grow are not.
test_notices()
{
	sed "/elf-symbol name='tutti_barrier'/d
		/function-decl name='tutti_barrier'/,/<.function-decl/d" \
		"$description" >"$tmp/fewer"
	compare "$tmp/fewer" "$tmp/now"
	sed "s/name='nranks'/name='other'/" "$description" >"$tmp/grown"
	! cmp -s "$tmp/grown" "$description" || die "no member nranks in the description"
	compare "$tmp/grown" "$tmp/now"
	sed "/class-decl name='tutti_unique_id'/s/'1536'/'1024'/" "$description" >"$tmp/size"
	! cmp -s "$tmp/size" "$description" || die "no tutti_unique_id in the description"
	! (compare "$tmp/size" "$tmp/now") >"$tmp/out" 2>&1 || die "a changed size is not noticed"
	sed "s/tutti_ibarrier'/tutti_gone'/g" "$description" >"$tmp/gone"
	! (compare "$tmp/gone" "$tmp/now") >"$tmp/out" 2>&1 || die "a removed call is not noticed"
	grep -q 'tutti_gone' "$tmp/out" || die "$(cat "$tmp/out")"
	sed "s/'TUTTI_SUM' value='[0-9]*'/'TUTTI_SUM' value='77'/" "$description" >"$tmp/value"
	! cmp -s "$tmp/value" "$description" || die "no TUTTI_SUM in the description"
	! (compare "$tmp/value" "$tmp/now") >"$tmp/out" 2>&1 || die "a changed value is not noticed"
}

command -v abidw >/dev/null || skip_all "abidw is missing (package abigail-tools)"
grep -q '^TT_CFLAGS.*-fsanitize' "$TT_BUILD/Makefile" && skip_all "not of a library with sanitizers"
[ -e "$lib" ] || skip_all "there is no shared library"
readelf -S "$lib" | grep -q '\.debug_info' || skip_all "the library has no debugging information"
if [ "$*" = update ]; then
	describe "$description"
	exit
fi
describe "$tmp/now" || skip_all "abidw cannot read the library"
run unchanged test_unchanged
run notices test_notices
finish
