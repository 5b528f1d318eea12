"""Anybody's scores: read from tables and logs of other tools, held as frames, analysed as a study is."""
