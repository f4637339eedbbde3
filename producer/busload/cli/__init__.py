"""The command line: a file for each command or small group of them; `app.py` puts them together."""
