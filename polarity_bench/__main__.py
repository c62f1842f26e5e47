"""Entry point of `python -m polarity_bench`, for environments without the command on the path."""

from polarity_bench.cli.app import main

if __name__ == "__main__":
    main()
