! SPDX-License-Identifier: BSD-3-Clause
! Collectives of Fortran for preload.sh, by mpif.h and by mpi_f08.
subroutine old_style(wrong)
	implicit none
	include 'mpif.h'
	integer, intent(inout) :: wrong
	integer :: rank, n, err, i
	integer :: ints(100)
	double precision :: in(100), out(100)

	call MPI_Comm_rank(MPI_COMM_WORLD, rank, err)
	call MPI_Comm_size(MPI_COMM_WORLD, n, err)
	in = [(dble(i + rank), i = 1, 100)]
	call MPI_Allreduce(in, out, 100, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, err)
	if (any(out /= [(dble(i * n + n * (n - 1) / 2), i = 1, 100)])) wrong = wrong + 1
	call MPI_Allreduce(MPI_IN_PLACE, in, 100, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, err)
	if (any(in /= [(dble(i + n - 1), i = 1, 100)])) wrong = wrong + 1
	ints = rank
	call MPI_Bcast(ints, 100, MPI_INTEGER, n - 1, MPI_COMM_WORLD, err)
	if (any(ints /= n - 1)) wrong = wrong + 1
end subroutine

subroutine new_style(wrong)
	use mpi_f08
	implicit none
	integer, intent(inout) :: wrong
	integer :: rank, n, total
	complex :: z(7)

	call MPI_Comm_rank(MPI_COMM_WORLD, rank)
	call MPI_Comm_size(MPI_COMM_WORLD, n)
	z = (1.0, -2.0)
	call MPI_Allreduce(MPI_IN_PLACE, z, 7, MPI_COMPLEX, MPI_SUM, MPI_COMM_WORLD)
	if (any(z /= n * (1.0, -2.0))) wrong = wrong + 1
	z = rank
	call MPI_Bcast(z, 7, MPI_COMPLEX, 0, MPI_COMM_WORLD)
	if (any(z /= (0.0, 0.0))) wrong = wrong + 1
	call MPI_Allreduce(wrong, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
	wrong = total
	if (rank == 0 .and. total == 0) print *, 'fortran passed'
end subroutine

! Other ranks call that of mpi_f08.
subroutine old_barrier()
	implicit none
	include 'mpif.h'
	integer :: err

	call MPI_Barrier(MPI_COMM_WORLD, err)
end subroutine

program main
	use mpi_f08
	implicit none
	integer :: rank, wrong

	call MPI_Init()
	wrong = 0
	call old_style(wrong)
	call new_style(wrong)
	call MPI_Comm_rank(MPI_COMM_WORLD, rank)
	if (rank == 0) call old_barrier()
	if (rank /= 0) call MPI_Barrier(MPI_COMM_WORLD)
	call MPI_Finalize()
	if (wrong /= 0) stop 1
end program
