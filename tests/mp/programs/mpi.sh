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

# The command line that a user of MPI types, and no variable. hello prints a line a rank.
plain() {
	for n in 2 5; do
		timeout 60 "mpirun.$1" $(more $1) -n $n ./hello >"$tmp/out" 2>&1 ||
			die "status $?: $(cat "$tmp/out")"
		mean=$(awk -v n=$n 'BEGIN { print (n - 1) / 2 }')
		[ "$(grep -c "of $n: the average is $mean\$" "$tmp/out")" = $n ] ||
			die "$(cat "$tmp/out")"
	done
	# beyond loopback only a job with a secret starts
	address=$(hostname -I 2>/dev/null | cut -d ' ' -f 1)
	[ -z "$address" ] || TUTTI_IF=$address timeout 60 "mpirun.$1" $(more $1) -n 3 ./hello \
		>"$tmp/out" 2>&1 || die "status $?: $(cat "$tmp/out")"
}

# Open MPI's PMIx takes part in each start of a process, PMI-1 in one.
twice() {
	timeout 60 "mpirun.$1" $(more $1) -n 3 ./perf/first_call 0 2 >"$tmp/out" 2>&1
	status=$?
	n=$(grep -c '^first all-reduce of 3 ranks' "$tmp/out")
	if [ "$1" = openmpi ]; then
		[ $status = 0 ] && [ "$n" = 2 ] || die "status $status: $(cat "$tmp/out")"
	else
		[ $status != 0 ] && [ "$n" = 1 ] && grep -q 'tutti_init was called again' \
			"$tmp/out" || die "status $status: $(cat "$tmp/out")"
	fi
}

# A rank that does not come: the others say so in time.
missing() {
	# shellcheck disable=SC2016
	! TUTTI_INIT_TIMEOUT=2s timeout 60 "mpirun.$1" $(more $1) -n 3 sh -c \
		'[ "${PMI_RANK:-$OMPI_COMM_WORLD_RANK}" != 1 ] || exec sleep 30; exec ./hello' \
		>"$tmp/out" 2>&1 || die "succeeded: $(cat "$tmp/out")"
	grep -q 'rank [02] of 3 .*did not meet through the launcher within 2000ms' "$tmp/out" ||
		die "$(cat "$tmp/out")"
}

# An MPI library in the process speaks to the launcher itself: nothing else does.
beside_mpi() {
	lib=$(ldd "$tmp/$1" | sed -n 's/.*=> \(.*libmpi[^ ]*\) .*/\1/p' | head -n 1)
	[ -n "$lib" ] || die "no library of $1 in $(ldd "$tmp/$1")"
	! timeout 60 "mpirun.$1" $(more $1) -n 2 env LD_PRELOAD="$lib" ./hello >"$tmp/out" 2>&1 ||
		die "succeeded: $(cat "$tmp/out")"
	grep -q 'belongs to the MPI library in this process; give config.id' "$tmp/out" ||
		die "$(cat "$tmp/out")"
}

# Nothing says where rank 0 is: no process takes itself for a job of one.
not_alone() {
	for _ in 1 2 3; do # an MPICH that ends a failed job can lose all that its ranks have said
		! timeout 60 "mpirun.$1" $(more $1) -n 2 env -u PMI_FD -u PMIX_NAMESPACE ./hello \
			>"$tmp/out" 2>&1 ||
			die "succeeded: $(cat "$tmp/out")"
		! [ -s "$tmp/out" ] || break
	done
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
	run "plain_$flavor" plain $flavor
	run "twice_$flavor" twice $flavor
	run "missing_$flavor" missing $flavor
	run "beside_mpi_$flavor" beside_mpi $flavor
	run "not_alone_$flavor" not_alone $flavor
	run "concurrent_$flavor" concurrent $flavor
done
[ "$found" ] || skip_all "neither mpicc.openmpi nor mpicc.mpich is installed"
finish
