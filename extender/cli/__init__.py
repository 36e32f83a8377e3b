"""The command line: a file or folder for each command; its modules are imported when it is used."""
