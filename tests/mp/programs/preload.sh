#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The libraries of tutti_mpi(7) under programs of each MPI there is.
only=$*
. "${TT_SRC:-.}/tests/sh.inc"
suite preload

OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM
unset TUTTI_RANK TUTTI_NRANKS TUTTI_STORE TUTTI_IF RANK WORLD_SIZE MASTER_ADDR
# Receivers of Open MPI would copy long messages without their senders, so that nothing could hang.
OMPI_MCA_btl_vader_single_copy_mechanism=none
export OMPI_MCA_btl_vader_single_copy_mechanism
hydra=
programs=$TT_SRC/tests/mp/programs

# under FLAVOR LIBRARY RANKS COMMAND...: the command with the library for an MPI; "none": without
under() {
	flavor=$1 library=$PWD/.libs/libtutti_mpi_$2.so ranks=$3
	shift 3
	[ -e "$library" ] || library=
	case $flavor in
	openmpi) set -- mpirun.openmpi --oversubscribe -n "$ranks" -x "LD_PRELOAD=$library" "$@" ;;
	mpich) set -- mpirun.mpich $hydra -n "$ranks" -genv LD_PRELOAD "$library" "$@" ;;
	esac
	timeout 120 "$@" >"$tmp/out" 2>&1
	status=$?
	cat "$tmp/out"
	return $status
}

# passes FLAVOR RANKS CASE: a case of mpi_colls.c, with the library
passes() {
	under "$1" "$1" "$2" "$tmp/colls.$1" "$3" || die "status $?"
	grep -q "^case $3 passed" "$tmp/out"
}

# counts NAME: what the summary says of a collective: taken, by size, by type/op, by comm
counts() {
	awk -v name="$1" '$1 == "tutti_mpi:" && $2 == name { print $3, $5, $6, $7 }' "$tmp/out"
}

# counted NAME COUNTS
counted() {
	[ "$(counts "$1")" = "$2" ] || die "$1: '$(counts "$1")' instead of '$2'"
}

build() {
	"mpicc.$1" -O1 -Wall -Werror -D_GNU_SOURCE -I"$TT_SRC" "$programs/mpi_colls.c" \
		"$programs/mpi_moves.c" "$programs/mpi_reductions.c" \
		"$programs/mpi_others.c" -o "$tmp/colls.$1" -lpthread
}

# All collectives against an oracle: nothing passes on that the library can take.
all_colls() {
	TUTTI_MPI_TAKE=all TUTTI_MPI_SUMMARY=1
	export TUTTI_MPI_TAKE TUTTI_MPI_SUMMARY
	for what in reductions moves v_forms; do
		case $what in
		reductions) names="allreduce reduce reduce_scatter reduce_scatter_block scan exscan" ;;
		moves) names="bcast gather scatter allgather alltoall" ;;
		v_forms) names="gatherv scatterv allgatherv alltoallv" ;;
		esac
		for ranks in 3 4; do
			[ $what$ranks != reductions4 ] || continue # 3 and, below, 2
			passes "$1" $ranks $what
			for name in $names; do
				of=$(counts $name)
				[ "${of%% *}" -gt 100 ] || die "$name: '$of'"
			done
		done
	done
	passes "$1" 2 reductions
	counted allreduce "860 0 8 0"
	passes "$1" 2 moves
	counted bcast "234 0 0 78" # one rank is alone in each half
}

# The same over transports, without the memory of the host.
transports() {
	TUTTI_MPI_TAKE=all TUTTI_MPI_SUMMARY=1
	export TUTTI_MPI_TAKE TUTTI_MPI_SUMMARY
	TUTTI_TRANSPORT=shm passes "$1" 3 moves
	counted bcast "429 0 0 39" # rank 1 is alone in its half
	TUTTI_TRANSPORT=ofi TUTTI_IF=lo passes "$1" 2 v_forms
	counted gatherv "234 0 0 78" # as in all_colls
}

hang() {
	TUTTI_MPI_TAKE=allreduce TUTTI_MPI_SUMMARY=1
	export TUTTI_MPI_TAKE TUTTI_MPI_SUMMARY
	passes "$1" 2 hang
	counted allreduce "10 0 0 0"
	passes "$1" 3 hang
	counted allreduce "15 0 0 0"
	TUTTI_TRANSPORT=shm passes "$1" 2 hang
	counted allreduce "10 0 0 0"
}

first() {
	TUTTI_MPI_TAKE=allreduce TUTTI_MPI_SUMMARY=1
	export TUTTI_MPI_TAKE TUTTI_MPI_SUMMARY
	passes "$1" 2 first
	counted allreduce "6 0 0 0"
	passes "$1" 3 first
	counted allreduce "6 0 0 0"
}

# never NAME COUNTS: of calls that are never taken: nonblocking, persistent
never() {
	of=$(awk -v name="$1" '$1 == "tutti_mpi:" && $2 == name { print $8, $9 }' "$tmp/out")
	[ "$of" = "$2" ] || die "$1: '$of' instead of '$2'"
}

# MPICH has MPI 4: persistent collectives and large counts.
others() {
	TUTTI_MPI_TAKE=all TUTTI_MPI_SUMMARY=1 passes "$1" 3 others
	counted alltoallw "0 0 3 0"
	counted neighbor_* "0 0 3 0"
	never barrier "3 0"
	never bcast "3 0"
	if [ "$1" = mpich ]; then
		never allreduce "3 3"
		counted allreduce "3 0 0 0"
		counted gather "3 0 0 0"
		counted scatter "3 0 0 0"
		counted reduce_scatter "0 0 3 0"
		for name in gatherv scatterv allgatherv alltoallv; do
			counted $name "0 0 3 0"
		done
		grep -q '^tutti_mpi: 48 calls: 31.2 % taken, 43.8 % blocking passed on, 18.8 %' \
			"$tmp/out" || die "wrong shares"
	else
		never allreduce "3 0"
		grep -q '^tutti_mpi: 15 calls: 0.0 % taken, 40.0 % blocking passed on, 60.0 %' \
			"$tmp/out" || die "wrong shares"
	fi
}

# MPI_BOTTOM with absolute addresses, at one rank or at all.
bottom() {
	TUTTI_MPI_TAKE=all TUTTI_MPI_SUMMARY=1 passes "$1" 3 bottom
	for name in bcast scatter gather allgather allgatherv alltoall; do
		counted $name "3 0 0 0"
	done
}

names() {
	TUTTI_MPI_TAKE=all TUTTI_MPI_SUMMARY=1 passes "$1" 3 names
	for name in barrier bcast allreduce; do
		counted $name "30 0 0 0"
	done
}

# Collectives in functions of files pass on.
files() {
	MPI_CASE_FILE=$tmp/file.$1 TUTTI_MPI_TAKE=all TUTTI_MPI_SUMMARY=1
	export MPI_CASE_FILE TUTTI_MPI_TAKE TUTTI_MPI_SUMMARY
	passes "$1" 3 files
	[ "$1" = mpich ] || return 0
	counted barrier "3 0 0 0"
	counted bcast ""
}

communicators() {
	TUTTI_MPI_TAKE=all TUTTI_MPI_SUMMARY=1 passes "$1" 3 comms
	counted allreduce "120 0 0 60" # rank 1 is alone in its half
	counted bcast "180 0 0 0"
}

# Calls in delete callbacks pass on.
callbacks() {
	TUTTI_MPI_TAKE=all TUTTI_MPI_SUMMARY=1 passes "$1" 3 callbacks
	counted allreduce "41 0 0 28" # rank 2 is alone in its half
}

passed() {
	TUTTI_MPI_TAKE=all TUTTI_MPI_SUMMARY=1 passes "$1" 4 passed
	counted allreduce "4 0 4 8" # taken; of a derived operator; inter, and alone
	counted barrier "0 0 0 4"
}

threads() {
	TUTTI_MPI_TAKE=all TUTTI_MPI_SUMMARY=1 passes "$1" 2 threads
	counted allreduce "1800 0 0 0"
	counted bcast "1800 0 0 0"
}

errors() {
	TUTTI_MPI_TAKE=all TUTTI_MPI_SUMMARY=1 passes "$1" 2 errors
	counted bcast "0 0 6 0"
	counted allreduce "2 0 4 0"
	counted alltoallv "0 0 2 0"
}

alone() {
	TUTTI_MPI_TAKE=all TUTTI_MPI_SUMMARY=1 passes "$1" 2 alone
	counted allgatherv "2 0 0 0"
	TUTTI_MPI_TAKE=all passes "$1" 3 alone
}

# Open MPI's launcher ends the ranks that survive.
death() {
	[ "$1" = mpich ] || skip "mpirun.openmpi ends all ranks at the death of one"
	hydra=-disable-auto-cleanup # else the end of a rank without MPI_Finalize ends the others
	under mpich mpich 3 "$tmp/colls.mpich" death
	[ "$(grep -c '^survived' "$tmp/out")" = 2 ] || die "not both ranks survived"
	grep -q 'handled: tutti: barrier: rank 2 on host' "$tmp/out"
}

# The value of rank 0 counts; a wrong one is reported and takes nothing.
take() {
	TUTTI_MPI_SUMMARY=1
	export TUTTI_MPI_SUMMARY
	TUTTI_MPI_TAKE=allreduce=1K-2K,bcast passes "$1" 2 comms
	counted allreduce "0 0 0 120"
	TUTTI_MPI_TAKE=allreduce=4-4,scan=1G- passes "$1" 2 passed
	counted allreduce "2 0 2 4"
	# joining would fail: nothing is set up
	TUTTI_TRANSPORT=nonsense TUTTI_MPI_TAKE=none passes "$1" 2 passed
	counted allreduce "0 0 0 8"
	! grep -q 'tutti_init failed' "$tmp/out" || die "it joins"
	TUTTI_MPI_TAKE=all=8K- passes "$1" 2 hang
	counted allreduce "0 10 0 0"
	counted barrier "2 0 0 0" # whatever the lengths
	passes "$1" 2 lengths # with MPICH a range with a gap is taken by default
	left=0
	[ "$1" = openmpi ] || left=2
	counted scatter "$((6 - left)) $left 0 0"
	TUTTI_MPI_TAKE=scatter=16K- passes "$1" 2 lengths
	counted scatter "2 4 0 0"
	TUTTI_MPI_TAKE=all passes "$1" 2 lengths
	counted scatter "6 0 0 0"
	TUTTI_MPI_TAKE=all passes "$1" 1 comms
	counted allreduce "0 0 0 60" # one rank takes nothing, and is counted
	for bad in allreduce=4 allreduce=x- allreduce=1-2x bcast,,scan all= bcast, \
		allreduce=8-4 allreduce=99999999999999999999- allreduce=0-99999999999G; do
		TUTTI_MPI_TAKE=$bad passes "$1" 2 hang
		grep -q "TUTTI_MPI_TAKE: '.*' is not NAME" "$tmp/out" || die "$bad: no report"
		counted allreduce "0 0 0 10"
	done
	TUTTI_MPI_TAKE=bcast,allredue=4- passes "$1" 2 hang
	grep -q "TUTTI_MPI_TAKE: 'allredue' is unknown (did you mean 'allreduce'?);" "$tmp/out" ||
		die "no near name"
	TUTTI_MPI_TAKE=xyzzy passes "$1" 2 hang
	grep -q "TUTTI_MPI_TAKE: 'xyzzy' is unknown; see" "$tmp/out" || die "xyzzy: no report"
	TUTTI_MPI_TAKE=all,none passes "$1" 2 hang
	grep -q "TUTTI_MPI_TAKE: 'none' must stand alone" "$tmp/out" || die "none: no report"
	counted allreduce "0 0 0 10"
}

# A rank without the library is never waited for silently.
without() {
	# shellcheck disable=SC2016
	! under "$1" "$1" 2 sh -c '[ "${PMI_RANK:-$OMPI_COMM_WORLD_RANK}" = 0 ] || unset LD_PRELOAD
		exec "$0" without' "$tmp/colls.$1" || die "it ended well"
	grep -q 'rank 0 has waited for 5 s in MPI_Init' "$tmp/out"
}

# A rank that cannot join makes all calls pass on; the library of the other MPI ends the program.
refused() {
	TUTTI_TRANSPORT=nonsense passes "$1" 2 hang
	grep -q 'tutti_mpi: tutti_init failed: .*; the MPI makes all calls' "$tmp/out" ||
		die "no report"
	# one rank fails before the others wait for it
	# shellcheck disable=SC2016
	under "$1" "$1" 3 sh -c \
		'[ "${PMI_RANK:-$OMPI_COMM_WORLD_RANK}" != 1 ] || export TUTTI_LANES=nonsense
		exec "$0" hang' "$tmp/colls.$1" || die "status $?"
	grep -q '^case hang passed' "$tmp/out" || die "did not pass"
	grep -q 'tutti_mpi: tutti_init failed: rank 1: .*TUTTI_LANES=nonsense.*; the MPI makes' \
		"$tmp/out" || die "no report of rank 1"
	[ "$(grep -c 'the MPI makes all calls' "$tmp/out")" = 1 ] || die "several reports"
	other=mpich runs='Open MPI'
	[ "$1" = openmpi ] || other=openmpi runs=MPICH
	[ -e .libs/libtutti_mpi_$other.so ] || return 0
	for try in 1 2 3; do # Hydra can lose what a program says that ends at once
		! under "$1" $other 2 "$tmp/colls.$1" hang ||
			die "it runs with the library for $other"
		grep -q "LD_PRELOAD has the library for .*, but the program runs $runs; load" \
			"$tmp/out" && return
		[ ! -s "$tmp/out" ] || break
	done
	die "nothing is said of the library for $other"
}

# mpif.h and mpi_f08; Open MPI's functions of Fortran do not call those of C.
fortran() {
	command -v "mpif90.$1" >/dev/null && command -v gfortran >/dev/null ||
		skip "there is no compiler for Fortran"
	"mpif90.$1" -fallow-argument-mismatch "$programs/mpi_fortran.f90" \
		-o "$tmp/fortran.$1" || die "does not compile"
	TUTTI_MPI_SUMMARY=1 TUTTI_MPI_TAKE=all under "$1" "$1" 2 "$tmp/fortran.$1" ||
		die "status $?"
	grep -q 'fortran passed' "$tmp/out" || die "wrong results"
	counted allreduce "8 0 0 0"
	counted bcast "4 0 0 0"
	counted barrier "2 0 0 0"
}

grep -q '^TT_CFLAGS.*-fsanitize' Makefile && skip_all "MPI programs are not run under sanitizers"
for flavor in openmpi mpich; do
	[ -e ".libs/libtutti_mpi_$flavor.so" ] && command -v "mpicc.$flavor" >/dev/null &&
		command -v "mpirun.$flavor" >/dev/null || continue
	found=1
	run "build_$flavor" build $flavor
	for t in all_colls transports hang first others bottom names files communicators callbacks \
		passed threads errors alone death take without refused fortran; do
		run "${t}_$flavor" $t $flavor
	done
done
[ "$found" ] || skip_all "neither library was built: no Open MPI and no MPICH"
finish
