# SPDX-License-Identifier: BSD-3-Clause
# csv, out, modes: loss against time and against clocks, of the first round. Run by perf/staleness.
set terminal svg size 1100,460 font 'sans,11' background 'white'
set output out
set datafile separator ','
set logscale y 10
set grid
set key outside right top font ',9'
set ylabel 'loss of all digits'
set multiplot layout 1,2 \
     title "digits on a parameter server, four workers of which each is slow every eighth step"
ssp = system("echo '".modes."' | tr ' ' '\\n' | grep '^s'")
essp = system("echo '".modes."' | tr ' ' '\\n' | grep '^e'")
async = system("echo '".modes."' | tr ' ' '\\n' | grep '^a'")
of(m, x) = strcol(1) eq m && strcol(2) eq '1' ? x : NaN
set xlabel 'seconds'
plot for [m in ssp] csv using (of(m, $4)):5 with lines title m, \
     for [m in essp] csv using (of(m, $4)):5 with lines linewidth 2.5 dashtype 2 title m, \
     for [m in async] csv using (of(m, $4)):5 with lines dashtype 3 title m
set xlabel 'clocks'
plot for [m in ssp] csv using (of(m, $3)):5 with lines title m, \
     for [m in essp] csv using (of(m, $3)):5 with lines linewidth 2.5 dashtype 2 title m, \
     for [m in async] csv using (of(m, $3)):5 with lines dashtype 3 title m
unset multiplot
