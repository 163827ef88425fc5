#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Programs of other people with Open MPI and the library of tutti_mpi(7): mpi4py, HPCC, LAMMPS.
only=$*
. "${TT_SRC:-.}/tests/sh.inc"
suite preload_codes

OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM OMP_NUM_THREADS OPENBLAS_NUM_THREADS
unset TUTTI_RANK TUTTI_NRANKS TUTTI_STORE TUTTI_IF RANK WORLD_SIZE MASTER_ADDR
library=$PWD/.libs/libtutti_mpi_openmpi.so
[ -e "$library" ] && command -v mpirun.openmpi >/dev/null ||
	skip_all "the library for Open MPI was not built, or there is no mpirun.openmpi"

# with RANKS COMMAND...: with the library; its summary is in $tmp/out
with() {
	ranks=$1
	shift
	TUTTI_MPI_SUMMARY=1 timeout 200 mpirun.openmpi --oversubscribe -n "$ranks" \
		-x "LD_PRELOAD=$library" "$@" >"$tmp/out" 2>&1
	status=$?
	cat "$tmp/out"
	return $status
}

# taken NAME: some calls were taken
taken() {
	awk -v name="$1" '$1 == "tutti_mpi:" && $2 == name { n = $3 } END { exit !n }' \
		"$tmp/out" || die "no call of $1 was taken"
}

mpi4py() {
	/usr/bin/python3 -c 'import mpi4py' 2>/dev/null || skip "package python3-mpi4py is missing"
	TUTTI_MPI_TAKE=all with 3 /usr/bin/python3 "$TT_SRC/tests/mp/programs/mpi4py_colls.py" ||
		die "status $?"
	[ "$(grep -o 'mpi4py passed' "$tmp/out" | wc -l)" = 3 ] || die "not all ranks passed"
	for name in allreduce reduce bcast gather scatter allgather alltoall gatherv scatterv \
		allgatherv alltoallv scan exscan reduce_scatter_block barrier; do
		taken $name
	done
}

# A melt of 4000 atoms; the lines of the table that are not times.
melt() {
	cat >"$tmp/melt" <<-'END'
		units lj
		atom_style atomic
		lattice fcc 0.8442
		region box block 0 10 0 10 0 10
		create_box 1 box
		create_atoms 1 box
		mass 1 1.0
		velocity all create 3.0 87287 loop geom
		pair_style lj/cut 2.5
		pair_coeff 1 1 1.0 1.0 2.5
		neighbor 0.3 bin
		neigh_modify every 20 delay 0 check no
		fix 1 all nve
		thermo 10
		thermo_style custom step temp epair emol etotal press
		run 100
	END
}

thermo() {
	awk '$1 == "Step" { on = 1 } $1 == "Loop" { on = 0 } on && !/^tutti_mpi/' "$1"
}

lammps() {
	command -v lmp >/dev/null || skip "package lammps is missing"
	ldd "$(command -v lmp)" | grep -q libmpi.so || skip "lmp is not built with Open MPI"
	melt
	for n in 2 3; do
		timeout 200 mpirun.openmpi --oversubscribe -n $n lmp -in "$tmp/melt" -log none \
			>"$tmp/plain" 2>&1 || die "without the library: $(tail -n 20 "$tmp/plain")"
		with $n lmp -in "$tmp/melt" -log none || die "status $?"
		thermo "$tmp/plain" >"$tmp/expected"
		thermo "$tmp/out" >"$tmp/found"
		[ "$(wc -l <"$tmp/expected")" = 12 ] || die "no table of 11 steps"
		diff "$tmp/expected" "$tmp/found" || die "the digits differ with $n ranks"
		taken allreduce
	done
}

# Small sizes: its checks are what counts here.
hpcc_input() {
	cat >"$tmp/hpccinf.txt" <<-'END'
		HPLinpack benchmark input file
		HPC Challenge
		HPL.out      output file name (if any)
		8            device out (6=stdout,7=stderr,file)
		1            # of problems sizes (N)
		200          Ns
		1            # of NBs
		40           NBs
		0            PMAP process mapping (0=Row-,1=Column-major)
		1            # of process grids (P x Q)
		1            Ps
		2            Qs
		16.0         threshold
		1            # of panel fact
		2            PFACTs (0=left, 1=Crout, 2=Right)
		1            # of recursive stopping criterium
		4            NBMINs (>= 1)
		1            # of panels in recursion
		2            NDIVs
		1            # of recursive panel fact.
		1            RFACTs (0=left, 1=Crout, 2=Right)
		1            # of broadcast
		1            BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)
		1            # of lookahead depth
		1            DEPTHs (>=0)
		2            SWAP (0=bin-exch,1=long,2=mix)
		64           swapping threshold
		0            L1 in (0=transposed,1=no-transposed) form
		0            U  in (0=transposed,1=no-transposed) form
		1            Equilibration (0=no,1=yes)
		8            memory alignment in double (> 0)
		##### This line (no. 32) is ignored (it serves as a separator). ######
		0            Number of additional problem sizes for PTRANS
		200          values of N
		0            number of additional blocking sizes for PTRANS
		40           values of NB
	END
}

# "Failure = 0", and no check of it has failed. It has another name than the program, as command -v
# finds functions, too.
challenge() {
	command -v hpcc >/dev/null || skip "package hpcc is missing"
	hpcc_input
	cd "$tmp" || exit 1
	TUTTI_MPI_TAKE=all with 2 hpcc || die "status $?"
	grep -q '^Success=1' hpccoutf.txt || die "$(tail -n 40 hpccoutf.txt)"
	grep -q 'End of HPC Challenge tests' hpccoutf.txt || die "it did not end"
	! grep -nE 'FAILED|Failed|[1-9][0-9]* tests completed and failed' hpccoutf.txt ||
		die "a check failed"
	taken allreduce
	taken bcast
}

run mpi4py mpi4py
run lammps lammps
run hpcc challenge
finish
