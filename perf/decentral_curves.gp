# SPDX-License-Identifier: BSD-3-Clause
# perf/decentral_curves: csv is its table, out the figure.
set terminal svg size 1000,800 enhanced
set output out
set datafile separator ','
set multiplot layout 2,2
set logscale y
set ylabel 'loss of rank 0'
set format y '%g'
methods = 'allreduce gossip pairwise easgd easgd-sync'
do for [slow in '1 4'] {
	set title (slow eq '1' ? 'equal ranks' : 'one rank takes '.slow.' times as long')
	set xlabel 'seconds'
	plot for [m in methods] csv using \
		((strcol(1) eq slow && strcol(2) eq m) ? column(4) : NaN):6 with lines title m
	set xlabel 'MB that rank 0 has sent and fetched'
	plot for [m in methods] csv using \
		((strcol(1) eq slow && strcol(2) eq m) ? column(5) / 1e6 : NaN):6 with lines title m
}
unset multiplot
