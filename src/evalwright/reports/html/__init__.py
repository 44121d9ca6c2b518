"""The portable report as HTML: an overview, a page for each case, and the assets they share."""
