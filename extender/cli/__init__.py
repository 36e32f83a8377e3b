"""The command line `muster`: a file or folder for each command, imported when it is used."""
