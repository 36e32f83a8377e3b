"""The results of a replay: figures, tables, sentences, pictures and a page."""
