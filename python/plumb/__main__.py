"""python -m plumb runs the program plumb, which is in the package."""
import os
import pathlib
import sys


def main() -> None:
    program = pathlib.Path(__file__).parent / "bin" / "plumb"
    if not program.exists():
        sys.exit(f"plumb: {program} is not there; this package was built without the program (PLUMB_APPS=OFF)")
    os.execv(program, ["plumb", *sys.argv[1:]])


if __name__ == "__main__":
    main()
