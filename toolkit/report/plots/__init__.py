"""The figures: one file a family, each figure one function of the analyses of a study."""
