# SPDX-License-Identifier: BSD-3-Clause
# Rows of PREFIX-cells.csv of a place (w) and a memory (m), in bytes' and operations' order:
# {column, row, ratio, size, operation, colour, colour of the text}.
function short(bytes)
{
	if (!bytes)
		return "-"
	if (bytes >= 1048576)
		return bytes / 1048576 "M"
	return bytes >= 1024 ? bytes / 1024 "K" : bytes
}

# Red where the MPI wins, orange where it did in one run only, then ever darker blue.
function colour(ratio, verdict)
{
	if (verdict == "red")
		return ratio < 0.7 ? "0xB2182B" : "0xEF6548"
	if (verdict == "once")
		return "0xFDD49E"
	return ratio < 1.1 ? "0xF7F7F7" : ratio < 1.5 ? "0xDEEBF7" : ratio < 3 ? "0xA6CEE3" : \
		ratio < 10 ? "0x4292C6" : "0x084594"
}

$1 == w && $4 == m {
	n++
	op[n] = $2; bytes[n] = $3; ratio[n] = $8; verdict[n] = $10
	if (!($2 in row))
		row[$2] = ++rows
	if (!($3 in known) && $3 > 0) {
		known[$3] = 1
		for (i = ++sizes; i > 1 && size[i - 1] > $3 + 0; i--)
			size[i] = size[i - 1]
		size[i] = $3 + 0
	}
}

END {
	for (i = 1; i <= sizes; i++)
		column[size[i]] = i
	for (i = 1; i <= n; i++) {
		at = bytes[i] + 0 ? bytes[i] : size[1]
		dark = verdict[i] == "red" ? ratio[i] < 0.7 : verdict[i] == "good" && ratio[i] >= 3
		print column[at], row[op[i]], ratio[i], short(at), op[i],
			colour(ratio[i], verdict[i]),
			(dark ? "0xFFFFFF" : "0x000000")
	}
}
