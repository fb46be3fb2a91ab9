"""window-cost (Kang, Naughton, Viglas 2003): costs of window joins with an index or a scan on either side."""
