"""What every report is written with: formats, words and figures."""
