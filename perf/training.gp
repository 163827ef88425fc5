# SPDX-License-Identifier: BSD-3-Clause
# csv, out, x, rates: what is learnt against bytes sent by rank 0, or against seconds at each rate.
# Run by perf/training.
names = system("awk -F, 'NR > 1 && !s[$2]++ { print $2 }' ".csv)
colors = '#000000 #1f77b4 #17becf #2ca02c #98df8a #d62728 #ff7f0e #9467bd #8c564b #e377c2 ' \
	.'#bcbd22 #7f7f7f #0000ff #393b79 #d2691e'
color(i) = word(colors, (i - 1) % words(colors) + 1)
rows = x eq 'bytes' ? 1 : words(rates)
set terminal svg size 1300,80+380*rows font 'sans,11' background 'white' noenhanced
set output out
set datafile separator ','
set multiplot layout rows,4 title "gradients that travel encoded: four ranks, medians over seeds"
do for [row = 1:rows] {
	col = x eq 'bytes' ? 6 : 6 + row
	set xlabel x eq 'bytes' ? 'bytes sent by rank 0' : 'seconds at '.word(rates, row)
	set logscale x 10
	set format x x eq 'bytes' ? '%.0e' : '%g'
	set border
	set xtics
	set ytics
	set grid
	unset key
	do for [task in "digits reuters glove"] {
		set title task
		set ylabel task eq 'digits' ? 'accuracy, %' : task eq 'reuters' ? 'F1' : 'loss'
		set autoscale xfix
		unset logscale y
		if (task eq 'digits') { set yrange [85:99] }
		if (task eq 'reuters') { set yrange [0.6:0.82] }
		if (task eq 'glove') { set logscale y; set yrange [0.03:2] }
		plot for [i = 1:words(names)] csv using (strcol(1) eq task && \
			strcol(2) eq word(names, i) ? column(col) : NaN):5 with lines \
			linewidth 1.5 + 2 * (i == 1) linecolor rgb color(i) \
			dashtype 1 + 2 * (word(names, i)[strlen(word(names, i)):*] eq '!')
	}
	# The key has a place of its own.
	unset logscale
	unset border
	unset tics
	unset grid
	unset title
	unset xlabel
	unset ylabel
	set key left top
	plot [0:1] [0:1] for [i = 1:words(names)] NaN with lines \
		linewidth 1.5 + 2 * (i == 1) linecolor rgb color(i) \
		dashtype 1 + 2 * (word(names, i)[strlen(word(names, i)):*] eq '!') \
		title word(names, i)
}
unset multiplot
