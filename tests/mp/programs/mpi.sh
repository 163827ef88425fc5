#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# examples/mpi_unique_id.c, built and run with each MPI there is; and a program without MPI started
# by its mpirun.
only=$*
. "${TT_SRC:-.}/tests/sh.inc"
suite mpi

OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM
# Nothing of an outer launcher may be left.
unset TUTTI_RANK TUTTI_NRANKS TUTTI_STORE TUTTI_IF RANK WORLD_SIZE MASTER_ADDR

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

# Nothing says where rank 0 is: no process takes itself for a job of one.
not_alone() {
	! timeout 60 "mpirun.$1" $(more $1) -n 2 ./hello >"$tmp/out" 2>&1 ||
		die "succeeded: $(cat "$tmp/out")"
	grep -q 'this is rank [01] of 2 .*TUTTI_BOOT_DIR' "$tmp/out" || die "$(cat "$tmp/out")"
	! grep -q 'of 1' "$tmp/out" || die "$(cat "$tmp/out")"
	timeout 60 "mpirun.$1" -n 1 ./hello >"$tmp/out" 2>&1 &&
		grep -q 'rank 0 of 1' "$tmp/out" || die "$(cat "$tmp/out")"
}

# one_of FLAVOR SIZE SHELL: a job that fails if a rank of another, with another size, is in it
one_of() {
	# two mpirun of Open MPI that make one session folder at once can fail
	mkdir -p "$tmp/tmp.$2"
	TMPDIR=$tmp/tmp.$2 TUTTI_BOOT_DIR=$tmp/boot timeout 60 "mpirun.$1" $(more $1) -n 3 \
		$3 ./tutti_perf allreduce -b $2 -e $2 -n 3 >"$tmp/out.$2" 2>&1
}

# Jobs that start in one directory at the same time never mix.
concurrent() {
	mkdir -p "$tmp/boot"
	printf '#!/bin/sh\n"$@"\nexit $?\n' >"$tmp/indirect" &&
		chmod +x "$tmp/indirect" # a child of mpirun's child
	for _ in 1 2; do
		one_of $1 8 & a=$!
		one_of $1 64 & b=$!
		one_of $1 512 "$tmp/indirect" & c=$!
		for job in $a $b $c; do
			wait $job || die "$(cat "$tmp"/out.*)"
		done
		for size in 8 64 512; do
			grep -q "^ *$size " "$tmp/out.$size" || die "$(cat "$tmp/out.$size")"
		done
	done
	[ -z "$(ls "$tmp/boot")" ] || die "left: $(ls "$tmp/boot")"
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
	run "not_alone_$flavor" not_alone $flavor
	run "concurrent_$flavor" concurrent $flavor
done
[ "$found" ] || skip_all "neither mpicc.openmpi nor mpicc.mpich is installed"
finish
