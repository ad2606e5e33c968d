"""``python -m gtvmin``: the command line."""

from gtvmin.cli import main

if __name__ == "__main__":
    main(prog_name="gtvmin")
