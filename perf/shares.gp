# SPDX-License-Identifier: BSD-3-Clause
# csv, out: the share of exposed communication in a step, by the link. Run by perf/shares.
ways = '"reducer" "call per tensor" "one call at the end" least'
set terminal svg size 800,420 font 'sans,12' background 'white' noenhanced
set output out
set title 'communication that the backward pass does not hide'
set ylabel '% of a step'
set yrange [0:100]
set key top left
set grid ytics
set style data histograms
set style histogram clustered gap 1
set style fill solid 0.8
set datafile separator ','
plot for [w in ways] '< grep ",'.w.'," '.csv using 5:xtic(1) title w
