# SPDX-License-Identifier: BSD-3-Clause
"""tutorial.py PAGE: run the Python of a Markdown page, each block with the names of those before.

A block that ends with a line "# prints: TEXT" must print TEXT, in this rank."""

import contextlib
import io
import re
import sys


def main() -> int:
    """Run the blocks in order."""
    with open(sys.argv[1], encoding="utf-8") as page:
        blocks = re.findall(r"^```python\n(.*?)^```", page.read(), re.S | re.M)
    names: dict = {"__name__": "__main__"}
    for number, block in enumerate(blocks, 1):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(block, f"{sys.argv[1]}, block {number}", "exec"), names)
        wanted = re.findall(r"# prints: (.*)", block)
        if wanted and out.getvalue().splitlines() != wanted:
            print(f"block {number} printed {out.getvalue()!r}, not {wanted}:\n{block}")
            return 1
    print(f"{len(blocks)} blocks")
    return 0


sys.exit(main())
