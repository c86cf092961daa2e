"""The commands of `mdcontest`, one file a floor: finite contests, and training."""
