#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# examples/mpi_unique_id.c, built and run with each MPI there is; and a program without MPI started by its mpirun.
. "${TT_SRC:-.}/tests/sh.inc"
suite mpi

OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM
# Nothing of an outer launcher may be left.
unset TUTTI_RANK TUTTI_NRANKS TUTTI_STORE RANK WORLD_SIZE

build() {
	"mpicc.$1" -I "$TT_SRC/include" "$TT_SRC/examples/mpi_unique_id.c" -o "$tmp/$1" \
		-L .libs -ltutti "-Wl,-rpath,$PWD/.libs"
}

more() {
	[ "$1" != openmpi ] || echo --oversubscribe
}

# Each rank must have found the sum of four ranks.
mpi_run() {
	flavor=$1
	shift
	timeout 60 "mpirun.$flavor" $(more $flavor) -n 4 "$tmp/$flavor" "$@" >"$tmp/out" 2>&1
	status=$?
	cat "$tmp/out"
	[ $status = 0 ] && [ "$(grep -c 'of 4: the sum is 10' "$tmp/out")" = 4 ]
}

# Programs without MPI, by its launchers.
directory() {
	mkdir -p "$tmp/boot"
	TUTTI_BOOT_DIR=$tmp/boot timeout 60 "mpirun.$1" $(more $1) -n 4 ./hello >"$tmp/out" 2>&1
	status=$?
	cat "$tmp/out"
	[ $status = 0 ] && [ "$(grep -c "of 4: the average is 1.5" "$tmp/out")" = 4 ]
}

grep -q '^TT_CFLAGS.*-fsanitize' Makefile && skip_all "MPI programs are not run under sanitizers"
[ -e .libs/libtutti.so ] || skip_all "there is no shared library"
for flavor in openmpi mpich; do
	command -v "mpicc.$flavor" >/dev/null && command -v "mpirun.$flavor" >/dev/null || continue
	found=1
	run "build_$flavor" build $flavor
	run "unique_id_$flavor" mpi_run $flavor
	run "allgather_$flavor" mpi_run $flavor allgather
	run "directory_$flavor" directory $flavor
done
[ "$found" ] || skip_all "neither mpicc.openmpi nor mpicc.mpich is installed"
finish
