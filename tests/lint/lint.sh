#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Rules about the tree that no compiler checks.
only=$*
. "${TT_SRC:-$(dirname "$0")/../..}/tests/sh.inc"
suite lint
cd "$TT_SRC" || exit 1

# Who may include whom: the table in doc/ARCHITECTURE.md, one line a folder: its name, then what it
# may include besides itself, config.h, the public headers and lib/base (not the last if the first
# word is "public").
include_rules()
{
	awk '
		# add FOLDER ITEM: a path, or "FOLDER and what it may include"
		function add(to, item, depth,    n, of, i) {
			if (item == "nothing more")
				return
			if (item == "the public headers only")
				item = "public"
			if (!sub(/ and what it may include$/, "", item)) {
				rule[to] = rule[to] " " item
				return
			}
			rule[to] = rule[to] " " item
			n = split(items[item], of, / *, */)
			for (i = 1; i <= n && depth < 10; i++)
				add(to, of[i], depth + 1)
		}
		/^[|] folder [|] may include [|]$/ { table = 1; next }
		table && !/^[|]/ { exit }
		table && !/^[|]-/ {
			gsub(/^[|] *| *[|]$/, "")
			split($0, cell, / *[|] */)
			n = split(cell[1], of, / *, */)
			for (i = 1; i <= n; i++) {
				order[++folders] = of[i]
				items[of[i]] = cell[2]
			}
		}
		END {
			for (i = 1; i <= folders; i++) {
				n = split(items[order[i]], of, / *, */)
				for (k = 1; k <= n; k++)
					add(order[i], of[k], 0)
				print order[i] rule[order[i]]
			}
		}' doc/ARCHITECTURE.md
}

sources()
{
	find lib transports train mpi tools perf examples man -name '*.[ch]' -o -name '*.def'
}

# included FILE: what it includes in quotes
included()
{
	sed -n 's/^#[[:space:]]*include[[:space:]]*"\([^"]*\)".*/\1/p' "$1"
}

# allowed FOLDER WHAT RULE...
allowed()
{
	folder=$1 what=$2
	shift 2
	case $what in
	config.h | "$folder"/* | "$folder".h) return 0 ;;
	lib/base/*) [ "${1:-}" != public ] && return 0 ;;
	esac
	for may in "$@"; do
		case $what in
		"$may" | "$may"/*) return 0 ;;
		esac
	done
	return 1
}

# rule_of FILE: the line of the longest name that is the file's folder, or the file without its
# ending
rule_of()
{
	awk -v file="$1" '
		index(file, $1 "/") == 1 || index(file, $1 ".") == 1 {
			if (length($1) > length(name)) {
				name = $1
				line = $0
			}
		}
		END { print line }' "$tmp/rules"
}

# What the table names exists.
test_include_table()
{
	include_rules >"$tmp/rules"
	[ "$(wc -l <"$tmp/rules")" -gt 10 ] ||
		die "doc/ARCHITECTURE.md has no table of includes: $(cat "$tmp/rules")"
	bad=0
	for what in $(cat "$tmp/rules"); do
		[ "$what" = public ] || [ -e "$what" ] || [ -e "$what.c" ] ||
			{ echo \
			"doc/ARCHITECTURE.md: the table of includes names $what, which does not exist"; bad=1; }
	done
	return $bad
}

test_includes()
{
	bad=0
	include_rules >"$tmp/rules"
	for file in $(sources); do
		rule=$(rule_of "$file")
		own=${rule%% *}
		[ -n "$rule" ] ||
			{ echo "$file: its folder is not in the table of doc/ARCHITECTURE.md"; \
			bad=1; continue; }
		rule=${rule#"$own"}
		[ "$own" != transports ] || own=$(echo "$file" | cut -d/ -f1,2)
		for what in $(included "$file"); do
			# shellcheck disable=SC2086
			allowed "$own" "$what" $rule ||
				{ echo "$file includes $what; $own may include:$rule"; bad=1; }
		done
	done
	return $bad
}

test_transports_listed()
{
	bad=0
	for dir in transports/*; do
		name=$(basename "$dir")
		grep -qx "include transports/$name/local.mk" Makefile.am ||
			{ echo "$dir is not in Makefile.am"; bad=1; }
		grep -q "transports/$name/.*\.c" "transports/$name/local.mk" ||
			{ echo "$dir/local.mk builds nothing"; bad=1; }
		[ "$name" = fault ] ||
			grep -q "^TT_TRANSPORT(tt_${name}_tp)" lib/wire/transports.def ||
			{ echo "$dir is not in lib/wire/transports.def"; bad=1; }
	done
	return $bad
}

# mapped LIBRARY: the functions of its map
mapped()
{
	sed -n '/global:/,/local:/s/^[[:space:]]*\([a-z0-9_]*\);.*/\1/p' "$1.map" | sort
}

# declared HEADER: functions of a public header and those it includes, function types left out
declared()
{
	echo "#include <tutti/$1>" | cc -E -P -Iinclude -xc - | grep -v '^#' | tr '\n' ' ' |
		tr ';{' '\n\n' | grep -v typedef | grep -o '\<tutti_[a-z0-9_]* *(' | tr -d ' (' |
		sort -u
}

# Each public header is part of tutti.h, or of train.h, which is libtutti_train's.
test_public_headers()
{
	printf '#include <tutti/tutti.h>\n#include <tutti/train.h>\n' |
		cc -M -Iinclude -xc - | tr ' ' '\n' |
		sed -n 's,^include/tutti/,,p' | sort >"$tmp/part"
	ls include/tutti | diff "$tmp/part" - ||
		die "headers that neither tutti.h nor train.h includes (>)"
	! cc -M -Iinclude -xc include/tutti/tutti.h | grep -q tutti/train.h ||
		die "tutti.h includes train.h"
}

# symbols LIBRARY DECLARED: map, declarations and the built library have the same functions
symbols()
{
	mapped "$1" >"$tmp/mapped"
	diff "$tmp/mapped" "$2" || die "$1.map (<) and the public headers (>) differ"
	so=$TT_BUILD/.libs/$1.so
	[ -f "$so" ] || skip "there is no shared library"
	nm -D --defined-only "$so" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' |
		sort >"$tmp/exported"
	diff "$tmp/mapped" "$tmp/exported" ||
		die "$1.map (<) and $1.so's symbols (>) differ"
}

test_symbols()
{
	declared tutti.h >"$tmp/declared"
	symbols libtutti "$tmp/declared"
}

test_train_symbols()
{
	declared tutti.h >"$tmp/below"
	declared train.h | comm -23 - "$tmp/below" >"$tmp/declared"
	symbols libtutti_train "$tmp/declared"
}

# Libraries of transports are loaded when a transport is opened: their constructors take 200 ms.
test_needed()
{
	so=$TT_BUILD/.libs/libtutti.so
	[ -f "$so" ] || skip "there is no shared library"
	readelf -d "$so" >"$tmp/dynamic"
	! grep -E 'NEEDED.*lib(fabric|ibverbs|rdmacm)' "$tmp/dynamic" ||
		die "libtutti.so is linked with it"
}

test_man_functions()
{
	bad=0
	for symbol in $(mapped libtutti) $(mapped libtutti_train); do
		[ -f "man/$symbol.3" ] || { echo "no man/$symbol.3"; bad=1; }
	done
	return $bad
}

test_man_programs()
{
	bad=0
	for program in $(make -s -C "$TT_BUILD" print-programs); do
		[ -f "man/$(basename "$program").1" ] ||
			{ echo "no man/$(basename "$program").1"; bad=1; }
	done
	return $bad
}

test_man_lint()
{
	command -v mandoc >/dev/null || skip "mandoc is missing"
	bad=0
	for page in man/*.[1-9] "$TT_BUILD"/man/tutti_env.7; do
		[ -f "$page" ] || continue
		alias=$(sed -n '1,2s/^\.so *//p' "$page")
		if [ -n "$alias" ]; then
			[ -f "man/$(basename "$alias")" ] ||
				{ echo "$page: .so $alias is not there"; bad=1; }
		else
			mandoc -T lint -W warning "$page" || bad=1
		fi
	done
	# groff takes a name that is also a macro's for the macro, and drops the whole reference.
	callable='An|Ar|As|At|Em|Es|Fa|Fl|In|It|Li|Lk|Ms|Mt|No|Op|Pa|St|Ta|Va'
	! grep -nE "^\.%[A-Z] (.* )?($callable)( |$)" man/*.[1-9] ||
		die "write \\& before that word"
	return $bad
}

test_man_listed()
{
	cat man/*.mk | tr -s ' \t\\' '\n' | sort >"$tmp/listed"
	ls man/*.[1-9] | sort | comm -23 - "$tmp/listed" >"$tmp/unlisted"
	[ ! -s "$tmp/unlisted" ] || die "not in man/*.mk: $(cat "$tmp/unlisted")"
}

# Files that belong to the project.
ours()
{
	git ls-files --cached --others --exclude-standard 2>/dev/null
}

test_spdx()
{
	[ -n "$(ours)" ] || skip "not a git tree, or git is missing"
	for file in $(ours); do
		case $file in
		LICENSE | NEWS | AUTHORS | *.md | .gitignore | *.gz | *.bin | *.csv | \
			tests/fuzz/corpus/* | debian/changelog | debian/source/format) continue ;;
		esac
		[ ! -f "$file" ] || echo "$file"
	done >"$tmp/files"
	xargs awk 'FNR == 1 { without[FILENAME] }
		/SPDX-License-Identifier: BSD-3-Clause|^\.so / { delete without[FILENAME] }
		FNR == 5 { nextfile }
		END { for (f in without) { print f " has no SPDX line"; bad = 1 } exit bad }' \
		<"$tmp/files"
}

test_leftovers()
{
	[ -n "$(ours)" ] || skip "not a git tree, or git is missing"
	! grep -nIE '\<(TO[D]O|FIX[M]E|XX[X])\>' $(ours) || die "unfinished things are in the tree"
	! grep -nIE '(^|[^[:alnum:]_.$}/-])/(wor[k]|hom[e]|User[s])/' $(ours) ||
		die "paths of one machine are in the tree"
}

# Public structs that may grow begin with their size; those named here keep theirs.
test_struct_sizes()
{
	awk -v kept=" unique_id failed status edge int32_index int64_index float32_index float64_index pipeline_step " '
		/^struct tutti_[a-z0-9_]* {$/ {
			name = substr($2, 7)
			getline
			if (index(kept, " " name " ") == 0 && $0 !~ /^\tsize_t size;/)
				print FILENAME ": struct tutti_" name " has no size in front"
		}' include/tutti/*.h >"$tmp/sizes"
	cat "$tmp/sizes"
	[ ! -s "$tmp/sizes" ]
}

test_lists()
{
	# Every test of these folders is run by something, every .mk file included.
	bad=0
	find . -path ./build -prune -o -name '*.mk' -exec cat {} + >"$tmp/all.mk"
	cat Makefile.am >>"$tmp/all.mk"
	for mk in $(find lib transports train mpi tools perf examples man doc tests \
		-name '*.mk'); do
		grep -qx "include $mk" "$tmp/all.mk" ||
			{ echo "$mk is included nowhere"; bad=1; }
	done
	tests=$(make -s -C "$TT_BUILD" print-tests)
	for t in tests/*/test_*.c tests/mp/*/test_*.c; do
		grep -q '^int main(' "$t" || continue
		case " $tests " in *" ${t%.c} "*) continue ;; esac
		# Long ones, in make soak only.
		grep -q "^	.* ${t%.c}\( \|$\)" tests/local.mk ||
			{ echo "$t is run neither by check nor by soak"; bad=1; }
	done
	return $bad
}

# tests/ci.sh names tests that exist.
test_ci_names()
{
	make -s -C "$TT_BUILD" print-tests | grep -q tests/unit/ || skip "CUnit is missing"
	grep -q '^#define HAVE_OFI' "$TT_BUILD/config.h" || skip "libfabric is missing"
	TT_BUILD="$TT_BUILD" sh tests/ci.sh names
}

# documented: collective and name of each algorithm in the tables of doc/ALGORITHMS.md
documented()
{
	sed -n '/^## The algorithms/,/^## Choice/p' doc/ALGORITHMS.md | awk -F ' *[|] *' '
		BEGIN {
			split("all-reduce ALLREDUCE broadcast BCAST barrier BARRIER " \
				"reduce REDUCE scan SCAN exscan EXSCAN all-gather ALLGATHER " \
				"reduce-scatter REDUCE_SCATTER_BLOCK gather GATHER " \
				"scatter SCATTER all-to-all ALLTOALL " \
				"all-to-allv ALLTOALLV gatherv GATHERV " \
				"scatterv SCATTERV", names, " ")
			for (i = 1; i in names; i += 2)
				coll[names[i]] = names[i + 1]
		}
		!/^[|]/ || $2 == "collective" || $3 ~ /^-*$/ { next }
		$2 != "" { text = $2; gsub(/ [(]block, v[)]/, "+v", text)
			sub(/ [(]block[)]/, "", text) }
		{
			n = split(text, of, ", ")
			for (i = 1; i <= n; i++) {
				v = sub(/[+]v$/, "", of[i])
				print coll[of[i]], $3
				if (!v)
					continue
				v = of[i] == "reduce-scatter" ? "REDUCE_SCATTER" : coll[of[i]] "V"
				print v, $3
			}
		}' | grep -v single | sort
}

test_algorithms()
{
	documented >"$tmp/documented"
	sed -n 's/^TT_ALG(\([A-Z_]*\), "\([a-z_]*\)".*/\1 \2/p' lib/coll/algs.def |
		grep -v single | sort >"$tmp/algs"
	[ -s "$tmp/algs" ] || die "lib/coll/algs.def cannot be read"
	diff "$tmp/algs" "$tmp/documented" ||
		die "lib/coll/algs.def (<) and the tables of doc/ALGORITHMS.md (>) differ"
}

# taken_sizes: the lengths of mpi/settings.c as rows of tutti_mpi(7): collective, MPICH, Open MPI;
# "none" of one that is not taken.
taken_sizes()
{
	awk '
		function size(n)
		{
			return n && n % 1024 == 0 ? n / 1024 "K" : n
		}
		# put MPI NAME FROM TO, in the array that this line is of
		function put(mpi, name, from, to)
		{
			names[name] = 1
			if (gaps)
				cut[mpi name] = from " " to
			else
				span[mpi name] = from " " to
		}
		function text(mpi, name,    s, g)
		{
			split(span[mpi name], s)
			if (s[1] == "NONE")
				return "none"
			s[2] = s[2] == "ALL" ? "" : size(s[2])
			if (!(mpi name in cut))
				return size(s[1]) "-" s[2]
			split(cut[mpi name], g)
			return size(s[1]) "-" size(g[1]) ", " size(g[2]) "-" s[2]
		}
		/^static const struct tm_range (defaults|gaps)/ {
			on = 1
			gaps = /gaps/
			mpi = gaps ? "mpich" : "both"
		}
		/^};/ { on = 0 }
		on && /^#ifdef OPEN_MPI/ { mpi = "open" }
		on && /^#else/ { mpi = "mpich" }
		on && /^#endif/ { mpi = "both" }
		on {
			while (match($0, /\[TM_[A-Z_]*\] = ([{][^}]*[}]|NONE)/)) {
				one = substr($0, RSTART, RLENGTH)
				$0 = substr($0, RSTART + RLENGTH)
				gsub(/[^A-Z0-9_]/, " ", one)
				n = split(one, w)
				name = tolower(substr(w[1], 4))
				if (mpi != "open")
					put("mpich", name, w[2], w[3])
				if (mpi != "mpich")
					put("open", name, w[2], w[3])
			}
		}
		END {
			for (name in names) {
				row = text("mpich", name) "; " text("open", name)
				if (row != "0-; 0-")
					print name "; " row
			}
		}' mpi/settings.c | sort
}

# The table of tutti_mpi(7) and the collectives that it says are not taken.
test_mpi_table()
{
	taken_sizes >"$tmp/taken"
	sed -n 's/^\.It \([a-z_]*\) Ta \(.*\) Ta \(.*\)/\1; \2; \3/p' man/tutti_mpi.7 >"$tmp/rows"
	sed -n 's/^has them: \(.*\), and what the table.*/\1/p' man/tutti_mpi.7 |
		sed 's/ and /, /g; s/MPI_//g' | tr -d ' ' | tr ',A-Z' '\na-z' |
		sed 's/$/; none; none/' >>"$tmp/rows"
	[ "$(wc -l <"$tmp/taken")" -gt 5 ] || die "mpi/settings.c cannot be read"
	sort "$tmp/rows" | diff "$tmp/taken" - ||
		die "mpi/settings.c (<) and tutti_mpi(7) (>) differ in what is taken"
}

# numbered ENUM PREFIX FILE: its members but for the count at the end, as "number name"
numbered()
{
	sed -n "/^enum $1 {/,/^}/s/^	$2\\([A-Z_]*\\).*/\\1/p" "$3" | grep -v '^TYPES$' |
		awk '{ print NR, $0 }'
}

# doc/WIRE.md has every frame and every control message, with its number.
test_wire_types()
{
	numbered tt_frame TT_F_ lib/boot/control/control.h >"$tmp/frames"
	numbered tt_ctl_type TT_CTL_ lib/boot/boot.h >"$tmp/messages"
	[ -s "$tmp/frames" ] && [ -s "$tmp/messages" ] || die "lib/boot cannot be read"
	bad=0
	while read -r type; do
		grep -q "^| $type |" doc/WIRE.md ||
			{ echo "doc/WIRE.md has no frame $type"; bad=1; }
	done <"$tmp/frames"
	while read -r type; do
		grep -qE "\\*\\*([0-9]+ [A-Z_]+, )*$type[,*]" doc/WIRE.md ||
			{ echo "doc/WIRE.md has no message $type"; bad=1; }
	done <"$tmp/messages"
	return $bad
}

for t in include_table includes transports_listed public_headers symbols train_symbols \
	needed man_functions man_programs man_lint man_listed spdx leftovers struct_sizes \
	lists ci_names algorithms mpi_table wire_types; do
	run $t test_$t
done
finish
