# SPDX-License-Identifier: BSD-3-Clause
# csv, out: ratios by size, a panel for each place. Run by perf/compare/compare.
set terminal svg size 1000,760 font 'sans,11' background 'white'
set output out
set datafile separator ','
set logscale x 2
set logscale y 10
set format x '%.0b%B'
set xtics rotate by -45 font ',9'
set grid
set key left top font ',9'
peers = 'tutti-malloc tutti-tuned openmpi mpich gloo line bare'
places = 'host2 host4 host8 shaped plain put'
titles = '"2 ranks on one host" "4 ranks on one host" "8 ranks on one host" "4 hosts, 1 Gbit/s" "4 hosts, no limit" "put over libfabric tcp"'
set multiplot layout 2,3 title "the others' time over tutti's, float32 sum all-reduce (1: equal)"
do for [i = 1:words(places)] {
	place = word(places, i)
	if (int(system(sprintf("grep -c '^%s,' '%s'", place, csv))) > 0) {
		set title word(titles, i)
		# a curve's points one after the other, or they are not joined
		plot for [p in peers] sprintf("< awk -F, '$1 == \"%s\" && $3 == \"%s\"' '%s'", place, p, csv) \
			using 2:5 with linespoints pointsize 0.6 title (int(system(sprintf("grep -c '^%s,[0-9]*,%s,' '%s'", \
			place, p, csv))) > 0 ? p : ''), 1 with lines dashtype 2 linecolor 'black' notitle
	}
}
unset multiplot
