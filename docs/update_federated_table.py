"""Write the table of algorithms and programs into federated.md: ``python docs/update_federated_table.py``."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
BEGIN, END = "<!-- table -->", "<!-- end of table -->"


def main() -> None:
    """Measure every row on problem Q of the tests, and replace the table."""
    sys.path.insert(0, str(HERE.parent / "tests"))
    from federated_problems import problem_q
    from gtvmin.federated.table import markdown_table

    page = HERE / "federated.md"
    before, rest = page.read_text(encoding="utf-8").split(BEGIN)
    after = rest.split(END)[1]
    page.write_text(f"{before}{BEGIN}\n{markdown_table(problem_q())}{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
