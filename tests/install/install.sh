#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What a user gets: a staged installation, used through pkg-config, and removed again.
only=$*
. "${TT_SRC:-$(dirname "$0")/../..}/tests/sh.inc"
suite install
unset TUTTI_RANK TUTTI_NRANKS

prefix=$(sed -n 's/^prefix = //p' "$TT_BUILD/Makefile")
root=$tmp/stage$prefix
make -C "$TT_BUILD" install DESTDIR="$tmp/stage" >"$tmp/install.log" 2>&1 ||
	{ tail -n 20 "$tmp/install.log"; echo "FAIL install.stage"; failed=1; finish; }
sanitized=$(sed -n 's/^TT_CFLAGS = .*\(-fsanitize=[^ ]*\).*/\1/p' "$TT_BUILD/Makefile")

# pc OPTION...: pkg-config over the staged tree
pc()
{
	PKG_CONFIG_PATH=$root/lib/pkgconfig pkg-config --define-variable=prefix="$root" "$@" tutti
}

# The same of libtutti_train, whose package requires the other one.
pc_train()
{
	sed "s,^prefix=.*,prefix=$root," "$root/lib/pkgconfig/tutti.pc" >"$tmp/tutti.pc"
	sed "s,^prefix=.*,prefix=$root," "$root/lib/pkgconfig/tutti_train.pc" >"$tmp/tutti_train.pc"
	PKG_CONFIG_PATH=$tmp pkg-config "$@" tutti_train
}

test_headers()
{
	bad=0
	for h in "$root"/include/tutti/*.h; do
		name=tutti/$(basename "$h")
		echo "#include <$name>" >"$tmp/h.c"
		cp "$tmp/h.c" "$tmp/h.cc"
		cc -std=c11 -pedantic -Wall -Wextra -Werror -fsyntax-only -I"$root/include" \
			"$tmp/h.c" || bad=1
		c++ -std=c++11 -pedantic -Wall -Wextra -Werror -fsyntax-only -I"$root/include" \
			"$tmp/h.cc" || bad=1
	done
	[ -f "$root/include/tutti/tutti.h" ] || die "no tutti.h was installed"
	return $bad
}

# runs PROGRAM: as two ranks
runs()
{
	LD_LIBRARY_PATH=$root/lib timeout 60 "$root/bin/tutti_run" -n 2 "$1" >"$tmp/out" ||
		die "status $?"
	[ "$(sort "$tmp/out" | tr '\n' ,)" = "rank 0 of 2: sum 2,rank 1 of 2: sum 2," ] ||
		die "printed: $(cat "$tmp/out")"
}

test_shared()
{
	[ -f "$root/lib/libtutti.so" ] || skip "there is no shared library"
	cc -std=c11 -pedantic -Wall $sanitized $(pc --cflags) "$TT_SRC/tests/install/program.c" \
		-o "$tmp/shared" $(pc --libs) || die "does not link"
	runs "$tmp/shared"
}

test_cxx()
{
	[ -f "$root/lib/libtutti.so" ] || skip "there is no shared library"
	cp "$TT_SRC/tests/install/program.c" "$tmp/program.cc"
	c++ -std=c++11 -pedantic -Wall $sanitized $(pc --cflags) "$tmp/program.cc" -o "$tmp/cxx" \
		$(pc --libs) ||
		die "does not link"
	runs "$tmp/cxx"
}

test_static()
{
	[ -f "$root/lib/libtutti.a" ] || skip "there is no static library"
	mkdir "$tmp/static" && cp "$root/lib/libtutti.a" "$tmp/static"
	cc -std=c11 -pedantic -Wall $sanitized $(pc --cflags) "$TT_SRC/tests/install/program.c" \
		-o "$tmp/static/program" -L"$tmp/static" $(pc --static --libs) ||
		die "does not link"
	! ldd "$tmp/static/program" | grep libtutti || die "libtutti.so was linked all the same"
	runs "$tmp/static/program"
}

# libtutti_train's own package pulls in libtutti.
test_train()
{
	for flags in $(pc_train --cflags --libs); do
		case $flags in -ltutti_train | -ltutti) echo "$flags" ;; esac
	done >"$tmp/libs"
	[ "$(tr '\n' , <"$tmp/libs")" = "-ltutti_train,-ltutti," ] || die "links $(cat "$tmp/libs")"
	[ -f "$root/lib/libtutti_train.so" ] || skip "there is no shared library"
	cc -std=c11 -pedantic -Wall $sanitized $(pc_train --cflags) \
		"$TT_SRC/tests/install/train_program.c" -o "$tmp/train" $(pc_train --libs) ||
		die "does not link"
	LD_LIBRARY_PATH=$root/lib "$tmp/train" || die "status $?"
	[ -f "$root/lib/libtutti_train.a" ] || return 0
	mkdir -p "$tmp/static_train"
	cp "$root/lib/libtutti.a" "$root/lib/libtutti_train.a" "$tmp/static_train"
	cc -std=c11 -pedantic -Wall $sanitized $(pc_train --cflags) \
		"$TT_SRC/tests/install/train_program.c" -o "$tmp/static_train/program" \
		-L"$tmp/static_train" $(pc_train --static --libs) || die "does not link statically"
	"$tmp/static_train/program" || die "static: status $?"
}

test_programs()
{
	for program in $(make -C "$TT_BUILD" -s print-programs); do
		LD_LIBRARY_PATH=$root/lib "$root/bin/$program" --version | grep "^$program [0-9]" ||
			die "$program --version"
		LD_LIBRARY_PATH=$root/lib "$root/bin/$program" --help |
			grep "^usage: \(.* \)\?$program" ||
			die "$program --help"
		says "--version" env LD_LIBRARY_PATH="$root/lib" "$root/bin/$program" --versoin
	done
	LD_LIBRARY_PATH=$root/lib "$root/bin/tutti_info" >"$tmp/info" || die "tutti_info: status $?"
	[ "$(wc -l <"$tmp/info")" -le 40 ] || die "tutti_info prints $(wc -l <"$tmp/info") lines"
	for text in "^tutti [0-9]" "^host .* usable CPUs" "^  shm:shm *yes *memfd" \
		"^  on one host *shm, [0-9]* bytes per peer$" "^  between hosts  *[a-z]"; do
		grep -q "$text" "$tmp/info" ||
			die "tutti_info does not say $text: $(cat "$tmp/info")"
	done
	TUTTI_CHUNK=x TUTTI_TRANSPORT=ofi LD_LIBRARY_PATH=$root/lib "$root/bin/tutti_info" \
		>"$tmp/info"
	for text in "^  TUTTI_CHUNK  *x (environment, malformed" \
		"^  on one host .*not shm: not in TUTTI_TRANSPORT"; do
		grep -q "$text" "$tmp/info" ||
			die "tutti_info does not say $text: $(cat "$tmp/info")"
	done
	LD_LIBRARY_PATH=$root/lib "$root/bin/tutti_info" --config >"$tmp/info" ||
		die "tutti_info --config"
	grep -q "^  TUTTI_CHUNK$" "$tmp/info" && ! grep -q "^transport$" "$tmp/info" ||
		die "$(cat "$tmp/info")"
	LD_LIBRARY_PATH=$root/lib "$root/bin/tutti_info" --devices >"$tmp/info" ||
		die "tutti_info --devices"
	grep -q "^transport$" "$tmp/info" && ! grep -q "^variable$" "$tmp/info" ||
		die "$(cat "$tmp/info")"
	LD_LIBRARY_PATH=$root/lib "$root/bin/tutti_info" --json | grep -q '"TUTTI_CHUNK"' ||
		die "no JSON"
	! LD_LIBRARY_PATH=$root/lib "$root/bin/tutti_info" --jsn 2>"$tmp/err" ||
		die "--jsn was accepted"
	grep -q 'did you mean --json' "$tmp/err" || die "no nearest option: $(cat "$tmp/err")"
}

# A library that is missing, or not the right one, is named with its package, and only where it is
# needed.
test_missing_library()
{
	[ -f "$root/lib/libtutti.so" ] || skip "there is no shared library"
	grep -q '^#define HAVE_OFI' "$TT_BUILD/config.h" || skip "built without libfabric"
	[ -z "$sanitized" ] || skip "a sanitizer's library comes with the program"
	mkdir "$tmp/none" "$tmp/other"
	: >"$tmp/none/libfabric.so.1"
	cc -shared -o "$tmp/other/libfabric.so.1" -xc /dev/null -Wl,-soname,libfabric.so.1
	for kind in none other; do
		LD_LIBRARY_PATH=$tmp/$kind:$root/lib "$root/bin/tutti_info" >"$tmp/info" ||
			die "tutti_info: status $?"
		grep 'libfabric\.so\.1' "$tmp/info" | grep 'package libfabric1' ||
			die "tutti_info does not name the library and its package"
		! TUTTI_TRANSPORT=ofi LD_LIBRARY_PATH=$tmp/$kind:$root/lib timeout 60 \
			"$root/bin/tutti_run" -n 2 \
			"$tmp/shared" >"$tmp/out" 2>"$tmp/err" ||
			die "a job over ofi ran without libfabric"
		grep 'libfabric\.so\.1.*package libfabric1' "$tmp/err" ||
			die "the job said: $(cat "$tmp/err")"
		LD_LIBRARY_PATH=$tmp/$kind:$root/lib timeout 60 "$root/bin/tutti_run" -n 2 \
			"$tmp/shared" >"$tmp/out" ||
			die "a job on one host needs libfabric"
	done
}

# A project that says find_package(tutti), with the installation moved elsewhere.
test_cmake()
{
	command -v cmake >/dev/null || skip "there is no cmake"
	[ -f "$root/lib/libtutti.so" ] || skip "there is no shared library"
	[ -z "$sanitized" ] || skip "a sanitizer's library comes with the program"
	mkdir "$tmp/project"
	cp "$TT_SRC/tests/install/program.c" "$TT_SRC/tests/install/train_program.c" "$tmp/project"
	cat >"$tmp/project/CMakeLists.txt" <<-'END'
		cmake_minimum_required(VERSION 3.16)
		project(program C)
		find_package(tutti ${WANTED} REQUIRED)
		message(STATUS "tutti ${tutti_VERSION}")
		add_executable(program program.c)
		target_link_libraries(program tutti::tutti)
		add_executable(train_program train_program.c)
		target_link_libraries(train_program tutti::train)
	END
	version=$(sed -n 's/^VERSION = //p' "$TT_BUILD/Makefile")
	for wanted in "$version" "${version%.*}"; do
		cmake -S "$tmp/project" -B "$tmp/cmake" -DCMAKE_PREFIX_PATH="$root" \
			-DWANTED="$wanted" >"$tmp/out" 2>&1 || die "$(cat "$tmp/out")"
		grep -q "tutti $version" "$tmp/out" || die "$(cat "$tmp/out")"
	done
	cmake --build "$tmp/cmake" >"$tmp/out" 2>&1 || die "$(cat "$tmp/out")"
	runs "$tmp/cmake/program"
	for wanted in 99.0 "${version%.*}.99"; do
		! cmake -S "$tmp/project" -B "$tmp/other" -DCMAKE_PREFIX_PATH="$root" \
			-DWANTED="$wanted" >"$tmp/out" 2>&1 || die "version $wanted was found"
		grep -q "$wanted" "$tmp/out" || die "$(cat "$tmp/out")"
	done
}

# Demos are not in bin; the sources of the examples are among the documents.
test_examples()
{
	[ ! -e "$root/bin/train_digits" ] || die "train_digits is in bin"
	[ ! -x "$TT_BUILD/train_digits" ] || [ -x "$root/libexec/tutti/train_digits" ] ||
		die "train_digits is not in libexec"
	cmp "$TT_SRC/examples/hello.c" "$root/share/doc/tutti/examples/hello.c" || die "no hello.c"
}

test_uninstall()
{
	make -C "$TT_BUILD" uninstall DESTDIR="$tmp/stage" >"$tmp/uninstall.log" 2>&1 ||
		die "make uninstall failed"
	left=$(find "$tmp/stage" ! -type d)
	[ -z "$left" ] || die "left behind: $left"
}

for t in headers shared cxx static train programs missing_library cmake examples uninstall; do
	run $t test_$t
done
finish
