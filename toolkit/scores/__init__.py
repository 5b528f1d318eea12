"""Anybody's scores: read from tables and logs of other tools, as frames, analysed as a study is."""
