# SPDX-License-Identifier: BSD-3-Clause
# Rows of compare.csv of one place and operation (place, op) to the data of a figure: blocks of
# {bytes, us, gb_s} for each program, then its labels {bytes, us, gb_s, name}, beside the ends of
# the curves and far enough from each other. A program that only spins, as its ranks have no cores,
# has no curve: 50 times the time of tutti for the shortest message.
BEGIN {
	FS = ","
	n = split("tutti tutti-malloc tutti-tuned openmpi mpich gloo line bare", peer, " ")
	split("tutti,tutti (malloc),tutti (tuned),Open MPI,MPICH,Gloo,plain TCP,bare libfabric",
		name, ",")
}

$1 == place && $2 == op {
	points[$4]++
	bytes[$4, points[$4]] = $3
	us[$4, points[$4]] = $5
	gbs[$4, points[$4]] = $6
}

# Labels in order of value, moved up until they are `gap` apart in the logarithm.
function spread(value, place_of,    i, k, t, order, count, low, high, gap, at)
{
	for (i = 1; i <= n; i++) {
		if (!shown[i])
			continue
		order[++count] = i
		for (k = count; k > 1 && value[order[k]] < value[order[k - 1]]; k--) {
			t = order[k]; order[k] = order[k - 1]; order[k - 1] = t
		}
	}
	gap = log(highest[place_of] / lowest[place_of]) / 18
	for (i = 1; i <= count; i++) {
		at = log(value[order[i]])
		if (i > 1 && at < low + gap)
			at = low + gap
		low = at
		moved[place_of, order[i]] = exp(at)
	}
}

function widen(which, v)
{
	if (!(which in lowest) || v < lowest[which])
		lowest[which] = v
	if (!(which in highest) || v > highest[which])
		highest[which] = v
}

END {
	for (i = 1; i <= n; i++) {
		p = peer[i]
		shown[i] = points[p] && !(p != "tutti" && points["tutti"] && \
			us[p, 1] > 50 * us["tutti", 1])
		for (k = 1; shown[i] && k <= points[p]; k++) {
			print bytes[p, k], us[p, k], gbs[p, k]
			widen("us", us[p, k])
			widen("gbs", gbs[p, k])
		}
		if (!shown[i])
			print "nan nan nan"
		print "\n"
		if (shown[i]) {
			last_us[i] = us[p, points[p]]
			last_gbs[i] = gbs[p, points[p]]
		}
	}
	spread(last_us, "us")
	spread(last_gbs, "gbs")
	for (i = 1; i <= n; i++) {
		if (shown[i])
			# a label on the border of the figure would be left out
			print 0.99 * bytes[peer[i], points[peer[i]]], moved["us", i],
				moved["gbs", i], "\"" name[i] "\""
		else
			print "nan nan nan \"\""
		print "\n"
	}
}
