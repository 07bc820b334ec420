"""`python -m bench`: the sensor example, measured on this machine. `make bench` runs it.

Other measurements are separate modules: `python -m bench.<name>`.
"""

from __future__ import annotations

import argparse

from bench.iot import measure


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="measure the sensor example on this machine")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 100_000, 1_000_000], help="rows per epoch")
    parser.add_argument(
        "--seconds", type=float, default=45.0, help="how long to measure each size (at least three epochs)"
    )
    options = parser.parse_args()
    measure(options.sizes, options.seconds)


if __name__ == "__main__":
    main()
