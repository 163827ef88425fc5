#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The form and the language of the tree: columns, clang-format, base names, openings, pronouns,
# terms, error texts.
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

# C, prose and pages. Tables and pictures in Markdown cannot be wrapped.
test_columns()
{
	for file in $(tracked '*.[ch]' '*.md' '*.[1-9]'); do
		expand "$file" | LC_ALL=C.UTF-8 grep -nE '^.{101,}' | sed "s|^|$file:|"
	done | grep -vE '[.]md:[0-9]+:([|]|    )' | cut -c 1-120 | found "lines over 100 columns"
}

test_format()
{
	command -v clang-format >/dev/null || skip "clang-format is missing"
	clang-format --version | grep -q 'version 14' || skip "other versions than 14 format differently"
	tracked '*.[ch]' | xargs clang-format --dry-run 2>&1 | grep 'code should be clang-formatted' |
		cut -d : -f 1 | sort | uniq -c | found "files that clang-format changes"
}

test_basenames()
{
	tracked 'lib/*.[ch]' 'transports/*.[ch]' | xargs -n 1 basename | sort | uniq -d |
		found "base names that occur twice in lib/ and transports/"
}

prose="lib transports include man tools doc README.md CONTRIBUTING.md SECURITY.md"

# A sentence starts with what acts.
test_openings()
{
	grep -rnE '(^|[.:;*/"] +|[.*/"])(Who|Whoever|Whom|Whose|Of those|Of these|Where nobody|What is not) ' $prose \
		--include='*.[ch1-9]' --include='*.md' | found "sentences to turn round"
}

# Processes, ranks and servers are it; users are they or you.
test_pronouns()
{
	grep -rnwE '[Hh]e|[Hh]is|[Hh]im|[Ss]he|[Hh]er' $prose --include='*.[ch1-9]' --include='*.md' |
		found "gendered pronouns"
}

# tests/lint/terms: a regular expression, a tab, the term to use
test_terms()
{
	while IFS='	' read -r bad good; do
		case $bad in '' | '#'*) continue ;; esac
		grep -rnE "$bad" $prose --include='*.[ch1-9]' --include='*.md' | sed "s|\$| -> $good|"
	done <tests/lint/terms | cut -c 1-180 | found "terms of another name"
}

# what failed: why (numbers); what to do: lower case, no full stop
test_errors()
{
	tracked 'lib/*.c' 'transports/*.c' | xargs grep -nE 'tt_(fail|fail_rank|warn|log)[a-z_]*\(.*"[A-Z][a-z]+ |tt_fail[a-z_]*\(.*[a-z]\."' |
		found "error texts that start upper case or end in a full stop"
}

for t in columns format basenames openings pronouns terms errors; do
	run $t test_$t
done
finish
