# SPDX-License-Identifier: BSD-3-Clause
# Lines {where, run, operation, peer, round, bytes, microseconds} to tables, CSV and JSON. A cell is
# an operation, a size and the memory of tutti's buffers. Its ratio is the better MPI's time over
# tutti's, each the median of those of the rounds: above 1 in tutti's favour. A cell below `bar` in
# run 1 is measured again in run 2, and is red if it is below in both.
#
# With list=WHERE it prints OPERATION:BYTES of the cells of run 1 to measure again, nothing else.

function median(list,    n, v, i, k, t)
{
	n = split(list, v, " ")
	for (i = 2; i <= n; i++)
		for (k = i; k > 1 && v[k] + 0 < v[k - 1] + 0; k--) {
			t = v[k]; v[k] = v[k - 1]; v[k - 1] = t
		}
	return n % 2 ? v[(n + 1) / 2] : n ? (v[n / 2] + v[n / 2 + 1]) / 2 : ""
}

# The median over rounds of b's time over a's.
function ratio(w, run, o, s, a, b,    r, list)
{
	for (r = 0; r < rounds; r++)
		if ((w, run, o, a, r, s) in us && (w, run, o, b, r, s) in us &&
		    us[w, run, o, a, r, s] > 0)
			list = list " " us[w, run, o, b, r, s] / us[w, run, o, a, r, s]
	return median(list)
}

# The ratio to the better MPI, which becomes `better`.
function cell(w, run, o, s, ours,    a, b)
{
	a = ratio(w, run, o, s, ours, "openmpi")
	b = ratio(w, run, o, s, ours, "mpich")
	better = b == "" || a != "" && a <= b ? "openmpi" : "mpich"
	return better == "mpich" ? b : a
}

function low(r)
{
	return r != "" && r < bar
}

# of run 1 and run 2
function red(w, o, s, ours)
{
	return low(cell(w, 1, o, s, ours)) && low(cell(w, 2, o, s, ours))
}

function has_memory(o)
{
	return o != "barrier"
}

function title(w)
{
	if (w == "shaped")
		return "4 hosts, links of 1 Gbit/s (from 64 KiB: back to back)"
	if (w == "plain")
		return "4 hosts, links without limit"
	if (w == "put")
		return "one host to another, libfabric's tcp"
	return (substr(w, 5) + 0) " ranks on one host" \
		(w ~ /novm/ ? ", process_vm_readv forbidden" : "") \
		(w ~ /touch/ ? ", buffers written and read" : "") \
		(w ~ /shift/ ? ", results 8 bytes further on" : "")
}

# The class of an operation, and what its mean must reach.
function class(o)
{
	if (o ~ /reduce|scan/)
		return "reductions"
	if (o ~ /latency|bw|mbw/)
		return "messages and one-sided"
	return o == "barrier" ? o : "data movement"
}

function goal(w, c, ours)
{
	if (w ~ /^host8/)
		return 1.5
	if (c == "reductions")
		return ours == "tutti" ? 3 : 2
	if (c == "data movement")
		return ours == "tutti" ? 1.5 : 1.1
	return c == "barrier" ? 1 : ours == "tutti" ? 1.3 : 1
}

function printable(r)
{
	return r == "" ? "-" : sprintf("%.2f", r)
}

# A line of CSV and of JSON for each program, and its time in `line`.
function times(w, o, s,    p, t, r, gbs)
{
	for (p = 1; p <= npeers; p++) {
		if (!((w, peer[p]) in seen))
			continue
		if (!((w, 1, o, peer[p], s) in all)) {
			line = line sprintf(" %12s%s", "-",
				w !~ /^host/ && peer[p] != "tutti" ? "        " : "")
			continue
		}
		t = median(all[w, 1, o, peer[p], s])
		r = peer[p] == "tutti" ? 1 : ratio(w, 1, o, s, "tutti", peer[p])
		gbs = t > 0 ? s / t / 1000 : 0
		line = line sprintf(" %12.2f", t)
		if (w !~ /^host/ && peer[p] != "tutti")
			line = line sprintf(" (%5s)", printable(r))
		printf "%s,%s,%d,%s,%.4f,%.4f,%s\n", w, o, s, peer[p], t, gbs, r >csv
		printf "%s\n  {\"where\": \"%s\", \"operation\": \"%s\", \"bytes\": %d, " \
			"\"peer\": \"%s\", \"us\": %.4f, \"gb_s\": %.4f, \"ratio\": %s}",
			results++ ? "," : "", w, o, s, peer[p], t, gbs, r == "" ? "null" : r >json
		if (peer[p] == "line" && r > 1.02)
			errors = errors sprintf("%d bytes over the shaped links: %.1f %% of the " \
				"line, a measuring error\n", s, 100 * r)
	}
}

# Keeps the ratio for the mean and for the worst cells; the mark of a red or a doubtful one.
function keep_cell(w, o, s, ours, r,    again, verdict, who, mine, theirs)
{
	who = better
	mine = median(all[w, 1, o, ours, s])
	theirs = median(all[w, 1, o, who, s])
	again = cell(w, 2, o, s, ours)
	verdict = red(w, o, s, ours) ? "red" : low(r) ? "once" : "good"
	logs[w, o, ours] += log(r)
	n_of[w, o, ours]++
	printf "%s,%s,%d,%s,%.4f,%s,%.4f,%.3f,%s,%s\n", w, o, s, ours, mine, who, theirs, r,
		again == "" ? "" : sprintf("%.3f", again), verdict >cells
	worst[++ncells] = sprintf("%010.5f %-12s %-20s %9d %-12s %11.2f %-8s %11.2f %6.2f %6s %s",
		again != "" && again > r ? again : r, w, o, s, ours, mine, who, theirs, r,
		printable(again), verdict)
	reds += verdict == "red"
	return verdict == "red" ? "!" : verdict == "once" ? "?" : " "
}

function row(w, o, s,    k, r)
{
	line = sprintf("%10d", s)
	times(w, o, s)
	for (k = 1; k <= 2 && w ~ /^host/; k++) {
		if (k == 2 && (!((w, "tutti-malloc") in seen) || !has_memory(o)))
			continue
		r = cell(w, 1, o, s, ours_name[k])
		if (r != "")
			line = line sprintf(" %7.2f%s", r, keep_cell(w, o, s, ours_name[k], r))
	}
	print line
}

function table(w, o,    p, i, head)
{
	printf "\n%s, %s; microseconds\n", title(w), o
	head = sprintf("%10s", "bytes")
	for (p = 1; p <= npeers; p++)
		if ((w, peer[p]) in seen)
			head = head sprintf(" %12s%s", peer[p],
				w !~ /^host/ && peer[p] != "tutti" ? " (ratio)" : "")
	if (w ~ /^host/ && ((w, "openmpi") in seen || (w, "mpich") in seen))
		head = head sprintf(" %7s  %7s", "ratio", has_memory(o) ? "malloc" : "")
	print head
	for (i = 1; i <= nsizes; i++)
		if ((w, o, size[i]) in sized)
			row(w, o, size[i])
}

# The geometric means of a place against their bars.
function means(w,    i, k, o, c, sum, n, m, classes, list, named)
{
	printf "\n%s: the better MPI's time over tutti's, geometric means over sizes\n", title(w)
	printf "%-24s %8s %8s %8s %8s\n", "", "pool", "bar", "malloc", "bar"
	for (i = 1; i <= nops; i++) {
		o = op[i]
		if (!((w, o, "tutti") in n_of))
			continue
		c = class(o)
		line = sprintf("%-24s", o)
		for (k = 1; k <= 2; k++)
			if ((w, o, ours_name[k]) in n_of) {
				m = exp(logs[w, o, ours_name[k]] / n_of[w, o, ours_name[k]])
				sum[c, k] += log(m)
				n[c, k]++
				line = line sprintf(" %8.2f %7.1f%s", m, goal(w, c, ours_name[k]),
					m < goal(w, c, ours_name[k]) ? "!" : " ")
			}
		print line
	}
	classes = split("reductions,data movement,messages and one-sided", list, ",")
	for (i = 1; i <= classes; i++)
		if (n[list[i], 1])
			printf "%-24s %8.2f %8s %8s\n", "all " list[i],
				exp(sum[list[i], 1] / n[list[i], 1]), "", !n[list[i], 2] ? "" : \
				sprintf("%.2f", exp(sum[list[i], 2] / n[list[i], 2]))
}

# The ten smallest ratios; the better of its two runs counts.
function print_worst(    i, k, best)
{
	if (!ncells)
		return
	print "\nthe worst cells: microseconds of tutti and of the better MPI, ratios of both runs"
	for (i = 1; i <= 10 && i <= ncells; i++) {
		best = 1
		for (k = 2; k <= ncells; k++)
			if (worst[k] < worst[best])
				best = k
		print substr(worst[best], 12)
		worst[best] = "~"
	}
	printf "%d of %d cells are red: below %.2f in both runs\n", reds, ncells, bar
}

NF == 7 {
	us[$1, $2, $3, $4, $5, $6] = $7
	all[$1, $2, $3, $4, $6] = all[$1, $2, $3, $4, $6] " " $7
	if ($2 == 1)
		seen[$1, $4] = sized[$1, $3, $6] = known_at[$1, $3] = 1
	if (!($1 in known)) { known[$1] = 1; where[++nwhere] = $1 }
	if (!($3 in known_op)) { known_op[$3] = 1; op[++nops] = $3 }
	if (!($6 in known_size)) {
		known_size[$6] = 1
		for (i = ++nsizes; i > 1 && size[i - 1] > $6 + 0; i--)
			size[i] = size[i - 1]
		size[i] = $6 + 0
	}
}

END {
	split("tutti tutti-malloc", ours_name, " ")
	if (list != "") {
		for (i = 1; i <= nops; i++)
			for (k = 1; k <= nsizes; k++)
				if (low(cell(list, 1, op[i], size[k], "tutti")) ||
				    low(cell(list, 1, op[i], size[k], "tutti-malloc")))
					print op[i] ":" size[k]
		exit
	}
	npeers = split("tutti tutti-malloc tutti-tuned openmpi mpich gloo line bare", peer, " ")
	print "where,operation,bytes,peer,us,gb_s,ratio" >csv
	print "where,operation,bytes,memory,us,peer,peer_us,run1,run2,verdict" >cells
	printf "{\n \"machine\": \"" >json
	while ((getline text <machine) > 0) {
		print "# " text
		printf "%s%s", lines++ ? "; " : "", text >json
	}
	print "# medians of " rounds " alternated rounds"
	printf "\",\n \"rounds\": %d,\n \"results\": [", rounds >json
	for (w = 1; w <= nwhere; w++)
		for (i = 1; i <= nops; i++)
			if ((where[w], op[i]) in known_at)
				table(where[w], op[i])
	for (w = 1; w <= nwhere; w++)
		if (where[w] ~ /^host/ && (((where[w], "openmpi") in seen) || \
		    ((where[w], "mpich") in seen)))
			means(where[w])
	printf "\n ]\n}\n" >json
	if (errors != "")
		printf "\n%s", errors
	print_worst()
}
