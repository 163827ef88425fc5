#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Every display in an EXAMPLES section of a man page of section 3, and every one in C of section 7,
# is a source file of plain C11 that compiles by itself without a warning: what it needs beyond C11
# it asks for itself (_POSIX_C_SOURCE). README.md shows examples/hello.c as it is.
only=$*
. "${TT_SRC:-$(dirname "$0")/../..}/tests/sh.inc"
suite man_examples
cd "$TT_SRC" || exit 1
cc=${CC:-gcc}

# displays PAGE DIRECTORY: the displays of its EXAMPLES section, unescaped, as 1.c, 2.c, ...
displays()
{
	awk -v dir="$2" '
		/^\.Sh / { inside = $2 == "EXAMPLES" }
		inside && /^\.Ed/ { close(file); file = "" }
		file != "" {
			gsub(/\\e/, "\\"); gsub(/\\-/, "-"); gsub(/\\&/, "")
			print > file
		}
		inside && /^\.Bd/ { file = dir "/" ++n ".c" }
	' "$1"
}

# compile PAGE MUST: MUST is 1 if the page has to have an example.
compile()
{
	dir=$tmp/$(basename "$1")
	bad=0 found=0
	mkdir -p "$dir"
	displays "$1" "$dir"
	for file in "$dir"/*.c; do
		[ -f "$file" ] && grep -q '#include' "$file" || continue
		found=1
		$cc -std=c11 -pedantic-errors -Wall -Wextra -Wno-unused-parameter -Werror \
			-fsyntax-only -Iinclude "$file" ||
			{ echo "$1: its example $(basename "$file" .c)"; bad=1; }
	done
	if [ "$2" = 1 ] && [ $found = 0 ] && ! grep -q '^See$' "$1"; then
		echo "$1 has no example"
		bad=1
	fi
	return $bad
}

for page in man/*.3 man/*.7; do
	grep -q '^\.so ' "$page" && continue
	case $page in
	*.3 | */tutti_errors.7) must=1 ;;
	*) must=0 ;;
	esac
	check()
	{
		command -v "${cc%% *}" >/dev/null || skip "there is no $cc"
		compile "$page" $must
	}
	run "$(basename "$page")" check
done

readme()
{
	sed -n '/^```c$/,/^```$/p' README.md | sed '1d;$d' >"$tmp/readme.c"
	sed 1,2d examples/hello.c | diff - "$tmp/readme.c" ||
		die "README.md (>) and examples/hello.c (<) differ"
}
run README.md readme

# The programs in examples, but for the one that needs MPI.
programs()
{
	command -v "${cc%% *}" >/dev/null || skip "there is no $cc"
	bad=0
	for file in examples/*.c; do
		[ "$file" != examples/mpi_unique_id.c ] || continue
		$cc -std=c11 -pedantic-errors -Wall -Wextra -Wno-unused-parameter -Werror \
			-DPKGDATADIR='"/"' -fsyntax-only -I. -Iinclude "$file" ||
			{ echo "$file is not plain C11"; bad=1; }
	done
	return $bad
}
run examples programs
finish
