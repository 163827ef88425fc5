# SPDX-License-Identifier: BSD-3-Clause
# csv, out, place, heading: absolute times by size, log-log. Each curve has its name beside its end.
# Run by perf/compare/compare.
set terminal svg size 760,460 font 'sans,12' background 'white'
set output out
set datafile separator ','
set logscale x 2
set logscale y 10
set format x '%.0b %B'
set format y '%g'
set xlabel 'bytes'
set ylabel 'microseconds (median)'
set grid linecolor 'grey85'
set title heading
set rmargin 16
set xrange [*:2**26 * 1.01]
unset key
peers = 'tutti tutti-malloc openmpi mpich gloo'
names = '"tutti" "tutti (malloc)" "Open MPI" "MPICH" "Gloo"'
dy = '0 0 -0.5 0.2 0.6'
colours = '#0072B2 #56B4E9 #D55E00 #CC79A7 #009E73'
rows(p) = sprintf("< awk -F, '$1 == \"%s\" && $3 == \"%s\"' '%s'", place, p, csv)
last(p, name) = sprintf("< awk -F, -v n='%s' '$1 == \"%s\" && $3 == \"%s\" { l = $2 FS $4 FS n } END { print l }' '%s'", name, place, p, csv)
plot for [i = 1:words(peers)] rows(word(peers, i)) using 2:4 with linespoints pointtype 7 \
	pointsize 0.5 linewidth 2 linecolor rgb word(colours, i), \
	for [i = 1:words(peers)] last(word(peers, i), word(names, i)) using 1:2:(stringcolumn(3)) with labels left \
	offset 1,(real(word(dy, i))) textcolor rgb word(colours, i)
