# SPDX-License-Identifier: BSD-3-Clause
# csv (PREFIX-cells.csv), out, place, heading: the better MPI's time over tutti's, an operation a
# row
# and a size a column, tutti with pool memory above and with malloc below. Red: the MPI wins in both
# runs. Run by perf/compare/compare.
set terminal svg noenhanced size 1040,1120 font 'sans,11' background 'white'
set output out
rows(memory) = sprintf("< awk -F, -v w='%s' -v m='%s' -f '%s/heat.awk' '%s'", place, memory, \
	here, csv)
unset key
unset colorbox
set border 0
set tics scale 0
set multiplot layout 2,1 title heading
do for [memory in 'tutti tutti-malloc'] {
	set title (memory eq 'tutti' ? 'tutti with pool memory' : 'tutti with malloc')
	set yrange [*:*] reverse
	plot rows(memory) using 1:2:($1 - 0.5):($1 + 0.5):($2 - 0.5):($2 + 0.5):\
		6:xticlabel(4):yticlabel(5) \
		with boxxyerror fillstyle solid border linecolor rgb 'white' \
		linecolor rgb variable, \
		rows(memory) using 1:2:(sprintf($3 < 9.95 ? '%.2f' : '%.0f', $3)):7 \
		with labels font ',9' textcolor rgb variable
}
unset multiplot
