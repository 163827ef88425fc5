# SPDX-License-Identifier: BSD-3-Clause
# csv, out, x, rates: what is learnt against bytes sent by rank 0, or against seconds at each rate.
# Run by perf/training.
names = system("awk -F, 'NR > 1 && !s[$2]++ { print $2 }' ".csv)
rows = x eq 'bytes' ? 1 : words(rates)
set terminal svg size 1200,80+380*rows font 'sans,11' background 'white' noenhanced
set output out
set datafile separator ','
set logscale x 10
set format x '%.0g'
set grid
set multiplot layout rows,3 title "gradients that travel encoded: four ranks, medians over seeds"
do for [row = 1:rows] {
	col = x eq 'bytes' ? 6 : 6 + row
	set xlabel x eq 'bytes' ? 'bytes sent by rank 0' : 'seconds at '.word(rates, row)
	do for [task in "digits reuters glove"] {
		set title task
		set ylabel task eq 'digits' ? 'accuracy, %' : task eq 'reuters' ? 'F1' : 'loss'
		set yrange [*:*]
		set key right bottom font ',9'
		unset logscale y
		if (task eq 'digits') { set yrange [80:100] }
		if (task eq 'glove') { set logscale y; set key right top }
		plot for [n in names] csv using \
			(strcol(1) eq task && strcol(2) eq n ? column(col) : NaN):5 with lines \
			linewidth (n eq 'plain' ? 3 : 1.5) \
			dashtype 1 + 2 * (n[strlen(n):*] eq '!') title n
	}
}
unset multiplot
