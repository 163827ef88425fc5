# SPDX-License-Identifier: BSD-3-Clause
# Lines {where, peer, round, bytes, microseconds} to a table of medians and of ratios, CSV and JSON.
# A ratio is the median of those of the rounds: the other's time over tutti's, above 1 in tutti's favour.

function median(list,    n, v, i, k, t)
{
	n = split(list, v, " ")
	for (i = 2; i <= n; i++)
		for (k = i; k > 1 && v[k] + 0 < v[k - 1] + 0; k--) { t = v[k]; v[k] = v[k - 1]; v[k - 1] = t }
	return n % 2 ? v[(n + 1) / 2] : n ? (v[n / 2] + v[n / 2 + 1]) / 2 : ""
}

# The median over rounds of b's time over a's.
function ratio(w, s, a, b,    r, list)
{
	for (r = 0; r < rounds; r++)
		if ((w, a, r, s) in us && (w, b, r, s) in us && us[w, a, r, s] > 0)
			list = list " " us[w, b, r, s] / us[w, a, r, s]
	return median(list)
}

function title(w)
{
	if (w == "shaped")
		return "4 hosts, links of 1 Gbit/s (from 64 KiB: back to back)"
	if (w == "plain")
		return "4 hosts, links without limit"
	if (w == "put")
		return "put from one host to another, libfabric's tcp: per message"
	return substr(w, 5) " ranks on one host"
}

function row(w, s,    p, cell, r)
{
	line = sprintf("%10d", s)
	for (p = 1; p <= npeers; p++) {
		if (!((w, peer[p]) in seen))
			continue
		if (!((w, peer[p], s) in all)) {
			line = line sprintf(" %12s%s", "-", peer[p] == "tutti" ? "" : sprintf(" %6s", ""))
			continue
		}
		cell = median(all[w, peer[p], s])
		r = peer[p] == "tutti" ? 1 : ratio(w, s, "tutti", peer[p])
		line = line sprintf(" %12.2f", cell)
		if (peer[p] != "tutti")
			line = line sprintf(" %6.2f", r)
		printf "%s,%d,%s,%.3f,%s\n", w, s, peer[p], cell, r >csv
		printf "%s\n  {\"where\": \"%s\", \"bytes\": %d, \"peer\": \"%s\", \"us\": %.3f, \"ratio\": %s}",
			results++ ? "," : "", w, s, peer[p], cell, r == "" ? "null" : r >json
		if (peer[p] == "line" && r > 1.02)
			errors = errors sprintf("%d bytes over the shaped links: %.1f %% of the line, a measuring error\n",
				s, 100 * r)
	}
	print line
}

function table(w,    p, i, head)
{
	printf "\n%s; microseconds, and the other's time over tutti's\n", title(w)
	head = sprintf("%10s", "bytes")
	for (p = 1; p <= npeers; p++)
		if ((w, peer[p]) in seen)
			head = head sprintf(" %12s%s", peer[p], peer[p] == "tutti" ? "" : sprintf(" %6s", "ratio"))
	print head
	for (i = 1; i <= nsizes; i++)
		if ((w, size[i]) in sized)
			row(w, size[i])
}

# The geometric mean over sizes of the better MPI's time over ours.
function mean(w, ours,    i, a, b, n, sum)
{
	for (i = 1; i <= nsizes; i++) {
		a = ratio(w, size[i], ours, "openmpi")
		b = ratio(w, size[i], ours, "mpich")
		if (a == "" || b != "" && b < a)
			a = b
		if (a == "")
			continue
		sum += log(a)
		n++
	}
	if (n)
		printf "the better MPI's time over that of %s: geometric mean over sizes %.2f\n", ours, exp(sum / n)
}

NF == 5 {
	us[$1, $2, $3, $4] = $5
	all[$1, $2, $4] = all[$1, $2, $4] " " $5
	seen[$1, $2] = sized[$1, $4] = 1
	if (!($1 in known)) { known[$1] = 1; where[++nwhere] = $1 }
	if (!($4 in known_size)) {
		known_size[$4] = 1
		for (i = ++nsizes; i > 1 && size[i - 1] > $4 + 0; i--)
			size[i] = size[i - 1]
		size[i] = $4 + 0
	}
}

END {
	npeers = split("tutti tutti-malloc tutti-tuned openmpi mpich gloo line bare", peer, " ")
	print "where,bytes,peer,us,ratio" >csv
	printf "{\n \"machine\": \"" >json
	while ((getline text <machine) > 0) {
		print "# " text
		printf "%s%s", lines++ ? "; " : "", text >json
	}
	print "# medians of " rounds " alternated rounds"
	printf "\",\n \"rounds\": %d,\n \"results\": [", rounds >json
	for (w = 1; w <= nwhere; w++) {
		table(where[w])
		if (where[w] ~ /^host/) {
			mean(where[w], "tutti")
			mean(where[w], "tutti-malloc")
		}
	}
	printf "\n ]\n}\n" >json
	if (errors != "")
		printf "\n%s", errors
}
