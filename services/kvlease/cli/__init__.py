"""The `kvlease` command. One module for each subcommand; `__main__` lists them."""
