# SPDX-License-Identifier: BSD-3-Clause
# perf/decentral_curves: csv is its table, out the figure, methods the curves, rate that of links.
links = int(system("grep -c '^link,' ".csv." || true")) > 0
set terminal svg size 1000,(links ? 1200 : 800) enhanced background rgb 'white'
set output out
set datafile separator ','
set multiplot layout (links ? 3 : 2),2
set logscale y
set ylabel 'loss of rank 0'
set format y '%g'
set key top right
title(c) = c eq 'equal' ? 'equal ranks' : \
	c eq 'slow' ? 'one rank takes 4 times as long' : 'links of '.rate
do for [c in links ? 'equal slow link' : 'equal slow'] {
	set title title(c)
	unset logscale x
	set xlabel 'seconds'
	plot for [i=1:words(methods)] csv using \
		((strcol(1) eq c && strcol(2) eq word(methods, i)) ? column(4) : NaN):6 \
		with lines linewidth 2 linetype i title word(methods, i)
	set logscale x
	set xlabel 'MB that rank 0 has sent and fetched'
	plot for [i=1:words(methods)] csv using \
		((strcol(1) eq c && strcol(2) eq word(methods, i)) ? column(5) / 1e6 : NaN):6 \
		with lines linewidth 2 linetype i title word(methods, i)
}
unset multiplot
