# SPDX-License-Identifier: BSD-3-Clause
# data (of curves.awk), out, heading: absolute times and bytes per second by size, log-log. Each
# curve has its name beside its end. Run by perf/compare/compare.
set terminal svg noenhanced size 1040,420 font 'sans,12' background 'white'
set output out
set logscale x 2
set logscale y 10
set format y '%g'
set xtics ('8' 8, '64' 64, '512' 512, '4K' 4096, '32K' 32768, '256K' 2**18, \
	'2M' 2**21, '16M' 2**24, '64M' 2**26)
set xtics rotate by -45
unset mxtics
unset mytics
set grid linecolor 'grey85'
set rmargin 15
unset key
colours = '#0072B2 #56B4E9 #009E73 #D55E00 #CC79A7 #B8860B #666666 #000000'
points = '7 6 5 9 13 11 1 2'
set multiplot layout 1,2 title heading
do for [column = 2:3] {
	set ylabel (column == 2 ? 'microseconds (median)' : 'GB/s')
	plot for [i = 1:8] data index i - 1 using 1:column with linespoints \
		pointtype int(word(points, i)) pointsize 0.6 linewidth 2 \
		linecolor rgb word(colours, i), \
		for [i = 1:8] data index i + 7 using 1:column:(strcol(4)) with labels left \
		offset 1,0 textcolor rgb word(colours, i)
}
unset multiplot
