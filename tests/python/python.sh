#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The Python package: its own tests in jobs of one to four ranks, its tutorial, a wheel.
only=$*
. "${TT_SRC:-$(dirname "$0")/../..}/tests/sh.inc"
suite python
unset TUTTI_RANK TUTTI_NRANKS

python=$(make -s -C "$TT_BUILD" print-python)
[ -n "$python" ] || skip_all "configured without Python"
"$python" -c 'import numpy' 2>/dev/null || skip_all "$python has no numpy (python3-numpy)"
"$python" -c 'import pytest' 2>/dev/null || skip_all "$python has no pytest (python3-pytest)"
[ -f "$TT_BUILD/.libs/libtutti.so" ] || skip_all "there is no shared library"
! grep -q '^TT_CFLAGS = .*-fsanitize' "$TT_BUILD/Makefile" ||
	skip_all "a sanitizer's library comes with the program"

PYTHONPATH=$TT_SRC/python LD_LIBRARY_PATH=$TT_BUILD/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
PYTHONDONTWRITEBYTECODE=1
export PYTHONPATH LD_LIBRARY_PATH PYTHONDONTWRITEBYTECODE TT_SRC

# pytests OPTION...: quiet, without a cache, to the first failure
pytests()
{
	timeout -k 10 300 "$python" -m pytest -x -q -p no:cacheprovider \
		--basetemp="$tmp/pytest" "$@"
}

test_alone()
{
	cd "$TT_SRC/tests/python" &&
		pytests test_abi.py test_buffers.py test_calls.py test_starts.py
}

# test_ranks N [VARIABLE=VALUE]: each rank runs the same tests
test_ranks()
{
	n=$1
	shift
	cd "$TT_SRC/tests/python" || die "there are no tests"
	env "$@" timeout -k 10 300 "$TT_BUILD/tutti_run" --tag-output -n "$n" "$python" -m pytest \
		-x -q -p no:cacheprovider test_codec.py test_collectives.py test_communicators.py \
		test_gossip.py test_graphs.py test_integers.py test_layouts.py test_messages.py \
		test_misuse.py test_ps.py test_train.py test_windows.py >"$tmp/ranks.$n" 2>&1 ||
		die "$(cat "$tmp/ranks.$n")"
	[ "$(grep -c '[0-9] passed' "$tmp/ranks.$n")" = "$n" ] || die "$(cat "$tmp/ranks.$n")"
}

test_tutorial()
{
	timeout -k 10 120 "$TT_BUILD/tutti_run" -n 3 "$python" "$TT_SRC/tests/python/tutorial.py" \
		"$TT_SRC/doc/PYTHON.md" >"$tmp/tutorial" 2>&1 || die "$(cat "$tmp/tutorial")"
	[ "$(grep -c '^[1-9][0-9]* blocks$' "$tmp/tutorial")" = 3 ] || die "$(cat "$tmp/tutorial")"
}

# A wheel is built without a network, and is what make install puts there.
test_wheel()
{
	for module in pip setuptools wheel; do
		"$python" -c "import $module" 2>/dev/null || skip "$python has no $module"
	done
	cp -R "$TT_SRC/python" "$tmp/wheel" && chmod -R u+w "$tmp/wheel"
	"$python" -m pip wheel -q --no-index --no-build-isolation --no-deps -w "$tmp/out" \
		"$tmp/wheel" || die "no wheel"
	"$python" -m pip install -q --no-index --no-deps --target "$tmp/target" "$tmp/out"/*.whl ||
		die "the wheel cannot be installed"
	(cd "$TT_SRC/python" && find tutti -name '*.py' -o -name py.typed) | sort >"$tmp/source"
	(cd "$tmp/target" && find tutti -name '*.py' -o -name py.typed) | sort >"$tmp/installed"
	diff "$tmp/source" "$tmp/installed" || die "the wheel (>) lacks files of the source (<)"
	PYTHONPATH=$tmp/target "$python" -c 'import tutti; print(tutti.__version__)' |
		grep '^[0-9]*\.' || die "the wheel's package does not load"
	grep "^version = \"$("$TT_BUILD/tutti_info" --version | cut -d ' ' -f 2)\"$" \
		"$TT_SRC/python/pyproject.toml" || die "pyproject.toml has another version"
}

# The installed package finds the library beside it, without a variable.
test_installed()
{
	make -C "$TT_BUILD" install DESTDIR="$tmp/stage" >"$tmp/install" 2>&1 ||
		die "$(tail "$tmp/install")"
	package=$(find "$tmp/stage" -name tutti -path '*python3*')
	[ -f "$package/__init__.py" ] || die "make install has not installed the package"
	libraries=$(dirname "$(find "$tmp/stage" -name libtutti.so.0)")
	case $package in
	"$libraries"/python3*) ;;
	*) skip "the package is not beside the library" ;;
	esac
	cd / && env -u LD_LIBRARY_PATH PYTHONPATH="$(dirname "$package")" "$python" -c \
		'import tutti; ctx = tutti.init(); ctx.world.Barrier(); ctx.finalize()' ||
		die "the installed package does not work"
}

# Without a library the error says what to do.
test_no_library()
{
	says "install libtutti" env -u LD_LIBRARY_PATH "$python" -c 'import tutti'
}

run alone test_alone
for n in 1 3; do
	run ranks_$n test_ranks $n
done
run ofi test_ranks 2 TUTTI_TRANSPORT=ofi
run ranks_4 test_ranks 4
run tutorial test_tutorial
run wheel test_wheel
run installed test_installed
run no_library test_no_library
finish
