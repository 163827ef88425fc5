#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The form and the language of the tree: columns, clang-format, base names, openings, pronouns,
# terms, error texts, the length of the map.
only=$*
. "${TT_SRC:-$(dirname "$0")/../..}/tests/sh.inc"
suite language
cd "$TT_SRC" || exit 1
git rev-parse --git-dir >/dev/null 2>&1 || skip_all "not a git tree, or git is missing"

# tracked PATTERN...: files of the tree that match
tracked()
{
	git ls-files --cached --others --exclude-standard "$@"
}

# found WHAT: fails with the matches that standard input has
found()
{
	cat >"$tmp/found"
	[ -s "$tmp/found" ] || return 0
	head -n 40 "$tmp/found"
	die "$1"
}

# wide: lines over 100 columns of the files that standard input names
wide()
{
	LC_ALL=C xargs awk '{
		n = split($0, part, "\t")
		width = 0
		for (i = 1; i <= n; i++) {
			gsub(/[\200-\277]/, "", part[i])
			width += length(part[i])
			if (i < n)
				width += 8 - width % 8
		}
		if (width > 100)
			print FILENAME ":" FNR ":" $0
	}'
}

# scripts: files whose first line names sh or python
scripts()
{
	tracked | while read -r file; do
		[ -f "$file" ] && read -r first <"$file" || continue
		case $first in '#!'*sh* | '#!'*python*) echo "$file" ;; esac
	done 2>/dev/null
}

# Tables and pictures in Markdown, and long words and quoted texts in scripts, cannot be wrapped.
test_columns()
{
	tracked '*.[ch]' '*.md' '*.[1-9]' '*.def' NEWS | wide |
		grep -vE '[.]md:[0-9]+:([|]|    )' | cut -c 1-120 >"$tmp/wide"
	tracked '*.sh' '*.mk' '*.am' '*.ac' '*.py' '*.inc' '*.awk' '*.gp' \
		>"$tmp/scripts"
	scripts | sort -u - "$tmp/scripts" | wide |
		grep -vE "[	 =][\"'][^\"']{60,}|[^ :]{60,}" | cut -c 1-120 >>"$tmp/wide"
	found "lines over 100 columns" <"$tmp/wide"
}

test_format()
{
	command -v clang-format >/dev/null || skip "clang-format is missing"
	clang-format --version | grep -q 'version 14' ||
		skip "other versions than 14 format differently"
	tracked '*.[ch]' | xargs clang-format --dry-run 2>&1 |
		grep 'code should be clang-formatted' |
		cut -d : -f 1 | sort | uniq -c | found "files that clang-format changes"
}

test_basenames()
{
	tracked 'lib/*.[ch]' 'transports/*.[ch]' 'train/*.[ch]' | xargs -n 1 basename |
		sort | uniq -d |
		found "base names that occur twice in lib/, transports/ and train/"
}

# text PATTERN [OPTION]...: lines of code, pages and prose that match
text()
{
	pattern=$1
	shift
	grep -rnE "$@" -e "$pattern" lib transports train mpi include man tools perf examples \
		tests doc README.md CONTRIBUTING.md SECURITY.md \
		--include='*.[ch1-9]' --include='*.md'
}

# A sentence starts with its subject, not with a clause that stands for one.
test_openings()
{
	start='(^|[.:;*/"] +|[.*/"])'
	text "$start(Who|Whoever|Whom|Whose|Of (those|these|which)|Where nobody|What is not) " \
		>"$tmp/openings"
	text "$start(That which|Those (that|who)|(To|From|By|Of) whom|Wherever) " >>"$tmp/openings"
	# In comments, "What ..." stands for a noun.
	text '/[*][*]? ?What(ever)? |^[[:space:]]*[*] What(ever)? ' >>"$tmp/openings"
	found "sentences to turn round" <"$tmp/openings"
}

# Processes, ranks and servers are it; users are they or you.
test_pronouns()
{
	text '[Hh]e|[Hh]is|[Hh]im|[Ss]he|[Hh]er' -w | grep -v 'He et al' | found "gendered pronouns"
}

# A line of a comment has a space behind its star: without one, a sentence was cut there.
test_comments()
{
	tracked '*.[ch]' | xargs awk '
		FNR == 1 { inside = 0 }
		inside && /^[ \t]*[*][^ \t\/*]/ { print FILENAME ":" FNR ": " $0 }
		/^[ \t]*\/[*]/ { inside = 1 }
		/[*]\// { inside = 0 }' | found "broken lines of comments"
}

# tests/lint/terms: a regular expression, a tab, the term to use
test_terms()
{
	while IFS='	' read -r bad good; do
		case $bad in '' | '#'*) continue ;; esac
		text "$bad" | sed "s|\$| -> $good|"
	done <tests/lint/terms | cut -c 1-180 | found "terms of another name"
}

# what failed: why (numbers); what to do: lower case, no full stop
test_errors()
{
	tracked 'lib/*.c' 'transports/*.c' 'train/*.c' |
		xargs grep -nE -e 'tt_(train_)?(fail|fail_rank|warn|log)[a-z_]*\(.*"[A-Z][a-z]+ ' \
			-e 'tt_(train_)?fail[a-z_]*\(.*[a-z]\."' |
		found "error texts that start upper case or end in a full stop"
}

# The map must stay one that is read in one go; doc/INTERNALS.md has the depth.
test_map()
{
	lines=$(wc -l <doc/ARCHITECTURE.md)
	[ "$lines" -le 250 ] ||
		die "doc/ARCHITECTURE.md has $lines lines, more than 250: move details to doc/INTERNALS.md"
}

for t in columns format basenames openings pronouns comments terms errors map; do
	run $t test_$t
done
finish
